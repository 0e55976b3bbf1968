"""The task workspace of an agent: its own if `root` created the agent, else that of its ancestor below `root`."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection

from artel.agents.repository import AgentRepository
from artel.auth.principal import Principal
from artel.db.engine import Database
from artel.paths.beneath import Content, Listing, Written
from artel.projects.repository import ProjectRepository
from artel.task_workspaces.errors import WorkspaceNotAssigned
from artel.task_workspaces.service import TaskWorkspaces
from artel.task_workspaces.storage_quota import StorageQuota
from artel.task_workspaces.task_workspace import Info, Record, TaskWorkspace

MAX_GENERATIONS = 64  # far more than spawn_agent allows; stops at cycles and broken rows

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AgentFiles:
    """Looks the agent's workspace up on every call, because families change; file access runs in a thread."""

    database: Database
    workspaces: TaskWorkspaces
    storage: StorageQuota
    principal: Principal
    project_id: int
    agent_id: int

    async def write(self, path: str, data: bytes) -> Written:
        """Create or replace a file, and create its folders."""
        async with self.storage.reserved(self.principal, len(data)):
            return await self.run(lambda workspace: workspace.write(self.agent_id, path, data))

    async def read(self, path: str) -> Content:
        """Return the content of a file, and note that the agent has seen it."""
        return await self.run(lambda workspace: workspace.read(path, self.agent_id))

    async def list(self, path: str) -> Listing:
        """Return the entries of a folder."""
        return await self.run(lambda workspace: workspace.list(path))

    async def info(self) -> Info:
        """Return the size of the workspace."""
        return await self.run(TaskWorkspace.info)

    async def record(self) -> Record:
        """Return the record of the workspace."""
        return await asyncio.to_thread(self.workspaces.record, *await self._assignment())

    async def run(self, function: Callable[[TaskWorkspace], T]) -> T:
        """Return the result of a function on the workspace."""
        owner_id, _ = await self._assignment()
        return await asyncio.to_thread(function, self.workspaces.of(owner_id))

    async def _assignment(self) -> tuple[int, datetime]:
        return await self.database.read(find_assignment, self.principal, self.project_id, self.agent_id)


def find_assignment(
    connection: Connection, principal: Principal, project_id: int, agent_id: int
) -> tuple[int, datetime]:
    """Return the owner's id and creation time, which is also that of the workspace; raise if it does not exist."""
    ProjectRepository(connection, principal).get(project_id)
    agents = AgentRepository(connection, principal)
    agents.get(project_id, agent_id)
    owner_id = owner_of(agent_id, agents.parents(project_id))
    return owner_id, agents.get(project_id, owner_id).created_at


def owner_of(agent_id: int, parents: Mapping[int, int | None]) -> int:
    """Return the owner's id or raise WorkspaceNotAssigned; `parents` maps agents to parents (None for `root`)."""
    seen: set[int] = set()
    current = agent_id
    while current not in seen and len(seen) < MAX_GENERATIONS:
        seen.add(current)
        parent = parents.get(current)
        if parent is None:  # `root` or an unknown agent
            break
        if parent in parents and parents[parent] is None:
            return current
        current = parent
    raise WorkspaceNotAssigned
