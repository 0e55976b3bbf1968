"""Following a running or retried workflow in a terminal."""

import sys
from typing import TYPE_CHECKING, Any

from artel.cli.chat_screen import ChatScreen
from artel.cli.chat_turn import follow_turn
from artel.cli.exit_codes import ExitCode
from artel.cli.output import show
from artel.cli.status_line import StatusLine
from artel.cli.typed_lines import can_ask
from artel.cli.visible_text import one_line
from artel.cli.workflow_text import print_workflow
from artel.client.conversation import Conversation
from artel.client.last_sessions import LastSessions
from artel.client.plan import Plan
from artel.client.turn import Turn

if TYPE_CHECKING:
    from artel.client.api_client import ApiClient

ENDED = frozenset({"completed", "partial", "failed", "rejected", "cancelled", "timeout"})


def follow_retry(client: "ApiClient", path: str, *, as_json: bool) -> ExitCode:
    """Retry a workflow, show its progress, and return the exit code; Ctrl-C cancels it."""
    workflow = client.call("GET", path)
    conversation = _conversation(client, workflow)
    turn = Turn(plan=Plan.to_retry(workflow) if workflow["tasks"] else None)
    interrupted = follow_turn(conversation.retry(workflow), turn, _screen(conversation, as_json=as_json))
    if as_json:
        show(client.call("GET", path), as_json)
    if interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.OK if turn.succeeded else ExitCode.FAILED


def follow(client: "ApiClient", path: str, *, as_json: bool) -> ExitCode:
    """Follow a workflow to its end, ask its questions, and return the exit code; Ctrl-C does not cancel it."""
    # Get the session, and so its event number, before the workflow: events in between must not be missed.
    conversation = _conversation(client, client.call("GET", path))
    workflow = client.call("GET", path)
    if workflow["status"] in ENDED:
        show(workflow, as_json) if as_json else print_workflow(workflow)
        return ExitCode.OK if workflow["status"] in ("completed", "partial") else ExitCode.FAILED
    screen = _screen(conversation, as_json=as_json)
    screen.note(one_line(f"{workflow['request']} [{workflow['status']}]"))
    turn = Turn.of_workflow(workflow)
    try:
        screen.show(turn)
        for event in conversation.pending_requests(workflow):
            turn.apply(event)
            screen.show(turn)
        follow_turn(conversation.follow(workflow), turn, screen)
    except KeyboardInterrupt:
        screen.leave()
        screen.note(f"The workflow continues. To follow it again: artel workflows follow {workflow['id']}")
        return ExitCode.INTERRUPTED
    if as_json:
        show(client.call("GET", path), as_json)
    return ExitCode.OK if turn.succeeded else ExitCode.FAILED


def _conversation(client: "ApiClient", workflow: dict[str, Any]) -> Conversation:
    return Conversation.open(client, None, workflow["session_id"], new=False, last_sessions=LastSessions())


def _screen(conversation: Conversation, *, as_json: bool) -> ChatScreen:
    return ChatScreen(
        conversation,
        StatusLine(),
        direct=False,
        live=sys.stdout.isatty(),
        silent=as_json,
        asks=can_ask() and not as_json,
    )
