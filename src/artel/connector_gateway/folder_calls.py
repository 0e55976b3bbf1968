"""Calls of the user, not of an agent, to the connector of a project: questions, settings, grants, file names."""

from typing import TypeVar

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.connector_gateway.relay import Relay, new_call_fields
from artel.connector_gateway.repository import OnlineConnector, find_connector
from artel.contract.connector import Call, CallAnswer, CallFields
from artel.db.engine import Database
from artel.db.lease import LeaseRepository
from artel.errors import (
    ConnectorDeclined,
    ConnectorNotOnline,
    ConnectorTooOld,
    ConnectorUnreachable,
    GrantNotFound,
)

CALL_SECONDS = 5.0
BY_USER = "the user"
ASKS_IN_TERMINAL = "The terminal that runs the connector asks for your permission. Answer there, then try again."
OFFLINE = "No folder is connected to this project. Run `artel connect` in the folder, then try again."
_TOO_OLD = (
    "The connector of this folder is too old for this. Update Artel on {machine}, then run `artel connect` there again."
)


A = TypeVar("A", bound=CallAnswer)


class FolderCalls:
    """Calls connectors for users."""

    def __init__(self, database: Database, relay: Relay) -> None:
        self._database = database
        self._relay = relay

    async def call(
        self,
        principal: Principal,
        project_id: int,
        method: str,
        call: Call,
        answer: type[A],
    ) -> A:
        """Return the connector's answer to a call, which gets the epoch of the worker space.

        Raise ConnectorNotOnline, ConnectorTooOld, ConnectorUnreachable if it does not answer in time, or
        ConnectorDeclined with its reason.
        """
        connector, epoch = await self._database.read(find_with_epoch, principal, project_id)
        require_feature(connector, method)
        call = call.model_copy(update={"epoch": epoch})
        result = await self._relay.call(principal, project_id, method, call, answer, connector)
        if result.success:
            return result
        if result.code == "offline":
            raise ConnectorNotOnline(OFFLINE)
        if result.code in ("timed_out", "unknown"):
            raise ConnectorUnreachable("The connector of this folder did not answer in time. Try again.")
        if result.code == "asks":
            raise ConnectorDeclined(ASKS_IN_TERMINAL)
        if result.code == "no_grant":
            raise GrantNotFound(result.error or "There is no such grant.")
        raise ConnectorDeclined(result.error or "The connector refused it.")


def fields_of_user(principal: Principal, seconds: float = CALL_SECONDS) -> CallFields:
    """Return the common fields of a call that the user makes."""
    fields = new_call_fields(principal, 0, seconds)
    return {**fields, "agent": BY_USER}


def find_with_epoch(
    connection: Connection, principal: Principal, project_id: int
) -> tuple[OnlineConnector | None, int]:
    """Return the connector that serves a project, and the epoch of its worker space."""
    connector = find_connector(connection, principal, project_id)
    return connector, LeaseRepository(connection, principal).epoch(project_id)


def require_feature(connector: OnlineConnector | None, method: str) -> OnlineConnector:
    """Return the connector; raise ConnectorNotOnline or ConnectorTooOld."""
    if connector is None:
        raise ConnectorNotOnline(OFFLINE)
    if method.removeprefix("workspace/") not in connector.features:
        raise ConnectorTooOld(_TOO_OLD.format(machine=connector.machine or "that machine"))
    return connector
