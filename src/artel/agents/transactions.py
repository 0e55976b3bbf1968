"""Operations on the agents of a project; each function is one transaction."""

from collections.abc import Collection

from sqlalchemy import Connection

from artel.agents.repository import AgentRepository, AgentVersionRepository
from artel.auth.principal import Principal
from artel.contract.http import Agent, AgentChanges, NewAgent, Page, PageRequest
from artel.db.hints import AgentListChanged
from artel.db.tx import Tx
from artel.errors import LimitReached
from artel.projects.repository import ProjectRepository


def create_agent(tx: Tx, project_id: int, new: NewAgent, max_agents: int) -> Agent:
    """Add an agent to the project."""
    ProjectRepository(tx).lock(project_id)
    repository = AgentRepository(tx)
    if repository.count(project_id) >= max_agents:
        raise LimitReached(f"A project can have at most {max_agents} agents. Delete one first.")
    AgentVersionRepository(tx).raise_version(project_id)
    [agent] = repository.add(project_id, repository.root_id(project_id), [new])
    tx.after_commit(AgentListChanged(tx.principal.user_id, project_id, (agent.id,), "created"))
    return agent


def list_agents(connection: Connection, principal: Principal, project_id: int, paging: PageRequest) -> Page[Agent]:
    """Return a page of the project's agents."""
    ProjectRepository(connection, principal).get(project_id)
    repository = AgentRepository(connection, principal)
    items = repository.page(project_id, paging)
    return paging.page(items, repository.count(project_id))


def get_agent(connection: Connection, principal: Principal, project_id: int, agent_id: int) -> Agent:
    """Return one agent of the project."""
    ProjectRepository(connection, principal).get(project_id)
    return AgentRepository(connection, principal).get(project_id, agent_id)


def family_of(connection: Connection, principal: Principal, project_id: int, agent_id: int) -> list[int]:
    """Return the ids of an agent of the project and all its descendants."""
    ProjectRepository(connection, principal).get(project_id)
    return list(AgentRepository(connection, principal).family(project_id, agent_id))


def stored_bytes_of(connection: Connection, principal: Principal, agent_ids: Collection[int]) -> int:
    """Return the size of the agents' texts in bytes, as the storage quota counts them."""
    return AgentRepository(connection, principal).stored_bytes(agent_ids)


def update_agent(tx: Tx, project_id: int, agent_id: int, changes: AgentChanges) -> Agent:
    """Change an agent of the project."""
    ProjectRepository(tx).get(project_id)
    repository = AgentRepository(tx)
    if changes.model_fields_set:
        AgentVersionRepository(tx).raise_version(project_id)
        repository.change(project_id, agent_id, changes)
    return repository.get(project_id, agent_id)


def delete_agent(tx: Tx, project_id: int, agent_id: int) -> None:
    """Delete an agent of the project."""
    ProjectRepository(tx).get(project_id)
    AgentVersionRepository(tx).raise_version(project_id)
    AgentRepository(tx).remove(project_id, agent_id)
