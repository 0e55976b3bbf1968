"""The life of turns, as transactions, on SQLite and PostgreSQL: order, numbers without holes, one terminal state."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

import pytest

from artel.auth.accounts import create_account
from artel.auth.principal import Principal
from artel.contract.events import StoredEvent
from artel.contract.http import NewProject, NewSession
from artel.db import schema
from artel.db.engine import Database
from artel.errors import AgentQueueFull, IdempotencyKeyReused, SessionBusy, SessionNotFound, TurnNotFound
from artel.events.session_log import read_events
from artel.ids import uuid7
from artel.projects.service import ProjectRules, create_project
from artel.sessions.message_repository import StoredMessage
from artel.sessions.repository import SessionRepository
from artel.sessions.service import create_session, delete_session
from artel.turns import transactions
from artel.turns.repository import TurnRepository
from artel.turns.transactions import (
    AgentAtWork,
    NewTurn,
    Outcome,
    TurnOver,
    accept_message,
    finish_turn,
    start_turn,
)
from artel.turns.turn import Turn, TurnStatus

pytestmark = pytest.mark.anyio

RULES = ProjectRules(max_projects=10, max_agents=10, planner_model="gpt-4o")


@dataclass
class Chat:
    """A user with one project, on a database of its own."""

    database: Database
    user: Principal
    project_id: int
    agent_id: int

    async def session(self) -> str:
        new = NewSession(project_id=self.project_id)
        return (await self.database.run(create_session, self.user, uuid7(), new, RULES)).session_id

    def message(self, content: str = "Hello", key: str | None = None) -> NewTurn:
        return NewTurn(uuid7(), uuid7(), content, 1, str(self.agent_id), key)

    async def accept(self, session_id: str, new: NewTurn | None = None) -> Turn:
        return await self.database.run(accept_message, self.user, session_id, new or self.message())

    async def start(self, session_id: str, turn_id: str) -> bool:
        return await self.history(session_id, turn_id) is not None

    async def history(self, session_id: str, turn_id: str) -> list[StoredMessage] | None:
        turn = await self.turn(session_id, turn_id)
        agent = AgentAtWork(self.agent_id, "agent_coder", "idle", "processing")
        try:
            return (await self.database.run(start_turn, self.user, turn, agent, 10)).messages
        except TurnOver:
            return None

    async def finish(self, session_id: str, turn_id: str, outcome: Outcome | None = None) -> bool:
        agent = AgentAtWork(self.agent_id, "agent_coder", "processing", "idle")
        try:
            await self.database.run(finish_turn, self.user, session_id, turn_id, agent, outcome or answer("Hi"))
        except TurnOver:
            return False
        return True

    async def events(self, session_id: str) -> list[StoredEvent]:
        return list(await self.database.read(read_events, self.user, session_id, 0, 500))

    async def turn(self, session_id: str, turn_id: str) -> Turn:
        return await self.database.read(lambda c: TurnRepository(c, self.user).get(session_id, turn_id))


def answer(content: str) -> Outcome:
    return Outcome(TurnStatus.COMPLETED, uuid7(), content, 1, {"model": "demo"}, duration=0.5)


def failure(status: TurnStatus) -> Outcome:
    return replace(answer("It did not work."), status=status, error_code="agent_failed")


@pytest.fixture
async def chat(upgraded_database: Callable[[], str]) -> AsyncIterator[Chat]:
    database = Database(upgraded_database().replace("postgresql:", "postgresql+psycopg:"), connections=8)
    await asyncio.to_thread(schema.upgrade, database.engine)
    user = (await database.run(create_account, "ada@example.org", None)).principal
    project = await database.run(create_project, user, NewProject(name="Chat"), RULES)
    yield Chat(database, user, project.id, project.agents[0].id)
    await database.close()


async def test_a_turn_tells_its_whole_story_in_order(chat: Chat) -> None:
    session = await chat.session()
    turn = await chat.accept(session)

    assert await chat.start(session, turn.id)
    assert await chat.finish(session, turn.id)

    events = await chat.events(session)
    assert [event.number for event in events] == [1, 2, 3, 4, 5, 6, 7]
    assert [event.type for event in events] == [
        "message_created",
        "direct_agent_call",
        "agent_status_changed",
        "message_completed",
        "agent_status_changed",
        "task_completed",
        "turn_completed",
    ]
    assert {event.turn_id for event in events} == {turn.id}
    ended = await chat.turn(session, turn.id)
    assert (ended.status, ended.usage) == (TurnStatus.COMPLETED, {"model": "demo"})
    assert ended.started_at
    assert ended.finished_at


async def test_the_history_has_messages_and_answers_in_order_of_time(chat: Chat) -> None:
    session = await chat.session()
    history: list[StoredMessage] | None = None
    for number in range(3):
        turn = await chat.accept(session, chat.message(f"question {number}"))
        history = await chat.history(session, turn.id)
        await chat.finish(session, turn.id, answer(f"answer {number}"))

    expected = [text for number in range(2) for text in (f"question {number}", f"answer {number}")] + ["question 2"]
    assert history
    assert [message.content for message in history] == expected
    assert [message.role for message in history] == ["user", "assistant"] * 2 + ["user"]


async def test_an_agent_is_told_the_conversation_in_its_own_order(chat: Chat) -> None:
    """Messages that wait are not told to an agent before their turn, and answers stand after their questions."""
    session = await chat.session()
    first, second, third = [await chat.accept(session, chat.message(f"question {n}")) for n in range(3)]

    histories = [await chat.history(session, first.id)]
    await chat.finish(session, first.id, answer("answer 0"))
    histories.append(await chat.history(session, second.id))
    await chat.finish(session, second.id, failure(TurnStatus.FAILED))
    histories.append(await chat.history(session, third.id))

    texts = [[message.content for message in messages or []] for messages in histories]
    assert texts == [
        ["question 0"],
        ["question 0", "answer 0", "question 1"],
        ["question 0", "answer 0", "question 1", "question 2"],
    ]


async def test_the_next_turn_starts_only_after_the_one_before_it(chat: Chat) -> None:
    session = await chat.session()
    first, second = await chat.accept(session), await chat.accept(session)

    assert not await chat.start(session, second.id)
    assert await chat.start(session, first.id)
    assert not await chat.start(session, first.id)
    assert not await chat.start(session, second.id)
    assert await chat.finish(session, first.id)
    assert await chat.start(session, second.id)


async def test_ten_messages_may_wait_and_the_next_is_refused_with_nothing_stored(chat: Chat) -> None:
    session = await chat.session()
    turns = [await chat.accept(session) for _ in range(11)]
    before = await chat.events(session)

    with pytest.raises(SessionBusy):
        await chat.accept(session)

    assert await chat.events(session) == before
    await chat.start(session, turns[0].id)
    await chat.finish(session, turns[0].id)
    await chat.accept(session)


async def test_a_hundred_tasks_may_wait_for_an_agent_and_the_next_is_refused(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "MAX_WAITING_FOR_AGENT", 3)
    for _ in range(3):
        await chat.accept(await chat.session())

    with pytest.raises(AgentQueueFull):
        await chat.accept(await chat.session())


@pytest.mark.parametrize("many", [1, 10])
async def test_the_same_key_and_message_is_the_same_turn(chat: Chat, many: int) -> None:
    session = await chat.session()
    turns = await asyncio.gather(*(chat.accept(session, chat.message("Once", key="k")) for _ in range(many)))

    assert len({turn.id for turn in turns}) == 1
    assert [event.type for event in await chat.events(session)] == ["message_created"]
    with pytest.raises(IdempotencyKeyReused):
        await chat.accept(session, chat.message("Another", key="k"))
    assert (await chat.accept(await chat.session(), chat.message("Another", key="k"))).id != turns[0].id


@pytest.mark.parametrize("status", [TurnStatus.FAILED, TurnStatus.TIMEOUT, TurnStatus.CANCELLED])
async def test_a_turn_ends_once_whoever_is_first(chat: Chat, status: TurnStatus) -> None:
    session = await chat.session()
    turn = await chat.accept(session)
    await chat.start(session, turn.id)

    ended = await asyncio.gather(*(chat.finish(session, turn.id, failure(status)) for _ in range(8)))

    assert sorted(ended) == [False] * 7 + [True]
    assert not await chat.finish(session, turn.id)
    assert (await chat.turn(session, turn.id)).status == status
    types = [event.type for event in await chat.events(session)]
    assert types.count("message_completed") == 1
    assert types[-1] == ("turn_cancelled" if status is TurnStatus.CANCELLED else "turn_failed")


async def test_another_users_session_can_be_neither_written_nor_read(chat: Chat) -> None:
    session = await chat.session()
    turn = await chat.accept(session)
    stranger = (await chat.database.run(create_account, "eve@example.org", None)).principal
    before = await chat.events(session)

    with pytest.raises(SessionNotFound):
        await chat.database.run(accept_message, stranger, session, chat.message())
    with pytest.raises(SessionNotFound):
        await chat.database.run(start_turn, stranger, turn, None, 10)
    with pytest.raises(SessionNotFound):
        await chat.database.run(finish_turn, stranger, session, turn.id, None, answer("mine"))
    with pytest.raises(SessionNotFound):
        await chat.database.read(read_events, stranger, session, 0, 100)
    with pytest.raises(TurnNotFound):
        await chat.database.read(lambda c: TurnRepository(c, stranger).get(session, turn.id))
    assert await chat.events(session) == before


async def test_a_deleted_session_takes_everything_along(chat: Chat) -> None:
    session = await chat.session()
    turn = await chat.accept(session)

    await chat.database.run(delete_session, chat.user, session)

    with pytest.raises(SessionNotFound):
        await chat.events(session)
    with pytest.raises(TurnNotFound):
        await chat.turn(session, turn.id)


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_happens_at_once_numbers_have_no_holes_and_turns_keep_their_order(chat: Chat, seed: int) -> None:
    chance = random.Random(seed)
    sessions = [await chat.session() for _ in range(3)]
    accepted: dict[str, list[str]] = {session: [] for session in sessions}

    async def write(session: str) -> None:
        for _ in range(10):
            with contextlib.suppress(SessionBusy):
                accepted[session].append((await chat.accept(session)).id)

    async def work(session: str) -> None:
        """Two of these compete for every session, as two servers would for a moment."""
        for _ in range(200):
            following = await chat.database.read(lambda c: TurnRepository(c, chat.user).next(session))
            if following is None:
                continue
            if following.status is TurnStatus.QUEUED and not await chat.start(session, following.id):
                continue
            outcome = answer("done") if chance.random() < 0.7 else failure(TurnStatus.FAILED)
            await chat.finish(session, following.id, outcome)

    async with asyncio.timeout(120):
        doing = [do(session) for session in sessions for do in (write, work, write, work)]
        await asyncio.gather(*doing)

    for session in sessions:
        check_story(await chat.events(session), accepted[session])


def check_story(events: list[StoredEvent], accepted: list[str]) -> None:
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    in_order = [event.turn_id for event in events if event.type == "message_created"]
    assert sorted(in_order, key=str) == sorted(accepted)
    ended = [event.turn_id for event in events if event.type in ("turn_completed", "turn_failed")]
    assert ended == in_order[: len(ended)], "turns end in the order in which they were accepted, each once"
    open_turn = None
    for event in events:
        if event.type == "direct_agent_call":
            assert open_turn is None, "one turn at a time"
            open_turn = event.turn_id
        elif event.type in ("turn_completed", "turn_failed"):
            assert event.turn_id == open_turn
            open_turn = None


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("Hello  there,\n\tfriend", "Hello there, friend"),
        ("word " * 100, "word word word word word word word word word word word word…"[:60]),
        ("\u200b", "New session"),
    ],
)
async def test_a_session_without_a_title_is_called_after_its_first_message(
    chat: Chat, content: str, title: str
) -> None:
    session = await chat.session()
    await chat.accept(session, chat.message(content))
    await chat.accept(session, chat.message("Another"))

    found = await chat.database.read(lambda c: SessionRepository(c, chat.user).get(session))

    assert len(found.title) <= 60
    assert found.title.rstrip("…").strip() == title.rstrip("…").strip()


async def test_a_title_that_somebody_gave_stays(chat: Chat) -> None:
    new = NewSession(project_id=chat.project_id, title="Mine")
    session = (await chat.database.run(create_session, chat.user, uuid7(), new, RULES)).session_id
    await chat.accept(session, chat.message("Hello"))

    assert (await chat.database.read(lambda c: SessionRepository(c, chat.user).get(session))).title == "Mine"
