"""The owner of an agent's task workspace: the agent itself if `root` created it, else its ancestor below `root`."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection

from artel.agents.repository import AgentRepository
from artel.auth.principal import Principal
from artel.projects.repository import ProjectRepository
from artel.task_workspaces.errors import WorkspaceNotAssigned

MAX_GENERATIONS = 64  # far more than spawn_agent allows; stops at cycles and broken rows


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


def find_owner(connection: Connection, principal: Principal, project_id: int, agent_id: int) -> int:
    """Return the id of the agent that owns the task workspace; raise if project or agent don't exist."""
    ProjectRepository(connection, principal).get(project_id)
    agents = AgentRepository(connection, principal)
    agents.get(project_id, agent_id)
    return owner_of(agent_id, agents.parents(project_id))


def find_assignment(
    connection: Connection, principal: Principal, project_id: int, agent_id: int
) -> tuple[int, datetime]:
    """Return the owner's id and creation time, which is also that of the workspace."""
    owner_id = find_owner(connection, principal, project_id, agent_id)
    return owner_id, AgentRepository(connection, principal).get(project_id, owner_id).created_at
