"""The connector process that `artel up` and `artel chat` start for their folder."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING

from artel.cli.command_line import ExitCode
from artel.cli.output import one_line, say
from artel.client.credentials import is_loopback
from artel.connector.errors import FolderUnsuitable
from artel.connector.state_folder import LEAVE_SIGNAL, PARENT_VARIABLE, STDIN_VARIABLE, StateFolder
from artel.errors import ArtelError, Kind

if TYPE_CHECKING:
    from artel.client.api_client import ApiClient

STOP_SECONDS = 5.0
TOKEN_MARGIN = timedelta(seconds=5)  # a token is issued a little before it is used
# While another connector serves the project: it counts as gone after so many checks in a row, because a connector that
# lost its connection reconnects within a second. The interval between checks grows exponentially.
FREE_CHECKS = 3
CHECK_SECONDS, LONGEST_CHECK_SECONDS = 1.0, 30.0
# The start of the connector of a chat.
START_SECONDS = 30.0
POLL_SECONDS = 0.1
MAX_ERROR_BYTES = 2_000


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


def start_connector(
    folder: Path,
    project_id: int,
    url: str,
    options: Sequence[str],
    *,
    out: int | None,
    err: int | IO[bytes] | None,
    new_session: bool = False,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[bytes]:
    """Start `artel connect` for a folder, in a process that ends when this one does, even if it is killed.

    In a new session it gets no Ctrl-C from this terminal.
    """
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
        stdout=out,
        stderr=err,
        start_new_session=new_session,
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
        state = holder = None
        with suppress(ArtelError, OSError):  # an unsuitable folder: the connector itself reports it
            state = StateFolder.of(target.url, target.project_id, self.folder)
            holder = state.holder()
        self._task = asyncio.get_running_loop().create_task(self._run(target, None if holder is None else state))
        return holder

    async def stop(self) -> None:
        """Stop the connector and end its login."""
        self._stopped.set()
        if self._process is not None:
            await asyncio.to_thread(end_connector, self._process)
        if self._task is not None:
            await asyncio.wait([self._task], timeout=STOP_SECONDS)

    async def _run(self, target: ConnectorTarget, held: StateFolder | None) -> None:
        """Run the connector; restart it when its login expires or when a connector that replaced it ends.

        After any other end it is not restarted: it has printed the reason. `held` is the state folder that another
        connector holds.
        """
        pause, take_over = CHECK_SECONDS, held is None
        if held is not None:
            await self._until_free(target, pause, held)
        while not self._stopped.is_set():
            began = time.monotonic()
            try:
                code, is_expired = await self._run_once(target, take_over=take_over)
            except (ArtelError, OSError) as failure:
                if isinstance(failure, ArtelError) and failure.kind is Kind.UNAVAILABLE:
                    await self._sleep(CHECK_SECONDS)  # the database is not reachable now
                    continue
                did_not_start = f"the connector did not start ({failure})."
                detail = failure.detail if isinstance(failure, ArtelError) else did_not_start
                say(f"artel: The folder can't be connected: {detail}", err=True)
                return
            take_over = code not in (ExitCode.CONFLICT, -LEAVE_SIGNAL)
            if not take_over:
                is_long = time.monotonic() - began > LONGEST_CHECK_SECONDS
                pause = CHECK_SECONDS if is_long else min(LONGEST_CHECK_SECONDS, pause * 2)
                await self._until_free(target, pause)
            elif not is_expired:
                if code == ExitCode.NOT_ALLOWED and not self._stopped.is_set():
                    ended = "The login of the connected folder was ended. Restart `artel up` to connect it."
                    say(f"artel: {ended}", err=True)
                return

    async def _run_once(self, target: ConnectorTarget, *, take_over: bool) -> tuple[int, bool]:
        """Run the connector with a login of its own; return its exit code and whether the login had expired."""
        mode = [] if {"--read-only", "--yes"} & {*self._options} else ["--ask", "browser"]
        options = [*mode, *self._options, *(["--take-over"] if take_over else [])]
        out = subprocess.DEVNULL if self._quiet else None
        async with target.login() as login:
            if self._stopped.is_set():
                return ExitCode.OK, False
            variables = {"ARTEL_SERVER": target.url, "ARTEL_TOKEN": login.token, PARENT_VARIABLE: str(os.getpid())}
            self._process = start_connector(
                self.folder, target.project_id, target.url, options, out=out, err=out, variables=variables
            )
            code = await asyncio.to_thread(self._process.wait)
            end_connector(self._process)
        return code, datetime.now(UTC) >= login.expires_at - TOKEN_MARGIN

    async def _until_free(self, target: ConnectorTarget, pause: float, held: StateFolder | None = None) -> None:
        """Wait until no connector served the project or held the folder in FREE_CHECKS checks in a row, or `stop`."""
        free = 0
        while free < FREE_CHECKS and not self._stopped.is_set():
            await self._sleep(pause)
            try:
                is_free = (held is None or held.holder() is None) and await target.is_free()
            except ArtelError:  # the database is not reachable now
                is_free = False
            free = free + 1 if is_free else 0

    async def _sleep(self, seconds: float) -> None:
        """Sleep, but not longer than until `stop`."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)


