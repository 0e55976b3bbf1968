"""The user's files, for one run: calls go through the relay, and each is logged before it is sent."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError

from artel.approvals.repository import ApprovalRepository
from artel.approvals.timeline import CHANGING_TOOLS, count_lines
from artel.approvals.transactions import use
from artel.connector_gateway.relay import new_call_fields
from artel.connector_gateway.repository import OnlineConnector, find_connector
from artel.contract.chat import ToolCallResult
from artel.contract.connector import (
    ANSWERS,
    CALLS,
    MUTATING_METHODS,
    Call,
    CallAnswer,
    CallFields,
    ReadAnswer,
    ReadCall,
    StatAnswer,
    StatCall,
    UserApproval,
    WriteAnswer,
)
from artel.contract.http import Agent
from artel.db.retries import with_outage_retry
from artel.db.tx import Tx
from artel.errors import ArtelError
from artel.ids import uuid7
from artel.logs import get_logger
from artel.paths.errors import PathError
from artel.paths.policy import split_path
from artel.projects.transactions import project_settings
from artel.runs.task import Task
from artel.spaces.worker_space import WorkerSpace
from artel.text import storable
from artel.tools.consent import Decision
from artel.tools.files import READ_TOOLS, WRITE_TOOLS, FileBeginning, FileState, ReadFile
from artel.tools.policy import Policy
from artel.tools.shown_result import MOST_ENTRIES, first_entries, shown_result
from artel.tools.toolbox import AuditRecord, without_contents
from artel.turns.tool_calls import (
    ERROR_CHARACTERS,
    NOTHING,
    CallContents,
    ToolCallRow,
    finish_call,
    note_call,
    status_of,
)

CALL_SECONDS = 25.0  # less than a run may go without progress
LOOK_SECONDS = 5.0
RUN_SECONDS = 300.0
SHA256_CHARACTERS = 64
_UNASKED = ("session", "always", "yes")  # why nobody was asked about a change
ALIVE_SECONDS = 5.0

_CANCELLED = "It was cancelled. If it was sent before, whether it was done is not known."
_LEVELS = {tool.name: tool.level for tool in (*READ_TOOLS, *WRITE_TOOLS)}

A = TypeVar("A", bound=CallAnswer)

log = get_logger(__name__)


class RunFiles:
    """The files of the project, and the audit log of the run's tool calls.

    User, project and agent are those of the run, and never taken from the output of the model.
    """

    def __init__(self, space: WorkerSpace, agent: Agent, task: Task, alive: Callable[[], None]) -> None:
        self._space = space
        self._services = space.services
        self._database = space.services.database.of(space.principal)  # also for a space that another host took over
        self._agent = agent
        self._task = task
        self._alive = alive
        self._policy: Policy | None = None
        self.hashes: dict[str, str] = dict(task.waiting.run.hashes) if task.waiting else {}

    async def policy(self) -> Policy:
        """Return the policy of the project, loaded once per run."""
        if self._policy is None:
            space = self._space
            settings = await self._services.database.read(project_settings, space.principal, space.project_id)
            self._policy = Policy(settings.policy, space.pace)
        return self._policy

    async def record(self, call: AuditRecord) -> None:
        """Log a call; raise if that fails, which stops the run."""
        note = partial(note_call, contents=CallContents(result=call.result))
        await self._store(note, self._row(uuid7(), call), at_once=call.status == "cancelled")

    def _row(self, call_id: str, call: AuditRecord) -> ToolCallRow:
        return ToolCallRow(
            id=call_id,
            project_id=self._space.project_id,
            session_id=self._task.session_id or None,
            turn_id=self._task.turn_id or None,
            workflow_id=self._task.listener.workflow_id or None,
            task_id=self._task.listener.task_id if self._task.listener.workflow_id else None,
            agent_id=self._agent.id,
            agent=self._agent.name,
            tool=call.tool,
            arguments=without_contents(call.arguments),
            level=call.level,
            status=call.status,
            error=call.error and call.error[:ERROR_CHARACTERS],
            approval_id=call.approval_id,
        )

    async def file_state(self, path: str) -> FileState:
        """Return the current hash and size of a file."""
        call = StatCall(**self._fields(LOOK_SECONDS), path=path, with_sha256=True)
        found = await self._look("workspace/stat", call, StatAnswer)
        if found.code == "file_not_found":
            return FileState(sha256="")
        has_hash = found.sha256 is not None and len(found.sha256) <= SHA256_CHARACTERS
        return FileState(found.sha256 if has_hash else None, found.size if found.type == "file" else None)

    async def file_beginning(self, path: str, lines: int) -> FileBeginning | None:
        """Return the first lines of a file; None if it can't be read, or is no text."""
        rules = (await self.policy()).paths(ReadFile.name)
        call = ReadCall(**self._fields(LOOK_SECONDS), path=path, lines=lines, **rules)
        found = await self._look("workspace/read", call, ReadAnswer)
        if found.content is None or found.total_lines is None or found.sha256 is None:
            return None
        return FileBeginning(found.content, found.total_lines, found.sha256)

    async def _look(self, method: str, call: Call, answer: type[A]) -> A:
        """Return the answer to a call for an approval, which is no call of the agent."""
        return await self._services.relay.call(self._space.principal, self._space.project_id, method, call, answer)

    def hash_of(self, path: str) -> str | None:
        """Return the hash that a file had when this run last read or wrote it."""
        return self.hashes.get(_key(path))

    def remember_hash(self, path: str, sha256: str | None) -> None:
        if sha256 is None:
            self.hashes.pop(_key(path), None)
        else:
            self.hashes[_key(path)] = sha256

    async def call_connector(
        self, tool: str, method: str, params: Mapping[str, Any], approval: Decision | None
    ) -> CallAnswer:
        """Return the result of a call to the user's connector; log the call and its end exactly once."""
        approval_id = approval.approval_id if approval else None
        record = AuditRecord(tool, params, _LEVELS[tool], "sent", approval_id=approval_id)
        row = self._row(secrets.token_hex(16), record)
        try:
            result = await self._send(row, method, params, approval)
        except asyncio.CancelledError:
            await self._note_end(row, "cancelled", _CANCELLED, at_once=True)
            raise
        except Exception as failure:
            error = failure.detail if isinstance(failure, ArtelError) else "There was an error on the server."
            await self._note_end(row, "unknown" if method in MUTATING_METHODS else "failed", error)
            raise
        changed, diff = _changed(row, result)
        contents = CallContents(diff, await self._shown(tool, result) if diff is None else None)
        await self._note_end(changed, status_of(result), result.error, contents)
        return result

    async def _shown(self, tool: str, result: CallAnswer) -> ToolCallResult | None:
        """Return what is shown of a result, without what the rules of the project deny."""
        if status_of(result) != "done" or tool in CHANGING_TOOLS:
            return None
        document = result.document()
        filtered = (await self.policy()).filtered(tool, first_entries(document))
        shown = shown_result(filtered)
        total = max((len(each) for each in document.values() if isinstance(each, list)), default=0)
        if shown is None or shown.count is None or total <= MOST_ENTRIES:
            return shown
        return shown.model_copy(update={"is_cut": True, "count": total})

    async def _send(
        self, row: ToolCallRow, method: str, params: Mapping[str, Any], approval: Decision | None
    ) -> CallAnswer:
        space, approved = self._space, None
        rules = (await self.policy()).paths(row.tool)
        if approval is not None:
            holds: Any = approval.holds if approval.holds in ("once", "session", "always") else "once"
            hashes = {"old_sha256": approval.old_sha256, "new_sha256": approval.new_sha256}
            approved = UserApproval(id=approval.approval_id, holds=holds, **hashes)
        is_run, answer = method == "workspace/run", ANSWERS[method]
        fields = self._fields(RUN_SECONDS if is_run else CALL_SECONDS) | {"call_id": row.id}
        try:
            call = CALLS[method].model_validate({**params, **rules, "approval": approved, **fields})
        except ValidationError as invalid:
            wrong = invalid.errors()[0]  # without the input
            field = ".".join(str(step) for step in wrong["loc"]) or "the call"
            why = f"{field[:100]}: {wrong['msg'][:200]}"
            return answer(success=False, code="failed", error=f"It was not sent: {why}. Correct it.")
        is_allowed, serving = await self._database.run(_note_sent, row)
        if not is_allowed:
            return answer(success=False, code="refused", error="The approval was used before. Ask again.")
        keep_alive = asyncio.ensure_future(self._keep_alive()) if is_run else None
        try:
            result = await self._services.relay.call(space.principal, space.project_id, method, call, answer, serving)
        finally:
            if keep_alive is not None:
                keep_alive.cancel()
        if result.code == "asks" and serving:
            return result.model_copy(update={"where": result.where or serving.mode})
        return result

    def _fields(self, seconds: float) -> CallFields:
        epoch = self._space.lease.epoch if self._space.lease else 0
        fields = new_call_fields(self._space.principal, epoch, seconds)
        return {**fields, "turn_id": self._task.turn_id, "agent": self._agent.name}

    async def _keep_alive(self) -> None:
        """Reset the progress timeout of the run while a long call runs."""
        while True:
            await asyncio.sleep(ALIVE_SECONDS)
            self._alive()

    async def _store(self, write: Callable[[Tx, ToolCallRow], None], row: ToolCallRow, *, at_once: bool) -> None:
        if at_once:
            await self._database.run(write, row)
        else:
            await with_outage_retry(lambda: self._database.run(write, row), "note")

    async def _note_end(
        self,
        row: ToolCallRow,
        status: str,
        error: str | None,
        contents: CallContents = NOTHING,
        *,
        at_once: bool = False,
    ) -> None:
        ended = replace(row, status=status, error=error and error[:ERROR_CHARACTERS])
        try:
            await self._store(partial(_finish, contents=contents), ended, at_once=at_once)
        except ArtelError as failure:  # the log already has the call as sent
            log.warning("end_of_call_not_noted", call_id=row.id, reason=failure.detail)


