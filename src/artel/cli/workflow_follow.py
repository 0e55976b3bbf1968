"""Following a workflow in a terminal: one that is tried again, or one that goes on by itself."""

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

OVER = frozenset({"completed", "partial", "failed", "rejected", "cancelled", "timeout"})


def follow_retry(client: "ApiClient", place: str, *, as_json: bool) -> ExitCode:
    """Try a workflow again, show what happens, and say how the command ends; Ctrl-C cancels it."""
    workflow = client.call("GET", place)
    conversation = _conversation(client, workflow)
    turn = Turn(plan=Plan.to_retry(workflow) if workflow["tasks"] else None)
    interrupted = follow_turn(conversation.retry(workflow), turn, _screen(conversation, as_json=as_json))
    if as_json:
        show(client.call("GET", place), as_json)
    if interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.OK if turn.succeeded else ExitCode.FAILED


def follow(client: "ApiClient", place: str, *, as_json: bool) -> ExitCode:
    """Show how a workflow stands, ask what it waits for, show what happens to its end; Ctrl-C only leaves it."""
    # The session first: what happens after we know how it stands must not be missed.
    conversation = _conversation(client, client.call("GET", place))
    workflow = client.call("GET", place)
    if workflow["status"] in OVER:
        show(workflow, as_json) if as_json else print_workflow(workflow)
        return ExitCode.OK if workflow["status"] in ("completed", "partial") else ExitCode.FAILED
    screen = _screen(conversation, as_json=as_json)
    screen.note(one_line(f"{workflow['request']} [{workflow['status']}]"))
    turn = Turn.of_workflow(workflow)
    try:
        screen.show(turn)
        for event in conversation.asked(workflow):
            turn.take(event)
            screen.show(turn)
        follow_turn(conversation.follow(workflow), turn, screen)
    except KeyboardInterrupt:
        screen.leave()
        screen.note(f"You left it; it goes on. To see it again: artel workflows follow {workflow['id']}")
        return ExitCode.INTERRUPTED
    if as_json:
        show(client.call("GET", place), as_json)
    return ExitCode.OK if turn.succeeded else ExitCode.FAILED


def _conversation(client: "ApiClient", workflow: dict[str, Any]) -> Conversation:
    return Conversation.open(client, None, workflow["session_id"], new=False, remembered=LastSessions())


def _screen(conversation: Conversation, *, as_json: bool) -> ChatScreen:
    return ChatScreen(
        conversation,
        StatusLine(),
        direct=False,
        live=sys.stdout.isatty(),
        silent=as_json,
        asks=can_ask() and not as_json,
    )
