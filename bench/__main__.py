"""`make bench`: speed and memory, beside the targets and beside a bare baseline in the same run."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.load import Figures, load, request

ARTEL = str(Path(sys.executable).with_name("artel"))


def line(what: str, measured: str, note: str = "") -> None:
    """Print one figure."""
    print(f"{what:44} {measured:>24}   {note}")


def best_of(times: int, command: list[str], env: dict[str, str]) -> float:
    """Answer the shortest of some runs, in seconds."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        subprocess.run(command, env=env, check=True, capture_output=True, timeout=60)
        taken.append(time.perf_counter() - started)
    return min(taken)


@contextmanager
def artel_up(env: dict[str, str], log: Path) -> Iterator[tuple[int, int, str, float]]:
    """Run a server that writes a log; answer its port, pid, token and the seconds it took to be ready."""
    started = time.perf_counter()
    command = [ARTEL, "up", "--port", "0", "--json"]
    with log.open("a") as stderr:
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        assert process.stdout
        ready = json.loads(process.stdout.readline())
        seconds = time.perf_counter() - started
        yield int(ready["url"].rsplit(":", 1)[1]), process.pid, ready["token"], seconds
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@contextmanager
def baseline() -> Iterator[int]:
    """Run the bare server; answer its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "bench.baseline", str(port)])
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with socket.socket() as line:
                if line.connect_ex(("127.0.0.1", port)) == 0:
                    break
        yield port
    finally:
        process.terminate()
        process.wait(30)


def resident_megabytes(pid: int) -> float:
    """Answer how much memory a process holds."""
    for text in Path(f"/proc/{pid}/status").read_text().splitlines():
        if text.startswith("VmRSS:"):
            return int(text.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


def compare(what: str, ours: Figures, bare: Figures) -> None:
    """Print our figures beside the baseline's."""
    line(
        f"{what}, P50 / P95",
        f"{ours.p50_ms:.2f} / {ours.p95_ms:.2f} ms",
        f"bare {bare.p50_ms:.2f} / {bare.p95_ms:.2f} ms",
    )
    line(
        f"{what}, per second",
        f"{ours.per_second:.0f}",
        f"{ours.per_second / bare.per_second:.2f} of the bare {bare.per_second:.0f}",
    )


def body_of(port: int, token: str) -> bytes:
    """Answer the body of the first project, for the baseline to serve too."""
    call = urllib.request.Request(
        f"http://127.0.0.1:{port}/my/projects/1", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(call, timeout=10) as answer:  # noqa: S310
        return bytes(answer.read())


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        env = {name: value for name, value in os.environ.items() if not name.startswith("ARTEL_")}
        env |= {
            "ARTEL_DATA_DIR": f"{folder}/data",
            "ARTEL_CONFIG_DIR": f"{folder}/config",
            "ARTEL_LOG_LEVEL": "info",
            "ARTEL_MAX_PROJECTS_PER_USER": "1000000",
        }
        log = Path(f"{folder}/log")
        line("artel --help", f"{best_of(5, [ARTEL, '--help'], env):.2f} s", "target 0.3 s")
        line(
            "artel projects create --help",
            f"{best_of(5, [ARTEL, 'projects', 'create', '--help'], env):.2f} s",
            "target 0.3 s",
        )
        with artel_up(env, log) as (_, _, _, seconds):
            line("artel up, first start", f"{seconds:.2f} s")
        with artel_up(env, log) as (port, pid, token, seconds), baseline() as bare_port:
            line("artel up, later starts", f"{seconds:.2f} s", "target 3 s")
            line("resident after the start", f"{resident_megabytes(pid):.0f} MB")
            load(bare_port, request("POST", "/my/projects", body=body_of(port, token)), connections=1, count=4)
            for connections in (1, 16):
                get = "/my/projects/1"
                ours = load(port, request("GET", get, token), connections=connections, count=2000)
                bare = load(bare_port, request("GET", get), connections=connections, count=2000)
                compare(f"read a project, {connections} at once", ours, bare)
            new = b'{"name": "Bench"}'
            ours = load(port, request("POST", "/my/projects", token, new), connections=8, count=800)
            bare = load(bare_port, request("POST", "/my/projects", body=new), connections=8, count=800)
            compare("create a project, 8 at once", ours, bare)
            line("resident after the load", f"{resident_megabytes(pid):.0f} MB")


if __name__ == "__main__":
    main()
