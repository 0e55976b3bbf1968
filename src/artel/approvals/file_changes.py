"""What agents changed in the connected folder of a project, grouped by turn."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime

from sqlalchemy import Connection

from artel.approvals.repository import ApprovalRepository
from artel.approvals.timeline import CHANGING_TOOLS, how_allowed, lines_of
from artel.approvals.undo_state import is_undone, plain_path
from artel.auth.principal import Principal
from artel.contract.approvals import ChangedFile, FileDiff, TurnChanges
from artel.contract.http import Page, PageRequest
from artel.errors import DiffNotFound
from artel.projects.repository import ProjectRepository
from artel.sessions.repository import SessionRepository
from artel.turns.tool_calls import ToolCallContents, ToolCallRepository, ToolCallRow

MAX_CALLS = 5_000  # on one page; the oldest turns on it then have fewer or no files
AGENT_CHARACTERS = 200


def read_changes(
    connection: Connection, principal: Principal, project_id: int, paging: PageRequest
) -> Page[TurnChanges]:
    """Return a page of the turns that changed files, newest first."""
    ProjectRepository(connection, principal).get(project_id)
    rows = ToolCallRepository(connection, principal)
    turns, total = rows.changed_turns(project_id, CHANGING_TOOLS, paging)
    every = rows.of_turns(project_id, [turn_id for turn_id, _ in turns], CHANGING_TOOLS, MAX_CALLS) if turns else []
    begun = [call.created_at for call in every if call.created_at is not None]
    swaps = rows.swaps(project_id, min(begun)) if begun else []
    approvals = ApprovalRepository(connection, principal)
    approved = approvals.by_ids([call.approval_id for call in every if call.approval_id is not None])
    decisions = {approval.id: approval for approval in approved}
    lines = {call.id: lines_of(call, decisions.get(call.approval_id or "")) for call in every}
    with_diff = ToolCallContents(connection, principal).with_diff([call.id for call in every])
    titles = SessionRepository(connection, principal).titles({call.session_id for call in every if call.session_id})
    calls: dict[str | None, list[ToolCallRow]] = {}
    for call in reversed(every):  # in the order in which they were made
        calls.setdefault(call.turn_id, []).append(call)
    items = [_turn(turn_id, at, calls.get(turn_id, []), swaps, lines, with_diff, titles) for turn_id, at in turns]
    return paging.page(items, total)


def read_diff(connection: Connection, principal: Principal, project_id: int, call_id: str) -> FileDiff:
    """Return what one call changed; raise DiffNotFound."""
    ProjectRepository(connection, principal).get(project_id)
    call = next(iter(ToolCallRepository(connection, principal).by_ids([call_id])), None)
    approval_id = call.approval_id if call is not None else None
    decision = next(iter(ApprovalRepository(connection, principal).by_ids([approval_id or ""])), None)
    approved = decision.tool_details.diff if decision is not None else None
    diff = ToolCallContents(connection, principal).diff_of(project_id, call_id, approved)
    if diff is None or call is None or call.tool not in CHANGING_TOOLS:
        raise DiffNotFound("There is no such change, or its diff is not stored: its conversation may be deleted.")
    return FileDiff.of(
        call,
        action=CHANGING_TOOLS[call.tool],
        path=plain_path(call.arguments.get("path")),
        at=call.created_at,
        diff=diff,
        holds=how_allowed(call, decision),
    )


def _turn(
    turn_id: str,
    at: datetime,
    calls: Sequence[ToolCallRow],
    swaps: Sequence[ToolCallRow],
    lines: dict[str, tuple[int | None, int | None]],
    with_diff: AbstractSet[str],
    titles: dict[str, str],
) -> TurnChanges:
    by_path: dict[str, list[ToolCallRow]] = {}
    for call in calls:
        by_path.setdefault(plain_path(call.arguments.get("path")), []).append(call)
    session_id = next((call.session_id for call in calls), None)
    return TurnChanges(
        turn_id=turn_id,
        session_id=session_id,
        session_title=titles.get(session_id or ""),
        at=at,
        agent=", ".join(dict.fromkeys(call.agent for call in calls))[:AGENT_CHARACTERS],
        files=[_file(path, changes, swaps, lines, with_diff) for path, changes in by_path.items()],
    )


def _file(
    path: str,
    changes: Sequence[ToolCallRow],
    swaps: Sequence[ToolCallRow],
    lines: dict[str, tuple[int | None, int | None]],
    with_diff: AbstractSet[str],
) -> ChangedFile:
    last = changes[-1]
    counts = [lines[call.id] for call in changes]
    added, removed = [added for added, _ in counts], [removed for _, removed in counts]
    return ChangedFile.model_validate(
        {
            "path": path,
            "action": CHANGING_TOOLS[last.tool],
            "added": _sum(added),
            "removed": _sum(removed),
            "undone": all(is_undone(call, swaps) for call in changes),
            "approval_id": last.approval_id,
            "call_id": last.id if last.id in with_diff else None,
            "changes": len(changes),
        }
    )


def _sum(numbers: Sequence[int | None]) -> int | None:
    """Return the sum; None if a number is not known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
