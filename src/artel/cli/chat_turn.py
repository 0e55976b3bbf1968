"""Running a turn and showing it: a message, a retried one, or a workflow that is followed or retried."""

from collections.abc import Sequence
from pathlib import Path

from artel.cli.chat_screen import ChatScreen, StatusLine
from artel.cli.command_line import ExitCode
from artel.cli.output import one_line, show
from artel.cli.plan_screen import print_workflow
from artel.client.api_client import ApiClient, ServerRefused
from artel.client.conversation import Conversation, NoSuchAgent
from artel.client.plan import PlanView
from artel.client.turn import TurnView
from artel.client.turn_stream import OUTCOMES, FollowStream, RetryStream, TurnStream

ENDED = frozenset({"completed", "partial", "failed", "rejected", "cancelled", "timeout"})


def ask(
    conversation: Conversation, content: str, agent: str | None, files: Sequence[Path] = (), *, as_json: bool
) -> ExitCode:
    """Send a message with files, print the answer, and return the exit code."""
    attachments = [str(conversation.attach(path)["id"]) for path in files]
    screen = ChatScreen(conversation, StatusLine(), direct=agent is not None, silent=as_json)
    turn, interrupted = run_turn(conversation, screen, content, agent, attachments)
    if as_json:
        result = {
            "session_id": conversation.session_id,
            "turn_id": turn.id,
            "message_id": turn.message_id,
            "status": turn.status,
            "agent_id": turn.agent_id,
            "agent": conversation.agent_name(turn.agent_id) if turn.agent_id else None,
            "content": turn.answer.text if turn.answer.complete else None,
            "usage": turn.usage,
            "workflow_id": turn.plan.workflow_id if turn.plan else None,
            "error": {"code": turn.error_code, "detail": turn.error} if turn.error_code else None,
        }
        show(result, as_json)
    return _exit_code(turn, interrupted=interrupted)


def run_turn(
    conversation: Conversation,
    screen: ChatScreen,
    content: str,
    agent: str | None,
    attachments: Sequence[str] = (),
) -> tuple[TurnView, bool]:
    """Send a message and show its turn; return the turn and whether Ctrl-C cancelled it."""
    turn = TurnView()
    try:
        return turn, follow_turn(conversation.send(content, agent, attachments), turn, screen)
    except ServerRefused as refused:
        if refused.code == NoSuchAgent.code and agent:
            raise unknown_agent(conversation, agent) from refused
        raise


def follow_turn(stream: TurnStream, turn: TurnView, screen: ChatScreen) -> bool:
    """Show the events until the turn ends; return whether Ctrl-C was pressed, which cancels it."""
    interrupted = False
    try:
        while not turn.ended:
            try:
                for event in stream.events():
                    turn.apply(event)
                    screen.show(turn)
            except ServerRefused as refused:
                if refused.code not in OUTCOMES:
                    raise
                turn.ended, turn.status = True, "timeout" if refused.code == "timeout" else "failed"
                turn.error_code, turn.error = refused.code, refused.detail
            except KeyboardInterrupt:
                if interrupted:  # pressed twice: don't wait for the end
                    raise
                interrupted = True
                stream.cancel()
    finally:
        screen.leave()
    screen.end(turn)
    return interrupted


def unknown_agent(conversation: Conversation, name: str) -> NoSuchAgent:
    """Return the error for an unknown agent, which lists the agents of the project."""
    names = ", ".join(str(agent["name"]) for agent in conversation.agents())
    return NoSuchAgent(f"This project has no agent called {name}. Its agents: {names}.")


# Workflows


def follow_retry(client: ApiClient, path: str, *, as_json: bool) -> ExitCode:
    """Retry a workflow, show its progress, and return the exit code; Ctrl-C cancels it."""
    workflow = client.call("GET", path)
    conversation = Conversation.open(client, None, workflow["session_id"])
    screen = ChatScreen(conversation, StatusLine(), direct=False, silent=as_json)
    turn = TurnView(plan=PlanView.to_retry(workflow) if workflow["tasks"] else None)
    interrupted = follow_turn(RetryStream(client, workflow), turn, screen)
    if as_json:
        show(client.call("GET", path), as_json)
    return _exit_code(turn, interrupted=interrupted)


def follow(client: ApiClient, path: str, *, as_json: bool) -> ExitCode:
    """Follow a workflow to its end, ask its questions, and return the exit code; Ctrl-C does not cancel it."""
    # Get the session, and so its event number, before the workflow: events in between must not be missed.
    conversation = Conversation.open(client, None, client.call("GET", path)["session_id"])
    workflow = client.call("GET", path)
    if workflow["status"] in ENDED:
        print_workflow(workflow, as_json=as_json)
        return ExitCode.OK if workflow["status"] in ("completed", "partial") else ExitCode.FAILED
    screen = ChatScreen(conversation, StatusLine(), direct=False, silent=as_json)
    screen.note(one_line(f"{workflow['request']} [{workflow['status']}]"))
    turn = TurnView.of_workflow(workflow)
    try:
        screen.show(turn)
        for event in conversation.pending_requests(workflow):
            turn.apply(event)
            screen.show(turn)
        follow_turn(FollowStream(client, workflow, int(conversation.session["last_event"])), turn, screen)
    except KeyboardInterrupt:
        screen.leave()
        screen.note(f"The workflow continues. To follow it again: artel workflows follow {workflow['id']}")
        return ExitCode.INTERRUPTED
    if as_json:
        show(client.call("GET", path), as_json)
    return _exit_code(turn)


def _exit_code(turn: TurnView, *, interrupted: bool = False) -> ExitCode:
    if interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.OK if turn.succeeded else ExitCode.FAILED
