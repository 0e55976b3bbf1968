"""Operations on projects; each function is one transaction."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from artel.agents.repository import AgentRepository
from artel.agents.starter_pack import STARTER_PACK, root_agent
from artel.auth.principal import Principal
from artel.contract.http import Agent, NewProject, Page, Project, ProjectChanges, ProjectWithAgents
from artel.errors import LimitReached
from artel.projects.repository import ProjectRepository
from artel.settings import MAX_AGENTS

DEFAULT_NAME = "My project"


@dataclass(frozen=True, slots=True)
class ProjectRules:
    """The operator's limits and defaults for projects."""

    max_projects: int
    max_agents: int
    planner_model: str


def create_project(
    connection: Connection, principal: Principal, new: NewProject, rules: ProjectRules, *, is_default: bool = False
) -> ProjectWithAgents:
    """Create a project with its orchestrator and the starter pack."""
    projects = ProjectRepository(connection, principal)
    projects.lock_owner()
    if projects.count() >= rules.max_projects:
        raise LimitReached(f"You can have at most {rules.max_projects} projects. Delete one first.")
    project = projects.add(new, is_default=is_default)
    agents = AgentRepository(connection, principal)
    agents.add(project.id, None, [root_agent(rules.planner_model)])
    return _with_agents(project, agents.add(project.id, agents.root_id(project.id), STARTER_PACK))


def ensure_default_project(connection: Connection, principal: Principal, rules: ProjectRules) -> Project:
    """Return the user's default project; create it if it does not exist."""
    projects = ProjectRepository(connection, principal)
    projects.lock_owner()
    return projects.default() or create_project(
        connection, principal, NewProject(name=DEFAULT_NAME), rules, is_default=True
    )


def list_projects(connection: Connection, principal: Principal, limit: int, offset: int) -> Page[Project]:
    """Return a page of the user's projects."""
    projects = ProjectRepository(connection, principal)
    return Page(items=projects.page(limit, offset), total=projects.count(), limit=limit, offset=offset)


def get_project(connection: Connection, principal: Principal, project_id: int) -> ProjectWithAgents:
    """Return one project with its agents."""
    project = ProjectRepository(connection, principal).get(project_id)
    return _with_agents(project, AgentRepository(connection, principal).page(project_id, MAX_AGENTS, 0))


def project_settings(connection: Connection, principal: Principal, project_id: int) -> dict[str, Any]:
    """Return the project's settings."""
    return dict(ProjectRepository(connection, principal).get(project_id).settings)


def update_project(connection: Connection, principal: Principal, project_id: int, changes: ProjectChanges) -> Project:
    """Change a project."""
    projects = ProjectRepository(connection, principal)
    if changes.model_fields_set:
        projects.change(project_id, changes)
    return projects.get(project_id)


def delete_project(connection: Connection, principal: Principal, project_id: int) -> None:
    """Delete a project with its agents; the user's files are not touched."""
    ProjectRepository(connection, principal).remove(project_id)


def _with_agents(project: Project, agents: list[Agent]) -> ProjectWithAgents:
    return ProjectWithAgents(**dict(project), agents=agents)
