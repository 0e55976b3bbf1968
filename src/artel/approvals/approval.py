"""An approval as the rest of the server sees it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class ApprovalStatus(StrEnum):
    """Where an approval stands."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    USED = "used"  # the call that it was for was made
    WITHDRAWN = "withdrawn"  # the turn was cancelled


@dataclass(frozen=True, slots=True)
class Approval:
    """What the user is asked, and what they said."""

    id: str
    project_id: int
    session_id: str
    turn_id: str
    agent_id: int | None
    kind: str
    tool: str
    arguments: dict[str, Any]
    arguments_hash: str
    details: dict[str, Any]
    risk: str
    seconds: int
    status: ApprovalStatus
    holds: str | None
    feedback: str | None
    created_at: datetime
    warned_at: datetime | None
    expires_at: datetime
    decided_at: datetime | None
    used_at: datetime | None
