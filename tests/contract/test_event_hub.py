"""Events reach every reader of a session, once each and in order, on SQLite and PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from artel.auth.principal import Principal
from artel.contract.events import StoredEvent
from artel.db.hints import ProjectChanged
from artel.db.tenant import Tenant
from artel.errors import SessionNotFound
from artel.events import hub as hub_module
from artel.events.hub import AnswerKey, Delta, EventHub, Item, Readers, ReaderTooSlow, Snapshot
from artel.events.project_log import ProjectEventWriter, read_project_events
from artel.events.session_log import read_events
from tests.actors.chat_user import ChatUser

pytestmark = pytest.mark.anyio


class Listening:
    """A subscriber of a session that collects its items."""

    def __init__(self, hub: EventHub, user: Tenant, session_id: str, after: int) -> None:
        self.items: list[Item] = []
        self._arrived = asyncio.Condition()
        self._task = asyncio.create_task(self._listen(hub, user, session_id, after))

    async def _listen(self, hub: EventHub, user: Tenant, session_id: str, after: int) -> None:
        async for item in hub.follow(user, session_id, after, 30):
            assert item is not None
            async with self._arrived:
                self.items.append(item)
                self._arrived.notify_all()

    async def until(self, count: int) -> list[Item]:
        async with asyncio.timeout(20), self._arrived:
            await self._arrived.wait_for(lambda: len(self.items) >= count)
        return self.items

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


CaughtUp = asyncio.Queue[str]


@pytest.fixture
def caught_up() -> CaughtUp:
    """Session ids, one for each read that found nothing new."""
    return asyncio.Queue()


@pytest.fixture
async def hub(chat: ChatUser, caught_up: CaughtUp) -> AsyncIterator[EventHub]:
    async def read(tenant: Tenant, session_id: str, after: int, limit: int) -> list[StoredEvent]:
        found = list(await chat.database.read(read_events, tenant, session_id, after, limit))
        if not found:
            caught_up.put_nowait(session_id)
        return found

    hub = EventHub(read, Readers(max_per_user=1_000))
    yield hub
    await hub.close()
    assert hub._feeds == {}


def numbers(items: list[Item]) -> list[int]:
    return [item.number for item in items if isinstance(item, StoredEvent)]


async def run_turn(chat: ChatUser, hub: EventHub, session: str) -> None:
    turn = await chat.accept(session)
    hub.notify(session)
    await chat.start(session, turn.id)
    hub.notify(session)
    await chat.finish(session, turn.id)
    hub.notify(session)


async def test_reader_gets_old_and_new_events_exactly_once(chat: ChatUser, hub: EventHub) -> None:
    session = await chat.session()
    await run_turn(chat, hub, session)
    readers = [Listening(hub, chat.user, session, after) for after in (0, 3)]

    await run_turn(chat, hub, session)

    assert numbers(await readers[0].until(14)) == list(range(1, 15))
    assert numbers(await readers[1].until(11)) == list(range(4, 15))
    for reader in readers:
        await reader.stop()


async def test_readers_connecting_during_writes_miss_nothing(chat: ChatUser, hub: EventHub) -> None:
    session = await chat.session()
    first = Listening(hub, chat.user, session, 0)
    writing = asyncio.create_task(asyncio.wait_for(_write(chat, hub, session, 8), 60))
    late: list[Listening] = []
    for after in (0, 5, 12, 20):
        await first.until(after)
        late.append(Listening(hub, chat.user, session, after))
    await writing

    assert numbers(await first.until(56)) == list(range(1, 57))
    for reader, after in zip(late, (0, 5, 12, 20), strict=True):
        assert numbers(await reader.until(56 - after)) == list(range(after + 1, 57))
        await reader.stop()
    await first.stop()


async def _write(chat: ChatUser, hub: EventHub, session: str, turns: int) -> None:
    for _ in range(turns):
        await run_turn(chat, hub, session)


async def test_a_session_is_read_once_for_all_of_its_readers(
    chat: ChatUser, hub: EventHub, caught_up: CaughtUp
) -> None:
    session = await chat.session()
    readers = [Listening(hub, chat.user, session, 0) for _ in range(200)]
    async with asyncio.timeout(20):
        for _ in readers:  # each finds nothing new
            await caught_up.get()

    await run_turn(chat, hub, session)
    await run_turn(chat, hub, session)

    for reader in readers:
        assert numbers(await reader.until(14)) == list(range(1, 15))
        await reader.stop()
    assert caught_up.qsize() <= 12


async def test_partial_answer_comes_as_snapshot_then_deltas(chat: ChatUser, hub: EventHub) -> None:
    session = await chat.session()
    hub.write(AnswerKey(chat.user, session, "m", "t"), "Hello ")
    hub.write(AnswerKey(chat.user, session, "m", "t"), "wor")
    reader = Listening(hub, chat.user, session, 0)
    await reader.until(1)

    hub.write(AnswerKey(chat.user, session, "m", "t"), "ld")
    hub.restart(AnswerKey(chat.user, session, "m", "t"))
    hub.write(AnswerKey(chat.user, session, "m", "t"), "Again")

    assert await reader.until(4) == [
        Snapshot("m", "t", 2, "Hello wor"),
        Delta("m", "t", 3, "ld"),
        Snapshot("m", "t", 4, ""),
        Delta("m", "t", 5, "Again"),
    ]
    await reader.stop()
    hub.end(session, "m")


async def test_slow_reader_is_disconnected_and_others_continue(
    chat: ChatUser, hub: EventHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "MAX_BEHIND", 10)
    session = await chat.session()
    attentive = Listening(hub, chat.user, session, 0)
    with hub.listen(chat.user, session) as asleep:
        for number in range(30):
            hub.write(AnswerKey(chat.user, session, "m", None), str(number))
            await attentive.until(number + 1)
        with pytest.raises(ReaderTooSlow):
            await asleep.next(1)

    assert len(attentive.items) == 30
    await attentive.stop()
    hub.end(session, "m")


async def test_idle_stream_yields_none(chat: ChatUser, hub: EventHub) -> None:
    session = await chat.session()

    follow = hub.follow(chat.user, session, 0, 0.01)

    assert await anext(follow) is None
    await follow.aclose()  # type: ignore[attr-defined]


async def test_session_of_another_user_cannot_be_followed(chat: ChatUser, hub: EventHub) -> None:
    from artel.auth.accounts import create_account

    session = await chat.session()
    stranger = (await chat.database.run(create_account, "eve@example.org", None)).principal
    owner = Listening(hub, chat.user, session, 0)
    await run_turn(chat, hub, session)
    await owner.until(5)

    with pytest.raises((SessionNotFound, PermissionError)):
        await anext(hub.follow(stranger, session, 0, 1))
    with pytest.raises((SessionNotFound, PermissionError)):
        await anext(hub.follow(stranger, "no-such-session", 0, 1))
    await owner.stop()


async def test_hints_for_sessions_without_readers_cause_no_reads(hub: EventHub, caught_up: CaughtUp) -> None:
    for number in range(1000):
        hub.notify(f"session {number}")
    await asyncio.sleep(0)

    assert caught_up.empty()


async def test_remote_snapshot_is_shown_until_its_turn_ends(chat: ChatUser, hub: EventHub) -> None:
    session = await chat.session()
    reader = Listening(hub, chat.user, session, 0)
    turn = await chat.accept(session)
    hub.notify(session)
    await reader.until(1)
    half, late = (Snapshot("m", turn.id, n, "half" * n) for n in (1, 2))

    hub.replace(chat.user, session, half)
    second = Listening(hub, chat.user, session, 1)
    assert await second.until(1) == [half]
    await chat.start(session, turn.id)
    await chat.finish(session, turn.id)
    hub.notify(session)
    await reader.until(8)
    hub.replace(chat.user, session, late)
    third = Listening(hub, chat.user, session, 7)
    await run_turn(chat, hub, session)

    assert numbers(await third.until(7)) == list(range(8, 15))
    assert len(third.items) == 7, "something of the first turn is shown still"
    assert [item for item in await reader.until(15) if not isinstance(item, StoredEvent)] == [half]
    for listening in (reader, second, third):
        await listening.stop()


async def test_remote_answer_can_restart_after_a_pause(chat: ChatUser, hub: EventHub) -> None:
    session = await chat.session()
    turn = await chat.accept(session)
    reader = Listening(hub, chat.user, session, 0)
    await reader.until(1)
    before, anew = Snapshot("m", turn.id, 7, "Let me look first."), Snapshot("m", turn.id, 2, "It is done.")

    hub.replace(chat.user, session, before)
    hub.replace(chat.user, session, anew)

    assert (await reader.until(3))[1:] == [before, anew]
    await reader.stop()


async def test_remote_answer_is_dropped_with_the_last_reader(chat: ChatUser, hub: EventHub) -> None:
    session = await chat.session()
    turn = await chat.accept(session)
    reader = Listening(hub, chat.user, session, 0)
    await reader.until(1)
    hub.replace(chat.user, session, Snapshot("m", turn.id, 1, "half"))
    await reader.until(2)

    await reader.stop()
    hub.replace(chat.user, session, Snapshot("m", turn.id, 2, "half and"))

    assert hub._feeds == {}


@pytest.mark.req("SEC-02.5")
async def test_snapshot_of_another_user_is_ignored(chat: ChatUser, hub: EventHub) -> None:
    session = await chat.session()
    turn = await chat.accept(session)
    with hub.listen(chat.user, session) as reader:
        hub.replace(Principal(chat.user.user_id + 1), session, Snapshot("m", turn.id, 1, "forged"))
        hub.replace(chat.user, session, Snapshot("m", turn.id, 2, "true"))

        item = await reader.next(5)
        assert isinstance(item, Snapshot)
        assert item.text == "true"
        hub.end(session, "m")


@pytest.mark.req("CHT-12.2")
async def test_changes_of_a_session_within_a_moment_are_announced_once(chat: ChatUser) -> None:
    writer = ProjectEventWriter(chat.database)
    for session_id in ("one", "two", "one", "one"):
        writer.session_changed(chat.user, chat.project_id, session_id)
    await writer.close()
    writer.session_changed(chat.user, chat.project_id, "one")
    await writer.close()

    events = await chat.database.read(read_project_events, chat.user, str(chat.project_id), 0, 100)
    assert [event.data["session_id"] for event in events if event.type == "session_changed"] == ["one", "two", "one"]


async def test_events_of_one_user_are_written_together_whatever_rights_the_writers_have(chat: ChatUser) -> None:
    transactions: list[ProjectChanged] = []
    chat.database.on_commit(ProjectChanged, transactions.append)
    writer = ProjectEventWriter(chat.database)

    writer.session_changed(Principal(chat.user.user_id, is_admin=True), chat.project_id, "one")
    writer.session_changed(Principal(chat.user.user_id), chat.project_id, "two")
    await writer.close()

    assert transactions == [ProjectChanged(chat.project_id)]
