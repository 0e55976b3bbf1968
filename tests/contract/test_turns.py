"""The life of turns, as transactions, on SQLite and PostgreSQL: order, numbers without holes, one terminal state."""

import asyncio
import contextlib
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from artel.auth.accounts import create_account
from artel.contract.chat import UsageShown
from artel.contract.events import ContextRetrieved, StoredEvent, TaskStarted
from artel.contract.http import NewSession, PageRequest
from artel.errors import AgentQueueFull, IdempotencyKeyReused, SessionBusy, SessionNotFound, TurnNotFound
from artel.events.session_log import read_events
from artel.ids import uuid7
from artel.runs import task_events
from artel.runs.task_events import EventWriter
from artel.sessions.deletion import delete_session
from artel.sessions.message_repository import MessageRepository, StoredMessage
from artel.sessions.repository import SessionRepository
from artel.sessions.transactions import create_session
from artel.turns import transactions
from artel.turns.end import end_turn
from artel.turns.repository import TurnRepository
from artel.turns.transactions import accept_message, start_turn
from artel.turns.turn import TurnStatus
from tests.actors.chat_user import RULES, ChatUser, answer, failure

pytestmark = pytest.mark.anyio


async def test_a_turn_tells_its_whole_story_in_order(chat: ChatUser) -> None:
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
    assert (ended.status, ended.usage) == (TurnStatus.COMPLETED, UsageShown(model="demo"))
    assert ended.started_at
    assert ended.finished_at


@pytest.mark.parametrize("fails", [False, True])
async def test_events_that_wait_are_written_when_the_turn_ends(chat: ChatUser, *, fails: bool) -> None:
    session = await chat.session()
    turn = await chat.accept(session)
    assert await chat.start(session, turn.id)
    writer = EventWriter(cast("Any", SimpleNamespace(database=chat.database.of(chat.user))), turn)
    writer.open()
    writer.add_later(ContextRetrieved(agent_id=chat.agent_id, count=0, scores=[]))
    outcome = replace(failure(TurnStatus.FAILED), partial="It beg") if fails else answer("Hi")

    await chat.finish(session, turn.id, replace(outcome, noted=await writer.rest()))
    await writer.written()

    events = await chat.events(session)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    completed = [event for event in events if event.type == "message_completed"]
    assert [event.type for event in events[3:5]] == ["context_retrieved", "message_completed"]
    stored = await chat.database.read(lambda c: MessageRepository(c, chat.user).page(session, None, PageRequest(10)))
    numbers = {event.data["message_id"]: event.number for event in completed}
    assert numbers.items() <= {message.id: message.number for message in stored}.items()


@pytest.mark.req("CHT-12.7")
async def test_event_after_the_rest_is_written_once_and_alone(chat: ChatUser) -> None:
    session = await chat.session()
    turn = await chat.accept(session)
    assert await chat.start(session, turn.id)
    writer = EventWriter(cast("Any", SimpleNamespace(database=chat.database.of(chat.user))), turn)
    writer.open()
    found = ContextRetrieved(agent_id=chat.agent_id, count=0, scores=[])
    writer.add_later(found)

    rest = await writer.rest()
    writer.add(TaskStarted(task_id=turn.id, agent_id=chat.agent_id))
    await writer.written()

    assert rest == [found]
    assert [event.type for event in await chat.events(session)][3:] == ["task_started"]
    await chat.finish(session, turn.id, replace(answer("Hi"), noted=rest))
    assert [event.type for event in await chat.events(session)][3:6] == [
        "task_started",
        "context_retrieved",
        "message_completed",
    ]


