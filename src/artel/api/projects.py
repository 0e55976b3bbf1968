"""Endpoints for projects."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, status
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from artel.api.dependencies import CurrentUser, Limit, Offset, ProjectId, Services
from artel.api.problems import documented
from artel.contract.http import NewProject, Page, Project, ProjectChanges, ProjectWithAgents
from artel.plans.pricing import PlanSettings
from artel.projects import transactions as projects
from artel.tools.policy import PolicySettings

router = APIRouter(prefix="/my/projects", tags=["projects"])


@router.post("", status_code=status.HTTP_201_CREATED, responses=documented(400, 401, 409, 413, 422, 503))
async def create_project(body: NewProject, user: CurrentUser, services: Services) -> ProjectWithAgents:
    """Create a project with the four agents of the starter pack."""
    _validate_settings(body.settings)
    return await services.projects.create(user, body)


@router.get("", responses=documented(401, 422, 503))
async def list_projects(user: CurrentUser, services: Services, limit: Limit = 50, offset: Offset = 0) -> Page[Project]:
    """List your projects, oldest first."""
    return await services.database.read(projects.list_projects, user, limit, offset)


@router.get("/{project_id}", responses=documented(401, 404, 422, 503))
async def get_project(project_id: ProjectId, user: CurrentUser, services: Services) -> ProjectWithAgents:
    """Show a project with its agents."""
    return await services.database.read(projects.get_project, user, project_id)


@router.patch("/{project_id}", responses=documented(400, 401, 404, 413, 422, 503))
async def update_project(project_id: ProjectId, body: ProjectChanges, user: CurrentUser, services: Services) -> Project:
    """Change a project."""
    if "settings" in body.model_fields_set:
        _validate_settings(body.settings)
    return await services.database.run(projects.update_project, user, project_id, body)


@router.delete("/{project_id}", status_code=status.HTTP_204_NO_CONTENT, responses=documented(401, 404, 422, 503))
async def delete_project(project_id: ProjectId, user: CurrentUser, services: Services) -> None:
    """Delete a project with its agents. The files in your folder are not touched."""
    await services.projects.delete(user, project_id)


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
