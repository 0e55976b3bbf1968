"""Counts and durations of agents' tasks and of turns, for a worker space and for the process."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Histogram

from artel.errors import AgentInError
from artel.turns.turn import Mode, TurnStatus

FAILURES_IN_A_ROW = 5
ERROR_SECONDS = 30
BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 600)


class AgentStatus(StrEnum):
    """The status of an agent."""

    IDLE = "idle"
    PROCESSING = "processing"
    AT_CAPACITY = "at_capacity"
    ERROR = "error"


@dataclass(slots=True)
class AgentFigures:
    """Counters of one agent's tasks since the space was created."""

    now: Callable[[], float] = time.monotonic
    tasks_processed: int = 0
    tasks_failed: int = 0
    seconds: float = 0.0
    last_activity: datetime | None = None
    failures_in_a_row: int = 0
    error_since: float = -math.inf

    @property
    def avg_processing_time(self) -> float:
        return self.seconds / self.tasks_processed if self.tasks_processed else 0.0

    @property
    def error_rate(self) -> float:
        """The share of tasks that failed, from 0 to 1."""
        return self.tasks_failed / self.tasks_processed if self.tasks_processed else 0.0

    def ended(self, seconds: float, *, failed: bool) -> None:
        self.tasks_processed += 1
        self.tasks_failed += failed
        self.seconds += seconds
        self.last_activity = datetime.now(UTC)
        self.failures_in_a_row = self.failures_in_a_row + 1 if failed else 0
        if self.failures_in_a_row >= FAILURES_IN_A_ROW:
            self.error_since = self.now()

    def forgive(self) -> None:
        self.failures_in_a_row, self.error_since = 0, -math.inf

    def status(self, running: int, limit: int) -> AgentStatus:
        """Return the status of an agent that runs `running` tasks with this limit."""
        if self.failures_in_a_row >= FAILURES_IN_A_ROW and self.now() - self.error_since < ERROR_SECONDS:
            return AgentStatus.ERROR
        if running >= limit:
            return AgentStatus.AT_CAPACITY
        return AgentStatus.PROCESSING if running else AgentStatus.IDLE


def in_error(name: str) -> AgentInError:
    """Return the error for an agent that has failed too often in a row."""
    return AgentInError(
        f"{name} has failed several times in a row. Try again in {ERROR_SECONDS} seconds, or check its model.",
        retry_after=ERROR_SECONDS,
    )


@dataclass(slots=True)
class ModeFigures:
    """The turns of one mode."""

    count: int = 0
    seconds: float = 0.0

    @property
    def average_ms(self) -> float:
        return round(self.seconds / self.count * 1000, 1) if self.count else 0.0


@dataclass(slots=True)
class SpaceFigures:
    """The turns of one worker space by mode."""

    direct: ModeFigures = field(default_factory=ModeFigures)
    orchestrated: ModeFigures = field(default_factory=ModeFigures)

    def ended(self, mode: Mode, seconds: float) -> None:
        figures = self.direct if mode is Mode.DIRECT else self.orchestrated
        figures.count += 1
        figures.seconds += seconds


class ChatFigures:
    """The turns of this process, for Prometheus: no label names a tenant."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._turns = Counter("artel_turns", "Turns that have ended.", ["mode", "status"], registry=registry)
        self._seconds = Histogram(
            "artel_turn_seconds", "Duration of turns.", ["mode"], registry=registry, buckets=BUCKETS
        )
        self._alerts = Counter("artel_alerts", "Alerts that were raised.", ["kind"], registry=registry)

    def ended(self, mode: Mode, status: TurnStatus, seconds: float) -> None:
        self._turns.labels(mode, status).inc()
        self._seconds.labels(mode).observe(seconds)

    def alerted(self, kind: str) -> None:
        self._alerts.labels(kind).inc()