async def test_event_that_can_wait_is_written_with_the_next_or_after_a_time(
    chat: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await chat.session()
    turn = await chat.accept(session)
    assert await chat.start(session, turn.id)
    writer = EventWriter(cast("Any", SimpleNamespace(database=chat.database.of(chat.user))), turn)
    writer.open()

    async def types() -> list[str]:
        return [event.type for event in await chat.events(session)][3:]

    found = ContextRetrieved(agent_id=chat.agent_id, count=0, scores=[])
    writer.add_later(found)
    writer.add(TaskStarted(task_id=turn.id, agent_id=chat.agent_id))
    await writer.written()
    assert await types() == ["context_retrieved", "task_started"]
    assert await writer.rest() == []

    monkeypatch.setattr(task_events, "HELD_SECONDS", 0.01)
    writer.add_later(found)
    async with asyncio.timeout(30):
        while len(await types()) < 3:  # noqa: ASYNC110 - a background task writes it
            await asyncio.sleep(0.01)
    assert (await types())[-1] == "context_retrieved"


async def test_the_history_has_messages_and_answers_in_order_of_time(chat: ChatUser) -> None:
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


async def test_prompt_has_the_conversation_in_the_order_of_its_turns(chat: ChatUser) -> None:
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


async def test_the_next_turn_starts_only_after_the_one_before_it(chat: ChatUser) -> None:
    session = await chat.session()
    first, second = await chat.accept(session), await chat.accept(session)

    assert not await chat.start(session, second.id)
    assert await chat.start(session, first.id)
    assert not await chat.start(session, first.id)
    assert not await chat.start(session, second.id)
    assert await chat.finish(session, first.id)
    assert await chat.start(session, second.id)


async def test_ten_messages_may_wait_and_the_next_is_refused_with_nothing_stored(chat: ChatUser) -> None:
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
    chat: ChatUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "MAX_WAITING_FOR_AGENT", 3)
    for _ in range(3):
        await chat.accept(await chat.session())

    with pytest.raises(AgentQueueFull):
        await chat.accept(await chat.session())


@pytest.mark.parametrize("many", [1, 10])
async def test_the_same_key_and_message_is_the_same_turn(chat: ChatUser, many: int) -> None:
    session = await chat.session()
    turns = await asyncio.gather(*(chat.accept(session, chat.message("Once", key="k")) for _ in range(many)))

    assert len({turn.id for turn in turns}) == 1
    assert [event.type for event in await chat.events(session)] == ["message_created"]
    with pytest.raises(IdempotencyKeyReused):
        await chat.accept(session, chat.message("Another", key="k"))
    assert (await chat.accept(await chat.session(), chat.message("Another", key="k"))).id != turns[0].id


@pytest.mark.parametrize("status", [TurnStatus.FAILED, TurnStatus.TIMEOUT, TurnStatus.CANCELLED])
async def test_turn_ends_once_when_two_end_it_at_the_same_time(chat: ChatUser, status: TurnStatus) -> None:
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


async def test_another_users_session_can_be_neither_written_nor_read(chat: ChatUser) -> None:
    session = await chat.session()
    turn = await chat.accept(session)
    stranger = (await chat.database.run(create_account, "eve@example.org", None)).principal
    before = await chat.events(session)

    with pytest.raises(SessionNotFound):
        await chat.database.of(stranger).run(accept_message, session, chat.message())
    with pytest.raises(SessionNotFound):
        await chat.database.of(stranger).run(start_turn, turn, None, 10)
    with pytest.raises(SessionNotFound):
        await chat.database.of(stranger).run(end_turn, turn, answer("mine"))
    with pytest.raises(SessionNotFound):
        await chat.database.read(read_events, stranger, session, 0, 100)
    with pytest.raises(TurnNotFound):
        await chat.database.read(lambda c: TurnRepository(c, stranger).get(session, turn.id))
    assert await chat.events(session) == before


async def test_a_deleted_session_takes_everything_along(chat: ChatUser) -> None:
    session = await chat.session()
    turn = await chat.accept(session)

    await chat.database.of(chat.user).run(delete_session, session)

    with pytest.raises(SessionNotFound):
        await chat.events(session)
    with pytest.raises(TurnNotFound):
        await chat.turn(session, turn.id)


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_happens_at_once_numbers_have_no_holes_and_turns_keep_their_order(
    chat: ChatUser, seed: int
) -> None:
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
    chat: ChatUser, content: str, title: str
) -> None:
    session = await chat.session()
    await chat.accept(session, chat.message(content))
    await chat.accept(session, chat.message("Another"))

    found = await chat.database.read(lambda c: SessionRepository(c, chat.user).get(session))

    assert len(found.title) <= 60
    assert found.title.rstrip("…").strip() == title.rstrip("…").strip()


async def test_title_given_by_the_user_is_not_replaced(chat: ChatUser) -> None:
    new = NewSession(project_id=chat.project_id, title="Mine")
    session = (await chat.database.of(chat.user).run(create_session, uuid7(), new, RULES)).session_id
    await chat.accept(session, chat.message("Hello"))

    assert (await chat.database.read(lambda c: SessionRepository(c, chat.user).get(session))).title == "Mine"
