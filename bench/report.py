"""The figures as a table in the terminal, as docs/benchmarks.md and as docs/benchmarks.svg."""

import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.figure import Figure
from bench.plot import plot

DOCS = Path(__file__).parents[1] / "docs"
BUSY = 3.0  # a run of its own keeps the two or three processes of a measurement busy
HEADINGS = ("figure", "measured", "target", "", "bare", "ratio", "note")


def print_table(figures: Sequence[Figure]) -> None:
    """Print the figures."""
    rows = [HEADINGS, *(figure.cells() for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def write_report(figures: Sequence[Figure], seconds: float, load: float) -> None:
    """Write the page and the plot."""
    (DOCS / "benchmarks.svg").write_text(plot(figures), encoding="utf-8")
    (DOCS / "benchmarks.md").write_text(_page(figures, seconds, load), encoding="utf-8")


def _page(figures: Sequence[Figure], seconds: float, load: float) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (HEADINGS, ("---",) * len(HEADINGS))]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in figure.cells()) + " |" for figure in figures]
    busy = "" if load < BUSY else f"\nOthers used it too (load {load:.1f}): times are longer than they could be."
    return f"""# Benchmarks

<!-- Written by `make bench`. -->

`make bench` made this page on {datetime.now(UTC):%d %B %Y}, in {seconds / 60:.0f} minutes, on {_machine()}.{busy}
`make bench BENCH=calls` measures one part.

![How much of what each target allows is used](benchmarks.svg)

{chr(10).join(lines)}

## How it is measured

- One server process with its defaults: it logs, checks tokens, stores every message, turn and event. The agents of
  the calls have no memory unless the line says so.
- *Bare* is, in the same run, a FastAPI handler on uvicorn that stores two rows in SQLite and asks the same model with
  aiohttp: no accounts, agents, events or limits. *Ratio* is ours by bare.
- The model is a server in the language of OpenAI, in a process of its own, that answers after a fixed delay (0 ms
  unless the line says so) and notes when it was asked. The client is another process, on raw sockets. All share the
  machine.
- A *missed* target stays in the table, and so does one that could not be measured.
"""


def _machine() -> str:
    """Describe the machine without saying which one it is."""
    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    processor = f" ({cpu[1].strip()})" if cpu else ""
    return f"{cores} cores{processor}, {gigabytes:.0f} GB, {platform.system()}, Python {platform.python_version()}"
