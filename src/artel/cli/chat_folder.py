"""The folder that `artel chat` connects while it runs, if no connector serves the project."""

import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from artel.cli.own_connector import ConnectorOutput, end_connector, folder_problem, start_connector
from artel.cli.visible_text import one_line
from artel.client.credentials import is_loopback
from artel.connector.errors import FolderUnsuitable
from artel.connector.state_folder import StateFolder
from artel.errors import ArtelError

if TYPE_CHECKING:
    from artel.client.api_client import ApiClient

START_SECONDS = 30.0
POLL_SECONDS = 0.1
MAX_ERROR_BYTES = 2_000


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
        self._is_served = False
        self._message = ""

    def start(self) -> None:
        """Start the connector; if the folder is unsuitable, raise if the user chose it, else report it in `message`."""
        try:
            self._require_suitable()
        except ArtelError as error:
            if self._is_chosen:
                raise
            self._message = f"none: {one_line(error.detail)}"
            return
        if self._is_served:
            return
        self._process = start_connector(
            self.path,
            self._project_id,
            self._api.server,
            ["--ask", "browser"],
            ConnectorOutput(subprocess.DEVNULL, self._errors, new_session=True),
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
        """Disconnect the folder."""
        if self._process is not None:
            end_connector(self._process)
        self._errors.close()

    def _require_suitable(self) -> None:
        from artel.settings import load_settings  # slow to import

        self._is_served = bool(self._state()["online"])
        if self._is_served and not self._is_chosen:
            return
        reason = folder_problem(self.path, load_settings().data_dir)
        if self._is_served:
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
            if self._is_registered():
                return f"{self._name()} connected: agents ask before they write. (--no-folder turns this off)"
            time.sleep(POLL_SECONDS)
        reason = "it did not start in time" if process.poll() is None else self._last_error()
        end_connector(process)
        self._process = None
        return f"{self._name()} is not connected: {reason}"

    def _is_registered(self) -> bool:
        try:
            return self._state()["connector_id"] == self._connector_id
        except ArtelError:  # the server is not reachable now
            return False

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
