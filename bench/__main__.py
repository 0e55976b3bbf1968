"""`make bench`: speed and memory, beside the targets and beside a bare baseline in the same run.

`make bench BENCH=calls` measures one; the whole of it writes docs/benchmarks.md and docs/benchmarks.svg.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator

from bench import (
    arrivals,
    command_line,
    direct_calls,
    files,
    first_token,
    listeners,
    memories,
    plans,
    projects,
    sessions,
    spaces,
)
from bench.figure import Figure
from bench.processes import allow_many_files
from bench.report import print_table, write_report

BENCHES: dict[str, Callable[[], Iterator[Figure]]] = {
    module.BENCH: module.run
    for module in (
        command_line,
        projects,
        direct_calls,
        arrivals,
        first_token,
        sessions,
        listeners,
        files,
        plans,
        spaces,
        memories,
    )
}


def main() -> None:
    """Measure what was asked for, or everything."""
    chosen = sys.argv[1:]
    if unknown := [name for name in chosen if name not in BENCHES]:
        sys.exit(f"There is no {', '.join(unknown)}. There are: {', '.join(BENCHES)}")
    allow_many_files()
    busy = os.getloadavg()[0]
    if busy > 0.5:
        print(f"The machine is busy (load {busy:.1f}): the figures will be worse than they could be.\n")
    began, figures = time.monotonic(), list[Figure]()
    for name in chosen or BENCHES:
        figures += _measured(name)
    print_table(figures)
    if not chosen:
        write_report(figures, time.monotonic() - began, os.getloadavg()[2])
    if missed := sum(figure.verdict in ("missed", "not measured") for figure in figures):
        print(f"\n{missed} targets were missed, or not measured.")


def _measured(name: str) -> Iterator[Figure]:
    """Return the figures of one bench; one that breaks is shown as such, and the others go on."""
    print(f"{name} …", file=sys.stderr, flush=True)
    try:
        yield from BENCHES[name]()
    except Exception as failure:  # noqa: BLE001 - what breaks is a result too
        print(f"{name} broke off: {failure!r}", file=sys.stderr)  # not for the page: it may name paths of this machine
        yield Figure(name, f"{name}: broke off", None, "", note=type(failure).__name__)


if __name__ == "__main__":
    main()
