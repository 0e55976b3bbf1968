"""The methods of a worker space, called as the server calls them, over a real database and memory index."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from artel.agent_memory.repository import NewMemory
from artel.alerts.transactions import list_alerts, raise_alert
from artel.auth.accounts import ensure_local_account
from artel.brain import tokens
from artel.brain.errors import ModelTimedOut
from artel.container import Container
from artel.contract.chat import MessageResponse
from artel.contract.http import Agent, NewSession, PageRequest
from artel.contract.spaces import Alert
from artel.db import sqlite_writer
from artel.errors import ToolFailed
from artel.ids import uuid7
from artel.projects.transactions import ensure_default_project
from artel.runs import direct_turn
from artel.runs.agent_run import run_agent
from artel.runs.task import ExecutionResult, Start, Task
from artel.runs.task_events import TaskEvents
from artel.sessions.transactions import create_session
from artel.settings import Settings
from artel.spaces import leases
from artel.spaces.operations import reset_space
from artel.spaces.periodic_checks import check_space
from artel.spaces.worker_space import WorkerSpace
from artel.turns.transactions import AgentAtWork
from artel.turns.waiters import Ended
from artel.vector_index.store import Filter

pytestmark = pytest.mark.anyio


@pytest.fixture
async def container(tmp_path: Path) -> AsyncIterator[Container]:
    opened = await Container.open(Settings(data_dir=tmp_path))
    yield opened
    await opened.close()


@pytest.fixture
async def space(container: Container) -> WorkerSpace:
    account = await container.database.run(ensure_local_account)
    project = await container.database.of(account.principal).run(ensure_default_project, container.project_rules)
    assert container.spaces is not None
    return await container.spaces.get(account.principal, project.id)


async def indexed(container: Container) -> None:
    """Wait until nothing is left to be indexed: on a busy machine the background has to help."""
    async with asyncio.timeout(60):
        while (await container.memories.health(count_waiting=True)).waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.req("UWS-17.1", "UWS-18.1")
async def test_the_context_store_of_an_agent_has_its_own_collection_which_is_made_if_missing(
    space: WorkerSpace, container: Container
) -> None:
    coder, analyzer, *_ = sorted(space.bus.registered)
    stores = [await space.get_agent_context_store(agent_id) for agent_id in (coder, analyzer)]
    names = [f"{space.user_prefix}_{name}_context" for name in ("agent_coder", "agent_analyzer")]
    index = container.memories.store
    await index.drop(names[0])
    assert names[0] not in await index.collections()

    await space.ensure_agent_collection(coder)

    assert names[0] in await index.collections()
    assert [store.collection for store in stores] == names


@pytest.mark.req("UWS-19.1", "UWS-19.2", "UWS-20.1")
async def test_added_context_is_found_with_scores_and_narrowed_by_type_success_and_date(
    space: WorkerSpace, container: Container
) -> None:
    coder, analyzer, *_ = sorted(space.bus.registered)
    now = datetime.now(UTC)
    old = NewMemory("the red door creaks", "lesson", success=False, task_id="t1", created_at=now - timedelta(days=9))
    new = NewMemory("the red door is locked", "note", metadata={"source": "test"})

    stored = [await space.add_context(coder, new_memory) for new_memory in (old, new)]
    await indexed(container)

    found = await space.search_context(coder, "red door")
    assert {memory.memory.id for memory in found} == {memory.id for memory in stored}
    assert all(match.score > 0 for match in found)
    assert [match.score for match in found] == sorted((match.score for match in found), reverse=True)
    assert (stored[0].task_id, stored[0].success, stored[0].type) == ("t1", False, "lesson")
    assert stored[0].created_at == old.created_at
    assert len(await space.search_context(coder, "red door", 1)) == 1
    for where, only in (
        (Filter(type="lesson"), old),
        (Filter(success=True), new),
        (Filter(since=now - timedelta(days=1)), new),
        (Filter(until=now - timedelta(days=1)), old),
    ):
        assert [match.memory.id for match in await space.search_context(coder, "red door", where=where)] == [only.id]
    assert await space.search_context(analyzer, "red door") == []


@pytest.mark.req("UWS-21.1")
async def test_cleared_context_is_gone_and_the_collection_stays(space: WorkerSpace, container: Container) -> None:
    coder, analyzer, *_ = sorted(space.bus.registered)
    for agent_id in (coder, coder, analyzer):
        await space.add_context(agent_id, NewMemory("the red door"))
    await indexed(container)

    assert await space.clear_context(coder) == 2

    index, collection = container.memories.store, (await space.get_agent_context_store(coder)).collection
    assert await index.count(collection) == 0
    assert collection in await index.collections()
    assert await space.search_context(coder, "red door") == []
    assert len(await space.search_context(analyzer, "red door")) == 1


@pytest.mark.req("UWS-08.2")
async def test_a_reset_makes_collections_again_keeps_memories_and_begins_the_uptime_anew(
    space: WorkerSpace, container: Container
) -> None:
    coder = min(space.bus.registered)
    await space.add_context(coder, NewMemory("the red door"))
    await indexed(container)
    collection, index = (await space.get_agent_context_store(coder)).collection, container.memories.store
    await index.drop(collection)
    space._began -= 1000
    before = space.get_metrics()

    await reset_space(space)
    await indexed(container)

    assert await index.count(collection) == 1
    assert [one.memory.content for one in await space.search_context(coder, "door")] == ["the red door"]
    assert before.uptime >= 1000 > space.get_metrics().uptime


@pytest.mark.req("UWS-10.4")
async def test_a_space_that_is_up_for_too_long_suggests_a_reset_which_cures_it(space: WorkerSpace) -> None:
    assert await space.health() == ("healthy", [])

    space._began -= 168 * 3600 + 1
    status, [finding] = await space.health()

    assert (status, finding.kind, finding.severity) == ("degraded", "uptime", "warning")
    assert "168.0 hours. Reset it" in finding.message
    await space.reset()
    assert await space.health() == ("healthy", [])


@pytest.mark.req("UWS-10.2", "UWS-25.1")
async def test_a_space_all_of_whose_agents_hang_is_unhealthy(space: WorkerSpace) -> None:
    *some, last = space.bus.registered
    space.hung.update(dict.fromkeys(some, "task"))
    assert ((await space.health())[0], space.get_metrics().is_healthy) == ("degraded", True)

    space.hung[last] = "task"

    assert ((await space.health())[0], space.get_metrics().is_healthy) == ("unhealthy", False)
    await space.register_agent(last)
    assert ((await space.health())[0], space.get_metrics().is_healthy) == ("degraded", True)


@pytest.mark.req("UWS-22.3")
@pytest.mark.parametrize(
    ("failure", "error_type", "error_code"),
    [
        (ToolFailed("It broke."), "execution", "tool_failed"),
        (ModelTimedOut("Too slow."), "timeout", "timeout"),
        (None, "unavailable", "agent_not_registered"),
    ],
)
async def test_a_failed_task_has_an_error_and_its_type_beside_the_exact_code(
    space: WorkerSpace, failure: Exception | None, error_type: str, error_code: str
) -> None:
    coder = min(space.bus.registered)
    if failure is None:
        await space.deregister_agent(coder)

    async def start(_agent: Agent, _at_work: AgentAtWork) -> Start:
        assert failure is not None
        raise failure

    listener = TaskEvents("task", coder, lambda _event: None)
    result = await run_agent(space, await space.agent(coder), Task("task", "Do it", start, listener))

    assert (result.success, result.error_type, result.error_code) == (False, error_type, error_code)
    assert result.error
    assert failure is None or result.error == str(failure)


def delay_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host see several times that a turn has ended before its run knows it, as on a busy machine."""
    call_in_loops, unfinished_of = sqlite_writer._call_in_loops, leases.unfinished_of
    looks = threading.Semaphore(0)

    def look(*args: Any) -> set[str]:
        unfinished = unfinished_of(*args)
        looks.release()
        return unfinished

    def resolve_late(jobs: list[Any], call: Any) -> None:
        hints = [hint for job in jobs if isinstance(job.result, tuple) for hint in job.result[-1]]
        if any(isinstance(hint, Ended) for hint in hints):
            while looks.acquire(blocking=False):
                pass  # looks before the commit
            all(looks.acquire(timeout=2) for _ in range(4))  # none comes when the run was cancelled, which is the fault
        call_in_loops(jobs, call)

    monkeypatch.setattr(leases, "unfinished_of", look)
    monkeypatch.setattr(sqlite_writer, "_call_in_loops", resolve_late)


