"""The contents of files before agents changed them, for undo: contents by their hash, and a list of changes.

The list is a file of JSON lines; the last line of a change counts. The connector and `artel undo` both write it while
they hold the state folder's change lock, and reload it when the other has written.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from artel.client.credentials import append_private, write_private

MAX_TOTAL_BYTES = 200_000_000
MAX_CHANGES = 5_000
MAX_LIST_BYTES = 4_000_000
KEPT_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Change:
    """A turn's change to a file, as hashes of contents: "" means no file, None a content that could not be stored.

    `after` are the agent's last two contents: after a crash the last one may not have been written.
    """

    number: int
    turn: str
    path: str
    before: str | None
    after: tuple[str, ...]
    size: int
    at: float
    mode: int | None = None
    is_undone: bool = False


class UndoStore:
    """Stores old contents for a week, at most `max_total_bytes`."""

    def __init__(
        self, folder: Path, clock: Callable[[], float] = time.time, max_total_bytes: int = MAX_TOTAL_BYTES
    ) -> None:
        self._folder = folder
        self._list = folder / "changes.jsonl"
        self._clock = clock
        self._max_total_bytes = max_total_bytes
        self._changes: dict[int, Change] = {}
        self._seen: tuple[int, int] | None = None
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def changes(self) -> list[Change]:
        """Return all changes that can be undone or redone, the newest first."""
        self._refresh()
        return sorted(self._changes.values(), key=lambda change: change.number, reverse=True)

    def record(
        self,
        turn: str,
        path: str,
        before: bytes | None,
        new_sha256: str,
        *,
        is_kept: bool = True,
        mode: int | None = None,
    ) -> None:
        """Record a change before it is made; the old content is stored only for the turn's first change of the file."""
        for earlier in self.changes():
            if (earlier.turn, earlier.path, earlier.is_undone) == (turn, path, False):
                self._save(replace(earlier, after=(earlier.after[-1], new_sha256)))
                return
        sha256 = self.put_content(before) if is_kept else None
        number = max(self._changes, default=0) + 1
        self._save(Change(number, turn, path, sha256, (new_sha256,), len(before or b""), self._clock(), mode))
        self._evict()

    def put_content(self, content: bytes | None) -> str:
        """Store a content; return its hash, "" for no file."""
        if content is None:
            return ""
        sha256 = hashlib.sha256(content).hexdigest()
        path = self._folder / sha256
        if not path.exists():
            temporary = self._folder / f"{sha256}.new"
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            temporary.replace(path)
        return sha256

    def content(self, sha256: str | None) -> bytes | None:
        """Return a stored content; None if it is missing or damaged."""
        try:
            content = (self._folder / str(sha256)).read_bytes()
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest() == sha256 else None

    def record_swap(self, change: Change, now: str) -> None:
        """Record that a change was undone or redone: the reverse change has `before` and `after` swapped."""
        self._save(replace(change, before=now, after=(change.before or "",), is_undone=not change.is_undone))

    def _save(self, change: Change) -> None:
        self._changes[change.number] = change
        about = append_private(self._list, f"\n{json.dumps(asdict(change))}\n")
        self._seen = about.st_ino, about.st_size

    def _refresh(self) -> None:
        """Read the list again if another process has written it."""
        try:
            about = self._list.stat()
        except FileNotFoundError:
            self._changes, self._seen = {}, None
            return
        if self._seen == (about.st_ino, about.st_size):
            return
        changes: dict[int, Change] = {}
        for line in self._list.read_bytes().split(b"\n"):
            with suppress(ValueError, TypeError, KeyError):  # a crash cut the line off
                fields = json.loads(line)
                change = Change(**(fields | {"after": tuple(fields["after"])}))
                changes[change.number] = change
        self._changes, self._seen = changes, (about.st_ino, about.st_size)

    def _evict(self) -> None:
        """Delete changes that are too old or over the size limit, the oldest first, and unreferenced contents."""
        oldest, left, retained = self._clock() - KEPT_SECONDS, self._max_total_bytes, dict[int, Change]()
        for change in self.changes()[:MAX_CHANGES]:
            left -= change.size
            if change.at >= oldest and left >= 0:
                retained[change.number] = change
        if len(retained) == len(self._changes) and self._list.stat().st_size <= MAX_LIST_BYTES:
            return
        self._changes = retained
        ordered = sorted(retained.values(), key=lambda change: change.number)
        write_private(self._list, "".join(f"{json.dumps(asdict(change))}\n" for change in ordered))
        about = self._list.stat()
        self._seen = about.st_ino, about.st_size
        needed = {change.before for change in retained.values()} | {self._list.name}
        for file in self._folder.iterdir():
            if file.name not in needed:
                file.unlink(missing_ok=True)
