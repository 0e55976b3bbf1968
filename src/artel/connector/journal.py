"""The promise that a call changes files at most once: what was begun and what came of it, by the call's id.

Lines of JSON that are only appended. `making` names a temporary file before there is one; `started` is on the disk
before anything is changed; `done` holds the answer. A call that was started and has no answer is never tried again.
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
    """A call that changes something. `sha256` is what the file is to be, "" if there is to be none, None if no file is.

    `what` tells apart two calls that come with the same id.
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
    """The calls of the last 24 hours, as far as there is room; one process writes it."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._clock = clock
        self._max_bytes = max_bytes
        self._entries = {entry.call_id: entry for entry in self._read()}
        self._file = -1
        self._size = 0
        self._rewrite()

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def find(self, call_id: str) -> Entry | None:
        """Return a call that was started before."""
        entry = self._entries.get(call_id)
        return entry if entry is not None and entry.is_started else None

    def making(self, entry: Entry, temporary: str) -> None:
        """Note a temporary file that is about to be made: should we be killed, it is removed at the next start."""
        self._append(replace(entry, temporary=temporary, at=self._clock()))

    def started(self, entry: Entry, temporary: str | None = None) -> None:
        """Note that a call is about to change something; it is on the disk when this returns."""
        self._append(replace(entry, temporary=temporary, is_started=True, at=self._clock()))
        os.fsync(self._file)

    def done(self, call_id: str, result: dict[str, Any]) -> None:
        """Note what came of a call, so that it can be answered again."""
        self._append(replace(self._entries[call_id], result=result, temporary=None))
        os.fsync(self._file)
        if self._size > self._max_bytes:
            self._rewrite()

    def leftovers(self) -> list[str]:
        """Return the temporary files that may still lie about."""
        return [entry.temporary for entry in self._entries.values() if entry.temporary and entry.result is None]

    def forget_leftovers(self) -> None:
        """Note that there are none any more; what was never started is forgotten altogether."""
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
        """Write the journal anew, without what is too old, and with half the room that it may take to spare."""
        oldest, left = self._clock() - KEPT_SECONDS, self._max_bytes // 2
        kept: list[bytes] = []
        for entry in reversed(list(self._entries.values())):
            line = _line(entry)
            left -= len(line)
            if left < 0 or entry.at < oldest:
                del self._entries[entry.call_id]
            else:
                kept.append(line)
        aside = self._path.with_suffix(".new")
        file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with open(file, "wb", closefd=False) as stream:
            stream.writelines(reversed(kept))
        os.fsync(file)
        aside.replace(self._path)
        if self._file >= 0:
            os.close(self._file)
        self._file, self._size = file, sum(map(len, kept))


def _line(entry: Entry) -> bytes:
    known = {name: getattr(entry, name) for name in Entry.__slots__}
    text = json.dumps({name: value for name, value in known.items() if value is not None})
    return f"\n{text}\n".encode()  # the first ends a line that was torn when the disk was full


def _entry(line: bytes) -> Entry | None:
    """Read a line; one that was torn by a crash is none, and nothing was done on the strength of it."""
    try:
        return Entry(**json.loads(line))
    except (ValueError, TypeError):
        return None
