"""The worker space of a project: agent cache, agent bus, agent memory, health."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from artel.agent_memory.repository import NewMemory, StoredMemory
from artel.agent_memory.service import AgentContextStore, Recalled
from artel.agents import transactions as agent_rows
from artel.auth.principal import Principal
from artel.contract.http import Agent
from artel.contract.spaces import SpaceSample, SpaceState
from artel.db.tx import Lease
from artel.errors import AgentNotFound, ArtelError, DatabaseUnavailable, TaskStopped
from artel.logs import get_logger
from artel.projects.repository import ProjectRepository
from artel.projects.transactions import get_project
from artel.spaces.agent_bus import AgentBus
from artel.spaces.agent_cache import AgentCache
from artel.spaces.agents_md import Guidance
from artel.spaces.figures import AgentFigures, AgentStatus, SpaceFigures
from artel.spaces.services import SpaceServices
from artel.tools.policy import RateLimit
from artel.vector_index.store import EVERYTHING, Filter

ENSURE_SECONDS = 5.0
STORE_SECONDS = 5.0
SAMPLES = 120
RATE_TASKS = 10  # minimum before an error rate counts
NAMED_AGENTS = 10  # in one message

Health = Literal["healthy", "degraded", "unhealthy"]
Severity = Literal["warning", "critical"]

log = get_logger(__name__)


class SpaceClosed(Exception):
    """The worker space was shut down while a task waited in it; the task runs in the next one."""

    is_agents_fault = False


@dataclass(frozen=True, slots=True)
class SpaceFinding:
    """A problem of a worker space; `subject` distinguishes findings of one kind."""

    kind: str
    subject: str
    severity: Severity
    message: str


class WorkerSpace:
    """The run-time resources of one project."""

    def __init__(
        self,
        principal: Principal,
        project_id: int,
        services: SpaceServices,
        lease: Lease | None = None,
        config_version: int = 0,
    ) -> None:
        self.principal = principal
        self.project_id = project_id
        self.user_prefix = f"user{principal.user_id}_project{project_id}"
        self.services = services
        self.lease = lease
        self.database = services.database.of(principal, lease)  # for transactions of this host
        self.figures = SpaceFigures()
        self.bus = AgentBus(partial(services.project_events.agent_changed, principal, project_id))
        self.cache = AgentCache(
            self.user_prefix, self._load, services.shared_cache, max_size=services.settings.agent_cache_size
        )
        self.samples: deque[SpaceSample] = deque(maxlen=SAMPLES)
        self.hung: dict[int, str] = {}
        self._names: dict[int, str] = {}  # of the agents that the project has
        self._unable_since: float | None = None
        self.closed = False
        self.open_alerts: set[tuple[str, str]] | None = None  # None: not looked up yet
        self._began = self._used = time.monotonic()
        self.cache.config_version = config_version
        self.accepts_tasks = True  # False: what waits is left to whoever runs the space next
        self.is_cut_off = False  # whether its lease may be over: what nodes do is left to whoever runs it next
        self.root_id: int | None = None  # the agent that created the team
        per_minute = services.settings.max_api_calls_per_minute
        self.pace = RateLimit(per_minute, calls=services.tool_calls, key=(principal.user_id, project_id))
        self.guidance = self._new_guidance()
        self._handled = 0
        self._left = asyncio.Event()
        self._none_handled = asyncio.Event()
        self._none_handled.set()

    def _new_guidance(self) -> Guidance:
        return Guidance(self.services, self.principal, self.project_id, self.lease.epoch if self.lease else 0)

    # Life cycle

    async def initialise(self) -> None:
        """Register all agents of the project and create missing collections."""
        project = await self.services.database.read(get_project, self.principal, self.project_id)
        self._names = {agent.id: agent.name for agent in project.agents}
        for agent in project.agents:
            self.bus.register(agent.id, agent.concurrency_limit)
        self.root_id = next((agent.parent_agent_id for agent in project.team), None)
        await self._ensure_collections([self._context_of(agent).ensure for agent in project.agents if agent.memory])
        self.sample_every(0)  # charts begin with the space
        log.info(
            "space_initialised",
            user_prefix=self.user_prefix,
            user_id=self.principal.user_id,
            project_id=self.project_id,
            agents=len(project.agents),
        )

    async def cleanup(self) -> None:
        """Shut down gracefully: drain the bus, wait until turns are stored, clear the cache."""
        self.closed = True
        await self.bus.close(self.services.settings.drain_seconds, SpaceClosed())
        self._left.set()
        try:  # finished turns are stored, which needs the lease
            async with asyncio.timeout(STORE_SECONDS):
                await self._none_handled.wait()
        except TimeoutError:
            log.warning("turns_not_stored", project_id=self.project_id, turns=self._handled)
        await self.cache.clear()
        log.info("space_cleaned_up", user_prefix=self.user_prefix, project_id=self.project_id)

    @property
    def is_ending(self) -> bool:
        """Whether nothing should be started here any more."""
        return self.closed or not self.accepts_tasks

    async def is_left(self) -> None:
        """Wait until the space is shut down; planning stops then and is done by the next space."""
        await self._left.wait()

    async def reset(self) -> None:
        """Stop every task, clear cache, figures and errors, and initialise again.

        Memories are data of the user and stay; their collections are ensured again.
        """
        await self.bus.close(0, TaskStopped("The worker space was reset."))
        self.bus.forget_all()
        await self.cache.clear()
        self.hung.clear()
        self.figures = SpaceFigures()
        self.samples.clear()
        self.guidance = self._new_guidance()
        self._began = self._used = time.monotonic()
        self._unable_since = None
        await self.initialise()
        log.info("space_reset", user_prefix=self.user_prefix, project_id=self.project_id)

    async def discard(self) -> None:
        """Stop at once: the project was deleted."""
        self.closed = True
        await self.bus.close(0, TaskStopped("The project was deleted."))
        await self.cache.clear()
        log.info("space_discarded", user_prefix=self.user_prefix, project_id=self.project_id)

    @property
    def idle_seconds(self) -> float:
        """Seconds since the space was last used; 0 while it is busy."""
        busy = self.bus.active_tasks or self.bus.queued_tasks or self._handled
        return 0.0 if busy else time.monotonic() - self._used

    # Agents

    async def agent(self, agent_id: int) -> Agent:
        """Return an agent from the cache; a new one is registered on the bus."""
        if self.closed:
            raise SpaceClosed
        self._used = time.monotonic()
        agent = await self.cache.get(agent_id)
        if self.bus.is_new(agent_id):
            self._names[agent_id] = agent.name
            self.bus.register(agent_id, agent.concurrency_limit)
        return agent

    async def invalidate_agent(self, agent_id: int) -> None:
        """Drop the agent's cached configuration, and register it again once its tasks are over."""
        await self.cache.invalidate(agent_id)
        if self.bus.knows(agent_id):
            agent = await self.cache.get(agent_id)
            self._names[agent_id] = agent.name
            self.bus.renew(agent_id, agent.concurrency_limit, self.services.settings.drain_seconds)

    async def clear_agent_cache(self) -> None:
        """Drop every agent's cached configuration; the bus is not changed."""
        await self.cache.clear()

    def get_agent_status(self, agent_id: int) -> AgentStatus:
        return self.bus.status(agent_id)

    def get_agent_metrics(self, agent_id: int) -> AgentFigures:
        return self.bus.metrics(agent_id)

    async def register_agent(self, agent_id: int) -> None:
        agent = await self.cache.get(agent_id)
        self._names[agent_id] = agent.name
        self.hung.pop(agent_id, None)
        self.bus.register(agent_id, agent.concurrency_limit)
        if agent.memory:
            await self._ensure_collections([partial(self.ensure_agent_collection, agent_id)])

    async def deregister_agent(self, agent_id: int) -> None:
        """Take an agent off the bus until it is registered again; its running tasks are drained."""
        await self.bus.take_off(agent_id, self.services.settings.drain_seconds)

    async def remove_agent(self, agent_id: int) -> None:
        """Release the resources of a deleted agent."""
        await self.deregister_agent(agent_id)
        self.bus.forget(agent_id)
        self.hung.pop(agent_id, None)
        self._names.pop(agent_id, None)
        await self.cache.invalidate(agent_id)

    # Memory

    async def get_agent_context_store(self, agent_id: int) -> AgentContextStore:
        return self._context_of(await self.cache.get(agent_id))

    async def ensure_agent_collection(self, agent_id: int) -> None:
        await (await self.get_agent_context_store(agent_id)).ensure()

    async def search_context(
        self, agent_id: int, query: str, top_k: int = 5, where: Filter = EVERYTHING
    ) -> list[Recalled]:
        """Return the memories of an agent that match best."""
        return await (await self.get_agent_context_store(agent_id)).search(query, top_k, where)

    async def add_context(self, agent_id: int, interaction: NewMemory) -> StoredMemory:
        async with self.services.storage.reserved(self.principal, len(interaction.content.encode())):
            return await (await self.get_agent_context_store(agent_id)).add(interaction)

    async def clear_context(self, agent_id: int) -> int:
        """Delete all memories of an agent and return their number."""
        return await (await self.get_agent_context_store(agent_id)).clear()

    # Work

    @contextmanager
    def handling_turn(self) -> Iterator[None]:
        """Count a turn that is run here: the space is in use, and `cleanup` waits until its end is stored."""
        self._used = time.monotonic()
        self._handled += 1
        self._none_handled.clear()
        try:
            yield
        finally:
            self._handled -= 1
            if not self._handled:
                self._none_handled.set()

    # Monitoring

    def get_metrics(self) -> SpaceState:
        """Return the metrics of this space (UWS-25) and of its chat (CHT-06.4)."""
        return SpaceState(
            user_id=self.principal.user_id,
            project_id=self.project_id,
            user_prefix=self.user_prefix,
            active_agents=len(self.bus.registered),
            cache_size=len(self.cache),
            queued_tasks=self.bus.queued_tasks,
            active_tasks=self.bus.active_tasks,
            total_tasks_processed=self.bus.total_processed(),
            uptime=round(time.monotonic() - self._began, 3),
            is_healthy=not self.closed and not any(one.severity == "critical" for one in self.findings()),
            direct_calls_count=self.figures.direct.count,
            orchestrated_calls_count=self.figures.orchestrated.count,
            direct_average_ms=self.figures.direct.average_ms,
            orchestrated_average_ms=self.figures.orchestrated.average_ms,
            history=list(self.samples),
        )

    async def health(self) -> tuple[Health, list[SpaceFinding]]:
        """Return the health of the space and its findings."""
        findings = self.findings()
        try:
            await self.services.database.read(lambda c: ProjectRepository(c, self.principal).get(self.project_id))
        except DatabaseUnavailable as failure:
            findings.append(SpaceFinding("database", "", "critical", failure.detail))
        if self.closed or any(one.severity == "critical" for one in findings):
            return "unhealthy", findings
        return ("degraded" if findings else "healthy"), findings

    def findings(self) -> list[SpaceFinding]:
        return [*self._findings_of_team(), *self._findings_of_agents(), *self._findings_of_parts()]

    def take_repair(self) -> bool:
        """Return True once per period in which no agent worked for so long that the space should be reset."""
        now = time.monotonic()
        if not self._is_unable():
            self._unable_since = None
        elif self._unable_since is None:
            self._unable_since = now
        elif now - self._unable_since >= self.services.settings.space_reset_after_seconds:
            self._unable_since = now
            return True
        return False

    def sample_every(self, seconds: float) -> None:
        """Store a sample of the metrics, unless the last one is younger than `seconds`."""
        if self.samples and (datetime.now(UTC) - self.samples[-1].at).total_seconds() < seconds:
            return
        self.samples.append(
            SpaceSample(
                at=datetime.now(UTC),
                active_tasks=self.bus.active_tasks,
                queued_tasks=self.bus.queued_tasks,
                total_tasks_processed=self.bus.total_processed(),
            )
        )

    def _is_unable(self) -> bool:
        """Return whether every agent on the bus is in error, or hung in its last task."""
        registered = self.bus.registered
        return bool(registered) and all(
            agent_id in self.hung or self.bus.status(agent_id) is AgentStatus.ERROR for agent_id in registered
        )

    def _findings_of_team(self) -> list[SpaceFinding]:
        findings = []
        missing = sorted(agent_id for agent_id in self._names if not self.bus.knows(agent_id))
        if missing:
            names = ", ".join(self._names[agent_id] for agent_id in missing[:NAMED_AGENTS])
            more = f" and {len(missing) - NAMED_AGENTS} more" if len(missing) > NAMED_AGENTS else ""
            message = f"{len(missing)} of {len(self._names)} agents are not on the bus: {names}{more}. Register them."
            severity: Severity = "critical" if len(missing) == len(self._names) else "warning"
            findings.append(SpaceFinding("agents_missing", "", severity, message))
        if self._is_unable():
            message = (
                "No agent works: each failed several times in a row, or hung. Check the model, or reset the space."
            )
            findings.append(SpaceFinding("no_agent_works", "", "critical", message))
        return findings

    def _findings_of_agents(self) -> list[SpaceFinding]:
        findings = []
        for agent_id in sorted(self.bus.registered):
            metrics, (_, waiting) = self.bus.metrics(agent_id), self.bus.tasks(agent_id)
            if self.bus.status(agent_id) is AgentStatus.ERROR:
                findings.append(_finding("agent_error", agent_id, "has failed several times in a row"))
            elif metrics.tasks_processed >= RATE_TASKS and metrics.error_rate > self.services.settings.alert_error_rate:
                findings.append(_finding("error_rate", agent_id, f"fails {metrics.error_rate:.0%} of its tasks"))
            if waiting > self.services.settings.alert_queued_tasks:
                findings.append(_finding("long_queue", agent_id, f"has {waiting} tasks waiting"))
            if agent_id in self.hung:
                findings.append(_finding("hung_task", agent_id, f"made no progress in task {self.hung[agent_id]}"))
        return findings

    def _findings_of_parts(self) -> list[SpaceFinding]:
        services, memory, uptime = self.services, self.services.memories.indexer.state, time.monotonic() - self._began
        detail = memory.detail or "It does not answer."
        warnings = {
            "memory_index": not memory.ok and f"The memory index is down; agents answer without memory. {detail}",
            "message_bus": not services.signals.connected
            and "The message bus can't be reached; other processes hear of changes later.",
            "shared_cache": not services.shared_cache.reachable
            and "Redis can't be reached; agents are read from the database.",
            "cache_overflow": self.cache.overflows
            and "The agent cache is too small and forgets agents. Raise ARTEL_AGENT_CACHE_SIZE.",
            "uptime": uptime > services.settings.space_max_uptime_hours * 3600
            and f"The space has been up for {uptime / 3600:.1f} hours. Reset it when nothing runs.",
        }
        return [SpaceFinding(kind, "", "warning", message) for kind, message in warnings.items() if message]

    async def _load(self, agent_id: int) -> Agent:
        try:
            return await self.services.database.read(agent_rows.get_agent, self.principal, self.project_id, agent_id)
        except AgentNotFound:
            self.bus.forget(agent_id)
            raise

    def _context_of(self, agent: Agent) -> AgentContextStore:
        return self.services.memories.context_store(self.principal, self.project_id, agent.id, agent.name)

    async def _ensure_collections(self, ensure_each: Sequence[Callable[[], Awaitable[object]]]) -> None:
        """Create missing collections with a timeout: without them the space works degraded."""
        try:
            async with asyncio.timeout(ENSURE_SECONDS):
                for ensure in ensure_each:
                    await ensure()
        except (ArtelError, TimeoutError) as failure:
            log.warning("collections_not_ensured", project_id=self.project_id, reason=str(failure))


def _finding(kind: str, agent_id: int, what: str) -> SpaceFinding:
    return SpaceFinding(kind, str(agent_id), "warning", f"Agent {agent_id} {what}.")
