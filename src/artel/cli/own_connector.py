"""The connector process that `artel up` and `artel chat` start for their folder."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import IO

from artel.cli.exit_codes import ExitCode
from artel.cli.output import say
from artel.connector.state_folder import LEAVE_SIGNAL, PARENT_VARIABLE, STDIN_VARIABLE, StateFolder
from artel.errors import ArtelError, Kind

STOP_SECONDS = 5.0
TOKEN_MARGIN = timedelta(seconds=5)  # a token is issued a little before it is used
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
class ConnectorLogin:
    """A login of the connector: its token, and when that expires."""

    token: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class ConnectorTarget:
    """The server and project that the connector connects to."""

    url: str
    project_id: int
    login: Callable[[], AbstractAsyncContextManager[ConnectorLogin]]  # begins a login, and ends it afterwards
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
        self._stopped = asyncio.Event()

    def start(self, target: ConnectorTarget) -> str | None:
        """Start the connector, and restart it when its login expires. Writes are approved in the browser.

        If another connector holds the folder, wait until it ends, and return its description.
        """
        state = self._state(target)
        holder = state.holder() if state else None
        wait_for = state if holder is not None else None
        self._task = asyncio.get_running_loop().create_task(self._run(target, wait_for))
        return holder

    async def stop(self) -> None:
        """Stop the connector and end its login."""
        self._stopped.set()
        if self._process is not None:
            await asyncio.to_thread(end_connector, self._process)
        if self._task is not None:
            await asyncio.wait([self._task], timeout=STOP_SECONDS)

    def _state(self, target: ConnectorTarget) -> StateFolder | None:
        """Return the connector's state folder; None if the folder is unsuitable, which the connector itself reports."""
        try:
            return StateFolder.of(target.url, target.project_id, self.folder)
        except (ArtelError, OSError):
            return None

    async def _run(self, target: ConnectorTarget, held: StateFolder | None) -> None:
        """Run the connector; restart it when its login expires or when a connector that replaced it ends.

        After any other end it is not restarted: it has printed the reason. `held` is the state folder that another
        connector holds.
        """
        pause = CHECK_SECONDS
        take_over = held is None
        if held is not None:

            async def is_released() -> bool:
                return held.holder() is None and await target.is_free()

            await self._until_free(is_released, pause)
        while not self._stopped.is_set():
            began = time.monotonic()
            result = await self._try_once(target, take_over=take_over)
            if result is None:
                return
            code, is_expired = result
            take_over = code not in (ExitCode.CONFLICT, -LEAVE_SIGNAL)
            if not take_over:
                is_long = time.monotonic() - began > LONGEST_CHECK_SECONDS
                pause = CHECK_SECONDS if is_long else min(LONGEST_CHECK_SECONDS, pause * 2)
                await self._until_free(target.is_free, pause)
            elif not is_expired:
                if code == ExitCode.NOT_ALLOWED and not self._stopped.is_set():
                    self._report("The login of the connected folder was ended. Restart `artel up` to connect it.")
                return

    async def _try_once(self, target: ConnectorTarget, *, take_over: bool) -> tuple[int, bool] | None:
        """Run the connector until it ends; return its exit code and whether its login had expired.

        Retry while the database is unreachable; report any other failure and return None.
        """
        while not self._stopped.is_set():
            try:
                code, expires_at = await self._run_once(target, take_over=take_over)
            except ArtelError as failure:
                if failure.kind is not Kind.UNAVAILABLE:
                    self._report(f"The folder can't be connected: {failure.detail}")
                    return None
                await self._sleep(CHECK_SECONDS)
            except OSError as failure:
                self._report(f"The folder can't be connected: the connector did not start ({failure}).")
                return None
            else:
                return code, datetime.now(UTC) >= expires_at - TOKEN_MARGIN
        return None

    async def _run_once(self, target: ConnectorTarget, *, take_over: bool) -> tuple[int, datetime]:
        """Run the connector with a login of its own until it ends; return its exit code and when the login expires."""
        mode = [] if {"--read-only", "--yes"} & {*self._options} else ["--ask", "browser"]
        options = [*mode, *self._options, *(["--take-over"] if take_over else [])]
        out = subprocess.DEVNULL if self._quiet else None
        async with target.login() as login:
            if self._stopped.is_set():
                return ExitCode.OK, login.expires_at
            variables = {"ARTEL_SERVER": target.url, "ARTEL_TOKEN": login.token, PARENT_VARIABLE: str(os.getpid())}
            self._process = start_connector(
                self.folder, target.project_id, target.url, options, ConnectorOutput(out, out), variables
            )
            code = await asyncio.to_thread(self._process.wait)
            end_connector(self._process)
            return code, login.expires_at

    async def _until_free(self, is_free: Callable[[], Awaitable[bool]], pause: float) -> None:
        """Wait until no connector served the project in FREE_CHECKS checks in a row, or this one is stopped."""
        free = 0
        while free < FREE_CHECKS and not self._stopped.is_set():
            await self._sleep(pause)
            try:
                free = free + 1 if await is_free() else 0
            except ArtelError:  # the database is not reachable now
                free = 0

    async def _sleep(self, seconds: float) -> None:
        """Sleep, but not longer than until `stop`."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)

    def _report(self, text: str) -> None:
        say(f"artel: {text}", err=True)
