"""Which session was spoken in last, per server and project, so that `artel chat` goes on there."""

import json
from pathlib import Path

from artel.client.credentials import config_folder, write_private

MAX_REMEMBERED = 200


class LastSessions:
    """A small file in the config folder; without it, or when it is broken, every conversation begins anew."""

    def __init__(self, folder: Path | None = None) -> None:
        self._path = (folder or config_folder()) / "sessions.json"

    def get(self, server: str, project_id: int) -> str | None:
        """Return the session that was used last."""
        return self._read().get(f"{server} {project_id}")

    def remember(self, server: str, project_id: int, session_id: str) -> None:
        """Note the session that is used now; that it can't be noted is no reason not to talk."""
        sessions = self._read()
        key = f"{server} {project_id}"
        if sessions.get(key) == session_id:
            return
        sessions.pop(key, None)
        sessions[key] = session_id
        newest = dict(list(sessions.items())[-MAX_REMEMBERED:])
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
