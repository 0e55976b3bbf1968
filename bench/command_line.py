"""Startup time of the command line."""

import os
import subprocess
import time
from collections.abc import Iterator

from bench.figure import Figure
from tests.running import ARTEL

BENCH = "command-line"


def run() -> Iterator[Figure]:
    """Measure `--help` of several commands."""
    for command in (["--help"], ["projects", "create", "--help"], ["chat", "--help"], ["workflows", "--help"]):
        yield Figure(BENCH, f"artel {' '.join(command)}", _best_of(5, [ARTEL, *command]), "s", 0.3)


def _best_of(times: int, command: list[str]) -> float:
    durations = []
    for _ in range(times):
        started = time.perf_counter()
        subprocess.run(command, env=os.environ, check=True, capture_output=True, timeout=60)
        durations.append(time.perf_counter() - started)
    return min(durations)
