"""The folder that `artel chat` connects: for as long as the chat runs, and only if nobody serves the project yet."""

import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from artel.cli.own_connector import Files, end_connector, start_connector, why_not
from artel.cli.visible_text import one_line
from artel.client.credentials import is_loopback
from artel.connector.errors import FolderUnsuitable
from artel.connector.state_folder import StateFolder
from artel.errors import ArtelError

if TYPE_CHECKING:
    from artel.client.api_client import ApiClient

START_SECONDS = 30.0
LOOK_SECONDS = 0.1
MAX_REASON_BYTES = 2_000


class ChatFolder:
    """Serves a folder beside the chat, in a process of its own; the chat and the browser ask before it writes."""

    def __init__(self, api: "ApiClient", project_id: int, asked: Path | None) -> None:
        self._api = api
        self._project_id = project_id
        self._is_chosen = asked is not None
        self.path = (asked or Path.cwd()).absolute()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - read when the process has ended
        self._connector_id = ""
        self._is_served = False
        self._words = ""

    def start(self) -> None:
        """Begin to connect the folder; what speaks against it is said, or raised if the user has named the folder."""
        try:
            self._require_suitable()
        except ArtelError as error:
            if self._is_chosen:
                raise
            self._words = f"none: {one_line(error.detail)}"
            return
        if self._is_served:
            return
        self._process = start_connector(
            self.path,
            self._project_id,
            self._api.server,
            ["--ask", "browser"],
            Files(subprocess.DEVNULL, self._errors, is_apart=True),
        )

    def news(self) -> str:
        """Return a line about the folder, once for everything that happens to it; "" if there is nothing to say."""
        if self._process is not None and self._connector_id:
            self._words = self._begun(self._process)
            self._connector_id = ""
        elif self._process is not None and self._process.poll() is not None:
            self._words = f"{self._name()} is not connected any more: {self._reason()}"
            end_connector(self._process)
            self._process = None
        words, self._words = self._words, ""
        return f"Folder  {words}" if words else ""

    def stop(self) -> None:
        """Disconnect the folder."""
        if self._process is not None:
            end_connector(self._process)
        self._errors.close()

    def _require_suitable(self) -> None:
        from artel.settings import load_settings  # here, because it takes a while to import

        self._is_served = bool(self._state()["online"])
        if self._is_served and not self._is_chosen:
            return
        reason = why_not(self.path, load_settings().data_dir)
        if self._is_served:
            reason = "another connector serves this project"
        elif not self._is_chosen and not is_loopback(self._api.server):
            reason = "the server is on another machine. To connect one: artel chat --folder DIR"
        if reason is not None:
            raise FolderUnsuitable(f"{self.path} can't be connected: {reason}" if self._is_chosen else reason)
        self._connector_id = StateFolder.of(self._api.server, self._project_id, self.path).connector_id

    def _begun(self, process: subprocess.Popen[bytes]) -> str:
        """Wait until the server knows the connector; return what became of it."""
        deadline = time.monotonic() + START_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if self._is_known():
                return f"{self._name()} connected: agents ask before they write. (--no-folder to leave it out)"
            time.sleep(LOOK_SECONDS)
        reason = "it takes too long" if process.poll() is None else self._reason()
        end_connector(process)
        self._process = None
        return f"{self._name()} is not connected: {reason}"

    def _is_known(self) -> bool:
        try:
            return self._state()["connector_id"] == self._connector_id
        except ArtelError:  # the server does not answer now
            return False

    def _state(self) -> dict[str, object]:
        return dict(self._api.call("GET", f"/my/projects/{self._project_id}/connector"))

    def _reason(self) -> str:
        """Return the last line that the connector has printed about itself."""
        self._errors.seek(0)
        lines = self._errors.read(MAX_REASON_BYTES).decode(errors="replace").strip().splitlines()
        return one_line(lines[-1].removeprefix("artel: ")) if lines else "its connector has ended"

    def _name(self) -> str:
        home = Path.home()
        return one_line(f"~/{self.path.relative_to(home)}" if self.path.is_relative_to(home) else str(self.path))
