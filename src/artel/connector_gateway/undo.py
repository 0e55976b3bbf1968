"""Undo of a turn's changes in the user's folder: a call to the connector, recorded before it is sent."""

import secrets
from dataclasses import replace
from typing import Any

from artel.auth.principal import Principal
from artel.connector_gateway.folder_calls import ASKS_IN_TERMINAL
from artel.connector_gateway.relay import Relay
from artel.connector_gateway.repository import OnlineConnector, find_connector
from artel.contract.approvals import NewUndo, UndoneFile
from artel.contract.connector import UndoCall
from artel.db.engine import Database
from artel.db.lease import LeaseRepository
from artel.db.tx import Tx
from artel.errors import ArtelError, ConnectorUnreachable, UndoRefused
from artel.logs import get_logger
from artel.text import storable
from artel.turns.repository import TurnRepository
from artel.turns.tool_calls import ERROR_CHARACTERS, UNDO, ToolCallRow, finish_call, note_call, status_of

UNDO_SECONDS = 25.0
MAX_FILES = 100  # whose outcome is recorded
MAX_PATH = 1_024
_PUT_BACK = ("restored", "removed")
_RECORDED = ("path", "turn_id", "outcome")  # of each file

log = get_logger(__name__)


async def undo(
    database: Database, relay: Relay, principal: Principal, project_id: int, wanted: NewUndo
) -> list[UndoneFile]:
    """Return each file's outcome; raise if no file was put back."""
    call_id = secrets.token_hex(16)
    row, connector, epoch = await database.of(principal).run(_record, project_id, call_id, wanted)
    call = UndoCall(
        call_id=call_id,
        user_id=principal.user_id,
        epoch=epoch,
        timeout_ms=1,
        agent="the user",
        of_turn=wanted.turn_id,
        path=wanted.path,
        again=False,  # a retry after a lost answer must not redo the changes
    )
    result = await relay.call(principal, project_id, "workspace/undo", call, UNDO_SECONDS, connector)
    files = result.more.get("files", [])
    recorded = [{name: storable(file[name])[:MAX_PATH] for name in _RECORDED} for file in files[:MAX_FILES]]
    error = result.error and result.error[:ERROR_CHARACTERS]
    ended = replace(row, status=status_of(result), error=error, arguments=row.arguments | {"files": recorded})
    try:
        await database.of(principal).run(finish_call, ended)
    except ArtelError as failure:  # the record still says that it was sent
        log.warning("end_of_call_not_noted", call_id=call_id, reason=failure.detail)
    if any(file["outcome"] in _PUT_BACK for file in files):
        return [UndoneFile(**file) for file in files]
    if result.code in ("offline", "timed_out"):
        raise ConnectorUnreachable(
            "Your files can't be reached. Run `artel connect` in your folder and try again, or run `artel undo` there."
        )
    if result.code == "asks":
        raise UndoRefused(ASKS_IN_TERMINAL)
    raise UndoRefused(result.error or "There is nothing to undo")


def _record(tx: Tx, project_id: int, call_id: str, wanted: NewUndo) -> tuple[ToolCallRow, OnlineConnector | None, int]:
    """Record that the undo is sent; raise if the turn does not belong to the project.

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
        tool=UNDO,
        arguments=arguments,
        level="restricted",
        status="sent",
        connector_id=connector.connector_id if connector else None,
    )
    note_call(tx, row)
    return row, connector, LeaseRepository(tx).epoch(project_id)
