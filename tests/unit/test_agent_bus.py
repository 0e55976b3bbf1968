"""The agent bus: slots, order, cancelling, draining, figures."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artel.errors import AgentNotRegistered, AgentQueueFull, TaskStopped
from artel.spaces.agent_bus import MAX_WAITING, AgentBus
from artel.spaces.figures import AgentStatus

pytestmark = pytest.mark.anyio

T = TypeVar("T")
Work = Callable[[], Awaitable[str]]


class Gate:
    """Work that begins when it is told, and ends when it is told."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self._open: dict[str, asyncio.Event] = {}
        self._changed = asyncio.Condition()

    def work(self, name: str) -> Work:
        self._open.setdefault(name, asyncio.Event())

        async def run() -> str:
            async with self._changed:
                self.begun.append(name)
                self._changed.notify_all()
            try:
                await self._open[name].wait()
            except asyncio.CancelledError:
                self.cancelled.append(name)
                raise
            return name

        return run

    def let_end(self, *names: str) -> None:
        for name in names:
            self._open[name].set()

    async def until(self, *names: str) -> None:
        async with asyncio.timeout(5), self._changed:
            await self._changed.wait_for(lambda: set(names) <= set(self.begun))


@pytest.fixture
def gate() -> Gate:
    return Gate()


async def in_slot(bus: AgentBus, agent_id: int, name: str, work: Callable[[], Awaitable[T]]) -> T:
    async with bus.slot(agent_id, name):
        return await work()


def start(bus: AgentBus, gate: Gate, name: str, agent_id: int = 1) -> asyncio.Task[str]:
    return asyncio.create_task(in_slot(bus, agent_id, name, gate.work(name)))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.req("UWS-05.1", "UWS-05.2")
async def test_no_more_tasks_run_at_once_than_the_agent_may_and_the_rest_waits_its_turn(gate: Gate) -> None:
    bus = AgentBus()
    bus.register(1, 2)
    tasks = [start(bus, gate, name) for name in "abcd"]
    await gate.until("a", "b")
    await settle()

    assert (gate.begun, bus.active_tasks, bus.queued_tasks) == (["a", "b"], 2, 2)
    gate.let_end("b")
    await gate.until("c")
    assert gate.begun == ["a", "b", "c"]
    gate.let_end("a", "c", "d")
    assert await asyncio.gather(*tasks) == list("abcd")
    assert (bus.active_tasks, bus.queued_tasks) == (0, 0)


@pytest.mark.req("UWS-05.1")
@given(
    limit=st.integers(1, 10),
    tasks=st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=40),
)
@settings(max_examples=60, deadline=None)
def test_whatever_comes_the_limit_holds_and_every_task_is_done_once(limit: int, tasks: list[tuple[int, bool]]) -> None:
    async def run() -> None:
        bus = AgentBus()
        bus.register(1, limit)
        running = most = 0
        done: list[int] = []

        def work(number: int, steps: int, fails: bool) -> Work:
            async def do() -> str:
                nonlocal running, most
                running += 1
                most = max(most, running)
                for _ in range(steps):
                    await asyncio.sleep(0)
                running -= 1
                done.append(number)
                if fails:
                    raise ValueError(str(number))
                return str(number)

            return do

        waiting = [in_slot(bus, 1, str(n), work(n, steps, fails)) for n, (steps, fails) in enumerate(tasks)]
        results = await asyncio.gather(*waiting, return_exceptions=True)

        assert most <= limit
        assert sorted(done) == list(range(len(tasks)))
        assert [isinstance(result, ValueError) for result in results] == [fails for _, fails in tasks]
        metrics = bus.metrics(1)
        assert (metrics.tasks_processed, metrics.tasks_failed) == (len(tasks), sum(fails for _, fails in tasks))

    asyncio.run(run())


@pytest.mark.req("UWS-05.1")
async def test_stopping_a_nested_task_leaves_the_outer_one_running(gate: Gate) -> None:
    bus = AgentBus()
    bus.register(1, 1)
    bus.register(2, 1)

    async def parent() -> str:
        try:
            return await in_slot(bus, 2, "child", gate.work("child"))
        except TaskStopped:
            return "the child was stopped"

    outer = asyncio.create_task(in_slot(bus, 1, "parent", parent))
    await gate.until("child")
    await bus.deregister(2, 0)
    assert await outer == "the child was stopped"

    bus.register(2, 1)
    gate.begun.clear()
    outer = asyncio.create_task(in_slot(bus, 1, "parent", parent))
    await gate.until("child")
    await settle()
    await bus.deregister(1, 0)
    with pytest.raises(TaskStopped):
        await outer
    assert (bus.active_tasks, bus.queued_tasks) == (0, 0)


