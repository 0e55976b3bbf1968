"""The audit record of every tool call, including refused ones."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from artel.tools.policy import Level

SHOWN_CHARACTERS = 500
MAX_ARGUMENTS = 20
# Arguments that may be long or private: recorded as size and hash.
_CONTENTS = frozenset({"content", "old", "new"})

Status = Literal["refused", "asked", "sent", "done", "unchanged", "failed", "unknown", "cancelled"]


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One tool call and its status."""

    tool: str
    arguments: Mapping[str, Any]
    level: Level
    status: Status
    error: str | None = None
    approval_id: str | None = None


class Audit(Protocol):
    """Stores audit records."""

    async def record(self, call: AuditRecord) -> None:
        """Store the record of a call."""


class NoAudit:
    """An audit that stores nothing."""

    async def record(self, call: AuditRecord) -> None:
        """Do nothing."""


def without_contents(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as they are recorded: bounded, and with hashes instead of contents."""
    return {str(name)[:100]: _recorded(name, value) for name, value in list(arguments.items())[:MAX_ARGUMENTS]}


def _recorded(name: str, value: Any) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = value if isinstance(value, str) else str(value)
    if name in _CONTENTS:
        data = text.encode(errors="replace")
        return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return text[:SHOWN_CHARACTERS]
