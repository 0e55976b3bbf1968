"""Rows of messages."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict
from sqlalchemy import ColumnElement, Row, Select, and_, bindparam, case, or_

from artel.attachments.repository import StoredAttachment, load_attachments
from artel.contract.chat import Rating
from artel.contract.http import PageRequest
from artel.db.rows import Later
from artel.db.tables import IS_NOT_SEARCHABLE, messages
from artel.db.tenant import TenantRepository, prepared
from artel.errors import MessageNotFound
from artel.sessions.message_index import MessageIndexRepository


class StoredFeedback(BaseModel, defer_build=True):
    """The user's feedback on an answer, as it is stored with the message."""

    model_config = ConfigDict(frozen=True)

    version: int = 1
    rating: Rating
    comment: str = ""
    memories: dict[int, str] = {}  # the memory of each agent that was told, by the agent's id


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message of a session's history."""

    id: str
    number: int
    turn_number: int
    turn_id: str | None
    role: str
    content: str
    tokens: int
    created_at: datetime
    agent_id: int | None = None
    agent: str | None = None
    status: str = "ok"
    error_code: str | None = None
    retry_of: str | None = None
    continues: str | None = None  # the cut-off message that it goes on from
    feedback: StoredFeedback | None = None
    attachments: tuple[StoredAttachment, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A search result: a message with its session and project."""

    session_id: str
    project_id: int
    message: StoredMessage


class MessageKey(NamedTuple):
    """A message's id and time, which order search results."""

    id: str
    created_at: datetime


_columns = attrgetter(*StoredMessage.__slots__)


class MessageRepository(TenantRepository):
    """Messages of one user's sessions."""

    table = messages

    @property
    def _index(self) -> MessageIndexRepository:
        return MessageIndexRepository(self.connection, self.tenant)

    @prepared
    def _conversation(cls) -> Select[Any]:  # noqa: N805
        in_session = messages.c.session_id == bindparam("session"), messages.c.turn_number <= bindparam("up_to")
        newest = messages.c.turn_number.desc(), messages.c.number.desc()
        is_said = or_(messages.c.status == "ok", messages.c.status == "continued")
        found = cls._prepare_select().where(*in_session, is_said)
        return found.order_by(*newest).limit(bindparam("most"))

    def stored_bytes(self) -> int:
        """Return the size of the user's messages in bytes."""
        return self._bytes_of(messages.c.content)

    def bytes_up_to(self, session_id: str, number: int) -> int:
        """Return the size in bytes of a session's messages up to a number."""
        return self._bytes_of(messages.c.content, messages.c.session_id == session_id, messages.c.number <= number)

    def add(self, project_id: int, session_id: str, *new: StoredMessage) -> None:
        """Add messages to a session; `MessageIndexer` adds them to the index a few seconds later."""
        of_session = {"project_id": project_id, "session_id": session_id}
        self._add([_row(message) | of_session for message in new])

    def conversation(self, session_id: str, turn_number: int, limit: int) -> Later[list[StoredMessage]]:
        """Read the last messages up to a turn, in conversation order, without failed ones."""
        rows = self._run(self._conversation, session=session_id, up_to=turn_number, most=limit)
        return lambda: _messages(rows)[::-1]

    def question_of(self, session_id: str, turn_id: str) -> StoredMessage | None:
        """Return the user's message of a turn."""
        row = self._find_one(*_of_turn(session_id, turn_id), messages.c.role == "user")
        return _message(row) if row else None

    def question_before(self, session_id: str, answer: StoredMessage) -> StoredMessage | None:
        """Return the user's message that an answer belongs to, also if the answer goes on from another one."""
        same_turn = messages.c.session_id == session_id, messages.c.turn_number == answer.turn_number
        row = self._find_one(*same_turn, messages.c.role == "user")
        return _message(row) if row else None

    def rewrite(self, session_id: str, message_id: str, content: str, tokens: int) -> None:
        """Change the content of a message."""
        of_message = messages.c.session_id == session_id, messages.c.id == message_id
        if self._change({"content": content, "tokens": tokens}, *of_message):
            self._index.replace(message_id, content)

    def supersede(self, session_id: str, turn_id: str) -> None:
        """Exclude question and answer of a turn from later prompts, because the message was sent again.

        This includes the answers that go on from its answer.
        """
        first = self._find(*_of_turn(session_id, turn_id), columns=[messages.c.turn_number], limit=1)
        goes_on = and_(
            messages.c.session_id == session_id,
            messages.c.continues.is_not(None),
            messages.c.turn_number == (first[0].turn_number if first else -1),
        )
        status = case((messages.c.status == "ok", "retried"), else_="cut_off")
        said = messages.c.status.in_(("ok", "continued"))
        self._change({"status": status}, or_(and_(*_of_turn(session_id, turn_id)), goes_on), said)

    def cut_off_of(self, session_id: str, turn_id: str) -> StoredMessage | None:
        """Return the partial answer of a turn that nothing goes on from yet."""
        row = self._find_one(*_of_turn(session_id, turn_id), messages.c.status == "cut_off")
        return _message(row) if row else None

    def mark_continued(self, session_id: str, message_id: str) -> int:
        """Mark a cut-off message as continued by another one; return the number of its turn in the conversation."""
        of_message = messages.c.session_id == session_id, messages.c.id == message_id
        self._change({"status": "continued"}, *of_message, messages.c.status == "cut_off")
        return self.get(session_id, message_id).turn_number

    def answer_to(self, session_id: str, turn_id: str) -> StoredMessage | None:
        """Return the final message of a turn; a cut-off partial answer is not one."""
        is_answer = messages.c.role != "user", messages.c.status.not_in(("cut_off", "continued"))
        row = self._find_one(*_of_turn(session_id, turn_id), *is_answer)
        return _message(row) if row else None

    def get(self, session_id: str, message_id: str) -> StoredMessage:
        """Return a message of the session or raise MessageNotFound."""
        row = self._find_one(messages.c.session_id == session_id, messages.c.id == message_id)
        if row is None:
            raise MessageNotFound("Message not found")
        return _message(row)

    def rate(self, session_id: str, message_id: str, feedback: StoredFeedback) -> None:
        """Store the user's feedback on an answer, instead of an earlier one."""
        of_message = messages.c.session_id == session_id, messages.c.id == message_id
        self._change({"feedback": feedback.model_dump(mode="json")}, *of_message)

    def of_timeline(self, session_id: str, rank: int) -> tuple[Select[Any], int]:
        """Return a SELECT of the session's message keys for its timeline, and their number."""
        in_session = messages.c.session_id == session_id
        return self._ranked(rank).where(in_session), self._count(in_session, by_key=True)

    def by_ids(self, session_id: str, ids: Sequence[str]) -> list[StoredMessage]:
        """Return the session's messages with these ids."""
        return (
            _messages(self._find(messages.c.session_id == session_id, messages.c.id.in_(ids), by_key=True))
            if ids
            else []
        )

    def up_to(self, session_id: str, number: int) -> list[StoredMessage]:
        """Return the session's messages up to a number."""
        return _messages(self._find(messages.c.session_id == session_id, messages.c.number <= number))

    def not_searchable(self, limit: int) -> list[str]:
        """Return the ids of the newest messages that are not in the index of messages."""
        newest = [messages.c.id.desc()]
        rows = self._find(IS_NOT_SEARCHABLE, columns=[messages.c.id], order_by=newest, limit=limit)  # type: ignore[arg-type]
        return [row.id for row in rows]

    def newest_ids(self, session_id: str, limit: int) -> list[str]:
        """Return the ids of the session's last messages, newest first."""
        newest = [messages.c.number.desc()]
        return [
            row.id
            for row in self._find(
                messages.c.session_id == session_id, columns=[messages.c.id], order_by=newest, limit=limit
            )
        ]

    def contents(self, ids: Sequence[str], session_id: str | None) -> list[tuple[MessageKey, str]]:
        """Return the contents of messages, optionally of one session only."""
        of_session = () if session_id is None else (messages.c.session_id == session_id,)
        columns = [messages.c.id, messages.c.created_at, messages.c.content]
        rows = self._find(messages.c.id.in_(ids), *of_session, columns=columns, by_key=True)
        return [(MessageKey(row.id, row.created_at), row.content) for row in rows]

    def found(self, ids: Sequence[str]) -> list[FoundMessage]:
        """Return messages with their sessions and projects."""
        rows = self._find(messages.c.id.in_(ids), by_key=True) if ids else []
        return [FoundMessage(row.session_id, row.project_id, _message(row)) for row in rows]

    def count(self, session_id: str, role: str | None = None) -> int:
        """Return the number of the session's messages, optionally of one role."""
        return self._count(*_in_session(session_id, role), by_key=True)

    def page(self, session_id: str, role: str | None, paging: PageRequest) -> list[StoredMessage]:
        """Return a page of messages, oldest first."""
        in_session = _in_session(session_id, role)
        return _messages(
            self._find(*in_session, order_by=[messages.c.number], limit=paging.limit, offset=paging.offset, by_key=True)
        )

    def newest(self, session_id: str, limit: int, role: str | None = None) -> list[StoredMessage]:
        """Return the last messages, in order."""
        newest = [messages.c.number.desc()]
        return _messages(self._find(*_in_session(session_id, role), order_by=newest, limit=limit, by_key=True))[::-1]


def _in_session(session_id: str, role: str | None) -> tuple[ColumnElement[bool], ...]:
    in_session = messages.c.session_id == session_id
    return (in_session,) if role is None else (in_session, messages.c.role == role)


def _of_turn(session_id: str, turn_id: str) -> tuple[ColumnElement[bool], ...]:
    return messages.c.session_id == session_id, messages.c.turn_id == turn_id


def _row(message: StoredMessage) -> dict[str, Any]:
    row = dict(zip(StoredMessage.__slots__, _columns(message), strict=True))
    attachments = [file.dump() for file in message.attachments] or None
    feedback = message.feedback.model_dump(mode="json") if message.feedback else None
    return row | {"attachments": attachments, "feedback": feedback}


def _message(row: Row[Any]) -> StoredMessage:
    values = dict(zip(StoredMessage.__slots__, _columns(row), strict=True))
    feedback = StoredFeedback.model_validate(row.feedback) if row.feedback else None
    return StoredMessage(**values | {"attachments": load_attachments(row.attachments), "feedback": feedback})


def _messages(rows: Iterable[Row[Any]]) -> list[StoredMessage]:
    return [_message(row) for row in rows]
