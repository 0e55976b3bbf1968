"""The last used session per server and project, which `artel chat` continues."""

import json
from pathlib import Path

from artel.client.credentials import config_folder, write_private

MAX_SESSIONS = 200


class LastSessions:
    """A file in the config folder; if it is missing or invalid, every chat starts a new session."""

    def __init__(self, folder: Path | None = None) -> None:
        self._path = (folder or config_folder()) / "sessions.json"

    def get(self, server: str, project_id: int) -> str | None:
        """Return the id of the last used session."""
        return self._read().get(f"{server} {project_id}")

    def remember(self, server: str, project_id: int, session_id: str) -> None:
        """Store the last used session; ignore write errors, so that the chat still works."""
        sessions = self._read()
        key = f"{server} {project_id}"
        if sessions.get(key) == session_id:
            return
        sessions.pop(key, None)
        sessions[key] = session_id
        newest = dict(list(sessions.items())[-MAX_SESSIONS:])
        try:
            write_private(self._path, json.dumps(newest, indent=2))
        except OSError:
            return

    def _read(self) -> dict[str, str]:
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
            return {str(key): str(session_id) for key, session_id in stored.items()}
        except (OSError, ValueError, AttributeError):
            return {}
