"""File operations confined to a folder; all checks are on the opened descriptors, so that they can't race."""

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Literal, Self

from artel.paths.errors import (
    FileChanged,
    FileMissing,
    FolderMoved,
    InvalidPath,
    OutsideWorkspace,
    PathError,
    ReadDenied,
    ReadFailed,
    WriteDenied,
    WriteFailed,
)
from artel.paths.policy import MAX_DEPTH, Parts, split_path
from artel.paths.resolve import FOLDER, PATH_ONLY, READ, Opened, Resolver, best_resolver

MAX_FILE_BYTES = 10_000_000
MAX_ENTRIES = 10_000
MAX_SCANNED = 100_000  # entries scanned for one listing
MAX_UNREAD = 1_000  # unreadable folders named in one listing
TEMPORARY = ".artel-"
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})
_CHUNK = 1 << 20
_TYPES: dict[int, Literal["file", "directory", "link"]]
_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
_REASONS = {
    errno.ELOOP: "too many links",
    errno.ENXIO: "not a regular file",
    errno.EISDIR: "it is a folder",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk is full for this user",
    errno.ENAMETOOLONG: "the name is too long",
}

# Raises PathError for a forbidden path; called with the requested path, and with the one where links are resolved.
Rule = Callable[[Parts], None]
# Returns whether an entry (path, is a folder) is left out of a listing; hidden folders are not entered.
Hidden = Callable[[Parts, bool], bool]


