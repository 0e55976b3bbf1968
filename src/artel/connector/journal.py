"""The journal of calls that change files, so that each is carried out at most once, also across crashes.

An append-only file of JSON lines. A temporary file is recorded before it is created, the start of a call is flushed to
disk before anything is changed, and its result afterwards. A call that was started and has no result is never retried.
"""

import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from artel.connector.errors import CallRefused
from artel.contract.connector import Call, CallResult
from artel.paths.beneath import Beneath
from artel.paths.errors import FileMissing, PathError
from artel.paths.policy import Parts

KEPT_SECONDS = 24 * 3600
MAX_BYTES = 32_000_000
# Fields that may differ when the same call is sent again.
_VARIABLE_FIELDS = {"call_id", "epoch", "timeout_ms", "approval", "allowed_paths", "denied_paths"}
# Names on disk that differ from the attributes. They never change: an earlier connector skips lines that it can't read,
# and would carry out their calls again.
_STORED_NAMES = {"fingerprint": "what"}
_ATTRIBUTES = {stored: name for name, stored in _STORED_NAMES.items()}


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A call that changes something.

    `sha256` is the hash of the file after the call, "" if it is deleted, None if the call does not write one file.
    `fingerprint` tells apart two calls with the same id.
    """

    call_id: str
    fingerprint: str
    path: str = ""
    sha256: str | None = None
    temporary: str | None = None
    is_started: bool = False
    result: dict[str, Any] | None = None
    at: float = 0.0


class Journal:
    """The calls of the last 24 hours, at most `max_bytes`; written by one process.

    The caller holds the state folder's change lock.
    """

    def __init__(
        self, path: Path, files: Beneath, clock: Callable[[], float] = time.time, max_bytes: int = MAX_BYTES
    ) -> None:
        self._path = path
        self._files = files
        self._clock = clock
        self._max_bytes = max_bytes
        self._entries: dict[str, JournalEntry] = {}
        with suppress(FileNotFoundError):
            for line in path.read_bytes().split(b"\n"):
                with suppress(ValueError, TypeError):  # a crash cut the line off: nothing was changed yet in that case
                    entry = _parsed(line)
                    self._entries[entry.call_id] = entry
        self._file = -1
        self._size = 0
        self._rewrite()

    def close(self) -> None:
        os.close(self._file)

    def remove_temporary_files(self) -> None:
        """Remove temporary files that a killed connector left behind, and calls that were never started."""
        for entry in self._entries.values():
            if entry.temporary and entry.result is None:
                with suppress(PathError):
                    self._files.delete(entry.temporary)
        self._entries = {
            call_id: replace(entry, temporary=None) for call_id, entry in self._entries.items() if entry.is_started
        }
        self._rewrite()

    def find_result(self, call: Call) -> CallResult | None:
        """Return the result of a call that was carried out before; None if it was never started.

        Raise CallRefused with code `unknown` if it was started and its outcome can't be determined.
        """
        entry = self._entries.get(call.call_id)
        if entry is None or not entry.is_started:
            return None
        if entry.fingerprint != fingerprint(call):
            raise CallRefused("failed", "The id of this call was already used for another call")
        if entry.result is not None:
            return CallResult(**entry.result)
        try:
            sha256 = self._files.read(entry.path).sha256
        except FileMissing:
            sha256 = ""
        except PathError:
            sha256 = None
        if entry.sha256 is None or entry.sha256 != sha256:
            raise CallRefused("unknown", "It is unknown whether this was done before. Check, then decide.")
        about: dict[str, Any] = {}
        with suppress(PathError):
            found = self._files.stat(entry.path)
            about = {"size": found.size, "timestamp": found.modified.isoformat()}
        return self.record_result(call, CallResult(success=True, sha256=sha256, **about))

    def record_temporary(self, call: Call, sha256: str, parts: Parts, temporary: str) -> None:
        """Record the temporary file of a change before it is created; after a crash the next start removes it."""
        self._append(self._entry(call, sha256, parts, temporary))

    def record_start(
        self, call: Call, sha256: str | None = None, parts: Parts = (), temporary: str | None = None
    ) -> None:
        """Record that a change is made now, and flush it to disk; `sha256` is the hash of the file after it."""
        self._append(replace(self._entry(call, sha256, parts, temporary), is_started=True))
        os.fsync(self._file)

    def record_result(self, call: Call, result: CallResult) -> CallResult:
        """Record and return the result of a call; a full disk is ignored, since the change was made anyway."""
        about = result.model_dump(mode="json", exclude_none=True)
        with suppress(OSError):
            self._append(replace(self._entries[call.call_id], result=about, temporary=None))
            os.fsync(self._file)
            if self._size > self._max_bytes:
                self._rewrite()
        return result

    @contextmanager
    def recording_failure(self, call: Call) -> Iterator[None]:
        """Record a PathError as the result of the call, if its start was recorded."""
        try:
            yield
        except PathError as error:
            entry = self._entries.get(call.call_id)
            if entry is not None and entry.is_started:
                self.record_result(call, failed(error))
            raise

    def _entry(self, call: Call, sha256: str | None, parts: Parts, temporary: str | None) -> JournalEntry:
        beside = temporary and "/".join((*parts[:-1], temporary))
        return JournalEntry(call.call_id, fingerprint(call), "/".join(parts), sha256, beside, at=self._clock())

    def _append(self, entry: JournalEntry) -> None:
        line = _line(entry)
        written = os.write(self._file, line)
        self._size += written
        if written < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._entries.pop(entry.call_id, None)
        self._entries[entry.call_id] = entry

    def _rewrite(self) -> None:
        """Rewrite the journal without old entries, at most half of `max_bytes` long."""
        oldest, left = self._clock() - KEPT_SECONDS, self._max_bytes // 2
        lines: list[bytes] = []
        for entry in reversed(list(self._entries.values())):
            line = _line(entry)
            left -= len(line)
            if left < 0 or entry.at < oldest:
                del self._entries[entry.call_id]
            else:
                lines.append(line)
        temporary = self._path.with_suffix(".new")
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with open(file, "wb", closefd=False) as stream:
            stream.writelines(reversed(lines))
        os.fsync(file)
        temporary.replace(self._path)
        if self._file >= 0:
            os.close(self._file)
        self._file, self._size = file, sum(map(len, lines))


def _parsed(line: bytes) -> JournalEntry:
    stored: dict[str, Any] = dict(json.loads(line))
    return JournalEntry(**{_ATTRIBUTES.get(name, name): value for name, value in stored.items()})


def _line(entry: JournalEntry) -> bytes:
    fields = {_STORED_NAMES.get(name, name): getattr(entry, name) for name in JournalEntry.__slots__}
    text = json.dumps({name: value for name, value in fields.items() if value is not None})
    return f"\n{text}\n".encode()  # the leading newline ends a line that was cut off when the disk was full


def fingerprint(call: Call) -> str:
    """Return a hash that differs between two different calls with the same id."""
    text = type(call).__name__ + call.model_dump_json(exclude=_VARIABLE_FIELDS)
    return hashlib.sha256(text.encode()).hexdigest()


def failed(error: PathError) -> CallResult:
    """Return the result of a call that failed with an error of a path."""
    return CallResult.model_validate({"success": False, "error": error.message, "code": error.code})
