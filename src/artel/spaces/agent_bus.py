"""The queues of a worker space: one per agent, with as many slots as the agent may run tasks at once.

A task runs in the asyncio task of its caller, inside `async with bus.slot(...)`: an idle agent costs nothing, and a
task that crashes affects no other.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from artel.errors import AgentNotRegistered, AgentQueueFull, TaskStopped
from artel.logs import get_logger
from artel.spaces.figures import AgentFigures, AgentStatus, in_error

MAX_WAITING = 100
DRAIN_SECONDS = 30.0
END_SECONDS = 2.0  # for a task that was cancelled

StatusChanged = Callable[[int, AgentStatus, AgentStatus], None]
NOT_REGISTERED = "The agent was taken off the bus. Register it: POST …/agents/{id}/register"

log = get_logger(__name__)


@dataclass(eq=False, slots=True)
class _BusTask:
    """A task that waits or runs."""

    id: str
    granted: asyncio.Future[None]
    caller: asyncio.Task[Any] | None
    is_stopped: bool = False

    def stop(self) -> None:
        """Cancel the caller; its slot turns the cancellation into TaskStopped."""
        if not self.is_stopped and self.caller is not None:
            self.is_stopped = True
            self.caller.cancel()


@dataclass(slots=True)
class _Renewal:
    """An agent that is off the bus until its tasks are over, or the timer ends; then it is registered anew."""

    limit: int
    timer: asyncio.TimerHandle


@dataclass(slots=True)
class _Agent:
    """One agent on the bus."""

    limit: int
    figures: AgentFigures
    status: AgentStatus = AgentStatus.IDLE
    leaving: bool = False
    renewal: _Renewal | None = None
    waiting: deque[_BusTask] = field(default_factory=deque)
    running: dict[str, _BusTask] = field(default_factory=dict)
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def end_renewal(self) -> None:
        if self.renewal is not None:
            self.renewal.timer.cancel()
            self.renewal = None


class AgentBus:
    """Gives tasks to agents, never more at once than an agent may run."""

    def __init__(
        self, status_changed: StatusChanged = lambda *_: None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._status_changed = status_changed
        self.now = now
        self._agents: dict[int, _Agent] = {}
        self._figures: dict[int, AgentFigures] = {}  # they outlive a registration
        self._taken_off: set[int] = set()  # until they are registered again

    @property
    def registered(self) -> frozenset[int]:
        """The agents on the bus; not those that are about to be registered anew."""
        return frozenset(agent_id for agent_id, agent in self._agents.items() if agent.renewal is None)

    @property
    def queued_tasks(self) -> int:
        return sum(len(agent.waiting) for agent in self._agents.values())

    @property
    def active_tasks(self) -> int:
        return sum(len(agent.running) for agent in self._agents.values())

    def register(self, agent_id: int, concurrency_limit: int) -> None:
        """Put an agent on the bus, or change its limit; its failures in a row are forgiven."""
        agent = self._agents.get(agent_id)
        if agent is None:
            figures = self._figures.setdefault(agent_id, AgentFigures(self.now))
            agent = self._agents[agent_id] = _Agent(concurrency_limit, figures)
        agent.end_renewal()
        agent.limit = concurrency_limit
        agent.leaving = False
        self._taken_off.discard(agent_id)
        agent.figures.forgive()
        log.info("agent_registered", agent_id=agent_id, concurrency_limit=concurrency_limit)
        self._dispatch(agent_id, agent)

    def knows(self, agent_id: int) -> bool:
        """Return whether an agent is on the bus, or will be again without being registered by anybody."""
        return agent_id in self._agents

    def is_new(self, agent_id: int) -> bool:
        """Return whether an agent was never on the bus, or only before a reset."""
        return agent_id not in self._agents and agent_id not in self._taken_off

    def refuse_if_unable(self, agent_id: int) -> None:
        """Raise if the agent can't take a task now."""
        if agent_id in self._taken_off:
            raise AgentNotRegistered(NOT_REGISTERED)
        if self.status(agent_id) is AgentStatus.ERROR:
            raise in_error("This agent")

    def renew(self, agent_id: int, concurrency_limit: int, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Take an agent off the bus, and register it anew when the tasks that it runs are over.

        Nothing new is begun meanwhile; what waits keeps its place and goes on afterwards. A task that takes longer
        than `drain_seconds` keeps the agent off the bus no longer: it goes on, and counts towards the new limit.
        """
        agent = self._agents.get(agent_id)
        if agent is None or agent.leaving:
            return
        if agent.renewal is not None:
            agent.renewal.limit = concurrency_limit
            return
        log.info("agent_deregistered", agent_id=agent_id)
        timer = asyncio.get_running_loop().call_later(drain_seconds, self._renewed, agent_id, agent)
        agent.renewal = _Renewal(concurrency_limit, timer)
        self._dispatch(agent_id, agent)

    async def take_off(self, agent_id: int, drain_seconds: float) -> None:
        """Take an agent off the bus until it is registered again."""
        self._taken_off.add(agent_id)
        await self.deregister(agent_id, drain_seconds)

    async def deregister(
        self, agent_id: int, drain_seconds: float = DRAIN_SECONDS, reason: Exception | None = None
    ) -> None:
        """Take an agent off the bus: what waits is refused, what runs may finish, or is ended after a while."""
        agent = self._agents.get(agent_id)
        if agent is None:
            return
        agent.leaving = True
        agent.end_renewal()
        for task in agent.waiting:
            if not task.granted.done():
                task.granted.set_exception(reason or AgentNotRegistered(NOT_REGISTERED))
        agent.waiting.clear()
        if not await _is_idle(agent, drain_seconds):
            for task in agent.running.values():
                task.stop()
            if not await _is_idle(agent, END_SECONDS):
                log.warning("tasks_not_stopped", agent_id=agent_id, tasks=list(agent.running))
        if agent.leaving and self._agents.get(agent_id) is agent:
            del self._agents[agent_id]
            log.info("agent_deregistered", agent_id=agent_id)

    def forget_all(self) -> None:
        """Begin anew with the figures of all agents, also of those that were taken off."""
        self._figures.clear()
        self._taken_off.clear()

    def forget(self, agent_id: int) -> None:
        """Forget the figures of an agent that is gone for good."""
        self._figures.pop(agent_id, None)
        self._taken_off.discard(agent_id)

    @asynccontextmanager
    async def slot(self, agent_id: int, task_id: str) -> AsyncIterator[None]:
        """Wait for a free slot of the agent and hold it for the block; raise TaskStopped there if the bus stops it."""
        agent = self._agents.get(agent_id)
        if agent is None or agent.leaving:
            raise AgentNotRegistered(NOT_REGISTERED)
        if len(agent.waiting) >= MAX_WAITING:
            raise AgentQueueFull(
                f"{MAX_WAITING} tasks are waiting for this agent. Try again in a moment.", retry_after=5
            )
        task = _BusTask(task_id, asyncio.get_running_loop().create_future(), asyncio.current_task())
        cancellations = task.caller.cancelling() if task.caller else 0
        started, failed = self.now(), False
        agent.waiting.append(task)
        self._dispatch(agent_id, agent)
        try:
            await task.granted
            started = self.now()
            yield
        except asyncio.CancelledError as cancelled:
            # Only the bus has cancelled it: `asyncio.timeout` decides so too.
            if task.is_stopped and task.caller and task.caller.uncancel() <= cancellations:
                raise TaskStopped("The task was stopped before it was done.") from cancelled
            raise
        except Exception as failure:
            failed = getattr(failure, "is_agents_fault", True)
            raise
        finally:
            if agent.running.get(task_id) is task:
                del agent.running[task_id]
                agent.figures.ended(self.now() - started, failed=failed)
            elif task in agent.waiting:
                agent.waiting.remove(task)
            self._dispatch(agent_id, agent)

    def status(self, agent_id: int, without: int = 0) -> AgentStatus:
        """Return how an agent is doing, or would be doing without some of its tasks."""
        agent = self._agents.get(agent_id)
        return agent.figures.status(max(0, len(agent.running) - without), agent.limit) if agent else AgentStatus.IDLE

    def tasks(self, agent_id: int) -> tuple[int, int]:
        agent = self._agents.get(agent_id)
        return (len(agent.running), len(agent.waiting)) if agent else (0, 0)

    def metrics(self, agent_id: int) -> AgentFigures:
        return self._figures.get(agent_id) or AgentFigures(self.now)

    def total_processed(self) -> int:
        return sum(figures.tasks_processed for figures in self._figures.values())

    async def close(self, drain_seconds: float = DRAIN_SECONDS, reason: Exception | None = None) -> None:
        await asyncio.gather(*(self.deregister(agent_id, drain_seconds, reason) for agent_id in list(self._agents)))

    def _dispatch(self, agent_id: int, agent: _Agent) -> None:
        """Grant free slots to waiting tasks."""
        if agent.renewal is not None and not agent.running:
            self._renewed(agent_id, agent)  # dispatches
            return
        while agent.waiting and len(agent.running) < agent.limit and not agent.leaving and agent.renewal is None:
            task = agent.waiting.popleft()
            agent.running[task.id] = task
            task.granted.set_result(None)
        status = agent.figures.status(len(agent.running), agent.limit)
        if status is not agent.status:
            before, agent.status = agent.status, status
            self._status_changed(agent_id, before, status)
        if not agent.running:
            agent.idle.set()

    def _renewed(self, agent_id: int, agent: _Agent) -> None:
        if agent.renewal is not None and self._agents.get(agent_id) is agent:
            self.register(agent_id, agent.renewal.limit)


async def _is_idle(agent: _Agent, seconds: float) -> bool:
    """Wait until an agent runs no task; return False if it still does after some seconds."""
    if not agent.running:
        return True
    agent.idle.clear()
    try:
        async with asyncio.timeout(seconds):
            await agent.idle.wait()
    except TimeoutError:
        return not agent.running
    return True
