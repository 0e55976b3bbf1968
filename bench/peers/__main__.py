"""`make bench-peers`: measure Agno's server and AutoGen beside Artel and the bare handler, in the same run.

With an argument it measures only the servers whose names contain it, prints them, and writes nothing.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.arrivals import DELAY_MS, model_latencies
from bench.direct_calls import CLIENTS, measured_calls
from bench.figure import percentile
from bench.new_sessions import STARTING, new_session_arguments
from bench.peers.results import PeerFigures, PeerRun, publish_peers
from bench.processes import (
    ROOT,
    Running,
    Team,
    allow_many_files,
    artel,
    baseline_arguments,
    baseline_server,
    model_server,
    started,
)
from bench.report import BUSY_LOAD, PEER_HEADINGS, write_peers
from bench.results import machine

PYTHON = ROOT / ".venv-peers" / "bin" / "python"
FOLDER = Path(__file__).parent
# With their warm-ups (100, and 10 of each client) these are 1,000 calls.
SINGLE, PER_CLIENT = 300, 28

Arguments = Callable[[Running, int], dict[str, Any]]  # of the client, for so many clients of a server


@dataclass(frozen=True)
class Contestant:
    """A server to measure: how to run it with a model, and how a client calls it."""

    name: str
    run: Callable[[Running], AbstractContextManager[Running]]
    arguments: Arguments

    def measure(self) -> PeerFigures:
        """Measure calls with a model without delay, then the start of calls with a slow one, in a new process."""
        with model_server() as model, self.run(model) as server:
            single, cpu = measured_calls(server, self.arguments(server, 1), SINGLE)
            many, _ = measured_calls(server, self.arguments(server, CLIENTS), PER_CLIENT)
            server.settle()
            megabytes = server.megabytes()
        with model_server(DELAY_MS) as model, self.run(model) as server:
            starts = model_latencies(server, self.arguments(server, STARTING), model, 15)
        return PeerFigures(
            self.name,
            percentile(single["durations"], 0.5) * 1000,
            cpu,
            len(many["durations"]) / many["elapsed"],
            percentile(starts, 0.95) * 1000,
            megabytes,
        )


@contextmanager
def _agno(model: Running) -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as folder, _peer("agno_server.py", f"{folder}/agno.db", model.url) as server:
        yield server


def _autogen(model: Running) -> AbstractContextManager[Running]:
    return _peer("autogen_server.py", model.url)


def _peer(script: str, *arguments: str) -> AbstractContextManager[Running]:
    env = os.environ | {"AGNO_TELEMETRY": "false"}
    return started([str(PYTHON), str(FOLDER / script), *arguments], env)


def _artel(*, memory: bool) -> Arguments:
    def arguments(server: Running, count: int) -> dict[str, Any]:
        return new_session_arguments(Team.make(server, agents=min(count, 8), memory=memory), count)

    return arguments


def _bare(_: Running, count: int) -> dict[str, Any]:
    return baseline_arguments(count)


def _form(_: Running, count: int) -> dict[str, Any]:
    return {"token": "", "targets": [{"path": "/agents/bench/runs", "agent": "", "form": "message"}] * count}


def _version(package: str) -> str:
    code = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
    return subprocess.run([PYTHON, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def contestants() -> list[Contestant]:
    """Return the servers, with the versions of the peers."""
    return [
        Contestant("bare handler", baseline_server, _bare),
        Contestant(f"Agno {_version('agno')}, AgentOS", _agno, _form),
        Contestant(f"AutoGen {_version('autogen-agentchat')} as a library", _autogen, _bare),
        Contestant("Artel, memory off", artel, _artel(memory=False)),
        Contestant("Artel, memory on", artel, _artel(memory=True)),
    ]


def main() -> None:
    """Measure all servers and write the peers' part of docs/benchmarks.md."""
    allow_many_files()
    word = sys.argv[1] if sys.argv[1:] else ""
    load = os.getloadavg()[0]
    servers: list[PeerFigures] = []
    if load > 0.5:
        print(f"The machine is busy (load {load:.1f}): the results will be worse than on an idle machine.\n")
    print(" | ".join(PEER_HEADINGS))
    for contestant in contestants():
        if word.lower() in contestant.name.lower():
            servers.append(contestant.measure())
            print(" | ".join(servers[-1].cells()), flush=True)
    if not word:
        load = max(load, os.getloadavg()[2])  # of 15 minutes: the servers themselves were busy for some
        run = PeerRun(datetime.now(UTC).isoformat(timespec="seconds"), machine(), load, tuple(servers))
        publish_peers(run)
        write_peers(run)
        if load >= BUSY_LOAD:
            print("\nThe page says that the machine was busy: measure again when it is idle.")


if __name__ == "__main__":
    main()
