"""Changes of agents, projects and accounts that also change the vector index; each function is one transaction."""

from sqlalchemy import Connection

from artel.agent_memory import index_queue
from artel.agent_memory import transactions as memories
from artel.agents import transactions as agents
from artel.agents.repository import AgentRepository
from artel.auth import accounts
from artel.auth.principal import Principal
from artel.contract.http import Agent, AgentChanges
from artel.projects import transactions as projects
from artel.projects.repository import ProjectRepository
from artel.vector_index.store import collection_name


def update_agent(
    connection: Connection, principal: Principal, project_id: int, agent_id: int, changes: AgentChanges
) -> Agent:
    """Update an agent, and rename its collection if its name changes."""
    if "name" not in changes.model_fields_set:
        return agents.update_agent(connection, principal, project_id, agent_id, changes)
    ProjectRepository(connection, principal).lock(project_id)  # serializes renames
    before = AgentRepository(connection, principal).get(project_id, agent_id).name
    agent = agents.update_agent(connection, principal, project_id, agent_id, changes)
    if agent.name != before:
        old, new = (collection_name(principal.user_id, project_id, name) for name in (before, agent.name))
        index_queue.add_chore(connection, "rename", old, new)
    return agent


def delete_agent(
    connection: Connection, principal: Principal, project_id: int, agent_id: int, *, archive: bool = False
) -> list[int]:
    """Delete an agent and its descendants, optionally archive their memories; return the deleted agents' ids."""
    ProjectRepository(connection, principal).lock(project_id)
    family = AgentRepository(connection, principal).family(project_id, agent_id)
    if archive:
        for member_id, name in family.items():
            memories.archive(connection, principal, project_id, member_id, name)
    agents.delete_agent(connection, principal, project_id, agent_id)
    for name in family.values():
        index_queue.add_chore(connection, "drop", collection_name(principal.user_id, project_id, name))
    return list(family)


def delete_project(connection: Connection, principal: Principal, project_id: int) -> list[int]:
    """Delete a project with its agents and their memories; return the deleted agents' ids."""
    ProjectRepository(connection, principal).lock(project_id)
    repository = AgentRepository(connection, principal)
    agent_names, agent_ids = repository.names(project_id), repository.ids(project_id)
    projects.delete_project(connection, principal, project_id)
    _drop_collections(connection, principal, agent_names)
    return agent_ids


def delete_account(connection: Connection, email_or_id: str) -> list[int]:
    """Delete an account with all its data; return the deleted agents' ids."""
    principal = accounts.find_account(connection, email_or_id).principal
    repository = AgentRepository(connection, principal)
    agent_names, agent_ids = repository.names(), repository.ids()
    accounts.delete_account(connection, email_or_id)
    _drop_collections(connection, principal, agent_names)
    return agent_ids


def _drop_collections(connection: Connection, principal: Principal, agent_names: list[tuple[int, str]]) -> None:
    for project_id, name in agent_names:
        index_queue.add_chore(connection, "drop", collection_name(principal.user_id, project_id, name))
