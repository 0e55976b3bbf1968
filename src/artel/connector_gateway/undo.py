"""Undo and redo of a turn's changes in the user's folder: calls to the connector, recorded before they are sent."""

import secrets
from dataclasses import replace
from typing import Any

from artel.auth.principal import Principal
from artel.connector_gateway.folder_calls import ASKS_IN_TERMINAL, FolderCalls, fields_of_user, require_feature
from artel.connector_gateway.relay import Relay
from artel.connector_gateway.repository import OnlineConnector, find_connector
from artel.contract.approvals import NewRedo, NewUndo, UndoComparison, UndoneFile
from artel.contract.connector import CallFields, CompareAnswer, CompareCall, RedoCall, UndoAnswer, UndoCall
from artel.db.engine import Database
from artel.db.lease import LeaseRepository
from artel.db.tx import Tx
from artel.errors import ArtelError, ConnectorUnreachable, UndoRefused
from artel.logs import get_logger
from artel.text import storable
from artel.turns.repository import TurnRepository
from artel.turns.tool_calls import ERROR_CHARACTERS, REDO, UNDO, ToolCallRow, finish_call, note_call, status_of

UNDO_SECONDS = 25.0
MAX_FILES = 100  # whose outcome is recorded
MAX_PATH = 1_024
_PUT_BACK = ("restored", "removed")

log = get_logger(__name__)


async def undo(
    database: Database, relay: Relay, principal: Principal, project_id: int, wanted: NewUndo
) -> list[UndoneFile]:
    """Return each file's outcome; raise if no file was put back."""
    row, connector, epoch = await database.of(principal).run(_record, project_id, secrets.token_hex(16), UNDO, wanted)
    call = UndoCall(
        **_fields(row, principal, epoch),
        of_turn=wanted.turn_id,
        path=wanted.path,
        again=False,  # a retry after a lost answer must not redo the changes
        if_match=wanted.if_match,
    )
    return await _swap(database, relay, principal, row, call, connector)


async def redo(
    database: Database, relay: Relay, principal: Principal, project_id: int, wanted: NewRedo
) -> list[UndoneFile]:
    """Return each file's outcome; raise if nothing was redone."""
    await _require_turn(database, principal, project_id, wanted.turn_id)
    connector = await database.read(find_connector, principal, project_id)
    require_feature(connector, "workspace/redo")  # before the record: an older connector is never called
    row, connector, epoch = await database.of(principal).run(_record, project_id, secrets.token_hex(16), REDO, wanted)
    call = RedoCall(**_fields(row, principal, epoch), of_turn=wanted.turn_id, path=wanted.path)
    return await _swap(database, relay, principal, row, call, connector)


async def compare(
    database: Database, relay: Relay, principal: Principal, project_id: int, turn_id: str, path: str
) -> UndoComparison:
    """Return what the undo of a file would change now."""
    await _require_turn(database, principal, project_id, turn_id)
    call = CompareCall(**fields_of_user(principal, UNDO_SECONDS), of_turn=turn_id, path=path)
    found = await FolderCalls(database, relay).call(principal, project_id, "workspace/compare", call, CompareAnswer)
    return UndoComparison(path=path, sha256=found.sha256 or "", diff=found.diff or "", notice=found.notice)


async def _require_turn(database: Database, principal: Principal, project_id: int, turn_id: str) -> None:
    """Raise TurnNotFound if the project has no such turn, before anything is said about its connector."""
    await database.read(lambda *scope: TurnRepository(*scope).of_project(project_id, turn_id), principal)


def _fields(row: ToolCallRow, principal: Principal, epoch: int) -> CallFields:
    return {**fields_of_user(principal, UNDO_SECONDS), "call_id": row.id, "epoch": epoch}


async def _swap(
    database: Database,
    relay: Relay,
    principal: Principal,
    row: ToolCallRow,
    call: UndoCall | RedoCall,
    connector: OnlineConnector | None,
) -> list[UndoneFile]:
    """Call the connector and record the outcome; return each file's, or raise if no file was touched."""
    result = await relay.call(principal, row.project_id, f"workspace/{row.tool}", call, UndoAnswer, connector)
    files = result.files or []
    recorded = [{name: storable(str(text))[:MAX_PATH] for name, text in file.items()} for file in files[:MAX_FILES]]
    error = result.error and result.error[:ERROR_CHARACTERS]
    ended = replace(row, status=status_of(result), error=error, arguments=row.arguments | {"files": recorded})
    try:
        await database.of(principal).run(finish_call, ended)
    except ArtelError as failure:  # the record still says that it was sent
        log.warning("end_of_call_not_noted", call_id=row.id, reason=failure.detail)
    if any(file["outcome"] in _PUT_BACK for file in files):
        return [UndoneFile(**file) for file in files]
    if result.code in ("offline", "timed_out"):
        command = "artel undo" if row.tool == UNDO else "artel undo --again"
        raise ConnectorUnreachable(
            f"Your files can't be reached. Run `artel connect` in your folder and try again, or run `{command}` there."
        )
    if result.code == "asks":
        raise UndoRefused(ASKS_IN_TERMINAL)
    raise UndoRefused(result.error or f"There is nothing to {row.tool}")


def _record(
    tx: Tx, project_id: int, call_id: str, tool: str, wanted: NewUndo | NewRedo
) -> tuple[ToolCallRow, OnlineConnector | None, int]:
    """Record that the undo or redo is sent; raise if the turn does not belong to the project.

    Return the record, the connector and the epoch of the worker space.
    """
    connection, principal = tx.connection, tx.principal
    connector = find_connector(connection, principal, project_id)
    turn = TurnRepository(tx).of_project(project_id, wanted.turn_id) if wanted.turn_id is not None else None
    arguments: dict[str, Any] = wanted.model_dump(exclude_none=True)
    row = ToolCallRow(
        id=call_id,
        project_id=project_id,
        session_id=turn.session_id if turn else None,
        turn_id=turn.id if turn else None,
        tool=tool,
        arguments=arguments,
        level="restricted",
        status="sent",
        connector_id=connector.connector_id if connector else None,
    )
    note_call(tx, row)
    return row, connector, LeaseRepository(tx).epoch(project_id)
