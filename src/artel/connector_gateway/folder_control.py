"""What the user does on the page with a connected folder: change how it asks, disconnect, grants, names of files.

Changes are in the audit log of the project before they are sent.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from artel.auth.principal import Principal
from artel.connector_gateway.folder_calls import OFFLINE, FolderCalls, fields_of_user, require_feature
from artel.connector_gateway.relay import Relay
from artel.connector_gateway.repository import ConnectorRepository, OnlineConnector, find_connector
from artel.contract.connector import (
    CallAnswer,
    CompleteAnswer,
    CompleteCall,
    GrantsAnswer,
    GrantsCall,
    RevokeCall,
    SettingsAnswer,
    SettingsCall,
)
from artel.contract.events import ConnectorChanged, EventData
from artel.contract.spaces import ConnectorChange, ConnectorState, FileName, FileNames, GrantShown
from artel.db.engine import Database
from artel.errors import ArtelError, ConnectorNotOnline, ConnectorUnreachable
from artel.projects.transactions import project_settings
from artel.turns.tool_calls import ERROR_CHARACTERS, ToolCallRow, finish_call, note_call

READING_TOOL = "tool_read_file"  # its path rules are those of the names that are offered
_ASKING = ("terminal", "browser", "both")


class FolderControl:
    """Controls the connectors of users' projects; `publish` writes an event of a project."""

    def __init__(self, database: Database, relay: Relay, publish: Callable[[Principal, int, EventData], None]) -> None:
        self._database = database
        self._relay = relay
        self._calls = FolderCalls(database, relay)
        self._publish = publish

    async def show(self, principal: Principal, project_id: int) -> ConnectorState:
        """Return the state of a project's connector."""
        return connector_state(await self._database.read(find_connector, principal, project_id))

    async def change(self, principal: Principal, project_id: int, wanted: ConnectorChange) -> ConnectorState:
        """Change the mode of a connector, which may refuse; return its state."""
        connector = await self._online(principal, project_id, "workspace/settings")
        values = wanted.model_dump(exclude_none=True)
        async with self._audited(principal, connector, "connector_settings", values):
            call = SettingsCall(**fields_of_user(principal), ask=wanted.ask, read_only=wanted.read_only)
            result = await self._calls.call(principal, project_id, "workspace/settings", call, SettingsAnswer)
        mode = str(result.mode)
        changed = replace(connector, mode=mode, read_only=mode == "read-only")
        if await self._database.of(principal).run(lambda tx: ConnectorRepository(tx).set_mode(connector, mode)):
            event = ConnectorChanged(connector_id=connector.connector_id, mode=mode, read_only=changed.read_only)
            self._publish(principal, project_id, event)
        return connector_state(changed)

    async def disconnect(self, principal: Principal, project_id: int) -> None:
        """End the connection of a folder; its connector does not come back by itself."""
        connector = await self._online(principal, project_id)
        async with self._audited(principal, connector, "connector_disconnect", {}):
            if not await self._relay.disconnect(principal, connector):
                raise ConnectorUnreachable("The folder could not be disconnected. Try again.")

    async def grants(self, principal: Principal, project_id: int) -> list[GrantShown]:
        """Return the grants of a connected folder."""
        result = await self._calls.call(
            principal, project_id, "workspace/grants", GrantsCall(**fields_of_user(principal)), GrantsAnswer
        )
        return [
            GrantShown(
                id=grant["id"],
                what=grant["kind"],
                glob=grant["name"],
                since=_moment(grant["since"]),
                lasts=grant["lasts"],
            )
            for grant in result.grants or ()
        ]

    async def revoke(self, principal: Principal, project_id: int, grant_id: str) -> None:
        """Revoke a grant of a connected folder."""
        connector = await self._online(principal, project_id, "workspace/revoke")
        async with self._audited(principal, connector, "connector_revoke", {"grant_id": grant_id}):
            call = RevokeCall(**fields_of_user(principal), grant_id=grant_id)
            await self._calls.call(principal, project_id, "workspace/revoke", call, CallAnswer)

    async def file_names(self, principal: Principal, project_id: int, query: str, limit: int) -> FileNames:
        """Return files and folders whose path contains a text, of those that the project's agents may read."""
        settings = await self._database.read(project_settings, principal, project_id)
        rule = settings.policy.rule(READING_TOOL)
        call = CompleteCall(
            **fields_of_user(principal),
            query=query,
            most=limit,
            allowed_paths=rule.allowed_paths,
            denied_paths=rule.denied_paths,
        )
        result = await self._calls.call(principal, project_id, "workspace/complete", call, CompleteAnswer)
        items = [FileName(**file) for file in (result.files or ())[:limit]]
        return FileNames(items=items, truncated=bool(result.is_cut))

    async def _online(self, principal: Principal, project_id: int, method: str | None = None) -> OnlineConnector:
        """Return the connector of a project; raise if it is offline, or does not know a method."""
        connector = await self._database.read(find_connector, principal, project_id)
        if connector is None:
            raise ConnectorNotOnline(OFFLINE)
        return connector if method is None else require_feature(connector, method)

    @asynccontextmanager
    async def _audited(
        self, principal: Principal, connector: OnlineConnector, action: str, arguments: Mapping[str, Any]
    ) -> AsyncIterator[None]:
        """Record what is about to be done, and then how it ended."""
        row = ToolCallRow(
            id=secrets.token_hex(16),
            project_id=connector.project_id,
            tool=action,
            arguments=dict(arguments),
            level="restricted",
            status="sent",
            connector_id=connector.connector_id,
        )
        rows = self._database.of(principal)
        await rows.run(note_call, row)
        try:
            yield
        except ArtelError as failure:
            status = "unknown" if isinstance(failure, ConnectorUnreachable) else "refused"
            await rows.run(finish_call, replace(row, status=status, error=failure.detail[:ERROR_CHARACTERS]))
            raise
        await rows.run(finish_call, replace(row, status="done"))


def _moment(text: str | None) -> datetime | None:
    """Return a time that a connector has sent; None if it is not one."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def connector_state(connector: OnlineConnector | None) -> ConnectorState:
    """Return the state of a project's connector as the API shows it."""
    if connector is None:
        return ConnectorState(online=False)
    return ConnectorState.of(
        connector,
        online=True,
        ask=connector.mode if connector.mode in _ASKING else None,
        commands=sorted(connector.commands),
        since=connector.since.isoformat(),
    )
