"""The task workspace of one agent, for its tools."""

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
    """Finds the workspace that the agent works in with every call, because families change; files wait on a thread."""

    def __init__(self, services: SpaceServices, principal: Principal, project_id: int, agent_id: int) -> None:
        self._services = services
        self._principal = principal
        self._project_id = project_id
        self._agent_id = agent_id

    async def write(self, path: str, data: bytes) -> Written:
        """Make a file with the folders that it needs, or replace it."""
        await self._services.storage.take(self._principal, len(data))
        return await self._on_thread(lambda workspace: workspace.write(self._agent_id, path, data))

    async def read(self, path: str) -> Content:
        """Return a file."""
        return await self._on_thread(lambda workspace: workspace.read(path, self._agent_id))

    async def list(self, path: str) -> Listing:
        """Return what is in a folder."""
        return await self._on_thread(lambda workspace: workspace.list(path))

    async def info(self) -> Info:
        """Count what there is."""
        return await self._on_thread(TaskWorkspace.info)

    async def record(self) -> Record:
        """Return what is known of the workspace itself."""
        place = self._principal, self._project_id, self._agent_id
        assigned = await self._services.database.read(find_assignment, *place)
        return await asyncio.to_thread(self._services.workspaces.record, *assigned)

    async def _on_thread(self, do: Callable[[TaskWorkspace], T]) -> T:
        place = self._principal, self._project_id, self._agent_id
        owner_id = await self._services.database.read(find_owner, *place)
        return await asyncio.to_thread(do, self._services.workspaces.of(owner_id))
