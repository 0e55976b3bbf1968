"""Forks: a new session with a copy of the messages up to one of them."""

from typing import Any

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.contract.events import EventData, MessageCompleted, MessageCreated
from artel.contract.http import Session
from artel.db.tx import Tx
from artel.errors import LimitReached
from artel.events.session_log import SessionLog
from artel.projects.repository import ProjectRepository
from artel.sessions.message_repository import MessageRepository
from artel.sessions.repository import SessionRepository

MAX_FORKED = 1_000


def fork_session(tx: Tx, session_id: str, message_id: str, new_id: str, ids: list[str]) -> Session:
    """Create a session with copies of the messages up to one of them; `ids` are the ids of the copies."""
    sessions, messages = SessionRepository(tx), MessageRepository(tx)
    source = sessions.get(session_id)
    ProjectRepository(tx).lock(source.project_id)
    rows = messages.up_to(session_id, messages.get(session_id, message_id).number)
    if len(rows) > len(ids):
        raise LimitReached(f"More than {len(ids)} messages can't be copied. Fork at an earlier one.")
    fork = sessions.add(new_id, source.project_id, f"{source.title} (fork)"[-200:])
    copies = _renumbered(rows, ids, new_id)
    SessionLog(tx, new_id, len(copies)).write(None, *(_event(copy) for copy in copies))
    messages.copy(copies)
    return fork


def size_of_fork(connection: Connection, principal: Principal, session_id: str, message_id: str) -> int:
    """Return how many bytes of messages a fork at a message copies."""
    SessionRepository(connection, principal).get(session_id)
    messages = MessageRepository(connection, principal)
    return messages.bytes_up_to(session_id, messages.get(session_id, message_id).number)


def _renumbered(rows: list[dict[str, Any]], ids: list[str], session_id: str) -> list[dict[str, Any]]:
    """Return copies in the order of the conversation, numbered from 1."""
    copies: list[dict[str, Any]] = []
    turn_numbers: dict[int, int] = {}
    ordered = sorted(rows, key=lambda row: (row["turn_number"], row["number"]))
    for number, (row, copy_id) in enumerate(zip(ordered, ids, strict=False), 1):
        turn_number = turn_numbers.setdefault(row["turn_number"], number)
        new = {"id": copy_id, "session_id": session_id, "number": number, "turn_number": turn_number, "turn_id": None}
        copies.append(row | new | {"retry_of": None})
    return copies


def _event(copy: dict[str, Any]) -> EventData:
    fields = {"message_id": copy["id"], "role": copy["role"], "content": copy["content"]}
    if copy["role"] == "user":
        return MessageCreated(**fields)
    return MessageCompleted(**fields, agent_id=copy["agent_id"])
