"""Metrics of an agent's tasks, and the status derived from them."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from artel.errors import AgentInError

FAILURES_IN_A_ROW = 5
ERROR_SECONDS = 30


class AgentStatus(StrEnum):
    """The status of an agent."""

    IDLE = "idle"
    PROCESSING = "processing"
    AT_CAPACITY = "at_capacity"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class AgentMetrics:
    """Metrics of one agent since the space was created."""

    tasks_processed: int
    tasks_failed: int
    avg_processing_time: float
    last_activity: datetime | None
    error_rate: float


class AgentFigures:
    """Counters of one agent's tasks."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._processed = 0
        self._failed = 0
        self._seconds = 0.0
        self._last_activity: datetime | None = None
        self._failures_in_a_row = 0
        self._error_since = -float("inf")

    def ended(self, seconds: float, *, failed: bool) -> None:
        """Count a finished task."""
        self._processed += 1
        self._failed += failed
        self._seconds += seconds
        self._last_activity = datetime.now(UTC)
        self._failures_in_a_row = self._failures_in_a_row + 1 if failed else 0
        if self._failures_in_a_row >= FAILURES_IN_A_ROW:
            self._error_since = self._now()

    def forgive(self) -> None:
        """Reset the count of consecutive failures."""
        self._failures_in_a_row = 0
        self._error_since = -float("inf")

    def status(self, running: int, limit: int) -> AgentStatus:
        """Return the status of an agent that runs `running` tasks with this limit."""
        if self._failures_in_a_row >= FAILURES_IN_A_ROW and self._now() - self._error_since < ERROR_SECONDS:
            return AgentStatus.ERROR
        if running >= limit:
            return AgentStatus.AT_CAPACITY
        return AgentStatus.PROCESSING if running else AgentStatus.IDLE

    def metrics(self) -> AgentMetrics:
        """Return the metrics."""
        return AgentMetrics(
            tasks_processed=self._processed,
            tasks_failed=self._failed,
            avg_processing_time=self._seconds / self._processed if self._processed else 0.0,
            last_activity=self._last_activity,
            error_rate=self._failed / self._processed if self._processed else 0.0,
        )


def in_error(name: str) -> AgentInError:
    """Return the error for an agent that has failed too often in a row."""
    return AgentInError(
        f"{name} has failed several times in a row. Try again in {ERROR_SECONDS} seconds, or check its model.",
        retry_after=ERROR_SECONDS,
    )
