"""A turn as the rest of the server sees it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from artel.contract.chat import ContextItem, UsageShown
from artel.contract.parked_run import ParkedRun

PLAN_EXPIRED = "approval_timeout"  # error code of a turn whose plan nobody approved in time; it can be asked again


class TurnStatus(StrEnum):
    """The status of a turn; those from COMPLETED on are terminal."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"

    @property
    def is_terminal(self) -> bool:
        return self not in (TurnStatus.QUEUED, TurnStatus.RUNNING, TurnStatus.WAITING)


class Mode(StrEnum):
    """Whether one agent answers, or the orchestrator plans."""

    DIRECT = "direct"
    ORCHESTRATED = "orchestrated"


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn."""

    id: str
    session_id: str
    project_id: int
    number: int
    mode: Mode
    agent_id: int | None
    status: TurnStatus
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error_code: str | None = None
    error: str | None = None
    usage: UsageShown | None = None
    context: tuple[ContextItem, ...] | None = None  # memories in the prompt
    parked: ParkedRun | None = None  # saved to resume the run after the user decided
    retry_of: str | None = None  # the turn whose message was sent again
    continues: str | None = None  # the cut-off message that it goes on from

    @property
    def duration_ms(self) -> int:
        """Milliseconds from acceptance to the end; 0 while unfinished."""
        return self.duration_until(self.finished_at) if self.finished_at else 0

    def duration_until(self, end: datetime) -> int:
        return round((end - self.created_at).total_seconds() * 1000)
