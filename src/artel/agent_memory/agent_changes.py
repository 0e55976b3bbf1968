"""Changes of agents that also change the vector index; each function is one transaction."""

from artel.agent_memory import index_queue
from artel.agent_memory.repository import ArchiveRepository, MemoryRepository
from artel.agents import transactions as agents
from artel.agents.repository import AgentRepository
from artel.contract.http import Agent, AgentChanges
from artel.db.hints import AgentListChanged, AgentsChanged, MemoriesChanged
from artel.db.tx import Tx
from artel.projects.repository import ProjectRepository
from artel.vector_index.store import collection_name


def update_agent(tx: Tx, project_id: int, agent_id: int, changes: AgentChanges) -> Agent:
    """Update an agent, and rename its collection if its name changes."""
    before = None
    if "name" in changes.model_fields_set:
        ProjectRepository(tx).lock(project_id)  # serializes renames
        before = AgentRepository(tx).get(project_id, agent_id).name
    agent = agents.update_agent(tx, project_id, agent_id, changes)
    if before is not None and agent.name != before:
        old, new = (collection_name(tx.principal.user_id, project_id, name) for name in (before, agent.name))
        index_queue.add_chore(tx.connection, "rename", old, new)
        tx.after_commit(MemoriesChanged())
    tx.after_commit(AgentsChanged(project_id, (agent_id,)))
    tx.after_commit(AgentListChanged(tx.principal.user_id, project_id, (agent_id,), "changed"))
    return agent


def delete_agent(tx: Tx, project_id: int, agent_id: int, *, archive: bool = False) -> list[int]:
    """Delete an agent and its descendants, optionally archive their memories; return the deleted agents' ids."""
    ProjectRepository(tx).lock(project_id)
    family = AgentRepository(tx).family(project_id, agent_id)
    if archive:
        for member_id, name in family.items():
            archives = ArchiveRepository(tx)
            archive_id = archives.add(project_id, member_id, name)
            archives.set_size(archive_id, MemoryRepository(tx).archive(project_id, member_id, archive_id))
    agents.delete_agent(tx, project_id, agent_id)
    names = [collection_name(tx.principal.user_id, project_id, name) for name in family.values()]
    index_queue.drop_collections(tx.connection, names)
    tx.after_commit(MemoriesChanged())
    tx.after_commit(AgentsChanged(project_id, tuple(family)))
    tx.after_commit(AgentListChanged(tx.principal.user_id, project_id, tuple(family), "deleted"))
    return list(family)
