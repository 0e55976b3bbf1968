"""Rows of calls of tools: the audit log of a project, and what the calls of a session changed and returned."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, Text, and_, cast, func, not_, or_

from artel.auth.principal import Principal
from artel.contract.chat import ToolCallResult
from artel.contract.connector import CallAnswer, WriteAnswer
from artel.contract.http import PageRequest
from artel.db.tables import tool_calls
from artel.db.tenant import TenantRepository
from artel.db.tool_call_tables import tool_call_contents
from artel.db.tx import Tx
from artel.errors import SessionNotFound
from artel.projects.repository import ProjectRepository
from artel.sessions.repository import SessionRepository

ERROR_CHARACTERS = 1_000
MAX_CONTENTS_BYTES = 5_000_000  # of a session; of further calls only the counts of lines are stored
UNDO, REDO = "undo", "redo"  # by the user
SWAPS = (UNDO, REDO)
MAX_UNDONE = 200  # of those that may concern the calls on a page

_OUTCOME = ("status", "error", "added", "removed", "holds", "grant")
_STATUSES = {"asks": "asked", "unknown": "unknown", "refused": "refused"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRow:
    """One call of a tool, as it is kept.

    `added` and `removed` are None unless the connector told the diff of a change; `holds` is set if nobody was
    asked about it.
    """

    id: str
    project_id: int
    session_id: str | None = None
    turn_id: str | None = None
    workflow_id: str | None = None
    task_id: str | None = None
    agent_id: int | None = None
    agent: str = ""
    tool: str
    arguments: dict[str, Any]
    level: str
    status: str
    error: str | None = None
    connector_id: str | None = None
    approval_id: str | None = None
    added: int | None = None
    removed: int | None = None
    holds: str | None = None
    grant: str | None = None
    created_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CallContents:
    """What a call changed, and what is shown of what it returned."""

    diff: str | None = None
    result: ToolCallResult | None = None
    is_in_approval: bool = False  # the diff, which is not stored again


class ToolCallContents(TenantRepository):
    """What the calls of one user's sessions changed and returned; deleted with the session."""

    table = tool_call_contents

    def add(self, call: ToolCallRow, contents: CallContents) -> None:
        """Store the contents of a call, unless those of its session take up MAX_CONTENTS_BYTES."""
        if self.stored_bytes(tool_call_contents.c.session_id == call.session_id) >= MAX_CONTENTS_BYTES:
            return
        ids = {"call_id": call.id, "project_id": call.project_id, "session_id": call.session_id}
        result = contents.result and contents.result.model_dump(mode="json")
        diff = None if contents.is_in_approval else contents.diff
        self._insert_unless_exists(ids | {"diff": diff, "result": result})

    def stored_bytes(self, *conditions: ColumnElement[bool]) -> int:
        """Return the size of the contents that meet the conditions, or of all of the user, in bytes."""
        sizes = tool_call_contents.c.diff, cast(tool_call_contents.c.result, Text)
        return sum(self._bytes_of(column, *conditions) for column in sizes)

    def with_diff(self, call_ids: Collection[str]) -> set[str]:
        """Return the ids of the calls whose diff is stored, here or in their approval."""
        wanted = tool_call_contents.c.call_id.in_(call_ids), tool_call_contents.c.result.is_(None)
        rows = self._find(*wanted, columns=[tool_call_contents.c.call_id]) if call_ids else []
        return {row.call_id for row in rows}

    def diff_of(self, project_id: int, call_id: str, approved: str | None) -> str | None:
        """Return the diff of a call, which may be the one that was approved; None if there is none."""
        ids = tool_call_contents.c.project_id == project_id, tool_call_contents.c.call_id == call_id
        return next((approved if row.diff is None else row.diff for row in self._find(*ids)), None)

    def results(self, call_ids: Collection[str]) -> dict[str, ToolCallResult]:
        """Return the results of calls that have one, keyed by id."""
        wanted = tool_call_contents.c.call_id.in_(call_ids), tool_call_contents.c.result.is_not(None)
        columns = tool_call_contents.c.call_id, tool_call_contents.c.result
        rows = self._find(*wanted, columns=columns) if call_ids else []
        return {row.call_id: ToolCallResult.model_validate(row.result) for row in rows}


