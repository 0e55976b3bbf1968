"""A whole session as Markdown or JSON: messages, tool calls, approvals, plans, file changes and notices."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Literal

from artel.approvals.timeline import timeline_after
from artel.auth.principal import Principal
from artel.contract.chat import ChatMessage, TimelineApproval, TimelineItem, WorkflowState
from artel.contract.http import Session
from artel.db.engine import Database
from artel.errors import WorkflowNotFound
from artel.plans.service import WorkflowService
from artel.sessions.transactions import get_session
from artel.text import one_line

PAGE = 100  # items that are read, and sent, at once
NAME_CHARACTERS = 60
Format = Literal["markdown", "json"]
Entry = tuple[TimelineItem, WorkflowState | None]

_NAME = re.compile(r"[^A-Za-z0-9]+")
_FENCE = re.compile(r"`{3,}")


class SessionExport:
    """Reads sessions piece by piece, so that long ones need little memory."""

    def __init__(self, database: Database, workflows: WorkflowService) -> None:
        self._database = database
        self._workflows = workflows

    async def open(self, user: Principal, session_id: str, wanted: Format) -> tuple[str, AsyncIterator[bytes]]:
        """Return the name of the file and its content; raise SessionNotFound."""
        shown = await self._database.read(get_session, user, session_id)
        session = Session(**{name: getattr(shown, name) for name in Session.model_fields})
        name = _NAME.sub("-", session.title).strip("-")[:NAME_CHARACTERS].strip("-") or "session"
        entries = self._entries(user, session_id)
        if wanted == "json":
            return f"{name}.json", _json(session, entries)
        return f"{name}.md", _markdown(session, entries)

    async def _entries(self, user: Principal, session_id: str) -> AsyncIterator[list[Entry]]:
        """Yield what happened in the session until now."""
        until, after = datetime.now(UTC), None
        while True:
            step = session_id, after, until, PAGE
            items, after = await self._database.read(timeline_after, user, *step)
            yield [(item, await self._workflow(user, item)) for item in items]
            if after is None:
                return

    async def _workflow(self, user: Principal, item: TimelineItem) -> WorkflowState | None:
        if item.plan is None:
            return None
        try:
            return await self._workflows.show(user, item.plan.workflow_id)
        except WorkflowNotFound:
            return None


async def _json(session: Session, pages: AsyncIterator[list[Entry]]) -> AsyncIterator[bytes]:
    head = {"exported_at": datetime.now(UTC).isoformat(), "session": session.model_dump(mode="json")}
    yield json.dumps(head, ensure_ascii=False)[:-1].encode() + b', "items": ['
    comma = ""
    async for entries in pages:
        documents = []
        for item, workflow in entries:
            plan = {} if workflow is None else {"workflow": workflow.model_dump(mode="json")}
            documents.append(json.dumps(item.model_dump(mode="json", exclude_none=True) | plan, ensure_ascii=False))
        if documents:
            yield (comma + ",\n".join(documents)).encode()
            comma = ",\n"
    yield b"]}\n"


async def _markdown(session: Session, pages: AsyncIterator[list[Entry]]) -> AsyncIterator[bytes]:
    yield f"# {one_line(session.title, 200)}\n\nExported on {_time(datetime.now(UTC))}.\n".encode()
    async for entries in pages:
        text = "".join(f"\n{part}\n" for item, workflow in entries for part in _parts(item, workflow))
        if text:
            yield text.encode()


def _parts(item: TimelineItem, workflow: WorkflowState | None) -> Iterator[str]:
    """Yield the blocks of one item."""
    if item.message is not None:
        yield from _message(item.message)
    elif item.notice is not None:
        yield f"> **Notice** ({_time(item.at)}): {one_line(item.text, 1_000)}"
    else:
        yield f"- {_time(item.at)}: {one_line(item.text, 1_000)}"
    if item.approval is not None:
        yield from _approval(item.approval)
    if item.tool_call is not None and item.tool_call.arguments:
        yield _fenced(json.dumps(item.tool_call.arguments, ensure_ascii=False, indent=2), "json")
    for task in workflow.tasks if workflow else ():
        tick = "x" if task.status == "completed" and not task.refused else " "
        status = "answered, not approved" if task.status == "completed" and task.refused else task.status
        yield f"- [{tick}] {one_line(task.id, 64)}, {task.agent} ({status}): {one_line(task.description, 1_000)}"
        if said := task.result or task.error:
            yield "\n".join(f"  > {line}" for line in said.splitlines())


def _approval(approval: TimelineApproval) -> Iterator[str]:
    diff = approval.details.get("diff")
    if isinstance(diff, str) and diff.strip():
        yield _fenced(diff, "diff")
    if approval.feedback:
        yield f"> You said: {one_line(approval.feedback, 1_000)}"


def _message(message: ChatMessage) -> Iterator[str]:
    who = "You" if message.role == "user" else message.agent or "Orchestrator"
    note = {"ok": "", "continued": ""}.get(message.status, f" ({message.status.replace('_', ' ')})")
    yield f"## {who}, {_time(message.timestamp)}{note}"
    yield message.content
    if message.attachments:
        sizes = (f"{one_line(file.name, 255)} ({file.size:,} bytes)" for file in message.attachments)
        yield f"Attached: {', '.join(sizes)}"
    if message.usage is not None:
        usage = message.usage
        cost = "price unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
        seconds = f", {message.duration_ms / 1000:.1f} s" if message.duration_ms is not None else ""
        yield f"*{usage.model}: {usage.input_tokens} tokens in, {usage.output_tokens} out, {cost}{seconds}*"


def _fenced(text: str, language: str) -> str:
    """Return a code block whose fence does not occur in the text."""
    fence = "`" * max([3, *(len(found) + 1 for found in _FENCE.findall(text))])
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
