"""Running one turn of a chat and showing it."""

from typing import TYPE_CHECKING, Any

from artel.cli.chat_screen import ChatScreen
from artel.client.api_client import ServerRefused
from artel.client.conversation import NoSuchAgent
from artel.client.turn import Turn
from artel.client.turn_stream import OUTCOMES, TurnStream

if TYPE_CHECKING:
    from artel.client.conversation import Conversation


def run_turn(conversation: "Conversation", screen: ChatScreen, content: str, agent: str | None) -> tuple[Turn, bool]:
    """Send a message and show its turn; return the turn and whether Ctrl-C cancelled it."""
    try:
        return _run(conversation.send(content, agent), screen)
    except ServerRefused as refused:
        if refused.code == NoSuchAgent.code and agent:
            raise unknown_agent(conversation, agent) from refused
        raise


def retry_turn(conversation: "Conversation", screen: ChatScreen, turn_id: str) -> tuple[Turn, bool]:
    """Send the message of a turn again and show the new turn, as `run_turn` does."""
    return _run(conversation.send_again(turn_id), screen)


def _run(stream: TurnStream, screen: ChatScreen) -> tuple[Turn, bool]:
    turn = Turn()
    return turn, follow_turn(stream, turn, screen)


def follow_turn(stream: TurnStream, turn: Turn, screen: ChatScreen) -> bool:
    """Show the events until the turn ends; return whether Ctrl-C was pressed, which cancels it."""
    interrupted = False
    try:
        while not turn.ended:
            try:
                _follow(stream, turn, screen)
            except KeyboardInterrupt:
                if interrupted:  # pressed twice: don't wait for the end
                    raise
                interrupted = True
                stream.cancel()
    finally:
        screen.leave()
    screen.end(turn)
    return interrupted


def unknown_agent(conversation: "Conversation", name: str) -> NoSuchAgent:
    """Return the error for an unknown agent, which lists the agents of the project."""
    names = ", ".join(str(agent["name"]) for agent in conversation.agents())
    return NoSuchAgent(f"This project has no agent called {name}. Its agents: {names}.")


def turn_as_json(conversation: "Conversation", turn: Turn) -> dict[str, Any]:
    """Return the turn as `--json` prints it."""
    return {
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


def _follow(stream: TurnStream, turn: Turn, screen: ChatScreen) -> None:
    try:
        for event in stream.events():
            turn.apply(event)
            screen.show(turn)
    except ServerRefused as refused:
        if refused.code not in OUTCOMES:
            raise
        turn.ended, turn.status = True, "timeout" if refused.code == "timeout" else "failed"
        turn.error_code, turn.error = refused.code, refused.detail
