"""One task workspace: files that an agent and its descendants share, in a folder created by the first write."""

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from artel.logs import get_logger
from artel.paths.beneath import Beneath, Content, FileLimits, Listing, Written
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
from artel.task_workspaces.errors import ChangedSinceRead, QuotaExceeded, WorkspaceBusy
from artel.task_workspaces.stamps import SeenContent, Stamps

NEW = ""  # in place of a hash: the file must not exist
MAX_SEEN = 1_000_000  # directory entries to read: far more than a quota allows
# Path traversal in any spelling, reported as such even if the path is invalid for other reasons too.
_TRAVERSAL = re.compile(r"[/\\]|[A-Za-z]:|(?:.*[/\\])?\.\.(?:[/\\]|\Z)", re.DOTALL)

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of one task workspace; folders count as files."""

    total_bytes: int = 100_000_000
    files: int = 5_000
    file_bytes: int = 10_000_000


@dataclass(frozen=True, slots=True)
class Record:
    """The description of an assigned task workspace.

    The path is relative to the data folder, whose location is not disclosed. `lazy_created` is whether the first write
    has created the folder.
    """

    workspace_id: int
    workspace_path: str
    created_at: datetime
    lazy_created: bool


@dataclass(frozen=True, slots=True)
class Info:
    """Statistics of a task workspace; `last_modified` is that of the newest file."""

    file_count: int = 0
    dir_count: int = 0
    total_size: int = 0
    last_modified: datetime | None = None


class TaskWorkspace:
    """The files of one task workspace. All errors are `PathError`s and never disclose the folder's location.

    An agent can replace a file only if it has seen its current content; after changes by others it has to read the file
    again. Methods block on files and locks, so call them in a thread.
    """

    def __init__(self, folder: Path, stamps: Path, quota: Quota) -> None:
        self._folder = folder
        self._stamps = Stamps(stamps)
        self._quota = quota
        self._limits = FileLimits(file_bytes=quota.file_bytes, entries=MAX_SEEN, scanned=MAX_SEEN)

    def write(self, member: int, path: str, data: bytes) -> Written:
        """Create or replace a file, and create missing folders; `member` is the id of the writing agent."""
        with _path_errors(path, WriteDenied, WriteFailed):
            parts = _parts(path)
            if not parts:
                raise InvalidPath("That is the folder itself, not a file in it")
            with self._stamps.lock_workspace():
                self._require_room(parts, len(data))
                with self._stamps.lock_path(parts) as stamp:
                    self._folder.mkdir(parents=True, exist_ok=True)
                    with self._files() as files:
                        written = _write(files, path, data, stamp.seen(), member)
                    with _best_effort(member):
                        stamp.written(member, written.sha256)
                    return written

    def read(self, path: str, member: int | None = None) -> Content:
        """Return a file; `member` is the id of the reading agent, or None for a reader that never writes."""
        with _path_errors(path, ReadDenied, ReadFailed):
            parts = _parts(path)
            if not self._folder.exists():
                raise FileMissing(path)
            with self._files() as files:
                content = files.read(path)
            if member is not None and content.sha256 is not None:
                with _best_effort(member), self._stamps.lock_path(parts) as stamp:
                    stamp.read(member, content.sha256)
            return content

    def list(self, path: str = ".", *, recursive: bool = False) -> Listing:
        """Return the entries of a folder by name; a workspace without a folder is empty."""
        with _path_errors(path, ReadDenied, ReadFailed):
            parts = _parts(path)
            if not self._folder.exists():
                if parts:
                    raise FileMissing(path)
                return Listing([], is_cut=False)
            with self._files() as files:
                return files.list(path, recursive=recursive)

    def info(self) -> Info:
        """Return statistics of the workspace."""
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
        """Raise QuotaExceeded if the file and the folders that it needs don't fit."""
        if size > self._quota.file_bytes:
            raise QuotaExceeded(f"The file would have {size} bytes, more than the {self._quota.file_bytes} allowed")
        existing = {entry.path: entry for entry in self.list(recursive=True).entries}
        old = existing.get("/".join(parts))
        total = sum(entry.size for entry in existing.values() if entry.type == "file") + size
        total -= old.size if old and old.type == "file" else 0
        if total > self._quota.total_bytes:
            raise QuotaExceeded(
                f"The task workspace may hold {self._quota.total_bytes} bytes, and would have {total}. Write less."
            )
        new = sum("/".join(parts[:depth]) not in existing for depth in range(1, len(parts) + 1))
        if len(existing) + new > self._quota.files:
            raise QuotaExceeded(f"The task workspace may hold {self._quota.files} files and folders, and is full.")


def _parts(path: str) -> Parts:
    try:
        return split_path(path)
    except InvalidPath:
        if _TRAVERSAL.match(path):
            raise OutsideWorkspace from None
        raise


def _write(files: Beneath, path: str, data: bytes, seen: SeenContent, member: int) -> Written:
    """Write a new file, or one whose current content the agent has seen; the caller holds the locks."""
    expected = seen.sha256 if member in seen.members else NEW
    try:
        files.stat(path)
    except FileMissing:
        expected = NEW
    try:
        return files.write(path, data, create_dirs=True, if_match=expected)
    except FileChanged:
        raise ChangedSinceRead(path) from None
    except FileMissing:
        raise WriteFailed(f"{path} can't be created: a parent of it is a file, not a folder") from None


@contextmanager
def _best_effort(member: int) -> Iterator[None]:
    """Log failures to store a stamp; the agent then has to read the file again before it writes."""
    try:
        yield
    except (OSError, WorkspaceBusy) as failure:
        log.warning("reader_not_noted", agent_id=member, reason=str(failure))


@contextmanager
def _path_errors(path: str, denied: Callable[[str], PathError], failed: Callable[[str], PathError]) -> Iterator[None]:
    """Turn an OSError into an error about the path that doesn't disclose the location of the folder."""
    try:
        yield
    except OSError as failure:
        if failure.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise denied(path) from failure
        raise failed(f"{path}: {failure.strerror or 'the operation failed'}") from failure
