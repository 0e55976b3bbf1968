"""Whose task workspace an agent works in: its own if `root` created it, else that of its nearest ancestor with one."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection

from artel.agents.repository import AgentRepository
from artel.auth.principal import Principal
from artel.projects.repository import ProjectRepository
from artel.task_workspaces.errors import WorkspaceNotAssigned

MAX_GENERATIONS = 64  # far more than spawn_agent makes, and an end to whatever else the rows may hold


def owner_of(agent_id: int, parents: Mapping[int, int | None]) -> int:
    """Return the agent whose task workspace is used; `parents` names everybody's parent, and `root` has none."""
    seen: set[int] = set()
    current = agent_id
    while current not in seen and len(seen) < MAX_GENERATIONS:
        seen.add(current)
        parent = parents.get(current)
        if parent is None:  # `root`, or nobody
            break
        if parent in parents and parents[parent] is None:
            return current
        current = parent
    raise WorkspaceNotAssigned


def find_owner(connection: Connection, principal: Principal, project_id: int, agent_id: int) -> int:
    """Return the agent whose task workspace one of the project's agents works in; raise if there is no such agent."""
    ProjectRepository(connection, principal).get(project_id)
    agents = AgentRepository(connection, principal)
    agents.get(project_id, agent_id)
    return owner_of(agent_id, agents.parents(project_id))


def find_assignment(
    connection: Connection, principal: Principal, project_id: int, agent_id: int
) -> tuple[int, datetime]:
    """Return the agent whose task workspace is used, and when it was assigned: a workspace comes with its agent."""
    owner_id = find_owner(connection, principal, project_id, agent_id)
    return owner_id, AgentRepository(connection, principal).get(project_id, owner_id).created_at