def allow_all(_parts: Parts) -> None:
    """Allow every path."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    file_bytes: int = MAX_FILE_BYTES
    entries: int = MAX_ENTRIES
    scanned: int = MAX_SCANNED


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes, or a part of them, with the size of the whole file; `sha256` is None for a part."""

    data: bytes
    size: int
    sha256: str | None
    modified: datetime
    parts: Parts
    mode: int


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a folder; links are not followed."""

    path: str
    type: Literal["file", "directory", "link", "other"]
    size: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class Listing:
    """Entries of a folder, by name; `is_cut` if there are more; `unread` are folders that could not be read."""

    entries: list[Entry]
    is_cut: bool
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """A file after it was written."""

    size: int
    sha256: str
    modified: datetime
    is_new: bool


@dataclass(frozen=True, slots=True)
class _Target:
    """An open folder and a name in it that may not exist; `parts` is the path with links resolved."""

    folder: int
    name: str
    parts: Parts


class Beneath:
    """The files beneath a folder."""

    def __init__(self, path: Path, limits: FileLimits | None = None, resolver: Resolver | None = None) -> None:
        self._path = path
        self._limits = limits or FileLimits()
        self._resolve = resolver or best_resolver()
        umask = os.umask(0o077)  # it can only be read by setting it
        os.umask(umask)
        self._new_mode = 0o666 & ~umask
        self._root = os.open(path, FOLDER)
        self._identity = _identity(os.fstat(self._root))

    def close(self) -> None:
        os.close(self._root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exit_details: object) -> None:
        self.close()

    # Reading

    def read(self, path: str, rule: Rule = allow_all, *, offset: int = 0, most: int | None = None) -> Content:
        """Return a file, or `most` bytes of it from `offset` on."""
        limit = self._limits.file_bytes
        with self._opened(path, READ, rule) as (descriptor, parts):
            about = _regular(os.fstat(descriptor), path, ReadFailed)
            if most is not None:
                data = _read(descriptor, offset, min(most, limit))
                return Content(data, about.st_size, None, _modified(about), parts, stat.S_IMODE(about.st_mode))
            data = b"" if about.st_size > limit else _read(descriptor, 0, limit + 1)
            if max(len(data), about.st_size) > limit:
                raise ReadFailed(f"{path} has more than {limit} bytes. Read a part of it.")
            sha256 = hashlib.sha256(data).hexdigest()
            return Content(data, len(data), sha256, _modified(about), parts, stat.S_IMODE(about.st_mode))

    def stat(self, path: str, rule: Rule = allow_all) -> Entry:
        """Return type, size and modification time of a path."""
        with self._opened(path, PATH_ONLY, rule) as (descriptor, parts):
            return _entry("/".join(parts) or ".", os.fstat(descriptor))

    def list(
        self,
        path: str = ".",
        rule: Rule = allow_all,
        *,
        recursive: bool = False,
        hidden: Hidden = lambda *_: False,
        keep: Callable[[Entry], bool] = lambda _: True,
    ) -> Listing:
        """Return the entries of a folder, by name, without following links."""
        with self._opened(path, FOLDER, rule) as (descriptor, parts):
            walk = _Walk(hidden, self._limits.scanned, recursive=recursive)
            found = list(islice(filter(keep, walk.entries(descriptor, parts)), self._limits.entries + 1))
        most = self._limits.entries
        return Listing(found[:most], is_cut=walk.is_cut or len(found) > most, unread=tuple(walk.unread))

    # Writing

    def write(
        self,
        path: str,
        data: bytes,
        rule: Rule = allow_all,
        *,
        create_dirs: bool = False,
        if_match: str | None = None,
        mode: int | None = None,
        before_temporary: Callable[[Parts, str], None] = lambda *_: None,
        before_replace: Callable[[Parts, str], None] = lambda *_: None,
    ) -> Written:
        """Create or replace a file; `if_match` is the hash that it must have now, "" if it must not exist.

        An existing file keeps its mode, a new one gets `mode`. `before_temporary` is called before the temporary file
        is created, `before_replace` right before it is renamed; both with the file's path and the temporary name.
        """
        if len(data) > self._limits.file_bytes:
            raise WriteFailed(f"{path} would have {len(data)} bytes, more than the {self._limits.file_bytes} allowed")
        with (
            _translated_errors(path, WriteDenied, WriteFailed),
            self._open_target(path, rule, create_dirs=create_dirs) as target,
        ):
            old = self._replaceable(target, path, if_match)
            new_mode = self._new_mode if mode is None else mode
            mode = new_mode if old is None else stat.S_IMODE(old.st_mode)
            temporary = f"{TEMPORARY}{secrets.token_hex(8)}.tmp"
            before_temporary(target.parts, temporary)
            try:
                about = _write_new(target.folder, temporary, data, mode)
                before_replace(target.parts, temporary)
                self._require_still_beneath(target)
                os.rename(temporary, target.name, src_dir_fd=target.folder, dst_dir_fd=target.folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=target.folder)
                raise
            os.fsync(target.folder)
            return Written(len(data), hashlib.sha256(data).hexdigest(), _modified(about), is_new=old is None)

    def require_writable(
        self, path: str, rule: Rule = allow_all, *, create_dirs: bool = False, if_match: str | None = None
    ) -> None:
        """Raise what `write` would raise, as far as that can be checked without writing."""
        with _translated_errors(path, WriteDenied, WriteFailed):
            try:
                with self._open_target(path, rule) as target:
                    self._replaceable(target, path, if_match)
            except FileNotFoundError:
                if not create_dirs:
                    raise

    def delete(
        self,
        path: str,
        rule: Rule = allow_all,
        *,
        if_match: str | None = None,
        before_delete: Callable[[Parts], None] = lambda _: None,
    ) -> None:
        with _translated_errors(path, WriteDenied, WriteFailed), self._open_target(path, rule) as target:
            if self._replaceable(target, path, if_match) is None:
                raise FileMissing(path)
            before_delete(target.parts)
            self._require_still_beneath(target)
            os.unlink(target.name, dir_fd=target.folder)
            os.fsync(target.folder)

    # Opening

    @contextmanager
    def _opened(self, path: str, flags: int, rule: Rule) -> Iterator[Opened]:
        """Open a path that exists, to read it."""
        with _translated_errors(path, ReadDenied, ReadFailed):
            requested = split_path(path)
            rule(requested)
            self._require_not_moved()
            opened = self._resolve(self._root, requested, flags)
            try:
                if opened.parts != requested:
                    rule(opened.parts)
                yield opened
            finally:
                os.close(opened.descriptor)

    @contextmanager
    def _open_target(self, path: str, rule: Rule, *, create_dirs: bool = False) -> Iterator[_Target]:
        """Open the folder of a file that may not exist, with all links in the file's path resolved."""
        requested = split_path(path)
        if not requested:
            raise InvalidPath("That is the folder itself, not a file in it")
        rule(requested)
        self._require_not_moved()
        resolved = requested
        try:
            opened = self._resolve(self._root, requested, PATH_ONLY)
        except FileNotFoundError:
            folder = self._open_folder(requested[:-1], create=create_dirs)
        else:
            os.close(opened.descriptor)
            resolved = opened.parts
            if not resolved:
                raise InvalidPath("That is the folder itself, not a file in it")
            folder = self._resolve(self._root, resolved[:-1], FOLDER)
        name = resolved[-1]
        try:
            target = _Target(folder.descriptor, name, (*folder.parts, name))
            if target.parts != requested:
                rule(target.parts)
            yield target
        finally:
            os.close(folder.descriptor)

    def _open_folder(self, parts: Parts, *, create: bool) -> Opened:
        """Open a folder; with `create` make it and its parents if they are missing."""
        try:
            return self._resolve(self._root, parts, FOLDER)
        except FileNotFoundError:
            if not create:
                raise
        above = self._open_folder(parts[:-1], create=True)
        try:
            with suppress(FileExistsError):
                os.mkdir(parts[-1], dir_fd=above.descriptor)
            return self._resolve(self._root, (*above.parts, parts[-1]), FOLDER)
        finally:
            os.close(above.descriptor)

    # Checks

    def _require_not_moved(self) -> None:
        try:
            current = _identity(self._path.stat())
        except OSError:
            raise FolderMoved from None
        if current != self._identity:
            raise FolderMoved

    def _require_still_beneath(self, target: _Target) -> None:
        """Raise OutsideWorkspace if the folder of a file was moved since it was opened."""
        reopened = self._resolve(self._root, target.parts[:-1], FOLDER)
        try:
            if _identity(os.fstat(reopened.descriptor)) != _identity(os.fstat(target.folder)):
                raise OutsideWorkspace
        finally:
            os.close(reopened.descriptor)

    def _replaceable(self, target: _Target, path: str, if_match: str | None) -> os.stat_result | None:
        """Return the stat of the file to replace, None if it does not exist; raise if it may not be replaced."""
        try:
            old = os.stat(target.name, dir_fd=target.folder, follow_symlinks=False)
        except FileNotFoundError:
            if if_match:
                raise FileChanged(path) from None
            return None
        if stat.S_ISLNK(old.st_mode):
            raise WriteFailed(f"{path} is a dangling link")
        _regular(old, path, WriteFailed)
        if old.st_nlink > 1:
            raise WriteFailed(f"{path} has hard links, which may be outside the workspace")
        if not os.access(target.name, os.W_OK, dir_fd=target.folder):
            raise WriteDenied(path)
        if if_match is not None and if_match != self._hash(target, path):
            raise FileChanged(path)
        return old

    def _hash(self, target: _Target, path: str) -> str | None:
        descriptor = os.open(target.name, READ | os.O_NOFOLLOW, dir_fd=target.folder)
        try:
            about = _regular(os.fstat(descriptor), path, WriteFailed)
            if about.st_size > self._limits.file_bytes:
                return None
            return hashlib.sha256(_read(descriptor, 0, self._limits.file_bytes + 1)).hexdigest()
        finally:
            os.close(descriptor)


