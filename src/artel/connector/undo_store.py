"""What files were before agents changed them, to be put back: contents by their hash, and a list of changes.

The list is lines of JSON, the last line of a change counts. Connector and `artel undo` both write it, each while it
holds the state folder's lock, and read it again when the other has.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from artel.client.credentials import write_private

MAX_TOTAL_BYTES = 200_000_000
MAX_CHANGES = 5_000
MAX_LIST_BYTES = 4_000_000
KEPT_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Change:
    """What a turn did to a file. Hashes of contents; "" stands for no file, None for one that could not be kept.

    `after` is what the agent wrote, last and last but one: after a crash the last may not have happened.
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
    """Keeps old contents for a week, as far as there is room."""

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
        """Return what can be undone, or done again, the newest first."""
        self._refresh()
        return sorted(self._changes.values(), key=lambda change: change.number, reverse=True)

    def keep(
        self,
        turn: str,
        path: str,
        before: bytes | None,
        new_sha256: str,
        *,
        is_kept: bool = True,
        mode: int | None = None,
    ) -> None:
        """Note that a file is about to become something else; what it was is kept when the turn first touches it."""
        self._refresh()
        known = next(
            (one for one in self.changes() if (one.turn, one.path) == (turn, path) and not one.is_undone), None
        )
        if known is not None:
            self._note(replace(known, after=(known.after[-1], new_sha256)))
            return
        sha256 = self.hold(before) if is_kept else None
        number = max(self._changes, default=0) + 1
        self._note(Change(number, turn, path, sha256, (new_sha256,), len(before or b""), self._clock(), mode))
        self._make_room()

    def hold(self, content: bytes | None) -> str:
        """Keep a content; return its name."""
        if content is None:
            return ""
        sha256 = hashlib.sha256(content).hexdigest()
        place = self._folder / sha256
        if not place.exists():
            aside = self._folder / f"{sha256}.new"
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            aside.replace(place)
        return sha256

    def content(self, sha256: str | None) -> bytes | None:
        """Return a content that is kept; None if it is not."""
        try:
            content = (self._folder / str(sha256)).read_bytes()
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest() == sha256 else None

    def turned(self, change: Change, now: str) -> None:
        """Note that a change was undone, or done again: the way back is the same with the ends swapped."""
        self._note(replace(change, before=now, after=(change.before or "",), is_undone=not change.is_undone))

    def _note(self, change: Change) -> None:
        self._changes[change.number] = change
        self._append(change)

    def _append(self, change: Change) -> None:
        descriptor = os.open(self._list, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, f"\n{json.dumps(asdict(change))}\n".encode())
            about = os.fstat(descriptor)
            self._seen = about.st_ino, about.st_size
        finally:
            os.close(descriptor)

    def _refresh(self) -> None:
        try:
            about = self._list.stat()
        except FileNotFoundError:
            self._changes, self._seen = {}, None
            return
        if self._seen != (about.st_ino, about.st_size):
            found = map(_change, self._list.read_bytes().split(b"\n"))
            self._changes = {change.number: change for change in found if change is not None}
            self._seen = about.st_ino, about.st_size

    def _make_room(self) -> None:
        """Forget what is too old and what there is no room for, the oldest first, and contents that nobody needs."""
        oldest, left, kept = self._clock() - KEPT_SECONDS, self._max_total_bytes, dict[int, Change]()
        for change in self.changes()[:MAX_CHANGES]:
            left -= change.size
            if change.at >= oldest and left >= 0:
                kept[change.number] = change
        if len(kept) == len(self._changes) and self._list.stat().st_size <= MAX_LIST_BYTES:
            return
        self._changes = kept
        ordered = sorted(kept.values(), key=lambda change: change.number)
        write_private(self._list, "".join(f"{json.dumps(asdict(change))}\n" for change in ordered))
        about = self._list.stat()
        self._seen = about.st_ino, about.st_size
        needed = {change.before for change in kept.values()} | {self._list.name}
        for file in self._folder.iterdir():
            if file.name not in needed:
                file.unlink(missing_ok=True)


def _change(line: bytes) -> Change | None:
    try:
        known = json.loads(line)
        return Change(**(known | {"after": tuple(known["after"])}))
    except (ValueError, TypeError, KeyError):
        return None
