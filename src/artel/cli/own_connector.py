"""The connector process that `artel up` and `artel chat` start for their folder."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

from artel.cli.exit_codes import ExitCode
from artel.connector.state_folder import LEAVE_SIGNAL, PARENT_VARIABLE, STDIN_VARIABLE, StateFolder
from artel.errors import ArtelError

STOP_SECONDS = 5.0
TOKEN_MARGIN_SECONDS = 5.0  # a token is issued a little before it is used
# While another connector serves the project: it counts as gone after so many checks in a row, because a connector that
# lost its connection reconnects within a second. The interval between checks grows exponentially.
FREE_CHECKS = 3
CHECK_SECONDS, LONGEST_CHECK_SECONDS = 1.0, 30.0


def folder_problem(folder: Path, data_dir: Path) -> str | None:
    """Return why a folder must not be connected automatically, or None if it may be."""
    folder, home = folder.resolve(), Path.home().resolve()
    if folder == home or folder in home.parents:
        return "it is or contains your home folder"
    if not folder.is_dir():
        return "it is not a folder"
    if data_dir.resolve().is_relative_to(folder):
        return "it contains the server's data"
    return None


@dataclass(frozen=True, slots=True)
class ConnectorTarget:
    """The server and project that the connector connects to."""

    url: str
    project_id: int
    token: Callable[[], Awaitable[str]]
    token_seconds: float
    is_free: Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class ConnectorOutput:
    """Where a connector prints to. In a new session it gets no Ctrl-C from this terminal."""

    out: int | None
    err: int | IO[bytes] | None
    new_session: bool = False


def start_connector(
    folder: Path,
    project_id: int,
    url: str,
    options: Sequence[str],
    output: ConnectorOutput,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[bytes]:
    """Start `artel connect` for a folder, in a process that ends when this one does, even if it is killed."""
    # Agents write to the current folder: Python must not import modules from it (-P; PYTHONSAFEPATH for children).
    command = [sys.executable, "-P", "-m", "artel", "connect", str(folder), "--project", str(project_id)]
    env = os.environ | {"PYTHONSAFEPATH": "1", STDIN_VARIABLE: "1", **variables}
    if config_dir := os.environ.get("ARTEL_CONFIG_DIR"):
        env["ARTEL_CONFIG_DIR"] = str(Path(config_dir).absolute())  # the connector starts in another folder
    return subprocess.Popen(  # noqa: S603 - our own command
        [*command, *options, "--server", url],
        cwd="/",
        env=env,
        stdin=subprocess.PIPE,
        stdout=output.out,
        stderr=output.err,
        start_new_session=output.new_session,
    )


def end_connector(process: subprocess.Popen[bytes]) -> None:
    """Terminate a connector process, if it is still running."""
    process.terminate()
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class OwnConnector:
    """Connects the folder while the server runs, except while another connector serves the project."""

    def __init__(self, folder: Path, options: Sequence[str] = (), *, quiet: bool) -> None:
        self.folder = folder.absolute()
        self._options = options
        self._quiet = quiet
        self._process: subprocess.Popen[bytes] | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    def start(self, target: ConnectorTarget) -> str | None:
        """Start the connector, and restart it when its token expires. Writes are approved in the browser.

        If another connector holds the folder, wait until it ends, and return its description.
        """
        state = self._state(target)
        holder = state.holder() if state else None
        wait_for = state if holder is not None else None
        self._task = asyncio.get_running_loop().create_task(self._run(target, wait_for))
        return holder

    def _state(self, target: ConnectorTarget) -> StateFolder | None:
        """Return the connector's state folder; None if the folder is unsuitable, which the connector itself reports."""
        try:
            return StateFolder.of(target.url, target.project_id, self.folder)
        except (ArtelError, OSError):
            return None

    async def _run(self, target: ConnectorTarget, held: StateFolder | None) -> None:
        """Run the connector; restart it when its token expires or when a connector that replaced it ends.

        After any other end it is not restarted: it has printed the reason. `held` is the state folder that another
        connector holds.
        """
        pause = CHECK_SECONDS
        if held is not None:

            async def is_released() -> bool:
                return held.holder() is None and await target.is_free()

            await _until_free(is_released, pause)
        process = await self._start_process(target, take_over=held is None)
        while process is not None:
            began = time.monotonic()
            code = await asyncio.to_thread(process.wait)
            end_connector(process)
            seconds = time.monotonic() - began
            is_replaced = code in (ExitCode.CONFLICT, -LEAVE_SIGNAL)
            if is_replaced and not self._is_stopped:
                pause = CHECK_SECONDS if seconds > LONGEST_CHECK_SECONDS else min(LONGEST_CHECK_SECONDS, pause * 2)
                await _until_free(target.is_free, pause)
            elif seconds < target.token_seconds - TOKEN_MARGIN_SECONDS:
                return
            process = await self._start_process(target, take_over=not is_replaced)

    async def _start_process(self, target: ConnectorTarget, *, take_over: bool) -> subprocess.Popen[bytes] | None:
        """Start a connector with its own login; return None if `stop` was called."""
        mode = [] if {"--read-only", "--yes"} & {*self._options} else ["--ask", "browser"]
        options = [*mode, *self._options, *(["--take-over"] if take_over else [])]
        out = subprocess.DEVNULL if self._quiet else None
        token = None
        while token is None and not self._is_stopped:
            try:
                token = await target.token()
            except ArtelError:  # the database is not reachable now
                await asyncio.sleep(CHECK_SECONDS)
        if token is None or self._is_stopped:
            return None
        variables = {"ARTEL_SERVER": target.url, "ARTEL_TOKEN": token, PARENT_VARIABLE: str(os.getpid())}
        self._process = start_connector(
            self.folder, target.project_id, target.url, options, ConnectorOutput(out, out), variables
        )
        return self._process

    def stop(self) -> None:
        """Stop the connector."""
        self._is_stopped = True
        if self._process is not None:
            end_connector(self._process)


async def _until_free(is_free: Callable[[], Awaitable[bool]], pause: float) -> None:
    """Wait until no connector served the project in FREE_CHECKS checks in a row."""
    free = 0
    while free < FREE_CHECKS:
        await asyncio.sleep(pause)
        try:
            free = free + 1 if await is_free() else 0
        except ArtelError:  # the database is not reachable now
            free = 0
