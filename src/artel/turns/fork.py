"""Forks: a new session with a copy of the messages up to one of them."""

from dataclasses import replace
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.contract.events import EventData, MessageCompleted, MessageCreated
from artel.contract.http import Session
from artel.db.tx import Tx
from artel.errors import LimitReached
from artel.events.session_log import SessionLog
from artel.projects.repository import ProjectRepository
from artel.sessions.message_repository import MessageRepository, StoredMessage
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
    copies: list[StoredMessage] = []
    turn_numbers: dict[int, int] = {}
    # In the order of the conversation, numbered from 1.
    for number, row in enumerate(sorted(rows, key=attrgetter("turn_number", "number")), 1):
        turn_number = turn_numbers.setdefault(row.turn_number, number)
        copy = replace(row, id=ids[number - 1], number=number, turn_number=turn_number, turn_id=None, retry_of=None)
        copies.append(copy)
    SessionLog(tx, new_id, len(copies)).write(None, *map(_event, copies))
    messages.add(fork.project_id, new_id, *copies)
    return fork


def size_of_fork(connection: Connection, principal: Principal, session_id: str, message_id: str) -> int:
    """Return how many bytes of messages a fork at a message copies."""
    SessionRepository(connection, principal).get(session_id)
    messages = MessageRepository(connection, principal)
    return messages.bytes_up_to(session_id, messages.get(session_id, message_id).number)


def _event(copy: StoredMessage) -> EventData:
    fields: dict[str, Any] = {"message_id": copy.id, "role": copy.role, "content": copy.content}
    return MessageCreated(**fields) if copy.role == "user" else MessageCompleted(**fields, agent_id=copy.agent_id)
