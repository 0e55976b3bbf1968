"""Projects."""

import asyncio
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, status
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from artel.api.dependencies import CurrentUser, Limit, Offset, Parts, ProjectId
from artel.api.problems import documented
from artel.approvals import service as approvals
from artel.contract.http import NewProject, Page, Project, ProjectChanges, ProjectWithAgents
from artel.errors import SpaceUnavailable
from artel.logs import get_logger
from artel.plans.project_limits import PlanSettings
from artel.projects import service as projects
from artel.tools.policy import PolicySettings

log = get_logger(__name__)

router = APIRouter(prefix="/my/projects", tags=["projects"])


@router.post("", status_code=status.HTTP_201_CREATED, responses=documented(400, 401, 409, 413, 422, 503))
async def create_project(body: NewProject, user: CurrentUser, parts: Parts) -> ProjectWithAgents:
    """Make a project, with the four agents of the starter pack."""
    _require_sensible(body.settings)
    project = await parts.database.run(projects.create_project, user, body, parts.project_rules)
    try:
        await parts.desk.ask(user, project.id, "ensure")
    except SpaceUnavailable as failure:  # the first message begins it
        log.warning("space_not_begun", project_id=project.id, reason=failure.detail)
    return project


@router.get("", responses=documented(401, 422, 503))
async def list_projects(user: CurrentUser, parts: Parts, limit: Limit = 50, offset: Offset = 0) -> Page[Project]:
    """List your projects, oldest first."""
    return await parts.database.read(projects.list_projects, user, limit, offset)


@router.get("/{project_id}", responses=documented(401, 404, 422, 503))
async def get_project(project_id: ProjectId, user: CurrentUser, parts: Parts) -> ProjectWithAgents:
    """Show a project with its agents."""
    return await parts.database.read(projects.get_project, user, project_id)


@router.patch("/{project_id}", responses=documented(400, 401, 404, 413, 422, 503))
async def update_project(project_id: ProjectId, body: ProjectChanges, user: CurrentUser, parts: Parts) -> Project:
    """Change a project."""
    if "settings" in body.model_fields_set:
        _require_sensible(body.settings)
    return await parts.database.run(projects.update_project, user, project_id, body)


@router.delete("/{project_id}", status_code=status.HTTP_204_NO_CONTENT, responses=documented(401, 404, 422, 503))
async def delete_project(project_id: ProjectId, user: CurrentUser, parts: Parts) -> None:
    """Delete a project with its agents. The files in your folder are not touched."""
    gone = await parts.database.run(approvals.delete_project, user, project_id)
    parts.memories.wake()
    if parts.spaces is not None:
        await parts.spaces.discard(project_id)
    parts.connector_connections.project_deleted(project_id)
    await asyncio.to_thread(parts.workspaces.remove, gone)
    parts.hub.notify_all_of(user)
    parts.signals.project_changed(project_id)


def _require_sensible(settings: Mapping[str, Any]) -> None:
    """Refuse what is said of tools and plans if nobody could act on it: nothing could be done with such settings."""
    wrong: list[Any] = []
    for model in (PolicySettings, PlanSettings):
        try:
            model.model_validate(settings)
        except ValidationError as invalid:
            wrong += invalid.errors(include_url=False, include_context=False)
    if wrong:
        raise RequestValidationError([{**one, "loc": ("body", "settings", *one["loc"])} for one in wrong])
