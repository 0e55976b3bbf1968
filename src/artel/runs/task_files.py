"""The task workspace of an agent, as its tools use it."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from artel.auth.principal import Principal
from artel.paths.beneath import Content, Listing, Written
from artel.spaces.services import SpaceServices
from artel.task_workspaces.owner import find_assignment, find_owner
from artel.task_workspaces.task_workspace import Info, Record, TaskWorkspace

T = TypeVar("T")


class AgentFiles:
    """Looks the agent's workspace up on every call, because families change; file access runs in a thread."""

    def __init__(self, services: SpaceServices, principal: Principal, project_id: int, agent_id: int) -> None:
        self._services = services
        self._principal = principal
        self._project_id = project_id
        self._agent_id = agent_id

    async def write(self, path: str, data: bytes) -> Written:
        """Create or replace a file, and create its folders."""
        await self._services.storage.take(self._principal, len(data))
        return await self._on_thread(lambda workspace: workspace.write(self._agent_id, path, data))

    async def read(self, path: str) -> Content:
        """Return the content of a file."""
        return await self._on_thread(lambda workspace: workspace.read(path, self._agent_id))

    async def list(self, path: str) -> Listing:
        """Return the entries of a folder."""
        return await self._on_thread(lambda workspace: workspace.list(path))

    async def info(self) -> Info:
        """Return the size of the workspace."""
        return await self._on_thread(TaskWorkspace.info)

    async def record(self) -> Record:
        """Return the stored record of the workspace."""
        assigned = await self._services.database.read(
            find_assignment, self._principal, self._project_id, self._agent_id
        )
        return await asyncio.to_thread(self._services.workspaces.record, *assigned)

    async def _on_thread(self, do: Callable[[TaskWorkspace], T]) -> T:
        owner_id = await self._services.database.read(find_owner, self._principal, self._project_id, self._agent_id)
        return await asyncio.to_thread(do, self._services.workspaces.of(owner_id))
