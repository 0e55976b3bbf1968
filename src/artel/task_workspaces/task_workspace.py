"""One task workspace: files that a family of agents shares. The folder is made by the first write, and not before."""

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from artel.logs import get_logger
from artel.paths.beneath import Beneath, Content, Limits, Listing, Written
from artel.paths.errors import (
    FileChanged,
    FileMissing,
    InvalidPath,
    OutsideWorkspace,
    PathError,
    ReadDenied,
    ReadFailed,
    WriteDenied,
    WriteFailed,
)
from artel.paths.policy import Parts, split_path
from artel.task_workspaces.errors import Busy, ChangedUnseen, QuotaReached
from artel.task_workspaces.stamps import Seen, Stamps

NEW = ""  # the hash that no content has
MAX_SEEN = 1_000_000  # entries looked at to count them: far more than a quota allows
# A way out in any spelling: told as such even if something else is wrong with the path too.
_WAY_OUT = re.compile(r"[/\\]|[A-Za-z]:|(?:.*[/\\])?\.\.(?:[/\\]|\Z)", re.DOTALL)

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Quota:
    """How much one task workspace may hold; folders count as files."""

    total_bytes: int = 100_000_000
    files: int = 5_000
    file_bytes: int = 10_000_000


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of a task workspace from the moment that it is assigned.

    The path is relative to the data folder: where that lies is told to nobody. `lazy_created` is whether the first
    write has made the folder.
    """

    workspace_id: int
    workspace_path: str
    created_at: datetime
    lazy_created: bool


@dataclass(frozen=True, slots=True)
class Info:
    """What a task workspace holds. `last_modified` is that of the newest file."""

    file_count: int = 0
    dir_count: int = 0
    total_size: int = 0
    last_modified: datetime | None = None


class TaskWorkspace:
    """The files of one family. Nothing here says where the folder lies, and all that goes wrong is a `PathError`.

    A member may replace a file that it has written or read as it is now; one that others have changed since, it has
    to read again. Calls wait for files and locks: they belong on a thread.
    """

    def __init__(self, folder: Path, stamps: Path, quota: Quota) -> None:
        self._folder = folder
        self._stamps = Stamps(stamps)
        self._quota = quota
        self._limits = Limits(file_bytes=quota.file_bytes, entries=MAX_SEEN, seen=MAX_SEEN)

    def write(self, member: int, path: str, data: bytes) -> Written:
        """Make a file, with the folders that it needs, or replace it; `member` is the agent that writes."""
        with _told(path, WriteDenied, WriteFailed):
            parts = _parts(path)
            if not parts:
                raise InvalidPath("That is the folder itself, not a file in it")
            with self._stamps.whole():
                self._require_room(parts, len(data))
                with self._stamps.of(parts) as stamp:
                    self._folder.mkdir(parents=True, exist_ok=True)
                    with self._files() as files:
                        written = _write(files, path, data, stamp.seen(), member)
                    with _as_well_as_it_can(member):
                        stamp.written(member, written.sha256)
                    return written

    def read(self, path: str, member: int | None = None) -> Content:
        """Return a file; `member` is the agent that reads it, and None somebody who never writes."""
        with _told(path, ReadDenied, ReadFailed):
            parts = _parts(path)
            if not self._folder.exists():
                raise FileMissing(path)
            with self._files() as files:
                content = files.read(path)
            if member is not None and content.sha256 is not None:
                with _as_well_as_it_can(member), self._stamps.of(parts) as stamp:
                    stamp.read(member, content.sha256)
            return content

    def list(self, path: str = ".", *, recursive: bool = False) -> Listing:
        """Return what is in a folder, by name; a workspace that was never written to is empty."""
        with _told(path, ReadDenied, ReadFailed):
            parts = _parts(path)
            if not self._folder.exists():
                if parts:
                    raise FileMissing(path)
                return Listing([], is_cut=False)
            with self._files() as files:
                return files.list(path, recursive=recursive)

    def info(self) -> Info:
        """Count what there is."""
        entries = self.list(recursive=True).entries
        files = [entry for entry in entries if entry.type == "file"]
        return Info(
            file_count=len(files),
            dir_count=sum(entry.type == "directory" for entry in entries),
            total_size=sum(entry.size for entry in files),
            last_modified=max((entry.modified for entry in files), default=None),
        )

    def _files(self) -> Beneath:
        return Beneath(self._folder, self._limits)

    def _require_room(self, parts: Parts, size: int) -> None:
        """Raise unless the file fits in, with the folders that it needs."""
        if size > self._quota.file_bytes:
            raise QuotaReached(f"The file would have {size} bytes, more than the {self._quota.file_bytes} allowed")
        there = {entry.path: entry for entry in self.list(recursive=True).entries}
        old = there.get("/".join(parts))
        total = sum(entry.size for entry in there.values() if entry.type == "file") + size
        total -= old.size if old and old.type == "file" else 0
        if total > self._quota.total_bytes:
            raise QuotaReached(
                f"The task workspace may hold {self._quota.total_bytes} bytes, and would have {total}. Write less."
            )
        new = sum("/".join(parts[:depth]) not in there for depth in range(1, len(parts) + 1))
        if len(there) + new > self._quota.files:
            raise QuotaReached(f"The task workspace may hold {self._quota.files} files and folders, and is full.")


def _parts(path: str) -> Parts:
    try:
        return split_path(path)
    except InvalidPath:
        if _WAY_OUT.match(path):
            raise OutsideWorkspace from None
        raise


def _write(files: Beneath, path: str, data: bytes, seen: Seen, member: int) -> Written:
    """Write what is new, or what the member knows as it is now; who else writes waits for us."""
    known = seen.sha256 if member in seen.members else NEW
    try:
        files.stat(path)
    except FileMissing:
        known = NEW
    try:
        return files.write(path, data, create_dirs=True, if_match=known)
    except FileChanged:
        raise ChangedUnseen(path) from None
    except FileMissing:
        raise WriteFailed(f"{path} would lie in a file, which is no folder") from None


@contextmanager
def _as_well_as_it_can(member: int) -> Iterator[None]:
    """Note what a member has seen; if that can't be noted, it has to read the file again before it writes."""
    try:
        yield
    except (OSError, Busy) as failure:
        log.warning("reader_not_noted", agent_id=member, reason=str(failure))


@contextmanager
def _told(path: str, denied: Callable[[str], PathError], failed: Callable[[str], PathError]) -> Iterator[None]:
    """Turn what the system says about our own folders into words about the path, without saying where they lie."""
    try:
        yield
    except OSError as failure:
        if failure.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise denied(path) from failure
        raise failed(f"{path}: {failure.strerror or 'it does not work'}") from failure
