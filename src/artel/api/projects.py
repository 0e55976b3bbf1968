"""Endpoints for projects and their agents."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response, status
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic.json_schema import SkipJsonSchema

from artel.agents import agent_yaml
from artel.agents import transactions as agents
from artel.agents.templates import agent_templates
from artel.api.dependencies import AgentId, CurrentUser, Paging, ProjectId, Services
from artel.api.problems import documented
from artel.contract.agent_export import AgentTemplates
from artel.contract.http import (
    Agent,
    AgentChanges,
    AgentName,
    NewAgent,
    NewProject,
    Page,
    Project,
    ProjectChanges,
    ProjectWithAgents,
)
from artel.contract.project_settings import NodeSettings, PlanSettings, PolicySettings
from artel.projects import transactions as projects

router = APIRouter(prefix="/my/projects", tags=["projects"], responses=documented(401, 422, 503))
agents_router = APIRouter(
    prefix="/my/projects/{project_id}/agents", tags=["agents"], responses=documented(401, 404, 422, 503)
)

templates_router = APIRouter(prefix="/my/agent-templates", tags=["agents"], responses=documented(401, 503))

YAML = "application/yaml"
YAML_TYPES = (YAML, "application/x-yaml", "text/yaml", "text/x-yaml")
_YAML_TEXT = {"type": "string", "description": "As `GET …/export` returns it."}
ImportName = Annotated[
    AgentName | SkipJsonSchema[None], Query(description="Name of the new agent instead of the file's.")
]

Archive = Annotated[bool, Query(description="Keep the agent's memory in an archive of the project.")]


class Yaml(Response):
    """A YAML file."""

    media_type = YAML


@router.post("", status_code=status.HTTP_201_CREATED, responses=documented(400, 409, 413))
async def create_project(body: NewProject, user: CurrentUser, services: Services) -> ProjectWithAgents:
    """Create a project with the four agents of the starter pack."""
    _validate_settings(body.settings)
    return await services.projects.create(user, body)


@router.get("")
async def list_projects(user: CurrentUser, services: Services, paging: Paging) -> Page[Project]:
    """List your projects, oldest first."""
    return await services.database.read(projects.list_projects, user, paging)


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
async def list_agents(project_id: ProjectId, user: CurrentUser, services: Services, paging: Paging) -> Page[Agent]:
    """List the agents of the project, oldest first."""
    return await services.database.read(agents.list_agents, user, project_id, paging)


@agents_router.post(
    "/import",
    status_code=status.HTTP_201_CREATED,
    responses=documented(400, 409, 413, 415),
    openapi_extra={"requestBody": {"required": True, "content": {YAML: {"schema": _YAML_TEXT}}}},
)
async def import_agent(
    project_id: ProjectId, request: Request, user: CurrentUser, services: Services, name: ImportName = None
) -> Agent:
    """Add an agent from its YAML file. Mistakes are named by line and key."""
    await services.database.read(projects.get_project, user, project_id)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in YAML_TYPES:
        raise HTTPException(415, f"Send the YAML file with Content-Type: {YAML}")
    return await services.agents.import_yaml(user, project_id, await request.body(), name)


@agents_router.get(
    "/{agent_id}/export",
    response_class=Yaml,
    responses={200: {"description": "The YAML file.", "content": {YAML: {"schema": {"type": "object"}}}}},
)
async def export_agent(project_id: ProjectId, agent_id: AgentId, user: CurrentUser, services: Services) -> Yaml:
    """Export an agent as a YAML file that can be edited and imported."""
    agent = await services.database.read(agents.get_agent, user, project_id, agent_id)
    attachment = {"Content-Disposition": f'attachment; filename="{agent.name}.yaml"'}
    return Yaml(agent_yaml.export_agent(agent), headers=attachment)


# Only numbers match, so that `import` is not taken for the id of an agent.
@agents_router.get("/{agent_id:int}")
async def get_agent(project_id: ProjectId, agent_id: AgentId, user: CurrentUser, services: Services) -> Agent:
    """Show an agent."""
    return await services.database.read(agents.get_agent, user, project_id, agent_id)


@agents_router.patch("/{agent_id:int}", responses=documented(400, 409, 413))
async def update_agent(
    project_id: ProjectId, agent_id: AgentId, body: AgentChanges, user: CurrentUser, services: Services
) -> Agent:
    """Change an agent."""
    return await services.agents.update(user, project_id, agent_id, body)


@agents_router.delete("/{agent_id:int}", status_code=status.HTTP_204_NO_CONTENT)
async def delete_agent(
    project_id: ProjectId, agent_id: AgentId, user: CurrentUser, services: Services, archive: Archive = False
) -> None:
    """Delete an agent and its descendants with their task workspaces and memory; `archive` keeps the memory."""
    await services.agents.delete(user, project_id, agent_id, archive=archive)


@templates_router.get("")
async def list_templates(_user: CurrentUser) -> AgentTemplates:
    """List templates of agents: prompts, tools and settings for usual roles."""
    return AgentTemplates(items=list(agent_templates()))


def _validate_settings(settings: Mapping[str, Any]) -> None:
    """Raise RequestValidationError if the settings for tools, plans and nodes are not valid."""
    errors: list[Any] = []
    for model in (PolicySettings, PlanSettings, NodeSettings):
        try:
            model.model_validate(settings)
        except ValidationError as invalid:
            errors += invalid.errors(include_url=False, include_context=False)
    if errors:
        raise RequestValidationError([{**error, "loc": ("body", "settings", *error["loc"])} for error in errors])
