"""Forks: a new session with a copy of the messages up to one of them."""

from dataclasses import replace
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection

from artel.attachments.repository import AttachmentContentRepository, AttachmentRepository
from artel.auth.principal import Principal
from artel.contract.events import EventData, MessageCompleted, MessageCreated
from artel.contract.http import Session
from artel.db.hints import SessionListChanged
from artel.db.tx import Tx
from artel.errors import LimitReached, SessionNotFound
from artel.events.session_log import SessionLog
from artel.ids import uuid7
from artel.projects.repository import ProjectRepository
from artel.sessions.message_repository import MessageRepository, StoredMessage
from artel.sessions.overview import shown_session
from artel.sessions.repository import BY_MODEL, SessionRepository, StoredSession

MAX_FORKED = 1_000


def fork_session(tx: Tx, session_id: str, message_id: str, new_id: str, ids: list[str]) -> Session:
    """Create a session with copies of the messages up to one of them; `ids` are the ids of the copies."""
    sessions, messages = SessionRepository(tx), MessageRepository(tx)
    source = sessions.get(session_id)
    ProjectRepository(tx).lock(source.project_id)
    rows = messages.up_to(session_id, messages.get(session_id, message_id).number)
    if not rows:  # deleted since the message was found
        raise SessionNotFound("Session not found")
    if len(rows) > len(ids):
        raise LimitReached(f"More than {len(ids)} messages can't be copied. Fork at an earlier one.")
    fork = sessions.add(new_id, source.project_id, f"{source.title} (fork)"[-200:], BY_MODEL, source.plan_mode)
    sessions.address(new_id, source.recipient_id)
    copies: list[StoredMessage] = []
    turn_numbers: dict[int, int] = {}
    new_ids: dict[str, str] = {}
    # In the order of the conversation, numbered from 1.
    for number, row in enumerate(sorted(rows, key=attrgetter("turn_number", "number")), 1):
        turn_number = turn_numbers.setdefault(row.turn_number, number)
        copy = replace(row, id=ids[number - 1], number=number, turn_number=turn_number, turn_id=None, retry_of=None)
        new_ids[row.id] = copy.id
        # The memories of feedback belong to the message that was rated.
        copies.append(replace(copy, feedback=None, continues=new_ids.get(row.continues or "")))
    copies = _with_attachments(tx, session_id, fork, copies)
    SessionLog(tx, new_id, len(copies)).write(None, *map(_event, copies))
    messages.add(fork.project_id, new_id, *copies)
    tx.after_commit(SessionListChanged(tx.principal.user_id, fork.project_id, new_id))
    return shown_session(tx.connection, tx.principal, sessions.get(new_id))


def _with_attachments(tx: Tx, source_id: str, fork: StoredSession, copies: list[StoredMessage]) -> list[StoredMessage]:
    """Return the messages with copies of their attachments, which share the content with the files of the source."""
    attached = {file.id for copy in copies for file in copy.attachments}
    if not attached:
        return copies
    files, contents = AttachmentRepository(tx), AttachmentContentRepository(tx)
    found = files.content_ids(source_id, attached)
    wanted = set(found.values())
    if len(found) < len(attached) or contents.share(wanted) < len(wanted):  # the session was deleted meanwhile
        raise SessionNotFound("Session not found")
    new: dict[str, tuple[str, str]] = {}  # by id; messages that were sent again share their files
    result = []
    for copy in copies:
        ids = [new.setdefault(file.id, (uuid7(), copy.id))[0] for file in copy.attachments]
        shown = tuple(replace(file, id=new_id) for file, new_id in zip(copy.attachments, ids, strict=True))
        result.append(replace(copy, attachments=shown))
    files.copy(source_id, fork.project_id, fork.id, new)
    return result


def size_of_fork(connection: Connection, principal: Principal, session_id: str, message_id: str) -> int:
    """Return how many bytes of messages a fork at a message copies."""
    SessionRepository(connection, principal).get(session_id)
    messages = MessageRepository(connection, principal)
    return messages.bytes_up_to(session_id, messages.get(session_id, message_id).number)


def _event(copy: StoredMessage) -> EventData:
    fields: dict[str, Any] = {"message_id": copy.id, "role": copy.role, "content": copy.content}
    if copy.role == "user":
        return MessageCreated(**fields, attachments=[file.dump() for file in copy.attachments])
    return MessageCompleted(**fields, agent_id=copy.agent_id, status=copy.status, continues=copy.continues)