class ChatFolder:
    """Runs a connector for a folder in a child process; writes are approved in the chat or the browser."""

    def __init__(self, api: "ApiClient", project_id: int, folder: Path | None) -> None:
        self._api = api
        self._project_id = project_id
        self._is_chosen = folder is not None
        self.path = (folder or Path.cwd()).absolute()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - read after the process has ended
        self._connector_id = ""
        self._message = ""

    def start(self) -> None:
        """Start the connector; if the folder is unsuitable, raise if the user chose it, else report it in `message`."""
        try:
            self._choose_connector()
        except ArtelError as error:
            if self._is_chosen:
                raise
            self._message = f"none: {one_line(error.detail)}"
        if not self._connector_id:
            return
        options, out = ["--ask", "browser"], subprocess.DEVNULL
        self._process = start_connector(
            self.path, self._project_id, self._api.server, options, out=out, err=self._errors, new_session=True
        )

    def message(self) -> str:
        """Return a line about the last change of the connection, once; "" if nothing changed."""
        if self._process is not None and self._connector_id:
            self._message = self._wait_until_connected(self._process)
            self._connector_id = ""
        elif self._process is not None and self._process.poll() is not None:
            self._message = f"{self._name()} is no longer connected: {self._last_error()}"
            end_connector(self._process)
            self._process = None
        message, self._message = self._message, ""
        return f"Folder  {message}" if message else ""

    def stop(self) -> None:
        if self._process is not None:
            end_connector(self._process)
        self._errors.close()

    def _choose_connector(self) -> None:
        """Set the id of the connector to start, unless another one serves the project; raise if it is unsuitable."""
        from artel.settings import load_settings  # slow to import

        is_served = self._state()["online"]
        if is_served and not self._is_chosen:
            return
        reason = folder_problem(self.path, load_settings().data_dir)
        if is_served:
            reason = "another connector serves this project"
        elif not self._is_chosen and not is_loopback(self._api.server):
            reason = "the server is on another machine. To connect a folder: artel chat --folder DIR"
        if reason is not None:
            raise FolderUnsuitable(f"{self.path} can't be connected: {reason}" if self._is_chosen else reason)
        self._connector_id = StateFolder.of(self._api.server, self._project_id, self.path).connector_id

    def _wait_until_connected(self, process: subprocess.Popen[bytes]) -> str:
        """Wait until the connector is registered at the server; return a message about the result."""
        deadline = time.monotonic() + START_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(ArtelError):  # the server is not reachable now
                if self._state()["connector_id"] == self._connector_id:
                    return f"{self._name()} connected: agents ask before they write. (--no-folder turns this off)"
            time.sleep(POLL_SECONDS)
        reason = "it did not start in time" if process.poll() is None else self._last_error()
        end_connector(process)
        self._process = None
        return f"{self._name()} is not connected: {reason}"

    def _state(self) -> dict[str, object]:
        return dict(self._api.call("GET", f"/my/projects/{self._project_id}/connector"))

    def _last_error(self) -> str:
        """Return the last line that the connector printed on standard error."""
        self._errors.seek(0)
        lines = self._errors.read(MAX_ERROR_BYTES).decode(errors="replace").strip().splitlines()
        return one_line(lines[-1].removeprefix("artel: ")) if lines else "the connector has ended"

    def _name(self) -> str:
        home = Path.home()
        return one_line(f"~/{self.path.relative_to(home)}" if self.path.is_relative_to(home) else str(self.path))
