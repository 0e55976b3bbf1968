"""Attached files as transactions, on SQLite and PostgreSQL: what deletes their content, and what keeps it."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, func, select, update

from artel.attachments.cleanup import delete_old_unsent
from artel.attachments.file_types import file_type
from artel.attachments.repository import AttachmentContentRepository
from artel.attachments.transactions import MAX_UNSENT, add_attachment, delete_unsent, read_attachment
from artel.db.attachment_tables import attachment_contents, attachments
from artel.errors import AttachmentNotFound, LimitReached, SessionNotFound
from artel.ids import uuid7
from artel.sessions.deletion import delete_session
from artel.sessions.message_repository import MessageRepository
from artel.turns.fork import fork_session
from artel.turns.transactions import NewAttachments, NewTurn
from tests.actors.chat_user import ChatUser

pytestmark = pytest.mark.anyio


async def uploaded(chat: ChatUser, session: str, text: str = "text") -> str:
    content = text.encode()
    step = session, uuid7(), "notes.txt", content, file_type("notes.txt", content)
    return (await chat.database.of(chat.user).run(add_attachment, *step)).id


async def sent(chat: ChatUser, session: str, *ids: str) -> str:
    """Send files with a message and return the message's id."""
    files = NewAttachments(lambda _model: True, ids)
    new = NewTurn(uuid7(), uuid7(), "Read", 1, str(chat.agent_id), attachments=files)
    await chat.accept(session, new)
    return new.message_id


async def contents(chat: ChatUser) -> int:
    """Return how many contents are stored."""

    def count(connection: Connection) -> int:
        return int(connection.execute(select(func.count()).select_from(attachment_contents)).scalar_one())

    return await chat.database.read(count)


@pytest.mark.req("CHT-20.6")
async def test_unsent_files_are_deleted_after_a_day_and_sent_ones_are_not(chat: ChatUser) -> None:
    session = await chat.session()
    old, sent_file, new = [await uploaded(chat, session) for _ in range(3)]
    await sent(chat, session, sent_file)

    def age(connection: Connection) -> None:
        moment = datetime.now(UTC) - timedelta(hours=25)
        connection.execute(update(attachments).where(attachments.c.id.in_([old, sent_file])).values(created_at=moment))

    await chat.database.run(age)

    assert await chat.database.run(delete_old_unsent) == 1
    assert await chat.database.run(delete_old_unsent) == 0
    assert await contents(chat) == 2
    for kept in (sent_file, new):
        assert (await chat.database.read(read_attachment, chat.user, session, kept))[1] == b"text"
    with pytest.raises(AttachmentNotFound):
        await chat.database.read(read_attachment, chat.user, session, old)


@pytest.mark.req("CHT-20.6")
async def test_content_stays_while_a_fork_has_it_and_counts_once(chat: ChatUser) -> None:
    session, fork = await chat.session(), uuid7()
    message = await sent(chat, session, await uploaded(chat, session, "12345"))
    ids = [uuid7() for _ in range(5)]
    await chat.database.of(chat.user).run(fork_session, session, message, fork, ids)

    def stored(connection: Connection) -> int:
        return AttachmentContentRepository(connection, chat.user).stored_bytes()

    assert await chat.database.read(stored) == 5
    await chat.database.of(chat.user).run(delete_session, session)
    assert await chat.database.read(stored) == 5
    await chat.database.of(chat.user).run(delete_session, fork)
    assert await chat.database.read(stored) == 0


@pytest.mark.req("CHT-20.6")
async def test_fork_and_deletion_at_the_same_time_lose_no_content(chat: ChatUser) -> None:
    for _ in range(5):
        session, fork = await chat.session(), uuid7()
        message = await sent(chat, session, await uploaded(chat, session))
        ids = [uuid7() for _ in range(5)]
        database = chat.database.of(chat.user)

        forked, deleted = await asyncio.gather(
            database.run(fork_session, session, message, fork, ids),
            database.run(delete_session, session),
            return_exceptions=True,
        )

        assert deleted is None
        assert not isinstance(forked, BaseException) or forked.__class__.__name__ in (
            SessionNotFound.__name__,
            "MessageNotFound",
        )
        assert await contents(chat) == (0 if isinstance(forked, BaseException) else 1)
        if not isinstance(forked, BaseException):
            await database.run(delete_session, fork)


@pytest.mark.req("CHT-20.6")
async def test_fork_is_refused_if_the_messages_are_deleted_during_it(
    chat: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, fork = await chat.session(), uuid7()
    message = await sent(chat, session, await uploaded(chat, session))
    monkeypatch.setattr(MessageRepository, "up_to", lambda *_: [])  # another transaction was committed just before

    with pytest.raises(SessionNotFound):
        await chat.database.of(chat.user).run(fork_session, session, message, fork, [uuid7()])


async def test_unsent_files_of_a_user_are_limited(chat: ChatUser) -> None:
    session = await chat.session()
    ids = [await uploaded(chat, session) for _ in range(MAX_UNSENT)]

    with pytest.raises(LimitReached, match="not sent"):
        await uploaded(chat, session)

    await chat.database.of(chat.user).run(delete_unsent, session, ids[0])
    assert await uploaded(chat, session)
    assert await contents(chat) == MAX_UNSENT
