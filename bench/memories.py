"""Search among 100,000 memories; `python -m bench.memory_search` measures more."""

import json
import subprocess
import sys
from collections.abc import Iterator

from bench.figure import Figure
from bench.processes import ROOT

BENCH = "memory"
SIZE = 100_000


def run() -> Iterator[Figure]:
    """Search with a given vector, and with a query that is embedded first."""
    command = [sys.executable, "-m", "bench.memory_search", str(SIZE)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    measured = json.loads(done.stdout.splitlines()[-1])
    for key, label, target in (
        ("hybrid", "without embedding", 5.0),
        ("embedded", "with embedding", 50.0),
    ):
        found = measured[key]
        yield Figure(
            BENCH,
            f"memory search, {SIZE:,} memories, {label}, P95",
            found["p95"],
            "ms",
            target,
            note=f"P50 {found['p50']:.1f} ms, {found['cpu']:.1f} ms CPU",
        )
