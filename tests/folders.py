"""A folder with a real connector at a real server."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import running
from tests.deadlines import eventually
from tests.nursery import Child
from tests.people import Person

STOP_SECONDS = 60


@dataclass
class Folder:
    """A folder and its connector."""

    path: Path
    person: Person
    project_id: int
    env: dict[str, str]
    process: Child | None = None

    def connect(self, *options: str) -> None:
        """Start the connector and wait until it is online."""
        assert running.nursery is not None
        command = [running.ARTEL, "connect", str(self.path), "--project", str(self.project_id), *options]
        with Path(os.devnull).open() as nothing, (self.path.parent / "connector.txt").open("a") as out:
            self.process = running.nursery.fork(command, self.env, (nothing.fileno(), out.fileno(), out.fileno()))
        eventually(lambda: self.is_online() or self._has_ended())
        assert self.is_online(), (self.path.parent / "connector.txt").read_text()

    def is_online(self) -> bool:
        """Return whether the connector is online."""
        return self.online_since() is not None

    def online_since(self) -> str | None:
        """Return the time of the last connect."""
        since: str | None = self.person.http.get(f"/my/projects/{self.project_id}/connector").json()["since"]
        return since

    def disconnect(self, how: int = signal.SIGINT) -> None:
        """Stop the connector, and wait until the server knows."""
        self.kill(how)
        eventually(lambda: not self.is_online())

    def kill(self, how: int = signal.SIGKILL) -> None:
        """End the process of the connector."""
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait(STOP_SECONDS)

    def files(self) -> dict[str, bytes]:
        """Return every file in the folder."""
        found = (path for path in sorted(self.path.rglob("*")) if path.is_file() and not path.is_symlink())
        return {str(path.relative_to(self.path)): path.read_bytes() for path in found}

    def _has_ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None


@contextmanager
def connected_folder(
    folder_above: Path, person: Person, project_id: int, *options: str, server: str | None = None
) -> Iterator[Folder]:
    """Connect a folder for the duration of a test."""
    (folder_above / "work").mkdir(parents=True, exist_ok=True)
    server = server or str(person.http.base_url).rstrip("/")
    env = running.clean_environment(folder_above, ARTEL_SERVER=server, ARTEL_TOKEN=person.token)
    folder = Folder(folder_above / "work", person, project_id, env)
    try:
        folder.connect(*options)
        yield folder
    finally:
        if folder.process is not None:
            folder.kill()
