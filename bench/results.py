"""The runs of `make bench` that later ones are compared with: of this machine in build/, the last page's in bench/."""

import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from bench.figure import Figure

ROOT = Path(__file__).parents[1]
HISTORY = ROOT / "build" / "bench" / "runs.json"
PUBLISHED = Path(__file__).parent / "results" / "figures.json"  # what docs/benchmarks.md shows
MAX_RUNS = 20


@dataclass(frozen=True)
class Run:
    """The figures of a run; `code` is the hash of the measured source, `load` the machine's at the end."""

    date: str
    machine: str
    code: str
    minutes: float
    load: float
    figures: tuple[Figure, ...]

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Run":
        """Return the run of a JSON document."""
        return cls(**document | {"figures": tuple(Figure(**figure) for figure in document["figures"])})

    def figure(self, name: str) -> Figure | None:
        """Return a measured figure, or None."""
        return next((one for one in self.figures if one.name == name and one.measured is not None), None)


def earlier_runs(machine: str, history: Path = HISTORY, published: Path = PUBLISHED) -> list[Run]:
    """Return the runs on such a machine, the oldest first: the published one, then those of the build folder."""
    documents = [json.loads(published.read_text("utf-8"))] if published.exists() else []
    documents += json.loads(history.read_text("utf-8")) if history.exists() else []
    runs = sorted((Run.of(document) for document in documents), key=lambda run: run.date)
    return [run for number, run in enumerate(runs) if run.machine == machine and run not in runs[:number]]


def keep(run: Run, history: Path = HISTORY) -> None:
    """Add a run to those of the build folder, and drop the oldest."""
    runs = json.loads(history.read_text("utf-8")) if history.exists() else []
    _write(history, [*runs, asdict(run)][-MAX_RUNS:])


def publish(run: Run, published: Path = PUBLISHED) -> None:
    """Store the run that the page shows."""
    _write(published, asdict(run))


def _write(path: Path, document: dict[str, Any] | Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def code_hash(root: Path) -> str:
    """Return a hash of the server's source as it is now: names and contents of the files that git knows."""
    listed = ["git", "ls-files", "-z", "--", "src/artel"]
    names = subprocess.run(listed, cwd=root, check=True, capture_output=True).stdout.decode().split("\0")
    digest = sha256()
    for name in sorted(name for name in names if (root / name).is_file()):
        content = (root / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def machine() -> str:
    """Describe the machine without identifying it."""
    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    processor = f" ({cpu[1].strip()})" if cpu else ""
    return f"{cores} cores{processor}, {gigabytes:.0f} GB, {platform.system()}, Python {platform.python_version()}"