@pytest.mark.req("UWS-25.1")
async def test_turn_that_is_stored_before_its_run_resumes_is_counted(
    space: WorkerSpace, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    delay_ends(monkeypatch)
    host, user = container.host, space.principal
    assert host is not None

    async def keep_looking() -> None:
        while True:
            host.work(space.project_id)
            await asyncio.sleep(0.005)

    looking = asyncio.create_task(keep_looking())
    session = await container.database.of(user).run(create_session, uuid7(), NewSession(), container.project_rules)
    for _ in range(3):
        turn = await container.chat.send(user, session.session_id, "Hello", "coder", None)
        assert isinstance(await container.chat.reply(user, turn, 30), MessageResponse)
    looking.cancel()

    async with asyncio.timeout(10):
        while space.figures.direct.count < 3:  # noqa: ASYNC110 - the last one is counted after it was answered
            await asyncio.sleep(0.01)


@pytest.mark.req("AGT-03.2")
async def test_long_memory_and_answer_are_not_counted_on_the_event_loop(
    space: WorkerSpace, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: dict[bool, list[int]] = {True: [], False: []}
    count = tokens._counted

    def counted(name: str, text: str) -> int:
        lengths[threading.current_thread() is threading.main_thread()].append(len(text))
        return count(name, text)

    async def answer_at_length(*arguments: Any) -> ExecutionResult:
        return replace(await run_agent(*arguments), response="It is locked. " * 1_000)

    monkeypatch.setattr(tokens, "_counted", counted)
    monkeypatch.setattr(direct_turn, "run_agent", answer_at_length)
    session = await container.database.of(space.principal).run(
        create_session, uuid7(), NewSession(), container.project_rules
    )
    await space.add_context(min(space.bus.registered), NewMemory("the red door " * 2_000))

    turn = await container.chat.send(space.principal, session.session_id, "The red door", "coder", None)
    answered = await container.chat.reply(space.principal, turn, 30)

    assert isinstance(answered, MessageResponse)
    assert 14_000 in lengths[False]
    assert max(lengths[False]) > 20_000
    assert max(lengths[True], default=0) <= tokens.INLINE_BYTES


@pytest.mark.req("UWS-10.3")
async def test_a_worker_space_leaves_the_alerts_of_the_node_registry_alone(
    container: Container, space: WorkerSpace
) -> None:
    await container.nodes.close()  # which would resolve the alert itself, because it knows no such node
    alert = Alert(
        id=uuid7(),
        project_id=space.project_id,
        kind="node_lost",
        severity="critical",
        message="Node writer-1 is lost.",
        raised_at=datetime.now(UTC),
        resolved_at=None,
    )
    await container.database.of(space.principal).run(raise_alert, alert, "writer-1")

    await check_space(space)

    page = await container.database.read(list_alerts, space.principal, space.project_id, PageRequest(10))
    assert [found.resolved_at for found in page.items] == [None]
