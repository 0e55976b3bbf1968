"""What happened in a session, in order: messages, calls of tools, approvals, plans, changed files, notices."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Subquery, and_, func, not_, or_

from artel.agents.repository import AgentRepository
from artel.approvals.approval import Approval, ApprovalStatus
from artel.approvals.repository import ApprovalRepository
from artel.approvals.undo_state import is_undone
from artel.auth.principal import Principal
from artel.budgets.money import dollars
from artel.contract.chat import (
    ChatMessage,
    FileOutcome,
    TimelineApproval,
    TimelineFileChange,
    TimelineItem,
    TimelineNotice,
    TimelinePlan,
    TimelineToolCall,
    ToolCallResult,
)
from artel.contract.http import Page, PageRequest
from artel.errors import TimelineItemNotFound
from artel.plans.plan import TaskStatus, Workflow, WorkflowStatus, WorkflowTask
from artel.plans.repository import TaskRepository, WorkflowRepository
from artel.sessions.answers import shown_messages
from artel.sessions.message_repository import MessageRepository, StoredMessage
from artel.sessions.repository import SessionRepository, StoredSession
from artel.text import shorten
from artel.turns.tool_calls import REDO, SWAPS, ToolCallContents, ToolCallRepository, ToolCallRow

TEXT_CHARACTERS = 300
VALUE_CHARACTERS = 1_000
DIFF_CHARACTERS = 20_000
_DELETION = re.compile(r"--- [^\n]*\n\+\+\+ /dev/null\n@@ -1,(\d{1,9}) \+0,0 @@\n")
MAX_VALUES = 30
MAX_FILES = 100
NAMED_FILES = 5
CHANGING_TOOLS = {"tool_write_file": "write", "tool_edit_file": "edit", "tool_delete_file": "delete"}
# What an agent does with a tool, and what it did.
_VERBS = {
    "tool_read_file": ("read", "read"),
    "tool_list_directory": ("list", "listed"),
    "tool_search_files": ("search for", "searched for"),
    "tool_stat": ("look at", "looked at"),
    "tool_write_file": ("write", "wrote"),
    "tool_edit_file": ("change", "changed"),
    "tool_delete_file": ("delete", "deleted"),
    "tool_run_command": ("run", "ran"),
}
_SUBJECTS = ("path", "pattern", "query", "text", "name")
_STAYS = {
    "changed_since": "was changed since, and stays",
    "not_kept": "could not be kept, and stays",
    "failed": "could not be put back",
}
_DECIDED = {
    ApprovalStatus.PENDING: "You have not answered yet.",
    ApprovalStatus.APPROVED: "You approved it.",
    ApprovalStatus.USED: "You approved it.",
    ApprovalStatus.EXPIRED: "Nobody answered in time, so it was not done.",
    ApprovalStatus.WITHDRAWN: "No longer needed.",
}
_DONE = {
    "tool_write_file": "written",
    "tool_edit_file": "changed",
    "tool_delete_file": "deleted",
    "tool_run_command": "run",
}
# The order of what happened at the same moment.
_MESSAGE, _PLAN, _APPROVAL, _CALL = range(4)

TimelineKey = tuple[datetime, int, str]  # time, rank, id: what the items are ordered by


def read_timeline(
    connection: Connection,
    principal: Principal,
    session_id: str,
    paging: PageRequest,
    last: int | None = None,
    before: str | None = None,
) -> Page[TimelineItem]:
    """Return a page of what happened in a session, oldest first.

    With `last` the newest so many; with `before` those that come directly before the item with this id.
    """
    session = SessionRepository(connection, principal).get(session_id)
    keys, total = _all_keys(connection, principal, session_id)
    if before is not None:
        earlier = _count_before(connection, keys, before)
        paging = PageRequest(min(paging.limit, earlier), max(0, earlier - paging.limit))
    elif last is not None:
        paging = PageRequest(last, max(0, total - last))
    wanted = keys.select().order_by(*_ordered(keys)).limit(paging.limit).offset(paging.offset)
    order = connection.execute(wanted).all() if paging.limit else []
    items = _items(connection, principal, session, [(row.rank, row.id) for row in order])
    return paging.page(items, total)


def timeline_after(
    connection: Connection,
    principal: Principal,
    session_id: str,
    after: TimelineKey | None,
    until: datetime,
    limit: int,
) -> tuple[list[TimelineItem], TimelineKey | None]:
    """Return the next items of the timeline up to a time, and the key of the last one; None if there are no more."""
    session = SessionRepository(connection, principal).get(session_id)
    keys, _ = _all_keys(connection, principal, session_id)
    wanted = [keys.c.at <= until] if after is None else [keys.c.at <= until, _is_after(keys, after)]
    rows = connection.execute(keys.select().where(*wanted).order_by(*_ordered(keys)).limit(limit)).all()
    items = _items(connection, principal, session, [(row.rank, row.id) for row in rows])
    return items, (rows[-1].at, rows[-1].rank, rows[-1].id) if len(rows) == limit else None


def _all_keys(connection: Connection, principal: Principal, session_id: str) -> tuple[Subquery, int]:
    """Return the keys of everything in the timeline, and their number."""
    approvals = ApprovalRepository(connection, principal)
    found = [
        MessageRepository(connection, principal).of_timeline(session_id, _MESSAGE),
        WorkflowRepository(connection, principal).of_timeline(session_id, _PLAN),
        approvals.of_timeline(session_id, _APPROVAL),
        ToolCallRepository(connection, principal).of_timeline(session_id, _CALL, approvals.refused_ids(session_id)),
    ]
    (first, _), *others = found
    return first.union_all(*(keys for keys, _ in others)).subquery(), sum(count for _, count in found)


def _count_before(connection: Connection, keys: Subquery, item_id: str) -> int:
    """Return the number of items before one; raise TimelineItemNotFound."""
    row = connection.execute(keys.select().where(keys.c.id == item_id).limit(1)).one_or_none()
    if row is None:
        raise TimelineItemNotFound("The session has no such item. Read the newest ones with `last`.")
    is_after = _is_after(keys, (row.at, row.rank, row.id))
    earlier = keys.select().where(not_(is_after), keys.c.id != item_id)
    counted = earlier.with_only_columns(func.count(), maintain_column_froms=True)
    return int(connection.execute(counted).scalar_one())


def _is_after(keys: Subquery, key: TimelineKey) -> ColumnElement[bool]:
    at, rank, item_id = key
    same_rank = and_(keys.c.rank == rank, keys.c.id > item_id)
    return or_(keys.c.at > at, and_(keys.c.at == at, or_(keys.c.rank > rank, same_rank)))


def _ordered(keys: Subquery) -> tuple[ColumnElement[Any], ...]:
    return keys.c.at, keys.c.rank, keys.c.id


def _items(
    connection: Connection, principal: Principal, session: StoredSession, order: Sequence[tuple[int, str]]
) -> list[TimelineItem]:
    """Return the items with these ranks and ids, in this order."""
    messages, plans = MessageRepository(connection, principal), WorkflowRepository(connection, principal)
    approvals, calls = ApprovalRepository(connection, principal), ToolCallRepository(connection, principal)
    ids = {rank: [key for of, key in order if of == rank] for rank in (_MESSAGE, _PLAN, _APPROVAL, _CALL)}
    names = AgentRepository(connection, principal).by_id(session.project_id) if ids[_APPROVAL] else {}
    contents = ToolCallContents(connection, principal)
    tasks = TaskRepository(connection, principal).of(*ids[_PLAN]) if ids[_PLAN] else []
    refused = approvals.refused_tasks([session.id]) if ids[_PLAN] else set()
    stored = messages.by_ids(session.id, ids[_MESSAGE])
    shown = shown_messages(connection, principal, stored)
    items: dict[int, dict[str, TimelineItem]] = {
        _MESSAGE: {message.id: _message(message, as_shown) for message, as_shown in zip(stored, shown, strict=True)},
        _PLAN: {plan.id: _plan(plan, tasks, refused) for plan in plans.by_ids(ids[_PLAN])},
        _APPROVAL: {approval.id: _approval(approval, names) for approval in approvals.by_ids(ids[_APPROVAL])},
        _CALL: _calls(session.id, calls.by_ids(ids[_CALL]), approvals, calls, contents),
    }
    return [items[rank][key] for rank, key in order if key in items[rank]]


def _message(message: StoredMessage, shown: ChatMessage) -> TimelineItem:
    common = {"id": message.id, "at": message.created_at, "turn_id": message.turn_id}
    text = shorten(message.content, TEXT_CHARACTERS)
    if message.role == "system":
        return TimelineItem(**common, kind="notice", text=text, notice=TimelineNotice(code=message.error_code))
    return TimelineItem(**common, kind="message", text=text, message=shown)


def _plan(plan: Workflow, tasks: Sequence[WorkflowTask], refused: AbstractSet[tuple[str, str]]) -> TimelineItem:
    own = [task for task in tasks if task.workflow_id == plan.id]
    completed = [task for task in own if task.status is TaskStatus.COMPLETED]
    cost = None if plan.price_unknown else dollars(plan.spent_micros)
    return TimelineItem(
        id=plan.id,
        kind="plan",
        at=plan.created_at,
        turn_id=plan.turn_id,
        text=_plan_text(plan, own, refused),
        plan=TimelinePlan(
            workflow_id=plan.id,
            status=plan.status,
            tasks=len(own),
            tasks_done=sum((plan.id, task.id) not in refused for task in completed),
            tasks_refused=sum((plan.id, task.id) in refused for task in own),
            error_code=plan.error_code,
            cost=cost,
            started_at=plan.started_at,
            finished_at=plan.finished_at,
        ),
    )


def _plan_text(plan: Workflow, tasks: Sequence[WorkflowTask], refused: AbstractSet[tuple[str, str]]) -> str:
    """Return how a plan stands; a task whose call was not approved has answered, but it is not done."""
    completed = [task for task in tasks if task.status is TaskStatus.COMPLETED]
    without = sum((task.workflow_id, task.id) in refused for task in completed)
    is_answer = plan.status is WorkflowStatus.COMPLETED and (without or len(tasks) == 1)
    status = "answered" if is_answer else plan.status
    if len(tasks) == 1:
        return f"Plan: 1 task, {status}."
    not_approved = f", {without} answered without what you did not approve" if without else ""
    return f"Plan: {len(completed) - without} of {len(tasks)} tasks done{not_approved}, {status}."


def _approval(approval: Approval, names: Mapping[int, str]) -> TimelineItem:
    if approval.kind == "tool":
        verb, _ = _VERBS.get(approval.tool, (f"use {approval.tool}", ""))
        agent = names.get(approval.agent_id or 0, "An agent")
        wanted = f"{agent} asked to {verb} {_subject(approval.arguments)}".rstrip()
    else:
        wanted = "You were asked to approve a plan" if approval.kind == "plan" else "You were asked for more money"
    done = _DONE.get(approval.tool)
    refused = f"You refused. Nothing was {done}." if done else "You refused. It was not done."
    return TimelineItem(
        id=approval.id,
        kind="approval",
        at=approval.created_at,
        turn_id=approval.turn_id,
        text=f"{wanted}. {_DECIDED.get(approval.status, refused)}",
        approval=TimelineApproval.of(
            approval,
            arguments=_shortened(approval.arguments),
            details=_shortened(approval.details.shown(), DIFF_CHARACTERS),
            where=approval.tool_details.where,
        ),
    )


def _calls(
    session_id: str,
    found: Sequence[ToolCallRow],
    approvals: ApprovalRepository,
    calls: ToolCallRepository,
    contents: ToolCallContents,
) -> dict[str, TimelineItem]:
    approved = approvals.by_ids([call.approval_id for call in found if call.approval_id is not None])
    decisions = {approval.id: approval for approval in approved}
    changes = [call for call in found if call.tool in CHANGING_TOOLS and call.status == "done"]
    paths = {path for call in changes if isinstance(path := call.arguments.get("path"), str)}
    turn_ids = {call.turn_id for call in changes if call.turn_id is not None}
    swaps = calls.swaps_of(session_id, turn_ids, paths)
    with_diff = contents.with_diff([call.id for call in changes])
    results = contents.results([call.id for call in found])
    return {
        call.id: _call(call, decisions.get(call.approval_id or ""), swaps, results.get(call.id), call.id in with_diff)
        for call in found
    }


def _call(
    call: ToolCallRow,
    decision: Approval | None,
    swaps: Sequence[ToolCallRow],
    result: ToolCallResult | None,
    has_diff: bool,
) -> TimelineItem:
    common = {"id": call.id, "at": call.created_at, "turn_id": call.turn_id}
    action = call.tool if call.tool in SWAPS else CHANGING_TOOLS.get(call.tool)
    if action is None or (action not in SWAPS and call.status != "done"):
        error = call.error and shorten(call.error, VALUE_CHARACTERS)
        payload = TimelineToolCall.of(call, arguments=_shortened(call.arguments), error=error, result=result)
        return TimelineItem(**common, kind="tool_call", text=_call_text(call), tool_call=payload)
    path, files = call.arguments.get("path"), _files(call)
    added, removed = lines_of(call, decision)
    change = TimelineFileChange.of(
        call,
        action=action,
        path=path if isinstance(path, str) else None,
        added=added,
        removed=removed,
        has_diff=has_diff,
        holds=how_allowed(call, decision),
        undone=action not in SWAPS and is_undone(call, swaps),
        files=files,
    )
    text = _swap_text(call, files) if action in SWAPS else _call_text(call)
    return TimelineItem(**common, kind="file_change", text=text, file_change=change)


def lines_of(call: ToolCallRow, decision: Approval | None) -> tuple[int | None, int | None]:
    """Return how many lines a change has added and removed; None if neither it nor its approval had a diff."""
    if call.added is not None:
        return call.added, call.removed
    return count_lines(decision.tool_details.diff if decision else None)


def how_allowed(call: ToolCallRow, decision: Approval | None) -> str | None:
    """Return for how long a change was allowed; None if that is not known."""
    return call.holds if decision is None else decision.holds or "once"


def count_lines(diff: str | None) -> tuple[int | None, int | None]:
    """Return how many lines a diff adds and removes; None if there is no diff.

    The diff of a deletion may have the first lines only: its header counts all of them.
    """
    if diff is None:
        return None, None
    if deletion := _DELETION.match(diff):
        return 0, int(deletion[1])
    lines = [line for line in diff.splitlines() if not line.startswith(("+++", "---"))]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def _call_text(call: ToolCallRow) -> str:
    """Return what an agent did, in words; a call that was not done, or may not be, is never described as done."""
    verb, past = _VERBS.get(call.tool, (f"use {call.tool}", f"used {call.tool}"))
    what = _subject(call.arguments)
    why = f": {shorten(call.error, TEXT_CHARACTERS)}" if call.error else "."
    match call.status:
        case "done":
            return f"{call.agent} {past} {what}".rstrip() + "."
        case "unchanged":
            return f"{call.agent} did not change {what}: it already says this."
        case "sent":
            return f"{call.agent} began to {verb} {what}".rstrip() + "."
        case "unknown":
            return f"Whether {call.agent} {past} {what}".rstrip() + " is not known."
        case "refused":
            return f"{call.agent} was not allowed to {verb} {what}".rstrip() + why
        case _:
            return f"{call.agent} did not {verb} {what}".rstrip() + why


def _swap_text(call: ToolCallRow, files: Sequence[FileOutcome]) -> str:
    removed, restored = ("deleted again", "changed again") if call.tool == REDO else ("removed", "put back")
    if call.status != "done" and not files:
        why = f": {shorten(call.error, TEXT_CHARACTERS)}" if call.error else "."
        is_open = call.status in ("sent", "unknown")
        return f"Nothing is known to be {restored}{why}" if is_open else f"Not {restored}{why}"
    if not files:
        return f"What this turn changed was {restored}."
    back = [
        (file.path, removed if file.outcome == "removed" else restored) for file in files if file.outcome not in _STAYS
    ]
    if len(back) <= NAMED_FILES:
        words = [f"{path} was {done}." for path, done in back]
    else:
        counts = Counter(done for _, done in back)
        words = [f"{count} {'file was' if count == 1 else 'files were'} {done}." for done, count in counts.items()]
    words += [f"{file.path} {_STAYS[file.outcome]}." for file in files if file.outcome in _STAYS]
    return shorten(" ".join(words), VALUE_CHARACTERS)


def _files(call: ToolCallRow) -> list[FileOutcome]:
    files = call.arguments.get("files")
    if call.tool not in SWAPS or not isinstance(files, list):
        return []
    return [FileOutcome(path=str(file["path"]), outcome=str(file["outcome"])) for file in files[:MAX_FILES]]


def _subject(arguments: Mapping[str, Any]) -> str:
    subject = next((str(arguments[name]) for name in _SUBJECTS if arguments.get(name)), "")
    return "the folder" if subject == "." else shorten(subject, TEXT_CHARACTERS)


def _shortened(values: Mapping[str, Any], diff: int = VALUE_CHARACTERS) -> dict[str, Any]:
    """Return values for a list: texts are shortened, and nested ones are written as text where they are long."""
    shortened = {}
    for name, value in list(values.items())[:MAX_VALUES]:
        most = diff if name == "diff" else VALUE_CHARACTERS
        if isinstance(value, str):
            shortened[name] = shorten(value, most)
        elif isinstance(value, dict | list) and len(text := str(value)) > VALUE_CHARACTERS:
            shortened[name] = shorten(text, VALUE_CHARACTERS)
        else:
            shortened[name] = value
    return shortened
