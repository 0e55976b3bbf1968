"""The agents of a worker space as they were configured when last looked: five minutes in memory, and in Redis."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from artel.contract.http import Agent
from artel.logs import get_logger

TTL_SECONDS = 300
MAX_CACHED = 1_000

log = get_logger(__name__)


class SharedCache(Protocol):
    """A cache beside the process. It may forget anything at any time, and never answers what was invalidated."""

    reachable: bool

    async def get(self, prefix: str, agent_id: int) -> Agent | None:
        """Return an agent of the worker space with this prefix, if it is there."""

    async def version(self, prefix: str) -> int:
        """Return a number that every invalidation raises; -1 when the cache can't be reached."""

    async def put(self, prefix: str, agent: Agent, version: int) -> None:
        """Keep an agent that was read after the version was asked for."""

    async def invalidate(self, prefix: str, agent_id: int) -> None:
        """Forget an agent."""

    async def clear(self, prefix: str) -> None:
        """Forget every agent of the worker space."""

    async def close(self) -> None:
        """Close the connection."""


class NoSharedCache:
    """There is none: the process's own memory is enough."""

    reachable = True

    async def get(self, prefix: str, agent_id: int) -> Agent | None:  # noqa: ARG002
        """Return nothing."""
        return None

    async def version(self, prefix: str) -> int:  # noqa: ARG002
        """Return that there is nothing to keep anything in."""
        return -1

    async def put(self, prefix: str, agent: Agent, version: int) -> None:
        """Keep nothing."""

    async def invalidate(self, prefix: str, agent_id: int) -> None:
        """Have nothing to forget."""

    async def clear(self, prefix: str) -> None:
        """Have nothing to forget."""

    async def close(self) -> None:
        """Have nothing to close."""


@dataclass(frozen=True, slots=True)
class _Entry:
    agent: Agent
    until: float


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
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._loading: dict[int, asyncio.Task[Agent]] = {}
        self._changes = 0
        self._max_size = max_size
        self._evicted_at = -float("inf")
        self.config_version = 0  # of the project's agents

    def __len__(self) -> int:
        return len(self._entries)

    async def note_version(self, version: int) -> None:
        """Forget every agent if the version of the project's agents is newer than the last one seen."""
        if version > self.config_version:
            self.config_version = version
            await self.clear()

    async def get(self, agent_id: int) -> Agent:
        """Return an agent; many who ask at once make it load once."""
        entry = self._entries.get(agent_id)
        if entry is not None and self._now() < entry.until:
            self._entries.move_to_end(agent_id)
            return entry.agent
        loading = self._loading.get(agent_id)
        if loading is None:
            loading = self._loading[agent_id] = asyncio.get_running_loop().create_task(self._fetch(agent_id))
            loading.add_done_callback(lambda task: self._loaded(agent_id, task))
        return await asyncio.shield(loading)

    def put(self, agent: Agent) -> None:
        """Keep an agent that was just read; the one that was used longest ago makes room."""
        self._entries[agent.id] = _Entry(agent, self._now() + TTL_SECONDS)
        self._entries.move_to_end(agent.id)
        while len(self._entries) > self._max_size:
            self._entries.popitem(last=False)
            self._evicted_at = self._now()

    @property
    def overflows(self) -> bool:
        """Whether an agent had to make room lately that would be there otherwise."""
        return self._now() - self._evicted_at < TTL_SECONDS

    def forget(self, agent_id: int) -> None:
        """Forget an agent in this process."""
        self._changes += 1
        self._entries.pop(agent_id, None)
        self._loading.pop(agent_id, None)  # who waits for it may have it; nobody else does

    def forget_all(self) -> None:
        """Forget every agent in this process."""
        self._changes += 1
        self._entries.clear()
        self._loading.clear()

    async def invalidate(self, agent_id: int) -> None:
        """Forget an agent everywhere."""
        self.forget(agent_id)
        await self._shared.invalidate(self.prefix, agent_id)
        self.forget(agent_id)  # what was read meanwhile may have come from there
        log.info("agent_invalidated", agent_id=agent_id)

    async def clear(self) -> None:
        """Forget every agent everywhere."""
        self.forget_all()
        self._evicted_at = -float("inf")
        await self._shared.clear(self.prefix)
        self.forget_all()  # what was read meanwhile may have come from there
        log.info("agent_cache_cleared", user_prefix=self.prefix)

    async def _fetch(self, agent_id: int) -> Agent:
        changes = self._changes
        agent = await self._shared.get(self.prefix, agent_id)
        if agent is None:
            version = await self._shared.version(self.prefix)
            agent = await self._load(agent_id)
            await self._shared.put(self.prefix, agent, version)
        if changes == self._changes:  # else it was changed while it was read
            self.put(agent)
        return agent

    def _loaded(self, agent_id: int, task: asyncio.Task[Agent]) -> None:
        if self._loading.get(agent_id) is task:
            del self._loading[agent_id]
        if not task.cancelled():
            task.exception()  # seen, even when nobody waits any more