@pytest.mark.req("UWS-05.1")
async def test_a_caller_that_is_cancelled_frees_its_slot_and_stays_cancelled(gate: Gate) -> None:
    bus = AgentBus()
    bus.register(1, 1)
    running, waiting = start(bus, gate, "running"), start(bus, gate, "waiting")
    await gate.until("running")

    waiting.cancel()
    running.cancel()
    results = await asyncio.gather(running, waiting, return_exceptions=True)

    assert all(isinstance(result, asyncio.CancelledError) for result in results)
    assert (gate.begun, bus.active_tasks, bus.queued_tasks) == (["running"], 0, 0)


async def test_tasks_begin_in_the_order_in_which_they_came(gate: Gate) -> None:
    bus = AgentBus()
    bus.register(1, 1)
    tasks = [start(bus, gate, name) for name in ("first", "second", "third")]

    gate.let_end("first", "second", "third")
    await asyncio.gather(*tasks)

    assert gate.begun == ["first", "second", "third"]


async def test_agents_do_not_wait_for_each_other(gate: Gate) -> None:
    bus = AgentBus()
    bus.register(1, 1)
    bus.register(2, 1)
    tasks = [start(bus, gate, "one"), start(bus, gate, "two", agent_id=2)]

    await gate.until("one", "two")
    gate.let_end("one", "two")
    await asyncio.gather(*tasks)


async def test_who_stops_waiting_takes_the_task_along(gate: Gate) -> None:
    bus = AgentBus()
    bus.register(1, 1)
    caller = start(bus, gate, "a")
    await gate.until("a")

    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await settle()

    assert gate.cancelled == ["a"]
    assert bus.active_tasks == 0


@pytest.mark.req("UWS-05.3", "UWS-16.1")
async def test_an_agent_that_leaves_finishes_what_runs_and_takes_nothing_new(gate: Gate) -> None:
    bus = AgentBus()
    bus.register(1, 1)
    running, waiting = start(bus, gate, "running"), start(bus, gate, "waiting")
    await gate.until("running")
    leaving = asyncio.create_task(bus.deregister(1))
    await settle()

    with pytest.raises(AgentNotRegistered):
        await in_slot(bus, 1, "new", gate.work("new"))
    with pytest.raises(AgentNotRegistered):
        await waiting
    assert not leaving.done()
    gate.let_end("running")
    await leaving

    assert await running == "running"
    assert bus.registered == frozenset()


@pytest.mark.req("UWS-16.2")
async def test_an_agent_that_takes_too_long_to_leave_is_ended(gate: Gate) -> None:
    bus = AgentBus()
    bus.register(1, 2)
    tasks = [start(bus, gate, "a"), start(bus, gate, "b")]
    await gate.until("a", "b")

    await bus.deregister(1, drain_seconds=0.01)

    assert gate.cancelled == ["a", "b"]
    assert bus.active_tasks == 0
    for task in tasks:
        with pytest.raises(TaskStopped):
            await task
    assert bus.metrics(1).tasks_failed == 0


@pytest.mark.req("UWS-15.1")
async def test_an_agent_that_is_registered_again_has_its_new_limit_at_once(gate: Gate) -> None:
    bus = AgentBus()
    bus.register(1, 1)
    tasks = [start(bus, gate, name) for name in "abc"]
    await gate.until("a")

    bus.register(1, 3)

    await gate.until("a", "b", "c")
    gate.let_end("a", "b", "c")
    await asyncio.gather(*tasks)


@pytest.mark.req("UWS-11.2")
async def test_a_renewed_agent_is_off_the_bus_until_its_tasks_are_over_and_then_goes_on(gate: Gate) -> None:
    bus = AgentBus()
    bus.register(1, 2)
    tasks = [start(bus, gate, name) for name in "abc"]
    await gate.until("a", "b")

    bus.renew(1, 1)
    bus.renew(1, 3)  # invalidated again: the newest limit counts
    tasks += [start(bus, gate, name) for name in "de"]
    gate.let_end("a")
    await tasks[0]
    await settle()

    assert (bus.registered, bus.knows(1)) == (frozenset(), True)
    assert (gate.begun, bus.active_tasks, bus.queued_tasks) == (["a", "b"], 1, 3)
    gate.let_end("b")
    await gate.until("c", "d", "e")
    assert bus.registered == {1}
    gate.let_end("c", "d", "e")
    assert await asyncio.gather(*tasks) == list("abcde")
    bus.renew(1, 2)
    assert bus.registered == {1}  # there was nothing to wait for


@pytest.mark.req("UWS-11.2")
async def test_a_long_task_keeps_a_renewed_agent_off_the_bus_no_longer_than_the_drain_time(gate: Gate) -> None:
    bus = AgentBus()
    bus.register(1, 1)
    tasks = [start(bus, gate, name) for name in "abc"]
    await gate.until("a")

    bus.renew(1, 2, drain_seconds=0.01)

    await gate.until("a", "b")
    await settle()
    assert (bus.registered, gate.begun, gate.cancelled) == (frozenset({1}), ["a", "b"], [])
    gate.let_end("a", "b", "c")
    assert await asyncio.gather(*tasks) == list("abc")


