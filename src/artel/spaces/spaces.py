"""The worker spaces of this process; each is created once, even by concurrent requests."""

import asyncio
from collections.abc import Awaitable, Callable

from artel.auth.principal import Principal
from artel.brain import prices
from artel.brain.tokens import count_tokens
from artel.db.tx import Lease
from artel.errors import ProjectNotFound
from artel.memory_tuning import freeze_startup_objects
from artel.projects.repository import ProjectRepository
from artel.spaces.leases import acquire_space, release_space
from artel.spaces.services import SpaceServices
from artel.spaces.worker_space import WorkerSpace


class Spaces:
    """Creates, holds and ends worker spaces. `host_id` is set if other processes run spaces too."""

    def __init__(self, services: SpaceServices, host_id: str | None) -> None:
        self._services = services
        self._host_id = host_id
        self._spaces: dict[int, WorkerSpace] = {}
        # Keyed by user too, so that a request for another user's project fails alone.
        self._making: dict[tuple[int, int], asyncio.Task[WorkerSpace]] = {}
        self._ending: dict[int, asyncio.Task[None]] = {}
        self._loading: asyncio.Task[None] | None = None
        self.recover: Callable[[Principal, Lease], Awaitable[None]] | None = None

    @property
    def all(self) -> list[WorkerSpace]:
        return list(self._spaces.values())

    def peek(self, project_id: int) -> WorkerSpace | None:
        """Return a project's space if this process has it."""
        return self._spaces.get(project_id)

    async def get(self, principal: Principal, project_id: int) -> WorkerSpace:
        """Return a project's space, created on first use; raise SpaceElsewhere if another process runs it."""
        space = self._spaces.get(project_id)
        if space is None:
            key = principal.user_id, project_id
            making = self._making.get(key)
            if making is None:
                making = asyncio.get_running_loop().create_task(self._make(principal, project_id))
                self._making[key] = making
                making.add_done_callback(lambda task: self._made(key, task))
            space = await asyncio.shield(making)
        if space.principal.user_id != principal.user_id:
            raise ProjectNotFound("Project not found")
        return space

    async def clean_up(self, project_id: int) -> None:
        """Shut a project's space down gracefully; the next request creates another."""
        ending = self._ending.get(project_id)
        if ending is None:
            space = self._spaces.pop(project_id, None)
            if space is None:
                return
            ending = asyncio.get_running_loop().create_task(self._end(space))
            self._ending[project_id] = ending
            ending.add_done_callback(lambda _: self._ending.pop(project_id, None))
        await asyncio.shield(ending)

    def drop(self, project_id: int) -> WorkerSpace | None:
        """Drop a space that another process took over, or whose project was deleted."""
        return self._spaces.pop(project_id, None)

    async def discard(self, project_id: int) -> None:
        """Stop the space of a deleted project at once."""
        space = self._spaces.pop(project_id, None)
        if space is not None:
            await space.discard()

    async def close(self) -> None:
        await asyncio.gather(*(self.clean_up(project_id) for project_id in list(self._spaces)))
        await asyncio.gather(*self._ending.values(), return_exceptions=True)

    async def _make(self, principal: Principal, project_id: int) -> WorkerSpace:
        # Raises ProjectNotFound for another user's project before anything is loaded or leased.
        await self._services.database.read(lambda connection: ProjectRepository(connection, principal).get(project_id))
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(_load_slow_parts())
        if ending := self._ending.get(project_id):
            await asyncio.shield(ending)
        lease, version = None, 0
        if self._host_id is not None:
            taken = await self._services.database.run(acquire_space, self._host_id, principal.user_id, project_id)
            lease, version = taken.lease, taken.config_version
            if taken.had_owner and self.recover is not None:
                await self.recover(principal, lease)
        space = WorkerSpace(principal, project_id, self._services, lease, version)
        try:
            await space.initialise()
        except BaseException:
            if lease is not None:
                await self._services.database.run(release_space, lease)
            raise
        self._spaces[project_id] = space
        return space

    def _made(self, key: tuple[int, int], task: asyncio.Task[WorkerSpace]) -> None:
        del self._making[key]
        if not task.cancelled():
            task.exception()  # retrieved, even if no request waits for it any more

    async def _end(self, space: WorkerSpace) -> None:
        await space.cleanup()
        if space.lease is not None:
            await self._services.database.run(release_space, space.lease)


async def _load_slow_parts() -> None:
    """Read what the first turn needs while the first space is made: the tokenizer and the prices.

    Not before, because a server that nobody uses does without; not on the event loop, because it takes a second.
    """
    await asyncio.to_thread(count_tokens, "Hello")
    await prices.load()
    freeze_startup_objects()
