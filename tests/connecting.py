"""Runs `artel connect` as a process on a temporary folder."""

import json
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import running
from tests.connector_server import Connection, ConnectorServer
from tests.deadlines import eventually
from tests.nursery import Child

STOP_SECONDS = 60


class Connecting:
    """A folder, the state of its connectors, and connectors that can be started, killed and started again."""

    def __init__(self, folder: Path, server: ConnectorServer) -> None:
        self.server = server
        self.work = folder / "work"
        self.work.mkdir()
        self.project: Sequence[str] = ("--project", "5")
        self.out = folder / "out.txt"
        self.env = running.clean_environment(folder, ARTEL_SERVER=server.url, ARTEL_TOKEN=server.token)
        self.processes: list[Child] = []

    def start(self, *options: str, module: str = "artel.cli.main", **variables: str) -> Child:
        """Start a connector without waiting for it."""
        assert running.nursery is not None
        arguments = [running.ARTEL, *self.arguments(options)]
        with Path(os.devnull).open() as nothing, self.out.open("a") as out:
            files = nothing.fileno(), out.fileno(), out.fileno()
            process = running.nursery.fork(arguments, self.env | variables, files, module=module)
        self.processes.append(process)
        return process

    def arguments(self, options: Sequence[str]) -> list[str]:
        """Return the command that connects the folder."""
        return ["connect", str(self.work), *self.project, *options]

    def connection(self, *options: str, **variables: str) -> Connection:
        """Start a connector and wait until it has said hello."""
        self.start(*options, **variables)
        return self.server.connection()

    def ended(self) -> tuple[int, str]:
        """Wait until the last connector ends; return its exit code and the output of all connectors."""
        return self.processes[-1].wait(STOP_SECONDS), self.printed()

    def printed(self) -> str:
        """Return the output so far."""
        return self.out.read_text()

    def until(self, text: str) -> None:
        """Wait until the output contains a text."""
        eventually(lambda: text in self.printed())

    def kill(self) -> None:
        """Kill the last connector with SIGKILL."""
        self.processes[-1].kill()
        self.processes[-1].wait(STOP_SECONDS)

    def stop(self) -> int:
        """Stop the last connector with SIGINT; return its exit code."""
        self.processes[-1].send_signal(signal.SIGINT)
        return self.processes[-1].wait(STOP_SECONDS)

    def state(self) -> Path:
        """Return the folder with the connector's state."""
        (state,) = Path(self.env["ARTEL_CONFIG_DIR"], "connectors").iterdir()
        return state

    def audit(self) -> list[dict[str, Any]]:
        """Return the lines of the audit log."""
        return [json.loads(line) for line in (self.state() / "audit.jsonl").read_text().splitlines()]

    def files(self) -> dict[str, bytes]:
        """Return every file in the folder."""
        return {
            str(path.relative_to(self.work)): path.read_bytes()
            for path in sorted(self.work.rglob("*"))
            if path.is_file() and not path.is_symlink()
        }


@contextmanager
def connecting(folder: Path) -> Iterator[Connecting]:
    """Yield a folder with a test server; kill all connectors at the end."""
    with ConnectorServer().running() as server:
        connect = Connecting(folder, server)
        try:
            yield connect
        finally:
            for process in connect.processes:
                process.kill()
                process.wait(STOP_SECONDS)
