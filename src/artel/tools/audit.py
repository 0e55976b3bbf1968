"""The note that is kept of every call of a tool, also of those that were refused."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from artel.tools.policy import Level

SHOWN_CHARACTERS = 500
MAX_ARGUMENTS = 20
# What may be long, or private: kept as size and hash.
_CONTENTS = frozenset({"content", "old", "new"})

Status = Literal["refused", "asked", "sent", "done", "unchanged", "failed", "unknown", "cancelled"]


@dataclass(frozen=True, slots=True)
class Audited:
    """One call of a tool."""

    tool: str
    arguments: Mapping[str, Any]
    level: Level
    status: Status
    error: str | None = None
    approval_id: str | None = None


class Audit(Protocol):
    """Keeps the notes."""

    async def note(self, call: Audited) -> None:
        """Keep a note of a call."""


class NoAudit:
    """Keeps nothing, where nobody could look at it."""

    async def note(self, call: Audited) -> None:
        """Forget it."""


def without_contents(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as they are kept: what they mean, without what was written."""
    return {str(name)[:100]: _kept(name, value) for name, value in list(arguments.items())[:MAX_ARGUMENTS]}


def _kept(name: str, value: Any) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = value if isinstance(value, str) else str(value)
    if name in _CONTENTS:
        data = text.encode(errors="replace")
        return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return text[:SHOWN_CHARACTERS]
