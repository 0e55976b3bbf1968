"""Makes calls that change files idempotent, also across crashes."""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from artel.connector.errors import CallRefused
from artel.connector.journal import Entry, Journal
from artel.contract.connector import Call, CallResult
from artel.paths.beneath import Beneath
from artel.paths.errors import FileMissing, PathError
from artel.paths.policy import Parts

# Fields that may differ when the same call is sent again.
_VARIABLE_FIELDS = {"call_id", "epoch", "timeout_ms", "approval", "allowed_paths", "denied_paths"}


def fingerprint(call: Call) -> str:
    """Return a hash that differs between two different calls with the same id."""
    text = type(call).__name__ + call.model_dump_json(exclude=_VARIABLE_FIELDS)
    return hashlib.sha256(text.encode()).hexdigest()


def failed(error: PathError) -> CallResult:
    """Return the result of a call that failed with an error of a path."""
    return CallResult.model_validate({"success": False, "error": error.message, "code": error.code})


class IdempotentCalls:
    """Looks up and records calls in the journal; the caller holds the state folder's change lock."""

    def __init__(self, files: Beneath, journal: Journal) -> None:
        self._files = files
        self._journal = journal

    def remove_temporary_files(self) -> None:
        """Remove temporary files that a killed connector left behind."""
        for path in self._journal.temporary_files():
            with suppress(PathError):
                self._files.delete(path)
        self._journal.forget_temporary_files()

    def find_result(self, call: Call) -> CallResult | None:
        """Return the result of a call that was carried out before; None if it was never started.

        Raise CallRefused with code `unknown` if it was started and its outcome can't be determined.
        """
        entry = self._journal.find(call.call_id)
        if entry is None:
            return None
        if entry.what != fingerprint(call):
            raise CallRefused("failed", "The id of this call was already used for another call")
        if entry.result is not None:
            return CallResult(**entry.result)
        if entry.sha256 is None or entry.sha256 != self._hash(entry.path):
            raise CallRefused("unknown", "It is unknown whether this was done before. Check, then decide.")
        return self.record_result(call, CallResult(success=True, sha256=entry.sha256, **self._about(entry.path)))

    def record_temporary(self, call: Call, sha256: str, parts: Parts, temporary: str) -> None:
        """Record the temporary file of a change before it is created."""
        self._journal.record_temporary(_entry(call, sha256, parts), _beside(parts, temporary))

    def record_start(
        self, call: Call, sha256: str | None = None, parts: Parts = (), temporary: str | None = None
    ) -> None:
        """Record that a change is made now; `sha256` is the hash of the file after it."""
        self._journal.record_start(_entry(call, sha256, parts), temporary and _beside(parts, temporary))

    def record_result(self, call: Call, result: CallResult) -> CallResult:
        """Record and return the result of a call; a full disk is ignored, since the change was made anyway."""
        with suppress(OSError):
            self._journal.record_result(call.call_id, result.model_dump(mode="json", exclude_none=True))
        return result

    def carry_out(self, call: Call, act: Callable[[], CallResult]) -> CallResult:
        """Run `act` and record its result, also a failure."""
        try:
            return self.record_result(call, act())
        except PathError as error:
            if self._journal.find(call.call_id):
                self.record_result(call, failed(error))
            raise

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


def _entry(call: Call, sha256: str | None, parts: Parts) -> Entry:
    return Entry(call.call_id, fingerprint(call), "/".join(parts), sha256)


def _beside(parts: Parts, name: str) -> str:
    return "/".join((*parts[:-1], name))
