"""`make bench`: measure speed and memory, compared with targets and with a bare baseline in the same run.

`make bench BENCH=calls` runs one benchmark; a complete run writes docs/benchmarks.md and its charts. Each run is
compared with the one before it on such a machine (`bench.comparison`).
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from bench import (
    arrivals,
    command_line,
    direct_calls,
    files,
    first_token,
    growth,
    listeners,
    memories,
    new_sessions,
    nodes,
    plans,
    projects,
    retrieval,
    sessions,
    spaces,
)
from bench.comparison import changes, summary
from bench.figure import Figure
from bench.processes import allow_many_files
from bench.report import print_table, write_report
from bench.results import ROOT, Run, code_hash, earlier_runs, keep, machine, publish

BENCHES: dict[str, Callable[[], Iterator[Figure]]] = {
    module.BENCH: module.run
    for module in (
        command_line,
        projects,
        direct_calls,
        new_sessions,
        arrivals,
        first_token,
        sessions,
        listeners,
        files,
        plans,
        spaces,
        memories,
        retrieval,
        growth,
        nodes,
    )
}


def main() -> None:
    """Run the benchmarks named on the command line, or all."""
    chosen = sys.argv[1:]
    if unknown := [name for name in chosen if name not in BENCHES]:
        sys.exit(f"Unknown benchmark: {', '.join(unknown)}. Choose from: {', '.join(BENCHES)}")
    allow_many_files()
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"The machine is busy (load {load:.1f}): the results will be worse than on an idle machine.\n")
    started, figures = time.monotonic(), list[Figure]()
    for name in chosen or BENCHES:
        figures += _run(name)
    minutes, now = (time.monotonic() - started) / 60, datetime.now(UTC).isoformat(timespec="seconds")
    run = Run(now, machine(), code_hash(ROOT), minutes, os.getloadavg()[2], tuple(figures))
    earlier = earlier_runs(run.machine)
    compared = changes(figures, earlier)
    outcome = summary(figures, compared, earlier)
    print_table(figures, compared)
    print(f"\n{outcome}")
    keep(run)
    if not chosen:
        publish(run)
        write_report(run, compared, outcome)
    if missed := sum(figure.verdict in ("missed", "not measured") for figure in figures):
        print(f"\n{missed} targets missed or not measured.")


def _run(name: str) -> Iterator[Figure]:
    """Yield the figures of one benchmark; report a failure as a figure, so that the others still run."""
    print(f"{name} …", file=sys.stderr, flush=True)
    try:
        yield from BENCHES[name]()
    except Exception as failure:  # noqa: BLE001 - a failure is a result too
        print(f"{name} failed: {failure!r}", file=sys.stderr)  # not on the page: it may contain local paths
        yield Figure(name, f"{name}: failed", None, "", note=type(failure).__name__)


if __name__ == "__main__":
    main()
