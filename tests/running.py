"""Real `artel` processes for tests: commands and servers."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import sqlalchemy

from tests.nursery import Child, Nursery

ARTEL = str(Path(sys.executable).with_name("artel"))
START_SECONDS = 180
COMMAND_SECONDS = 120
STOP_SECONDS = 60

Process = subprocess.Popen[str] | Child


def clean_environment(folder: Path, **variables: str) -> dict[str, str]:
    """Return an environment with only these Artel settings and its own folders."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ARTEL_")}
    own = {
        "ARTEL_DATA_DIR": str(folder / "data"),
        "ARTEL_CONFIG_DIR": str(folder / "config"),
        "ARTEL_LOG_FORMAT": "json",
        "ARTEL_REGISTRATION_OPEN": "true",  # tests register many users
        "ARTEL_MODELS_UNPRICED": '["*"]',  # and use models without a price
        "ARTEL_AUTO_TITLES": "false",  # their models expect no further calls
    }
    return inherited | own | variables


# Forks the processes of a test run; without it they are started like a user does.
nursery: Nursery | None = None


def artel(*arguments: str, env: Mapping[str, str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command and wait for it."""
    command = [ARTEL, *arguments]
    if nursery is None:
        return subprocess.run(
            command, env=env, input=stdin, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False, cwd="/"
        )
    with TemporaryFile("w+") as input_file, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        input_file.write(stdin)
        input_file.seek(0)
        child = nursery.fork(command, env, (input_file.fileno(), out.fileno(), err.fileno()))
        try:
            code = child.wait(COMMAND_SECONDS)
        finally:
            child.kill()
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(command, code, out.read(), err.read())


@dataclass
class Server:
    """A server in a process of its own."""

    url: str
    process: Process
    ready: dict[str, Any]
    env: dict[str, str]
    log: Path

    @classmethod
    def start(
        cls, folder: Path, env: dict[str, str], command: str = "serve", *options: str, module: str = "artel.cli.main"
    ) -> "Server":
        """Start it on a free port and wait until it is ready."""
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "server.log"
        arguments = [ARTEL, command, "--port", "0", "--json", *options]
        with log.open("a") as stderr:
            process = _start(arguments, env, stderr, module)
        line = _first_line(process, time.monotonic() + START_SECONDS)
        if not line:
            process.kill()
            process.wait(STOP_SECONDS)
            raise AssertionError(f"artel {command} did not start:\n{log.read_text()[-3000:]}")
        ready = json.loads(line)
        return cls(ready["url"], process, ready, env, log)

    def log_lines(self) -> list[dict[str, Any]]:
        """Return the server's log."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def drafts(self) -> list[tuple[str, str]]:
        """Return what is stored of answers that are being written: turn and text."""
        url = self.env.get("ARTEL_DATABASE_URL") or f"sqlite:///{self.env['ARTEL_DATA_DIR']}/artel.db"
        engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
        try:
            with engine.connect() as connection:
                found = connection.execute(sqlalchemy.text("SELECT turn_id, content FROM drafts"))
                return [(row.turn_id, row.content) for row in found]
        finally:
            engine.dispose()

    def stop(self) -> int:
        """Stop it with SIGTERM and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self._wait()

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self.process.kill()
        self._wait()

    def _wait(self) -> int:
        try:
            return self.process.wait(STOP_SECONDS)
        finally:
            self.process.kill()
            assert self.process.stdout
            self.process.stdout.close()


def stop_all(servers: Iterable[Server]) -> None:
    """Stop servers at the same time, because each one takes a second."""
    running = [server for server in servers if server.process.poll() is None]
    for server in running:
        server.process.send_signal(signal.SIGTERM)
    for server in running:
        server._wait()


def _start(arguments: list[str], env: Mapping[str, str], stderr: IO[str], module: str, folder: str = "/") -> Process:
    if nursery is None:
        return subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=folder)
    read, write = os.pipe()
    with Path(os.devnull).open() as nothing:
        files = nothing.fileno(), write, stderr.fileno()
        child = nursery.fork(arguments, env, files, module=module, stdout=os.fdopen(read), folder=folder)
    os.close(write)
    return child


def _first_line(process: Process, deadline: float) -> str:
    assert process.stdout
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if selector.select(deadline - time.monotonic()):
            return process.stdout.readline()
    return ""
