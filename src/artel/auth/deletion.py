"""Deletes accounts with all that they have."""

from typing import NamedTuple

from sqlalchemy import Connection

from artel.agent_memory import index_queue
from artel.agents.repository import AgentRepository
from artel.auth import accounts
from artel.auth.audit_log import OtherActor
from artel.auth.principal import Principal
from artel.vector_index.store import collection_name


class DeletedAccount(NamedTuple):
    """The ids of an account that is gone, and of what it had."""

    user_id: int
    project_ids: list[int]
    agent_ids: list[int]


def delete_account(connection: Connection, email_or_id: str, by: Principal | OtherActor = "operator") -> DeletedAccount:
    """Delete an account with all its data."""
    principal = accounts.find_account(connection, email_or_id).principal
    repository = AgentRepository(connection, principal)
    names = repository.names()  # each project has `root`
    deleted = DeletedAccount(principal.user_id, sorted({project_id for project_id, _ in names}), repository.ids())
    accounts.delete_account(connection, email_or_id, by)
    index_queue.drop_collections(connection, [collection_name(principal.user_id, *agent) for agent in names])
    return deleted
