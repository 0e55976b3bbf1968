"""Counts and durations of turns by mode, for a worker space and for the process."""

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram

from artel.turns.turn import Mode, TurnStatus

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 600)


@dataclass(slots=True)
class ModeFigures:
    """The turns of one mode."""

    count: int = 0
    seconds: float = 0.0

    @property
    def average_ms(self) -> float:
        """The average duration in milliseconds."""
        return round(self.seconds / self.count * 1000, 1) if self.count else 0.0


@dataclass(slots=True)
class SpaceFigures:
    """The turns of one worker space by mode."""

    direct: ModeFigures = field(default_factory=ModeFigures)
    orchestrated: ModeFigures = field(default_factory=ModeFigures)

    def ended(self, mode: Mode, seconds: float) -> None:
        """Count a finished turn."""
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
        """Count a finished turn."""
        self._turns.labels(mode, status).inc()
        self._seconds.labels(mode).observe(seconds)

    def alerted(self, kind: str) -> None:
        """Count a raised alert."""
        self._alerts.labels(kind).inc()
