"""The connector that `artel up` starts for the folder in which it was started: a process of its own, like any other."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

STOP_SECONDS = 5.0
SPARE_SECONDS = 5.0  # a token is issued a little before it is used


def why_not(folder: Path, data_dir: Path) -> str | None:
    """Answer why a folder should not be given to agents without a word; None if it may be."""
    folder, home = folder.resolve(), Path.home().resolve()
    if folder == home or folder in home.parents:
        return "that is more than a project"
    if not folder.is_dir():
        return "it is no folder"
    if data_dir.resolve().is_relative_to(folder):
        return "the server's own data is in it"
    return None


class OwnConnector:
    """Serves the folder for as long as the server runs."""

    def __init__(self, folder: Path, *, quiet: bool) -> None:
        self.folder = folder
        self._quiet = quiet
        self._process: subprocess.Popen[bytes] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._is_stopped = False

    def start(self, url: str, token: Callable[[], str], token_seconds: float, project_id: int) -> None:
        """Connect the folder; writes are asked for in the browser. It is logged in anew when its token has expired."""
        self._begin(url, token(), project_id)
        self._keeping = asyncio.get_running_loop().create_task(self._keep(url, token, token_seconds, project_id))

    async def _keep(self, url: str, token: Callable[[], str], token_seconds: float, project_id: int) -> None:
        """Begin again whenever it has ended with its token, and only then: else it had a reason, and said it."""
        while self._process is not None:
            began = time.monotonic()
            await asyncio.to_thread(self._process.wait)
            if self._is_stopped or time.monotonic() - began < token_seconds - SPARE_SECONDS:
                return
            self._begin(url, token(), project_id)

    def _begin(self, url: str, token: str, project_id: int) -> None:
        from artel.client.connector.connector import PARENT_VARIABLE

        command = [sys.executable, "-m", "artel", "connect", str(self.folder), "--project", str(project_id)]
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [*command, "--ask", "browser", "--take-over", "--server", url],
            env=os.environ | {"ARTEL_TOKEN": token, PARENT_VARIABLE: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if self._quiet else None,
            stderr=subprocess.DEVNULL if self._quiet else None,
        )

    def stop(self) -> None:
        """End it, if it has not ended with us."""
        self._is_stopped = True
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
