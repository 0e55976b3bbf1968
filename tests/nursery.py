"""Starts `artel` processes quickly: forks them from a process that has already imported everything.

Imports take a second, and a test run starts hundreds of processes. The processes are real ones, with their own
environment, folder, files and signals. Tests of the startup itself (`test_docs`, `test_killed_server`, the bench) start
the command like a user does.

This file has both sides: `Nursery` for the tests, and the forking process (`python -m tests.nursery SOCKET`).
"""

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NoReturn

import argon2

ROOT = Path(__file__).parents[1]
START_SECONDS = 180
MAX_REQUEST = 1 << 20
# Modules that a server imports sooner or later.
MODULES = (
    "artel.cli.main",
    "artel.container",
    "artel.api.app",
    "artel.api.server",
    "artel.brain.prices",
    "artel.db.schema",
    "artel.cli.connect_screen",
    "artel.connector.service",
    "artel.agent_loop.graph",
    "artel.bus.rabbit",
    "artel.nodes.process",
    "artel.client.conversation",
    "aiohttp",
    "alembic.command",
    "httpx",
    "pathspec",
    "psycopg",
    "qdrant_edge",
    "rich.console",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "tiktoken",
    "uvicorn",
)


class Child:
    """A process forked for a test, with the interface of `subprocess.Popen`."""

    def __init__(self, connection: socket.socket, stdout: IO[str] | None = None) -> None:
        self._connection = connection
        self.stdout = stdout
        self.returncode: int | None = None
        self.pid = int(self._read_line(START_SECONDS) or 0)

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        if self.returncode is None and (status := self._read_line(0)) is not None:
            self.returncode = int(status)
            self._connection.close()
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait for the exit code."""
        if self.returncode is None and (status := self._read_line(timeout)) is not None:
            self.returncode = int(status)
            self._connection.close()
        if self.returncode is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _read_line(self, seconds: float) -> str | None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            if not selector.select(seconds):
                return None
        received = b""
        while not received.endswith(b"\n"):
            part = self._connection.recv(1)  # the next line is not for this call
            if not part:
                raise AssertionError("the nursery process has ended")
            received += part
        return received.decode()


class Nursery:
    """The tests' side: requests processes."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def fork(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        files: tuple[int, int, int],
        *,
        module: str = "artel.cli.main",
        stdout: IO[str] | None = None,
        in_terminal: bool = False,
        folder: str = "/",
    ) -> Child:
        """Run a module's `main` with these arguments, environment and standard files."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._socket_path())
        request = {
            "arguments": list(arguments),
            "env": dict(env),
            "module": module,
            "in_terminal": in_terminal,
            "folder": folder,
        }
        socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], list(files))
        return Child(connection, stdout)

    def close(self) -> None:
        """Stop the forking process."""
        if self._process is not None and self._folder is not None:
            self._process.communicate(timeout=60)
            self._folder.cleanup()

    def _socket_path(self) -> str:
        """Start the forking process on first use; return the path of its socket."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="nursery")
            command = [sys.executable, "-m", "tests.nursery", f"{self._folder.name}/socket"]
            pipe = subprocess.PIPE  # it ends when its standard input closes, that is, with this process
            env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # numpy starts its threads at import
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=env, stdin=pipe, stdout=pipe, start_new_session=True
            )
            assert self._process.stdout
            assert self._process.stdout.readline() == b"ready\n", "the nursery did not start"
        return f"{self._folder.name}/socket"


# --- The process that forks ---------------------------------------------------------------------------------------


@dataclass
class _Parent:
    """Handles requests and the exit of children."""

    listener: socket.socket
    connections: dict[int, socket.socket] = field(default_factory=dict)

    def run(self) -> Callable[[], Any] | None:
        """Fork until standard input closes; in a child, return the function to run."""
        woken, wake = os.pipe()
        for end in (woken, wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake)
        with selectors.DefaultSelector() as selector:
            for file in (self.listener, woken, 0):
                selector.register(file, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if 0 in ready:
                    return None
                if woken in ready:
                    os.read(woken, 4096)
                    self._report_exits()
                if self.listener in ready and (run := self._fork()):
                    signal.set_wakeup_fd(-1)
                    os.close(woken)
                    os.close(wake)
                    return run

    def _report_exits(self) -> None:
        while self.connections:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with self.connections.pop(pid) as connection:
                _send_number(connection, os.waitstatus_to_exitcode(status))

    def _fork(self) -> Callable[[], Any] | None:
        connection, _ = self.listener.accept()
        request, files, _, _ = socket.recv_fds(connection, MAX_REQUEST, 3)
        while not request.endswith(b"\n"):
            request += connection.recv(MAX_REQUEST)
        pid = os.fork()
        if pid:
            for file in files:
                os.close(file)
            self.connections[pid] = connection
            _send_number(connection, pid)
            return None
        for inherited in (connection, self.listener, *self.connections.values()):
            inherited.close()
        return _become(json.loads(request), files)


def _send_number(connection: socket.socket, number: int) -> None:
    try:
        connection.sendall(f"{number}\n".encode())
    except OSError:  # the test has closed its end
        return


def _become(request: dict[str, Any], files: Sequence[int]) -> Callable[[], Any]:
    """Set up this process as requested; return the function to run."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    if request["in_terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for as long as the process lives
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = request["arguments"]
    run: Callable[[], Any] = importlib.import_module(request["module"]).main
    return run


def _make_passwords_cheap() -> None:
    """Hash passwords in 0.1 ms instead of 25, because nearly every test registers a user."""
    passwords: Any = importlib.import_module("artel.auth.passwords")
    passwords._hasher = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


def _load_models() -> None:
    """Load prices, vocabularies and the embedding model, which takes half a second, once for all servers."""
    importlib.import_module("artel.brain.prices")._loaded()
    tokens: Any = importlib.import_module("artel.brain.tokens")
    for model in (None, "gpt-4o"):
        tokens.count_tokens("loaded", model)
    embedder: Any = importlib.import_module("artel.vector_index.embedder")
    load = functools.cache(embedder.ArtelEmbed)
    load()
    embedder.ArtelEmbed = load


def main() -> None:
    """Fork processes until standard input ends."""
    for module in MODULES:
        importlib.import_module(module)
    _make_passwords_cheap()
    _load_models()
    assert threading.active_count() == len(list(Path("/proc/self/task").iterdir())) == 1, (
        "threads do not survive a fork"
    )
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen(64)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        run = _Parent(listener).run()
    if run is not None:
        _exit(run)


def _exit(run: Callable[[], Any]) -> NoReturn:
    """End with a function's exit code, without the interpreter's clean-up: it would copy all memory of the parent."""
    try:
        code = run()
    except SystemExit as end:
        code = end.code
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
        code = 1
    interpreter: Any = threading
    interpreter._shutdown()  # waits for threads that are no daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    main()
