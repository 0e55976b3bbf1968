"""Endpoints for projects and their agents."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, status
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from artel.agents import transactions as agents
from artel.api.dependencies import AgentId, CurrentUser, Limit, Offset, ProjectId, Services
from artel.api.problems import documented
from artel.contract.http import (
    Agent,
    AgentChanges,
    NewAgent,
    NewProject,
    Page,
    Project,
    ProjectChanges,
    ProjectWithAgents,
)
from artel.contract.project_settings import PlanSettings, PolicySettings
from artel.projects import transactions as projects

router = APIRouter(prefix="/my/projects", tags=["projects"], responses=documented(401, 422, 503))
agents_router = APIRouter(
    prefix="/my/projects/{project_id}/agents", tags=["agents"], responses=documented(401, 404, 422, 503)
)

Archive = Annotated[bool, Query(description="Keep the agent's memory in an archive of the project.")]


@router.post("", status_code=status.HTTP_201_CREATED, responses=documented(400, 409, 413))
async def create_project(body: NewProject, user: CurrentUser, services: Services) -> ProjectWithAgents:
    """Create a project with the four agents of the starter pack."""
    _validate_settings(body.settings)
    return await services.projects.create(user, body)


@router.get("")
async def list_projects(user: CurrentUser, services: Services, limit: Limit = 50, offset: Offset = 0) -> Page[Project]:
    """List your projects, oldest first."""
    return await services.database.read(projects.list_projects, user, limit, offset)


@router.get("/{project_id}", responses=documented(404))
async def get_project(project_id: ProjectId, user: CurrentUser, services: Services) -> ProjectWithAgents:
    """Show a project with its agents."""
    return await services.database.read(projects.get_project, user, project_id)


@router.patch("/{project_id}", responses=documented(400, 404, 413))
async def update_project(project_id: ProjectId, body: ProjectChanges, user: CurrentUser, services: Services) -> Project:
    """Change a project."""
    if "settings" in body.model_fields_set:
        _validate_settings(body.settings)
    return await services.database.of(user).run(projects.update_project, project_id, body)


@router.delete("/{project_id}", status_code=status.HTTP_204_NO_CONTENT, responses=documented(404))
async def delete_project(project_id: ProjectId, user: CurrentUser, services: Services) -> None:
    """Delete a project with its agents. The files in your folder are not touched."""
    await services.projects.delete(user, project_id)


@agents_router.post("", status_code=status.HTTP_201_CREATED, responses=documented(400, 409, 413))
async def create_agent(project_id: ProjectId, body: NewAgent, user: CurrentUser, services: Services) -> Agent:
    """Add an agent to the project."""
    return await services.agents.create(user, project_id, body)


@agents_router.get("")
async def list_agents(
    project_id: ProjectId, user: CurrentUser, services: Services, limit: Limit = 50, offset: Offset = 0
) -> Page[Agent]:
    """List the agents of the project, oldest first."""
    return await services.database.read(agents.list_agents, user, project_id, limit, offset)


@agents_router.get("/{agent_id}")
async def get_agent(project_id: ProjectId, agent_id: AgentId, user: CurrentUser, services: Services) -> Agent:
    """Show an agent."""
    return await services.database.read(agents.get_agent, user, project_id, agent_id)


@agents_router.patch("/{agent_id}", responses=documented(400, 409, 413))
async def update_agent(
    project_id: ProjectId, agent_id: AgentId, body: AgentChanges, user: CurrentUser, services: Services
) -> Agent:
    """Change an agent."""
    return await services.agents.update(user, project_id, agent_id, body)


@agents_router.delete("/{agent_id}", status_code=status.HTTP_204_NO_CONTENT)
async def delete_agent(
    project_id: ProjectId, agent_id: AgentId, user: CurrentUser, services: Services, archive: Archive = False
) -> None:
    """Delete an agent and its descendants with their task workspaces and memory; `archive` keeps the memory."""
    await services.agents.delete(user, project_id, agent_id, archive=archive)


def _validate_settings(settings: Mapping[str, Any]) -> None:
    """Raise RequestValidationError if the settings for tools and plans are not valid."""
    errors: list[Any] = []
    for model in (PolicySettings, PlanSettings):
        try:
            model.model_validate(settings)
        except ValidationError as invalid:
            errors += invalid.errors(include_url=False, include_context=False)
    if errors:
        raise RequestValidationError([{**error, "loc": ("body", "settings", *error["loc"])} for error in errors])
