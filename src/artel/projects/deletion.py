"""Deletes projects with all that they have."""

from artel.agent_memory import index_queue
from artel.agents.repository import AgentRepository
from artel.budgets.repository import settle_project
from artel.db.hints import MemoriesChanged, ProjectDeleted
from artel.db.tx import Tx
from artel.projects.repository import ProjectRepository
from artel.vector_index.store import collection_name


def delete_project(tx: Tx, project_id: int) -> list[int]:
    """Delete a project with its agents and their memories; return the deleted agents' ids.

    What its calls may cost counts as spent.
    """
    settle_project(tx, project_id)
    ProjectRepository(tx).lock(project_id)
    repository = AgentRepository(tx)
    names = [collection_name(tx.principal.user_id, *agent) for agent in repository.names(project_id)]
    agent_ids = repository.ids(project_id)
    ProjectRepository(tx).remove(project_id)
    index_queue.drop_collections(tx.connection, names)
    tx.after_commit(MemoriesChanged())
    tx.after_commit(ProjectDeleted(tx.principal.user_id, project_id))
    return agent_ids
