"""What the user has allowed beyond one time: writing to files of a glob, or running a command."""

import json
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from artel.client.credentials import write_private
from artel.paths.policy import Parts, is_protected, is_secret, matches

MAX_GRANTS = 200


@dataclass(frozen=True, slots=True)
class Grant:
    """Something that is not asked for again. `name` is a glob of paths, or a command with all its words."""

    kind: Literal["write", "run"]
    name: str

    @property
    def words(self) -> str:
        """Say what is allowed."""
        return f"write {self.name}" if self.kind == "write" else f"run {self.name}"


def glob_for(parts: Parts) -> str | None:
    """Return the glob that is offered for a file: those like it in its folder. None where nothing is offered."""
    if is_protected(parts) or is_secret(parts) or any(sign in part for part in parts for sign in "*?["):
        return None
    *folder, name = parts
    stem, dot, ending = name.rpartition(".")
    return "/".join([*(folder or ["."]), f"*.{ending}" if stem and dot and ending else name])


class Grants:
    """Those of this session in memory, the lasting ones in a file that `artel grants revoke` may change meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._session: list[Grant] = []

    def add(self, grant: Grant, *, always: bool) -> None:
        """Allow something."""
        with self._lock:
            if not always:
                self._session.append(grant)
            elif grant not in (lasting := self.lasting()):
                self._save([*lasting, grant][-MAX_GRANTS:])

    def lasting(self) -> list[Grant]:
        """Return what is always allowed; a file that can't be read allows nothing."""
        try:
            return [Grant(**grant) for grant in json.loads(self._path.read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError):
            return []

    def revoke(self, grant: Grant) -> None:
        """Take back a lasting grant."""
        with self._lock:
            self._save([one for one in self.lasting() if one != grant])

    def may_write(self, names: list[Parts]) -> bool:
        """Return whether a file may be written, by all its names: as it was asked for, and without links."""
        globs = tuple(grant.name for grant in self._all() if grant.kind == "write")
        return all(matches(name, globs) and not is_protected(name) and not is_secret(name) for name in names)

    def may_run(self, command: str) -> bool:
        """Return whether a command may be run."""
        return Grant("run", command) in self._all()

    def _all(self) -> list[Grant]:
        with self._lock:
            return [*self._session, *self.lasting()]

    def _save(self, grants: list[Grant]) -> None:
        write_private(self._path, json.dumps([asdict(grant) for grant in grants], indent=2))
