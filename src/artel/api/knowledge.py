"""Endpoints for the memory of all agents of a project."""

from fastapi import APIRouter

from artel.agent_memory.knowledge import ProjectKnowledge
from artel.api.dependencies import CurrentUser, ProjectId, Services
from artel.api.json_lines import memory_of
from artel.api.problems import documented
from artel.contract.memory import KnownMemories, KnownMemory, SearchMemory
from artel.projects.transactions import get_project
from artel.vector_index.store import Filter

router = APIRouter(prefix="/my/projects/{project_id}/context", tags=["memory"])


@router.post("/search", responses=documented(400, 401, 404, 413, 422, 503))
async def search_knowledge(
    project_id: ProjectId, body: SearchMemory, user: CurrentUser, services: Services
) -> KnownMemories:
    """Search the memories of all agents of the project."""
    project = await services.database.read(get_project, user, project_id)
    agents = [(agent.id, agent.name) for agent in project.agents]
    where = Filter(type=body.type, success=body.success, since=body.since, until=body.until)
    found = await ProjectKnowledge(services.memories, user, project_id, agents).search(body.query, body.top_k, where)
    return KnownMemories(
        items=[
            KnownMemory(**dict(memory_of(hit.memory)), score=hit.score, agent_id=hit.agent_id, agent=hit.agent)
            for hit in found
        ]
    )
