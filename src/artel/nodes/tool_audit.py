"""The audit log of a node's tool calls: a log line and a line of a rotating file for each."""

import asyncio
from pathlib import Path

from artel.connector.audit_log import AuditLog
from artel.logs import get_logger, mask
from artel.nodes.task_scope import TaskScope
from artel.tools.toolbox import SHOWN_CHARACTERS, AuditRecord, without_contents

FILE_NAME = "tool-calls.jsonl"

log = get_logger(__name__)


class ToolAudit:
    """The audit log of one node; the file holds up to four times 5 MB."""

    def __init__(self, node: str, folder: Path) -> None:
        self._node = node
        self._folder = folder
        self._file = AuditLog(folder / FILE_NAME)

    def of(self, scope: TaskScope) -> "TaskAudit":
        """Return the audit of one task."""
        return TaskAudit(self, scope)

    async def add(self, scope: TaskScope, call: AuditRecord) -> None:
        """Write the record of a call, with hashes instead of contents and without what looks like a secret."""
        fields = mask(
            {
                "node": self._node,
                "task_id": scope.task_id[:SHOWN_CHARACTERS],
                "user_id": scope.user_id,
                "project_id": scope.project_id,
                "tool": call.tool,
                "level": str(call.level),
                "status": call.status,
                "error": call.error and call.error[:SHOWN_CHARACTERS],
                "approval_id": call.approval_id,
                "arguments": without_contents(call.arguments),
            }
        )
        log.info("tool_call", **fields)
        await asyncio.to_thread(self._write, fields)

    def _write(self, fields: dict[str, object]) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file.add(**fields)


class TaskAudit:
    """The audit of one task: what the toolbox writes its records to."""

    def __init__(self, audit: ToolAudit, scope: TaskScope) -> None:
        self._audit = audit
        self._scope = scope

    async def record(self, call: AuditRecord) -> None:
        """Store the record of a call."""
        await self._audit.add(self._scope, call)
