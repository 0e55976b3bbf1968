"""The figures of Artel's peers, as `make bench-peers` measured them last."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.figure import number

PUBLISHED = Path(__file__).parents[1] / "results" / "peers.json"


@dataclass(frozen=True)
class PeerFigures:
    """What one server needed for calls in new sessions."""

    name: str
    whole_ms: float
    cpu_ms: float
    calls_per_second: float
    start_p95_ms: float
    megabytes: float

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the row."""
        return (
            self.name,
            f"{number(self.whole_ms)} ms",
            f"{number(self.cpu_ms)} ms",
            number(self.calls_per_second),
            f"{number(self.start_p95_ms)} ms",
            f"{number(self.megabytes)} MB",
        )


@dataclass(frozen=True)
class PeerRun:
    """One run of `make bench-peers`; `load` is the machine's, with its own share."""

    date: str
    machine: str
    load: float
    servers: tuple[PeerFigures, ...]


def published_peers(path: Path = PUBLISHED) -> PeerRun | None:
    """Return the run that the page shows, or None if there was none."""
    if not path.exists():
        return None
    document = json.loads(path.read_text("utf-8"))
    return PeerRun(**document | {"servers": tuple(PeerFigures(**server) for server in document["servers"])})


def publish_peers(run: PeerRun, path: Path = PUBLISHED) -> None:
    """Store the run that the page shows."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(asdict(run), indent=1) + "\n", encoding="utf-8")
