"""Print the figures as a table, and write docs/benchmarks.md and docs/benchmarks.svg."""

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from bench.figure import Figure
from bench.plot import plot

DOCS = Path(__file__).parents[1] / "docs"
BUSY_LOAD = 3.0  # a benchmark itself has two or three busy processes
HEADINGS = ("figure", "measured", "target", "", "baseline", "ratio", "note")


def print_table(figures: Sequence[Figure]) -> None:
    """Print the figures."""
    rows = [HEADINGS, *(figure.cells() for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def write_report(figures: Sequence[Figure], seconds: float, load: float) -> None:
    """Write the page and the chart."""
    (DOCS / "benchmarks.svg").write_text(plot(figures), encoding="utf-8")
    (DOCS / "benchmarks.md").write_text(_page(figures, seconds, load), encoding="utf-8")


def code_hash(root: Path) -> str:
    """Return a hash of the server's source as it is now: names and contents of the files that git knows."""
    listed = ["git", "ls-files", "-z", "--", "src/artel"]
    names = subprocess.run(listed, cwd=root, check=True, capture_output=True).stdout.decode().split("\0")
    digest = sha256()
    for name in sorted(name for name in names if (root / name).is_file()):
        content = (root / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _page(figures: Sequence[Figure], seconds: float, load: float) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (HEADINGS, ("---",) * len(HEADINGS))]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in figure.cells()) + " |" for figure in figures]
    busy = (
        "" if load < BUSY_LOAD else f"\nThe machine was busy (load {load:.1f}), so times are longer than they could be."
    )
    return f"""# Benchmarks

<!-- Written by `make bench`. Measured source: {code_hash(DOCS.parent)} -->

`make bench` made this page on {datetime.now(UTC):%d %B %Y}, in {seconds / 60:.0f} minutes, on {_machine()}.{busy}
`make bench BENCH=calls` runs one benchmark.

![Measured values relative to their targets](benchmarks.svg)

{chr(10).join(lines)}

## How it is measured

- One server process with default settings: it logs, checks tokens, and stores every message, turn and event. The
  agents have no memory unless the row says so.
- *Baseline* is a FastAPI handler on uvicorn, in the same run, that stores two rows in SQLite and calls the same model
  with aiohttp: no accounts, agents, events or limits. *Ratio* is measured / baseline.
- The model is a separate process with OpenAI's API that answers after a fixed delay (0 ms unless the row says so) and
  records when each request arrived. The client is another process, on raw sockets. All share the machine.
- Nodes run as `artel node run` with a RabbitMQ of their own; the demo brain answers, so that the round trip has no
  model in it. Their baseline is a bare aio-pika consumer in the same run, which stores nothing and confirms nothing.
- *Large server*: a user has 100,000 messages in 1,000 sessions, 10,000 projects and 1,000,000 events; others have
  900,000 messages and 1,000,000 memories. It is compared with a server that has what a page of each list shows.
- Missed targets, and targets that could not be measured, stay in the table.
"""


def _machine() -> str:
    """Describe the machine without identifying it."""
    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    processor = f" ({cpu[1].strip()})" if cpu else ""
    return f"{cores} cores{processor}, {gigabytes:.0f} GB, {platform.system()}, Python {platform.python_version()}"
