"""The journal of calls that change files, so that each is carried out at most once.

An append-only file of JSON lines. A temporary file is recorded before it is created, the start of a call is flushed to
disk before anything is changed, and its result afterwards. A call that was started and has no result is never retried.
"""

import errno
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

KEPT_SECONDS = 24 * 3600
MAX_BYTES = 32_000_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A call that changes something.

    `sha256` is the hash of the file after the call, "" if it is deleted, None if the call does not write one file.
    `what` is the fingerprint that tells apart two calls with the same id.
    """

    call_id: str
    what: str
    path: str = ""
    sha256: str | None = None
    temporary: str | None = None
    is_started: bool = False
    result: dict[str, Any] | None = None
    at: float = field(default=0.0)


class Journal:
    """The calls of the last 24 hours, at most `max_bytes`; written by one process."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._clock = clock
        self._max_bytes = max_bytes
        self._entries = {entry.call_id: entry for entry in self._read()}
        self._file = -1
        self._size = 0
        self._rewrite()

    def close(self) -> None:
        os.close(self._file)

    def find(self, call_id: str) -> Entry | None:
        """Return a call that was started before."""
        entry = self._entries.get(call_id)
        return entry if entry is not None and entry.is_started else None

    def record_temporary(self, entry: Entry, temporary: str) -> None:
        """Record a temporary file before it is created; after a crash the next start removes it."""
        self._append(replace(entry, temporary=temporary, at=self._clock()))

    def record_start(self, entry: Entry, temporary: str | None = None) -> None:
        """Record that a call is about to change something, and flush it to disk."""
        self._append(replace(entry, temporary=temporary, is_started=True, at=self._clock()))
        os.fsync(self._file)

    def record_result(self, call_id: str, result: dict[str, Any]) -> None:
        """Record the result of a call, so that a repeated call gets the same answer."""
        self._append(replace(self._entries[call_id], result=result, temporary=None))
        os.fsync(self._file)
        if self._size > self._max_bytes:
            self._rewrite()

    def temporary_files(self) -> list[str]:
        """Return the temporary files that may still exist."""
        return [entry.temporary for entry in self._entries.values() if entry.temporary and entry.result is None]

    def forget_temporary_files(self) -> None:
        """Record that there are no temporary files; delete calls that were never started."""
        self._entries = {
            call_id: replace(entry, temporary=None) for call_id, entry in self._entries.items() if entry.is_started
        }
        self._rewrite()

    def _read(self) -> list[Entry]:
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        return [entry for entry in map(_entry, lines) if entry is not None]

    def _append(self, entry: Entry) -> None:
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


def _line(entry: Entry) -> bytes:
    fields = {name: getattr(entry, name) for name in Entry.__slots__}
    text = json.dumps({name: value for name, value in fields.items() if value is not None})
    return f"\n{text}\n".encode()  # the leading newline ends a line that was cut off when the disk was full


def _entry(line: bytes) -> Entry | None:
    """Parse a line; return None for one that a crash cut off: nothing was changed yet in that case."""
    try:
        return Entry(**json.loads(line))
    except (ValueError, TypeError):
        return None
