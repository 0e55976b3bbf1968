"""A cache of agent configurations for a worker space: five minutes in memory, and optionally in Redis."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from artel.contract.http import Agent
from artel.logs import get_logger

TTL_SECONDS = 300
MAX_CACHED = 1_000

log = get_logger(__name__)


class SharedCache:
    """A cache shared by processes; this one, of an embedded server, stores nothing.

    It may drop entries at any time, and never returns an invalidated one.
    """

    reachable = True

    async def get(self, prefix: str, agent_id: int) -> Agent | None:  # noqa: ARG002
        """Return a cached agent of the worker space with this prefix, or None."""
        return None

    async def version(self, prefix: str) -> int:  # noqa: ARG002
        """Return the version, which every invalidation increments; -1 if there is no cache, or it is unreachable."""
        return -1

    async def put(self, prefix: str, agent: Agent, version: int) -> None:
        """Store an agent that was read from the database after `version` was read."""

    async def invalidate(self, prefix: str, agent_id: int) -> None:
        """Drop an agent."""

    async def clear(self, prefix: str) -> None:
        """Drop all agents of the worker space."""

    async def close(self) -> None:
        """Close the connection."""


class AgentCache:
    """The cache of one worker space."""

    def __init__(
        self,
        prefix: str,
        load: Callable[[int], Awaitable[Agent]],
        shared: SharedCache,
        now: Callable[[], float] = time.monotonic,
        max_size: int = MAX_CACHED,
    ) -> None:
        self.prefix = prefix
        self._load = load
        self._shared = shared
        self._now = now
        self._entries: OrderedDict[int, tuple[Agent, float]] = OrderedDict()  # each with the end of its time to live
        self._loading: dict[int, asyncio.Task[Agent]] = {}
        self._changes = 0
        self._max_size = max_size
        self._evicted_at = -float("inf")
        self.config_version = 0  # of the project's agents

    def __len__(self) -> int:
        return len(self._entries)

    async def note_version(self, version: int) -> None:
        """Clear the cache if the version of the project's agents is newer than the last one seen."""
        if version > self.config_version:
            self.config_version = version
            await self.clear()

    async def get(self, agent_id: int) -> Agent:
        """Return an agent; concurrent requests load it once."""
        agent, until = self._entries.get(agent_id, (None, 0.0))
        if agent is not None and self._now() < until:
            self._entries.move_to_end(agent_id)
            return agent
        loading = self._loading.get(agent_id)
        if loading is None:
            loading = self._loading[agent_id] = asyncio.get_running_loop().create_task(self._fetch(agent_id))
            loading.add_done_callback(lambda task: self._loaded(agent_id, task))
        return await asyncio.shield(loading)

    def put(self, agent: Agent) -> None:
        """Store an agent; the least recently used entry makes room."""
        self._entries[agent.id] = (agent, self._now() + TTL_SECONDS)
        self._entries.move_to_end(agent.id)
        while len(self._entries) > self._max_size:
            self._entries.popitem(last=False)
            self._evicted_at = self._now()

    @property
    def overflows(self) -> bool:
        """Whether an entry was evicted recently that had not expired."""
        return self._now() - self._evicted_at < TTL_SECONDS

    def forget(self, agent_id: int) -> None:
        """Drop an agent from this process."""
        self._changes += 1
        self._entries.pop(agent_id, None)
        self._loading.pop(agent_id, None)  # requests that wait for it still get it, later ones load anew

    def forget_all(self) -> None:
        """Drop all agents from this process."""
        self._changes += 1
        self._entries.clear()
        self._loading.clear()

    async def invalidate(self, agent_id: int) -> None:
        """Drop an agent from this process and the shared cache."""
        self.forget(agent_id)
        await self._shared.invalidate(self.prefix, agent_id)
        self.forget(agent_id)  # an entry read in the meantime may be from the shared cache
        log.info("agent_invalidated", agent_id=agent_id)

    async def clear(self) -> None:
        """Drop all agents from this process and the shared cache."""
        self.forget_all()
        self._evicted_at = -float("inf")
        await self._shared.clear(self.prefix)
        self.forget_all()  # an entry read in the meantime may be from the shared cache
        log.info("agent_cache_cleared", user_prefix=self.prefix)

    async def _fetch(self, agent_id: int) -> Agent:
        changes = self._changes
        agent = await self._shared.get(self.prefix, agent_id)
        if agent is None:
            version = await self._shared.version(self.prefix)
            agent = await self._load(agent_id)
            await self._shared.put(self.prefix, agent, version)
        if changes == self._changes:  # otherwise it was invalidated while it was loaded
            self.put(agent)
        return agent

    def _loaded(self, agent_id: int, task: asyncio.Task[Agent]) -> None:
        if self._loading.get(agent_id) is task:
            del self._loading[agent_id]
        if not task.cancelled():
            task.exception()  # retrieved, even if no request waits for it any more
