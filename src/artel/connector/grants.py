"""Grants: permissions of the user that hold for a session or for good."""

import hashlib
import json
import threading
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from artel.client.credentials import write_private
from artel.connector.errors import CallRefused, Deadline
from artel.contract.connector import CallResult, GrantsCall, RevokeCall
from artel.paths.policy import Parts, is_protected, is_secret, matches

MAX_GRANTS = 200  # of a session, and lasting ones
NAME_CHARACTERS = 2_000  # that are shown
Lasts = Literal["session", "always"]


@dataclass(frozen=True, slots=True)
class Grant:
    """A permission; `name` is a glob of paths for writes, or a whole command line."""

    kind: Literal["write", "run"]
    name: str
    since: str | None = field(default=None, compare=False)  # None for grants of older versions

    @property
    def text(self) -> str:
        return f"{self.kind} {self.name}"

    def key(self, lasts: Lasts) -> str:
        """Return the id by which the user revokes the grant on the page."""
        return hashlib.sha256(json.dumps([lasts, self.kind, self.name]).encode()).hexdigest()[:16]


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
        grant = replace(grant, since=datetime.now(UTC).isoformat(timespec="seconds"))
        with self._lock:
            before = self.lasting() if always else self._session
            if grant in before:
                return
            if always:
                self._save([*before, grant][-MAX_GRANTS:])
            else:
                self._session = [*before, grant][-MAX_GRANTS:]

    def lasting(self) -> list[Grant]:
        """Return the lasting grants; none if the file can't be read."""
        try:
            return [Grant(**grant) for grant in json.loads(self._path.read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError):
            return []

    def revoke(self, grant: Grant) -> None:
        with self._lock:
            self._save([lasting for lasting in self.lasting() if lasting != grant])

    def entries(self, _call: GrantsCall, _deadline: Deadline) -> CallResult:
        """Carry out `workspace/grants`."""
        found = [
            {
                "id": grant.key(lasts),
                "kind": grant.kind,
                "name": grant.name[:NAME_CHARACTERS],
                "since": grant.since,
                "lasts": lasts,
            }
            for lasts, grant in self._with_duration()
        ]
        return CallResult(success=True, grants=found)

    def revoke_by_key(self, call: RevokeCall, _deadline: Deadline) -> CallResult:
        """Carry out `workspace/revoke`, which is always allowed: it makes the connector stricter."""
        for lasts, grant in self._with_duration():
            if grant.key(lasts) == call.grant_id:
                if lasts == "always":
                    self.revoke(grant)
                else:
                    with self._lock:
                        self._session = [other for other in self._session if other != grant]
                return CallResult(success=True, grant=grant.text[:NAME_CHARACTERS])
        raise CallRefused("no_grant", "There is no such grant. It may have been revoked already.")

    def for_write(self, names: list[Parts]) -> tuple[Lasts, Grant] | None:
        """Return a grant for a file, and how long it lasts; None if it may not be written under all its names.

        They are the requested one and the one with links resolved; the grant that is returned is for the latter.
        """
        found = None
        for name in names:
            found = next((each for each in self._with_duration() if _covers(each[1], name)), None)
            if found is None or is_protected(name) or is_secret(name):
                return None
        return found

    def may_run(self, command: str) -> bool:
        return Grant("run", command) in self._all()

    def _all(self) -> list[Grant]:
        with self._lock:
            return [*self._session, *self.lasting()]

    def _with_duration(self) -> list[tuple[Lasts, Grant]]:
        with self._lock:
            session: list[tuple[Lasts, Grant]] = [("session", grant) for grant in self._session]
            return [*session, *(("always", grant) for grant in self.lasting()[-MAX_GRANTS:])]

    def _save(self, grants: list[Grant]) -> None:
        write_private(self._path, json.dumps([asdict(grant) for grant in grants], indent=2))


def _covers(grant: Grant, name: Parts) -> bool:
    return grant.kind == "write" and matches(name, (grant.name,))