@pytest.mark.req("UWS-11.2", "UWS-16.1")
async def test_an_agent_that_leaves_the_bus_is_not_brought_back_by_a_renewal(gate: Gate) -> None:
    bus = AgentBus()
    bus.register(1, 1)
    task = start(bus, gate, "a")
    await gate.until("a")
    bus.renew(1, 1, drain_seconds=0.01)

    leaving = asyncio.create_task(bus.deregister(1))
    await settle()
    bus.renew(1, 1)
    gate.let_end("a")
    await leaving

    assert (await task, bus.registered, bus.knows(1)) == ("a", frozenset(), False)


async def test_a_hundred_tasks_may_wait_and_the_next_is_refused(gate: Gate) -> None:
    bus = AgentBus()
    bus.register(1, 1)
    tasks = [start(bus, gate, str(number)) for number in range(MAX_WAITING + 1)]
    await gate.until("0")
    await settle()

    with pytest.raises(AgentQueueFull):
        await in_slot(bus, 1, "one too many", gate.work("one too many"))

    gate.let_end(*(str(number) for number in range(MAX_WAITING + 1)))
    assert len(await asyncio.gather(*tasks)) == MAX_WAITING + 1


@pytest.mark.req("UWS-13.1", "UWS-13.2")
async def test_agent_status_follows_its_tasks_and_is_announced(gate: Gate) -> None:
    changes: list[tuple[int, str, str]] = []
    bus = AgentBus(lambda agent_id, before, after: changes.append((agent_id, before, after)))
    bus.register(1, 2)
    assert bus.status(1) is AgentStatus.IDLE
    a = start(bus, gate, "a")
    await gate.until("a")
    assert bus.status(1) is AgentStatus.PROCESSING
    b = start(bus, gate, "b")
    await gate.until("b")
    assert bus.status(1) is AgentStatus.AT_CAPACITY
    gate.let_end("a", "b")
    await asyncio.gather(a, b)

    assert bus.status(1) is AgentStatus.IDLE
    assert changes == [
        (1, "idle", "processing"),
        (1, "processing", "at_capacity"),
        (1, "at_capacity", "processing"),
        (1, "processing", "idle"),
    ]
    assert bus.status(2) is AgentStatus.IDLE
    assert 2 not in bus.registered


async def _fail(bus: AgentBus, times: int) -> None:
    async def broken() -> str:
        raise RuntimeError("broken")

    for number in range(times):
        with pytest.raises(RuntimeError):
            await in_slot(bus, 1, f"task {number}", broken)


async def _succeed(bus: AgentBus) -> None:
    async def fine() -> str:
        return "fine"

    await in_slot(bus, 1, "fine", fine)


@pytest.mark.req("UWS-13.3")
async def test_five_failures_in_a_row_are_an_error_that_ends_by_itself_or_by_registration() -> None:
    clock = [100.0]
    bus = AgentBus(now=lambda: clock[0])
    bus.register(1, 1)
    await _fail(bus, 4)
    await _succeed(bus)
    await _fail(bus, 4)
    assert bus.status(1) is AgentStatus.IDLE
    await _fail(bus, 1)
    assert bus.status(1) is AgentStatus.ERROR

    clock[0] += 29.9
    assert bus.status(1) is AgentStatus.ERROR
    clock[0] += 0.2
    assert bus.status(1) is AgentStatus.IDLE
    await _fail(bus, 1)  # still broken
    assert bus.status(1) is AgentStatus.ERROR
    bus.register(1, 1)
    assert bus.status(1) is AgentStatus.IDLE


@pytest.mark.req("UWS-14.1")
async def test_the_figures_of_an_agent_add_up() -> None:
    clock = [0.0]
    bus = AgentBus(now=lambda: clock[0])
    bus.register(1, 1)
    empty = bus.metrics(1)
    assert (empty.tasks_processed, empty.last_activity, empty.error_rate) == (0, None, 0)

    async def takes(seconds: float) -> None:
        clock[0] += seconds

    await in_slot(bus, 1, "a", lambda: takes(1))
    await in_slot(bus, 1, "b", lambda: takes(3))
    await _fail(bus, 2)

    metrics = bus.metrics(1)
    assert (metrics.tasks_processed, metrics.tasks_failed, metrics.error_rate) == (4, 2, 0.5)
    assert metrics.avg_processing_time == 1.0
    assert metrics.last_activity


async def test_an_idle_bus_has_no_tasks_of_its_own(gate: Gate) -> None:
    before = len(asyncio.all_tasks())
    bus = AgentBus()
    for agent_id in range(100):
        bus.register(agent_id, 3)
    assert len(asyncio.all_tasks()) == before
    task = start(bus, gate, "a")
    await gate.until("a")
    gate.let_end("a")
    await task
    await settle()

    assert len(asyncio.all_tasks()) == before
    await bus.close()
    assert bus.registered == frozenset()
