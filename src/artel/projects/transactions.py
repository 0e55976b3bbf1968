"""Operations on projects; each function is one transaction."""

from dataclasses import dataclass

from sqlalchemy import Connection

from artel.agents.repository import AgentRepository
from artel.agents.starter_pack import root_agent, starter_pack
from artel.auth.principal import Principal
from artel.contract.http import NewProject, Page, PageRequest, Project, ProjectChanges, ProjectWithAgents
from artel.contract.project_settings import EffectiveSettings
from artel.db.tx import Tx
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
    default_model: str = "gpt-4"


def create_project(tx: Tx, new: NewProject, rules: ProjectRules, *, is_default: bool = False) -> ProjectWithAgents:
    """Create a project with its orchestrator and the starter pack."""
    projects, agents = ProjectRepository(tx), AgentRepository(tx)
    projects.lock_owner()
    if projects.count() >= rules.max_projects:
        raise LimitReached(f"You can have at most {rules.max_projects} projects. Delete one first.")
    project = projects.add(new, is_default=is_default)
    [root] = agents.add(project.id, None, [root_agent(rules.planner_model)])
    team = starter_pack(rules.default_model)
    return ProjectWithAgents(**dict(project), agents=agents.add(project.id, root.id, team))


def ensure_default_project(tx: Tx, rules: ProjectRules) -> Project:
    """Return the user's default project; create it if it does not exist."""
    projects = ProjectRepository(tx)
    projects.lock_owner()
    return projects.default() or create_project(tx, NewProject(name=DEFAULT_NAME), rules, is_default=True)


def list_projects(connection: Connection, principal: Principal, paging: PageRequest) -> Page[Project]:
    """Return a page of the user's projects."""
    projects = ProjectRepository(connection, principal)
    return paging.page(projects.page(paging), projects.count())


def get_project(connection: Connection, principal: Principal, project_id: int) -> ProjectWithAgents:
    """Return one project with its agents."""
    project = ProjectRepository(connection, principal).get(project_id)
    agents = AgentRepository(connection, principal).page(project_id, PageRequest(MAX_AGENTS))
    return ProjectWithAgents(**dict(project), agents=agents)


def project_settings(connection: Connection, principal: Principal, project_id: int) -> EffectiveSettings:
    """Return the project's settings, parsed."""
    return EffectiveSettings.of(ProjectRepository(connection, principal).get(project_id).settings)


def update_project(tx: Tx, project_id: int, changes: ProjectChanges) -> Project:
    """Change a project."""
    projects = ProjectRepository(tx)
    if changes.model_fields_set:
        projects.change(project_id, changes)
    return projects.get(project_id)
