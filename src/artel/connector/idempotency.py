"""Calls that change something are carried out at most once, whoever is killed in between."""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from artel.connector.errors import CallRefused
from artel.connector.journal import Entry, Journal
from artel.contract.connector import Call, Result
from artel.paths.beneath import Beneath
from artel.paths.errors import FileMissing, PathError
from artel.paths.policy import Parts

# What may differ when the same call comes again.
_OF_THE_LINE = {"call_id", "epoch", "timeout_ms", "approval", "allowed_paths", "denied_paths"}


def what_is_asked(call: Call) -> str:
    """Return what tells one call from another that has the same id."""
    text = type(call).__name__ + call.model_dump_json(exclude=_OF_THE_LINE)
    return hashlib.sha256(text.encode()).hexdigest()


class Once:
    """The journal of one workspace; used while the state folder's lock is held."""

    def __init__(self, files: Beneath, journal: Journal) -> None:
        self._files = files
        self._journal = journal

    def tidy(self) -> None:
        """Remove temporary files of a connector that was killed."""
        for path in self._journal.leftovers():
            with suppress(PathError):
                self._files.delete(path)
        self._journal.forget_leftovers()

    def earlier(self, call: Call) -> Result | None:
        """Return what came of a call that was carried out before; None if it never began."""
        entry = self._journal.find(call.call_id)
        if entry is None:
            return None
        if entry.what != what_is_asked(call):
            raise CallRefused("failed", "The id of this call was used for another call")
        if entry.result is not None:
            return Result(**entry.result)
        if entry.sha256 is None or entry.sha256 != self._hash(entry.path):
            raise CallRefused("unknown", "Whether this was done before can't be told any more. Look, then decide.")
        result = Result(success=True, sha256=entry.sha256, **self._about(entry.path))
        self.done(call, result)
        return result

    def attempt(self, call: Call, sha256: str | None = None) -> "Attempt":
        """Begin to carry a call out."""
        return Attempt(self._journal, Entry(call.call_id, what_is_asked(call), sha256=sha256))

    def done(self, call: Call, result: Result) -> None:
        """Note what came of a call. That it can't be noted, for want of room, changes nothing about what was done."""
        with suppress(OSError):
            self._journal.done(call.call_id, result.model_dump(mode="json", exclude_none=True))

    def carried_out(self, call: Call, act: Callable[[], Result]) -> Result:
        """Carry out what has begun, and note what came of it, also if it failed."""
        try:
            result = act()
        except PathError as error:
            if self._journal.find(call.call_id):
                self.done(call, Result.model_validate({"success": False, "error": error.message, "code": error.code}))
            raise
        self.done(call, result)
        return result

    def _hash(self, path: str) -> str | None:
        try:
            return self._files.read(path).sha256
        except FileMissing:
            return ""
        except PathError:
            return None

    def _about(self, path: str) -> dict[str, Any]:
        try:
            entry = self._files.stat(path)
        except PathError:
            return {}
        return {"size": entry.size, "timestamp": entry.modified.isoformat()}


class Attempt:
    """One attempt to change one file; its methods are what `Beneath` calls on the way."""

    def __init__(self, journal: Journal, entry: Entry) -> None:
        self._journal = journal
        self._entry = entry

    def making(self, parts: Parts, temporary: str) -> None:
        """Note the temporary file."""
        self._journal.making(self._at(parts), _beside(parts, temporary))

    def started(self, parts: Parts = (), temporary: str | None = None) -> None:
        """Note that it happens now."""
        self._journal.started(self._at(parts), temporary and _beside(parts, temporary))

    def _at(self, parts: Parts) -> Entry:
        return Entry(self._entry.call_id, self._entry.what, "/".join(parts), self._entry.sha256)


def _beside(parts: Parts, name: str) -> str:
    return "/".join((*parts[:-1], name))
