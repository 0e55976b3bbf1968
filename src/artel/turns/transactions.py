"""The life of a turn: accepted, started, finished. Each function is one transaction; the session's row orders them."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.contract.events import (
    DirectAgentCall,
    EventData,
    MessageCompleted,
    MessageCreated,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from artel.errors import AgentQueueFull, IdempotencyKeyReused, SessionBusy
from artel.events.session_log import SessionLog
from artel.sessions.message_repository import MessageRepository, StoredMessage
from artel.turns.turn import Mode, Turn, TurnStatus
from artel.turns.turn_repository import TurnRepository

MAX_UNFINISHED = 11  # one runs, ten wait
MAX_WAITING_FOR_AGENT = 100


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A message to accept; the ids are made before, so that a transaction that runs again makes the same rows."""

    turn_id: str
    message_id: str
    content: str
    tokens: int
    agent_id: int | None
    idempotency_key: str | None = None

    @property
    def mode(self) -> Mode:
        """Direct with an agent, orchestrated without."""
        return Mode.ORCHESTRATED if self.agent_id is None else Mode.DIRECT

    @property
    def request_hash(self) -> str:
        """What tells two requests with the same key apart."""
        return hashlib.sha256(json.dumps([self.content, self.agent_id]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a turn ended: with an answer, or with an error."""

    status: TurnStatus
    message_id: str
    content: str
    tokens: int
    usage: dict[str, Any]
    duration: float = 0.0
    error_code: str | None = None


def accept_message(connection: Connection, principal: Principal, session_id: str, new: NewTurn) -> Turn:
    """Store a message and its turn, or answer the turn that the same request was given before."""
    log = SessionLog(connection, principal, session_id)
    turns = TurnRepository(connection, principal)
    if new.idempotency_key is not None and (known := turns.by_key(session_id, new.idempotency_key)):
        turn, request_hash = known
        if request_hash != new.request_hash:
            raise IdempotencyKeyReused("This idempotency key was used for another message. Use a new one.")
        return turn
    if turns.count_unfinished(session_id) >= MAX_UNFINISHED:
        raise SessionBusy("Ten messages are waiting in this session. Wait for an answer.", retry_after=5)
    if new.agent_id is not None and turns.count_waiting_for(log.project_id, new.agent_id) >= MAX_WAITING_FOR_AGENT:
        raise AgentQueueFull("A hundred tasks are waiting for this agent. Try again in a moment.", retry_after=5)
    created = MessageCreated(message_id=new.message_id, role="user", content=new.content)
    place = {"project_id": log.project_id, "session_id": session_id, "number": log.write(new.turn_id, created)}
    MessageRepository(connection, principal).add(
        place
        | {"id": new.message_id, "turn_id": new.turn_id, "role": "user", "content": new.content, "tokens": new.tokens}
    )
    return turns.add(
        place
        | {
            "id": new.turn_id,
            "mode": new.mode,
            "agent_id": new.agent_id,
            "idempotency_key": new.idempotency_key,
            "request_hash": new.request_hash,
        }
    )


def start_turn(
    connection: Connection, principal: Principal, session_id: str, turn_id: str, history: int
) -> list[StoredMessage] | None:
    """Mark the turn as running and answer the newest messages; None if it is not the session's next queued turn."""
    log = SessionLog(connection, principal, session_id)
    turns = TurnRepository(connection, principal)
    following = turns.next(session_id)
    if following is None or following.id != turn_id or not turns.start(turn_id):
        return None
    if following.agent_id is not None:
        log.write(turn_id, DirectAgentCall(agent_id=following.agent_id, task_id=turn_id))
    return MessageRepository(connection, principal).newest(session_id, history)


def finish_turn(
    connection: Connection, principal: Principal, session_id: str, turn_id: str, agent: str | None, outcome: Outcome
) -> bool:
    """Give the turn its terminal state, its message and its events; say whether it had none before."""
    log = SessionLog(connection, principal, session_id)
    turns = TurnRepository(connection, principal)
    failed = outcome.error_code is not None
    ended = turns.finish(
        turn_id,
        outcome.status,
        usage=outcome.usage,
        error_code=outcome.error_code,
        error=outcome.content if failed else None,
    )
    if not ended:
        return False
    turn = turns.get(session_id, turn_id)
    role = "system" if failed else "assistant"
    completed = MessageCompleted(
        message_id=outcome.message_id, role=role, content=outcome.content, agent_id=turn.agent_id
    )
    first = log.write(turn_id, completed, *_ending(turn_id, outcome))
    MessageRepository(connection, principal).add(
        {
            "id": outcome.message_id,
            "project_id": log.project_id,
            "session_id": session_id,
            "number": first,
            "turn_id": turn_id,
            "role": role,
            "content": outcome.content,
            "agent_id": turn.agent_id,
            "agent": agent,
            "status": "failed" if failed else "ok",
            "tokens": outcome.tokens,
        }
    )
    return True


def _ending(turn_id: str, outcome: Outcome) -> tuple[EventData, EventData]:
    if outcome.error_code is None:
        return (
            TaskCompleted(task_id=turn_id, result=outcome.content, duration=outcome.duration),
            TurnCompleted(status=outcome.status, usage=outcome.usage),
        )
    if outcome.status is TurnStatus.CANCELLED:
        return TaskCancelled(task_id=turn_id), TurnCancelled(status=outcome.status)
    return (
        TaskFailed(task_id=turn_id, code=outcome.error_code, error=outcome.content),
        TurnFailed(status=outcome.status, code=outcome.error_code, error=outcome.content),
    )