def _note_sent(tx: Tx, row: ToolCallRow) -> tuple[bool, OnlineConnector | None]:
    """Use up the approval of a call and log the call as sent; return whether it is allowed, and who serves it."""
    if row.approval_id is not None and not use(tx, row.approval_id):
        return False, None
    serving = find_connector(tx.connection, tx.principal, row.project_id)
    note_call(tx, replace(row, connector_id=serving.connector_id if serving else None))
    return True, serving


def _finish(tx: Tx, row: ToolCallRow, contents: CallContents) -> None:
    """Store the outcome of a call, without a second copy of a diff that its approval has."""
    decision = next(iter(ApprovalRepository(tx).by_ids([row.approval_id] if row.approval_id else [])), None)
    is_there = contents.diff is not None and decision is not None and decision.tool_details.diff == contents.diff
    finish_call(tx, row, replace(contents, is_in_approval=is_there))


def _changed(row: ToolCallRow, result: CallAnswer) -> tuple[ToolCallRow, str | None]:
    """Return a call with what the connector tells of its change, and the diff; older connectors tell nothing."""
    if not isinstance(result, WriteAnswer) or status_of(result) != "done" or result.diff is None:
        return row, None
    diff = storable(result.diff)
    added, removed = count_lines(diff)
    holds = result.holds if result.holds in _UNASKED else None
    grant = storable(result.grant) if holds and result.grant is not None else None
    return replace(row, added=added, removed=removed, holds=holds, grant=grant), diff


def _key(path: str) -> str:
    try:
        return "/".join(split_path(path))
    except PathError:
        return path
