"""Grants: permissions of the user that hold for a session or for good."""

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
    """A permission; `name` is a glob of paths for writes, or a whole command line."""

    kind: Literal["write", "run"]
    name: str

    @property
    def text(self) -> str:
        return f"{self.kind} {self.name}"


def glob_for(parts: Parts) -> str | None:
    """Return the glob that is offered for a file: same folder, same extension. None if no grant is offered."""
    if is_protected(parts) or is_secret(parts) or any(character in part for part in parts for character in "*?["):
        return None
    *folder, name = parts
    stem, dot, ending = name.rpartition(".")
    return "/".join([*(folder or ["."]), f"*.{ending}" if stem and dot and ending else name])


class Grants:
    """Grants of this session in memory, lasting ones in a file that `artel grants revoke` may change meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._session: list[Grant] = []

    def add(self, grant: Grant, *, always: bool) -> None:
        """Add a grant for this session, or with `always` for good."""
        with self._lock:
            if not always:
                self._session.append(grant)
            elif grant not in (lasting := self.lasting()):
                self._save([*lasting, grant][-MAX_GRANTS:])

    def lasting(self) -> list[Grant]:
        """Return the lasting grants; none if the file can't be read."""
        try:
            return [Grant(**grant) for grant in json.loads(self._path.read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError):
            return []

    def revoke(self, grant: Grant) -> None:
        with self._lock:
            self._save([lasting for lasting in self.lasting() if lasting != grant])

    def may_write(self, names: list[Parts]) -> bool:
        """Return whether a file may be written under all its names (as requested, and with links resolved)."""
        globs = tuple(grant.name for grant in self._all() if grant.kind == "write")
        return all(matches(name, globs) and not is_protected(name) and not is_secret(name) for name in names)

    def may_run(self, command: str) -> bool:
        return Grant("run", command) in self._all()

    def _all(self) -> list[Grant]:
        with self._lock:
            return [*self._session, *self.lasting()]

    def _save(self, grants: list[Grant]) -> None:
        write_private(self._path, json.dumps([asdict(grant) for grant in grants], indent=2))
