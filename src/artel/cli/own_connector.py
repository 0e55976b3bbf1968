"""The connector that `artel up` starts for the folder in which it was started: a process of its own, like any other.

`artel chat` starts one in the same way.
"""

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
SPARE_SECONDS = 5.0  # a token is issued a little before it is used
# Another connector serves the project: it is free once that was offline for so many checks in a row, since a
# connector whose line broke comes back within a second. A folder that stays taken is tried less and less often.
FREE_CHECKS = 3
CHECK_SECONDS, LONGEST_CHECK_SECONDS = 1.0, 30.0


def why_not(folder: Path, data_dir: Path) -> str | None:
    """Return why a folder should not be given to agents without a word; None if it may be."""
    folder, home = folder.resolve(), Path.home().resolve()
    if folder == home or folder in home.parents:
        return "this folder is more than a project"
    if not folder.is_dir():
        return "it is no folder"
    if data_dir.resolve().is_relative_to(folder):
        return "the server's own data is in it"
    return None


@dataclass(frozen=True, slots=True)
class Place:
    """Where the connector connects to, and how it finds out whether it can."""

    url: str
    project_id: int
    token: Callable[[], Awaitable[str]]
    token_seconds: float
    is_free: Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Files:
    """Where a connector prints to. One that is apart does not hear Ctrl-C in this terminal."""

    out: int | None
    err: int | IO[bytes] | None
    is_apart: bool = False


def start_connector(
    folder: Path,
    project_id: int,
    url: str,
    options: Sequence[str],
    files: Files,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[bytes]:
    """Start `artel connect` for a folder, in a process that ends with this one however that ends."""
    # Agents write to the current folder: Python must not import from it (-P, and the same for children).
    command = [sys.executable, "-P", "-m", "artel", "connect", str(folder), "--project", str(project_id)]
    env = os.environ | {"PYTHONSAFEPATH": "1", STDIN_VARIABLE: "1", **variables}
    if config_dir := os.environ.get("ARTEL_CONFIG_DIR"):
        env["ARTEL_CONFIG_DIR"] = str(Path(config_dir).absolute())  # the connector starts in another folder
    return subprocess.Popen(  # noqa: S603 - our own command
        [*command, *options, "--server", url],
        cwd="/",
        env=env,
        stdin=subprocess.PIPE,
        stdout=files.out,
        stderr=files.err,
        start_new_session=files.is_apart,
    )


def end_connector(process: subprocess.Popen[bytes]) -> None:
    """End a connector, if it has not ended yet."""
    process.terminate()
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class OwnConnector:
    """Serves the folder for as long as the server runs, except while another connector serves the project."""

    def __init__(self, folder: Path, options: Sequence[str] = (), *, quiet: bool) -> None:
        self.folder = folder.absolute()
        self._options = options
        self._quiet = quiet
        self._process: subprocess.Popen[bytes] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._is_stopped = False

    def start(self, place: Place) -> str | None:
        """Connect the folder; writes are asked for in the browser. It is logged in anew when its token has expired.

        Return which connector holds the folder already, in words: then this one waits until that ends.
        """
        state = self._state(place)
        holder = state.holder() if state else None
        wait_for = state if holder is not None else None
        self._keeping = asyncio.get_running_loop().create_task(self._keep(place, wait_for))
        return holder

    def _state(self, place: Place) -> StateFolder | None:
        """Return the state of the connector; None if the folder is unsuitable, which the connector says itself."""
        try:
            return StateFolder.of(place.url, place.project_id, self.folder)
        except (ArtelError, OSError):
            return None

    async def _keep(self, place: Place, held: StateFolder | None) -> None:
        """Start it, again when its token has expired or when the connector that took its place has ended.

        If it ended otherwise it had a reason, and has printed it. `held` is the state that another connector holds.
        """
        pause = CHECK_SECONDS
        if held is not None:

            async def is_left() -> bool:
                return held.holder() is None and await place.is_free()

            await _until_free(is_left, pause)
        process = await self._begin(place, take_over=held is None)
        while process is not None:
            began = time.monotonic()
            code = await asyncio.to_thread(process.wait)
            end_connector(process)
            seconds = time.monotonic() - began
            is_replaced = code in (ExitCode.CONFLICT, -LEAVE_SIGNAL)
            if is_replaced and not self._is_stopped:
                pause = CHECK_SECONDS if seconds > LONGEST_CHECK_SECONDS else min(LONGEST_CHECK_SECONDS, pause * 2)
                await _until_free(place.is_free, pause)
            elif seconds < place.token_seconds - SPARE_SECONDS:
                return
            process = await self._begin(place, take_over=not is_replaced)

    async def _begin(self, place: Place, *, take_over: bool) -> subprocess.Popen[bytes] | None:
        """Start a connector with a login of its own; return None if this one was stopped meanwhile."""
        mode = [] if {"--read-only", "--yes"} & {*self._options} else ["--ask", "browser"]
        options = [*mode, *self._options, *(["--take-over"] if take_over else [])]
        out = subprocess.DEVNULL if self._quiet else None
        token = None
        while token is None and not self._is_stopped:
            try:
                token = await place.token()
            except ArtelError:  # the database does not answer now
                await asyncio.sleep(CHECK_SECONDS)
        if token is None or self._is_stopped:
            return None
        variables = {"ARTEL_SERVER": place.url, "ARTEL_TOKEN": token, PARENT_VARIABLE: str(os.getpid())}
        self._process = start_connector(self.folder, place.project_id, place.url, options, Files(out, out), variables)
        return self._process

    def stop(self) -> None:
        """End it, if it has not ended with us."""
        self._is_stopped = True
        if self._process is not None:
            end_connector(self._process)


async def _until_free(is_free: Callable[[], Awaitable[bool]], pause: float) -> None:
    """Wait until no connector has served the project for some checks in a row."""
    free = 0
    while free < FREE_CHECKS:
        await asyncio.sleep(pause)
        try:
            free = free + 1 if await is_free() else 0
        except ArtelError:  # the database does not answer now
            free = 0