class ToolCallRepository(TenantRepository):
    """Calls of tools for one user."""

    table = tool_calls

    def add(self, call: ToolCallRow) -> None:
        values = {name: getattr(call, name) for name in ToolCallRow.__slots__}
        self._add([values | {"created_at": call.created_at or datetime.now(UTC)}])

    def has(self, call_id: str) -> bool:
        return bool(self._count(tool_calls.c.id == call_id))

    def finish(self, call: ToolCallRow) -> bool:
        """Store what came of a call that was sent; return whether it is kept."""
        values: dict[str, Any] = {name: getattr(call, name) for name in _OUTCOME} | {"finished_at": datetime.now(UTC)}
        if call.tool in SWAPS:
            values["arguments"] = call.arguments  # now with what became of each file
        return self._change(values, tool_calls.c.id == call.id)

    def page(self, project_id: int, session_id: str | None, paging: PageRequest) -> list[ToolCallRow]:
        newest = tool_calls.c.created_at.desc(), tool_calls.c.id.desc()
        rows = self._find(*_in(project_id, session_id), order_by=newest, limit=paging.limit, offset=paging.offset)
        return [_call(row) for row in rows]

    def count(self, project_id: int, session_id: str | None) -> int:
        return self._count(*_in(project_id, session_id))

    def of_timeline(self, session_id: str, rank: int, refused_ids: Select[Any]) -> tuple[Select[Any], int]:
        """Return the keys of the session's calls for its timeline, and how many there are.

        Calls that only made the connector ask, or that the user refused, are left out: the approval is shown instead.
        `refused_ids` selects the ids of approvals that were refused or not answered.
        """
        is_refused = and_(
            tool_calls.c.status == "refused",
            tool_calls.c.approval_id.is_not(None),
            tool_calls.c.approval_id.in_(refused_ids),
        )
        shown = tool_calls.c.session_id == session_id, tool_calls.c.status != "asked", not_(is_refused)
        return self._ranked(rank).where(*shown), self._count(*shown, by_key=True)

    def by_ids(self, ids: Sequence[str]) -> list[ToolCallRow]:
        return [_call(row) for row in self._find(tool_calls.c.id.in_(ids))] if ids else []

    def changed_turns(
        self, project_id: int, tools: Collection[str], paging: PageRequest
    ) -> tuple[list[tuple[str, datetime]], int]:
        """Return a page of the turns that changed files with these tools, newest first, and the number of all.

        Each has the time of its last change.
        """
        changes = *_in(project_id, None), *_done(tools), tool_calls.c.turn_id.is_not(None)
        at = func.max(tool_calls.c.created_at)
        turns = self._select(tool_calls.c.turn_id, at).where(*changes).group_by(tool_calls.c.turn_id)
        page = turns.order_by(at.desc(), tool_calls.c.turn_id.desc()).limit(paging.limit).offset(paging.offset)
        total = self._select(func.count(tool_calls.c.turn_id.distinct())).where(*changes)
        found = [(turn_id, last) for turn_id, last in self.connection.execute(page)]
        return found, int(self.connection.execute(total).scalar_one())

    def of_turns(
        self, project_id: int, turn_ids: Collection[str], tools: Collection[str], limit: int
    ) -> list[ToolCallRow]:
        """Return the newest calls of these tools in some turns that were done, newest first."""
        wanted = *_in(project_id, None), tool_calls.c.turn_id.in_(turn_ids), *_done(tools)
        newest = tool_calls.c.created_at.desc(), tool_calls.c.id.desc()
        return [_call(row) for row in self._find(*wanted, order_by=newest, limit=limit)]

    def swaps(self, project_id: int, since: datetime) -> list[ToolCallRow]:
        """Return the newest undo and redo calls of a project since a time, newest first."""
        wanted = *_in(project_id, None), tool_calls.c.tool.in_(SWAPS), tool_calls.c.created_at >= since
        rows = self._find(*wanted, order_by=[tool_calls.c.created_at.desc()], limit=MAX_UNDONE)
        return [_call(row) for row in rows]

    def swaps_of(self, session_id: str, turn_ids: Collection[str], paths: Collection[str]) -> list[ToolCallRow]:
        """Return the newest undo and redo calls for these turns or paths, newest first."""
        if not turn_ids:
            return []
        path = tool_calls.c.arguments["path"].as_string()
        # One that failed for one file may have put back others.
        has_ended = tool_calls.c.status.in_(("done", "failed"))
        done = tool_calls.c.session_id == session_id, tool_calls.c.tool.in_(SWAPS), has_ended
        concerned = tool_calls.c.turn_id.in_(turn_ids), or_(path.is_(None), path.in_(paths))
        rows = self._find(*done, *concerned, order_by=[tool_calls.c.created_at.desc()], limit=MAX_UNDONE)
        return [_call(row) for row in rows]


NOTHING = CallContents()


def note_call(tx: Tx, call: ToolCallRow, contents: CallContents = NOTHING) -> None:
    """Record a call, once."""
    calls = ToolCallRepository(tx)
    if not calls.has(call.id):
        _add_contents(tx, call, contents)
        calls.add(call)


def finish_call(tx: Tx, call: ToolCallRow, contents: CallContents = NOTHING) -> None:
    """Store the outcome of a call, whether it was recorded before or not, with what it changed and returned."""
    calls = ToolCallRepository(tx)
    _add_contents(tx, call, contents)
    if not calls.finish(call):
        calls.add(replace(call, finished_at=datetime.now(UTC)))


def _add_contents(tx: Tx, call: ToolCallRow, contents: CallContents) -> None:
    """Store the contents of a call unless its session is gone."""
    if contents != NOTHING and call.session_id is not None and SessionRepository(tx).lock_shared(call.session_id):
        ToolCallContents(tx).add(call, contents)


def list_calls(
    connection: Connection,
    principal: Principal,
    project_id: int,
    paging: PageRequest,
    session_id: str | None = None,
) -> tuple[list[ToolCallRow], int]:
    """Return a page of the calls of a project or session, newest first, and their total."""
    ProjectRepository(connection, principal).get(project_id)
    if session_id is not None and SessionRepository(connection, principal).get(session_id).project_id != project_id:
        raise SessionNotFound("Session not found")
    calls = ToolCallRepository(connection, principal)
    return calls.page(project_id, session_id, paging), calls.count(project_id, session_id)


def status_of(result: CallAnswer) -> str:
    """Return the status to store for a connector's result."""
    if result.success and isinstance(result, WriteAnswer) and result.unchanged:
        return "unchanged"
    return "done" if result.success else _STATUSES.get(result.code or "", "failed")


def _done(tools: Collection[str]) -> tuple[ColumnElement[bool], ...]:
    return tool_calls.c.tool.in_(list(tools)), tool_calls.c.status == "done"


def _in(project_id: int, session_id: str | None) -> list[ColumnElement[bool]]:
    wanted = (tool_calls.c.project_id, project_id), (tool_calls.c.session_id, session_id)
    return [column == value for column, value in wanted if value is not None]


def _call(row: Row[Any]) -> ToolCallRow:
    return ToolCallRow(**{name: getattr(row, name) for name in ToolCallRow.__slots__})
