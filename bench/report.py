"""Print the figures as a table, and write docs/benchmarks.md with its charts."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from bench.comparison import Change
from bench.figure import Figure
from bench.peers.results import PeerRun, published_peers
from bench.plot import plot, plot_ratios
from bench.results import ROOT, Run

DOCS = ROOT / "docs"
PAGE = DOCS / "benchmarks.md"
BUSY_LOAD = 3.0  # a benchmark itself has two or three busy processes
HEADINGS = ("figure", "measured", "target", "", "baseline", "ratio", "change", "note")
PEERS_BEGIN = "<!-- Peers: written by `make bench-peers`. -->"
PEERS_END = "<!-- End of the peers. -->"
PEER_HEADINGS = (
    "",
    "whole call, P50",
    "CPU per call",
    "calls per second, 16 clients",
    "request to model call, 64 clients, P95",
    "resident memory after 1,000 calls",
)


def print_table(figures: Sequence[Figure], compared: Mapping[str, Change]) -> None:
    """Print the figures, with their changes since the previous run."""
    rows = [HEADINGS, *_rows(figures, compared)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def write_report(run: Run, compared: Mapping[str, Change], summary: str, docs: Path = DOCS) -> None:
    """Write the page and its charts."""
    before = {name: times for name, change in compared.items() if (times := change.before.times_bare)}
    (docs / "images" / "benchmarks.svg").write_text(plot(run.figures), encoding="utf-8")
    (docs / "images" / "benchmarks-ratio.svg").write_text(plot_ratios(run.figures, before), encoding="utf-8")
    (docs / PAGE.name).write_text(_page(run, compared, summary), encoding="utf-8")


def write_peers(peers: PeerRun, page: Path = PAGE) -> None:
    """Replace the peers' part of the page; the rest stays as `make bench` wrote it."""
    part = re.compile(f"{re.escape(PEERS_BEGIN)}.*{re.escape(PEERS_END)}", re.DOTALL)
    page.write_text(part.sub(lambda _: _peers_part(peers), page.read_text("utf-8")), encoding="utf-8")


def _rows(figures: Sequence[Figure], compared: Mapping[str, Change]) -> list[tuple[str, ...]]:
    return [figure.cells(compared[figure.name].cell if figure.name in compared else "") for figure in figures]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (headings, ("---",) * len(headings))]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _peers_part(peers: PeerRun | None) -> str:
    if peers is None:
        return f"{PEERS_BEGIN}\nNot measured yet.\n{PEERS_END}"
    busy = f"\nThe machine was busy (load {peers.load:.1f}): measure again." if peers.load >= BUSY_LOAD else ""
    return f"""{PEERS_BEGIN}
Measured on {_day(peers.date)}, on {peers.machine}.{busy}

{_table(PEER_HEADINGS, [server.cells() for server in peers.servers])}
{PEERS_END}"""


def _day(date: str) -> str:
    return f"{datetime.fromisoformat(date):%d %B %Y}"


def _page(run: Run, compared: Mapping[str, Change], summary: str) -> str:
    busy = (
        f"\nThe machine was busy (load {run.load:.1f}), so times are longer than they could be."
        if run.load >= BUSY_LOAD
        else ""
    )
    return f"""# Benchmarks

<!-- Written by `make bench`. Measured source: {run.code} -->

`make bench` made this page on {_day(run.date)}, in {run.minutes:.0f} minutes, on {run.machine}.{busy}
`make bench BENCH=calls` runs one benchmark. {summary}

![Measured values relative to their targets](images/benchmarks.svg)

![Times the bare handler's cost](images/benchmarks-ratio.svg)

{_table(HEADINGS, _rows(run.figures, compared))}

## Peers

Agno's server and AutoGen, a library, beside Artel in the same run: one trivial agent, a new session for every call,
SQLite, one process, a model that answers at once (after 200 ms for the fifth column). Artel stores more of each call,
and AutoGen stores nothing: the rows show what a call costs, not that the programs do the same.

`make bench-peers` repeats it on an idle machine, in about two minutes: it installs the versions of
`requirements/peers.txt` into `.venv-peers`, and runs all servers on this machine.

{_peers_part(published_peers())}

## How it is measured

- One server process with default settings: it logs, checks tokens, and stores every message, turn and event. The
  agents have no memory unless the row says so.
- *Baseline* is the bare handler: FastAPI on uvicorn, in the same run, that stores two rows in SQLite and calls the same
  model with aiohttp: no accounts, agents, events or limits. *Ratio* is how many times its cost a request has.
- *Change* is since the previous run on such a machine. A figure is marked as worse if it lost more than 10 % beyond the
  noise, which is the larger of two: how far runs of the same code are apart, and how much the bare handler changed.
- The model is a separate process with OpenAI's API that answers after a fixed delay (0 ms unless the row says so) and
  records when each request arrived. The client is another process, on raw sockets. All share the machine.
- Nodes run as `artel node run` with a RabbitMQ of their own; the demo brain answers, so that the round trip has no
  model in it. Their baseline is a bare aio-pika consumer in the same run, which stores nothing and confirms nothing.
- *Large server*: a user has 100,000 messages in 1,000 sessions, 10,000 projects and 1,000,000 events; others have
  900,000 messages and 1,000,000 memories. It is compared with a server that has what a page of each list shows.
- Missed targets, and targets that could not be measured, stay in the table.
"""