class _Walk:
    """Yields the entries of a folder in the order of names; `is_cut` if a limit was reached."""

    def __init__(self, hidden: Hidden, max_scanned: int, *, recursive: bool) -> None:
        self._hidden = hidden
        self._left = max_scanned
        self._recursive = recursive
        self.is_cut = False
        self.unread: list[str] = []

    def entries(self, descriptor: int, parts: Parts) -> Iterator[Entry]:
        with os.scandir(descriptor) as found:
            names = [entry.name for entry in islice(found, self._left + 1)]
        if len(names) > self._left:
            self.is_cut = True
            names = names[: self._left]
        self._left -= len(names)
        for name in sorted(filter(_is_requestable, names)):
            try:
                about = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue
            path, is_folder = (*parts, name), stat.S_ISDIR(about.st_mode)
            if self._hidden(path, is_folder):
                continue
            yield _entry("/".join(path), about)
            if is_folder and self._recursive:
                yield from self._subfolder(descriptor, name, path)

    def _subfolder(self, descriptor: int, name: str, path: Parts) -> Iterator[Entry]:
        if len(path) >= MAX_DEPTH:
            self.is_cut = True
            return
        try:
            subfolder = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
            try:
                yield from self.entries(subfolder, path)
            finally:
                os.close(subfolder)
        except OSError as failure:  # it can't be opened, or its names can be read, but not their stat
            if failure.errno in (*_ABSENT, errno.ELOOP):  # it was deleted, or replaced by a link
                return
            if len(self.unread) < MAX_UNREAD:
                self.unread.append("/".join(path))
            else:
                self.is_cut = True


def _is_requestable(name: str) -> bool:
    """Return whether an entry has a valid path and is not one of our temporary files."""
    if name.startswith(TEMPORARY) and name.endswith(".tmp"):
        return False
    try:
        return split_path(name) == (name,)
    except PathError:
        return False


@contextmanager
def _translated_errors(
    path: str, denied: type[ReadDenied | WriteDenied], failed: type[ReadFailed | WriteFailed]
) -> Iterator[None]:
    """Translate OSError into a PathError that names the requested path."""
    try:
        yield
    except OSError as failure:
        if failure.errno in _ABSENT:
            raise FileMissing(path) from None
        if failure.errno in _DENIED:
            raise denied(path) from None
        raise failed(f"{path}: {_REASONS.get(failure.errno or 0, os.strerror(failure.errno or 0))}") from None


def _write_new(folder: int, name: str, data: bytes, mode: int) -> os.stat_result:
    descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=folder)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fchmod(descriptor, mode & 0o777)  # no setuid, setgid or sticky bit for what an agent wrote
        os.fsync(descriptor)
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _read(descriptor: int, offset: int, most: int) -> bytes:
    chunks, got = list[bytes](), 0
    while got < most and (chunk := os.pread(descriptor, min(_CHUNK, most - got), offset + got)):
        chunks.append(chunk)
        got += len(chunk)
    return b"".join(chunks)


def _regular(about: os.stat_result, path: str, failed: type[ReadFailed | WriteFailed]) -> os.stat_result:
    if stat.S_ISDIR(about.st_mode):
        raise failed(f"{path} is a folder")
    if not stat.S_ISREG(about.st_mode):
        raise failed(f"{path} is not a regular file")
    return about


def _entry(path: str, about: os.stat_result) -> Entry:
    return Entry(path, _TYPES.get(stat.S_IFMT(about.st_mode), "other"), about.st_size, _modified(about))


def _identity(about: os.stat_result) -> tuple[int, int]:
    return about.st_dev, about.st_ino


def _modified(about: os.stat_result) -> datetime:
    return datetime.fromtimestamp(about.st_mtime, UTC)
