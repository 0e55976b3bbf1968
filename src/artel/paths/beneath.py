"""A folder whose files are reached by relative paths, and nothing else is. Every check is on what was opened."""

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
from artel.paths.resolve import FOLDER, LOOK, LOOK_ONLY, Opened, Resolver, best_resolver

MAX_FILE_BYTES = 10_000_000
MAX_ENTRIES = 10_000
MAX_SEEN = 100_000  # entries looked at for one listing
MAX_UNREAD = 1_000  # folders named in one listing that could not be read
TEMPORARY = ".artel-"
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})
_CHUNK = 1 << 20
_WORDS = {
    errno.ELOOP: "too many links",
    errno.ENXIO: "no regular file",
    errno.EISDIR: "it is a folder",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk is full for this user",
    errno.ENAMETOOLONG: "the name is too long",
}

# Says no, by raising, to a path: as it was asked for, and as it is without links.
Rule = Callable[[Parts], None]
# Says which entries of a folder are not shown; folders that are not are not looked into.
Hidden = Callable[[Parts, bool], bool]


def everything(_parts: Parts) -> None:
    """Say no to nothing."""


def nothing(_parts: Parts, _is_folder: bool) -> bool:
    """Hide nothing."""
    return False


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one operation may take."""

    file_bytes: int = MAX_FILE_BYTES
    entries: int = MAX_ENTRIES
    seen: int = MAX_SEEN


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes, or some of them, with the size of the whole; there is a hash when they are all."""

    data: bytes
    size: int
    sha256: str | None
    modified: datetime
    parts: Parts
    mode: int


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in a folder; a link is neither file nor folder, and is not followed."""

    path: str
    type: Literal["file", "directory", "link", "other"]
    size: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class Listing:
    """What is in a folder, by name; `is_cut` if there is more; `unread` are folders that could not be looked into."""

    entries: list[Entry]
    is_cut: bool
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """What a file is after it was written."""

    size: int
    sha256: str
    modified: datetime
    is_new: bool


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder that is open, and a name in it, which need not be there; no link leads to it."""

    folder: int
    name: str
    parts: Parts


class Beneath:
    """The files beneath a folder."""

    def __init__(self, path: Path, limits: Limits | None = None, resolver: Resolver | None = None) -> None:
        self._path = path
        self._limits = limits or Limits()
        self._resolve = resolver or best_resolver()
        self._new_mode = 0o666 & ~_umask()
        self._root = os.open(path, FOLDER)
        self._identity = _identity(os.fstat(self._root))

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exit_details: object) -> None:
        self.close()

    # Reading

    def read(self, path: str, rule: Rule = everything, *, offset: int = 0, most: int | None = None) -> Content:
        """Return a file, or `most` bytes of it from `offset` on."""
        limit = self._limits.file_bytes
        with _told(path, ReadDenied, ReadFailed), self._opened(path, LOOK, rule) as (descriptor, parts):
            about = _regular(os.fstat(descriptor), path, ReadFailed)
            if most is not None:
                data = _read(descriptor, offset, min(most, limit))
                return Content(data, about.st_size, None, _moment(about), parts, stat.S_IMODE(about.st_mode))
            data = b"" if about.st_size > limit else _read(descriptor, 0, limit + 1)
            if max(len(data), about.st_size) > limit:
                raise ReadFailed(f"{path} has more than {limit} bytes. Read a part of it.")
            sha256 = hashlib.sha256(data).hexdigest()
            return Content(data, len(data), sha256, _moment(about), parts, stat.S_IMODE(about.st_mode))

    def stat(self, path: str, rule: Rule = everything) -> Entry:
        """Return what is at a path, without reading it."""
        with _told(path, ReadDenied, ReadFailed), self._opened(path, LOOK_ONLY, rule) as (descriptor, parts):
            return _entry("/".join(parts) or ".", os.fstat(descriptor))

    def list(
        self,
        path: str = ".",
        rule: Rule = everything,
        *,
        recursive: bool = False,
        hidden: Hidden = nothing,
        keep: Callable[[Entry], bool] = lambda _: True,
    ) -> Listing:
        """Return what is in a folder, by name, without following links."""
        with _told(path, ReadDenied, ReadFailed), self._opened(path, FOLDER, rule) as (descriptor, parts):
            walk = _Walk(hidden, self._limits.seen, recursive=recursive)
            found = list(islice(filter(keep, walk.entries(descriptor, parts)), self._limits.entries + 1))
        most = self._limits.entries
        return Listing(found[:most], is_cut=walk.is_cut or len(found) > most, unread=tuple(walk.unread))

    # Writing

    def write(
        self,
        path: str,
        data: bytes,
        rule: Rule = everything,
        *,
        create_dirs: bool = False,
        if_match: str | None = None,
        mode: int | None = None,
        making: Callable[[Parts, str], None] = lambda *_: None,
        before: Callable[[Parts, str], None] = lambda *_: None,
    ) -> Written:
        """Replace a file as a whole, or make it; `if_match` is the hash that it must have, or "" if it must not be.

        A file that is there keeps its mode; a new one gets the one given. `making` is called before the temporary
        file is made, `before` at the last moment before it becomes the file; both with the file's name and that of
        the temporary file.
        """
        if len(data) > self._limits.file_bytes:
            raise WriteFailed(f"{path} would have {len(data)} bytes, more than the {self._limits.file_bytes} allowed")
        with _told(path, WriteDenied, WriteFailed), self._place(path, rule, create_dirs=create_dirs) as place:
            old = self._replaceable(place, path, if_match)
            new_mode = self._new_mode if mode is None else mode
            mode = new_mode if old is None else stat.S_IMODE(old.st_mode)
            temporary = f"{TEMPORARY}{secrets.token_hex(8)}.tmp"
            making(place.parts, temporary)
            try:
                about = _write_new(place.folder, temporary, data, mode)
                before(place.parts, temporary)
                self._require_still_beneath(place)
                os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=place.folder)
                raise
            os.fsync(place.folder)
            return Written(len(data), hashlib.sha256(data).hexdigest(), _moment(about), is_new=old is None)

    def require_writable(
        self, path: str, rule: Rule = everything, *, create_dirs: bool = False, if_match: str | None = None
    ) -> None:
        """Raise what writing a file would raise, as far as that can be told without doing it."""
        with _told(path, WriteDenied, WriteFailed):
            try:
                with self._place(path, rule) as place:
                    self._replaceable(place, path, if_match)
            except FileNotFoundError:
                if not create_dirs:
                    raise

    def delete(
        self,
        path: str,
        rule: Rule = everything,
        *,
        if_match: str | None = None,
        before: Callable[[Parts], None] = lambda _: None,
    ) -> None:
        """Remove a file."""
        with _told(path, WriteDenied, WriteFailed), self._place(path, rule) as place:
            if self._replaceable(place, path, if_match) is None:
                raise FileMissing(path)
            before(place.parts)
            self._require_still_beneath(place)
            os.unlink(place.name, dir_fd=place.folder)
            os.fsync(place.folder)

    # Ways

    @contextmanager
    def _opened(self, path: str, flags: int, rule: Rule) -> Iterator[Opened]:
        asked = split_path(path)
        rule(asked)
        self._require_in_place()
        opened = self._resolve(self._root, asked, flags)
        try:
            if opened.parts != asked:
                rule(opened.parts)
            yield opened
        finally:
            os.close(opened.descriptor)

    @contextmanager
    def _place(self, path: str, rule: Rule, *, create_dirs: bool = False) -> Iterator[_Place]:
        """Open the folder that holds a file, which need not be there, by the file's name without links."""
        asked = split_path(path)
        if not asked:
            raise InvalidPath("That is the folder itself, not a file in it")
        rule(asked)
        self._require_in_place()
        real = self._without_links(asked)
        if real is not None:
            folder = self._resolve(self._root, real[:-1], FOLDER)
        else:
            folder = self._folder(asked[:-1], create=create_dirs)
        try:
            place = _Place(folder.descriptor, (real or asked)[-1], (*folder.parts, (real or asked)[-1]))
            if place.parts != asked:
                rule(place.parts)
            yield place
        finally:
            os.close(folder.descriptor)

    def _without_links(self, asked: Parts) -> Parts | None:
        """Return the names that lead to something without any link; None if there is nothing."""
        try:
            opened = self._resolve(self._root, asked, LOOK_ONLY)
        except FileNotFoundError:
            return None
        os.close(opened.descriptor)
        if not opened.parts:
            raise InvalidPath("That is the folder itself, not a file in it")
        return opened.parts

    def _folder(self, parts: Parts, *, create: bool) -> Opened:
        """Open a folder, and make it and those above it if they are missing and that is wanted."""
        try:
            return self._resolve(self._root, parts, FOLDER)
        except FileNotFoundError:
            if not create:
                raise
        above = self._folder(parts[:-1], create=True)
        try:
            with suppress(FileExistsError):
                os.mkdir(parts[-1], dir_fd=above.descriptor)
            return self._resolve(self._root, (*above.parts, parts[-1]), FOLDER)
        finally:
            os.close(above.descriptor)

    # Checks

    def _require_in_place(self) -> None:
        try:
            here = _identity(self._path.stat())
        except OSError:
            raise FolderMoved from None
        if here != self._identity:
            raise FolderMoved

    def _require_still_beneath(self, place: _Place) -> None:
        """Raise unless the folder of a file is still where it was: it may have been moved out since it was opened."""
        again = self._resolve(self._root, place.parts[:-1], FOLDER)
        try:
            if _identity(os.fstat(again.descriptor)) != _identity(os.fstat(place.folder)):
                raise OutsideWorkspace
        finally:
            os.close(again.descriptor)

    def _replaceable(self, place: _Place, path: str, if_match: str | None) -> os.stat_result | None:
        """Return what is to be replaced, None if nothing is there; raise unless it may be."""
        try:
            old = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        except FileNotFoundError:
            if if_match:
                raise FileChanged(path) from None
            return None
        if stat.S_ISLNK(old.st_mode):
            raise WriteFailed(f"{path} is a link that leads nowhere")
        _regular(old, path, WriteFailed)
        if old.st_nlink > 1:
            raise WriteFailed(f"{path} has other names (hard links), which may lie outside the workspace")
        if not os.access(place.name, os.W_OK, dir_fd=place.folder):
            raise WriteDenied(path)
        if if_match is not None and if_match != self._hash(place, path):
            raise FileChanged(path)
        return old

    def _hash(self, place: _Place, path: str) -> str | None:
        descriptor = os.open(place.name, LOOK | os.O_NOFOLLOW, dir_fd=place.folder)
        try:
            about = _regular(os.fstat(descriptor), path, WriteFailed)
            if about.st_size > self._limits.file_bytes:
                return None
            return hashlib.sha256(_read(descriptor, 0, self._limits.file_bytes + 1)).hexdigest()
        finally:
            os.close(descriptor)


class _Walk:
    """Goes through a folder in the order of the names, and into those below it; says whether it had to stop."""

    def __init__(self, hidden: Hidden, seen: int, *, recursive: bool) -> None:
        self._hidden = hidden
        self._left = seen
        self._recursive = recursive
        self.is_cut = False
        self.unread: list[str] = []

    def entries(self, descriptor: int, parts: Parts) -> Iterator[Entry]:
        """Return the entries of an open folder."""
        for name in self._names(descriptor):
            try:
                about = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue
            place, is_folder = (*parts, name), stat.S_ISDIR(about.st_mode)
            if self._hidden(place, is_folder):
                continue
            yield _entry("/".join(place), about)
            if is_folder and self._recursive:
                yield from self._below(descriptor, name, place)

    def _below(self, descriptor: int, name: str, place: Parts) -> Iterator[Entry]:
        if len(place) >= MAX_DEPTH:
            self.is_cut = True
            return
        try:
            below = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
        except OSError as failure:
            self._note_unread(place, failure)
            return
        try:
            yield from self.entries(below, place)
        except OSError as failure:  # its names can be read, but nothing about them
            self._note_unread(place, failure)
        finally:
            os.close(below)

    def _note_unread(self, place: Parts, failure: OSError) -> None:
        if failure.errno in (*_ABSENT, errno.ELOOP):  # it is gone, or became a link
            return
        if len(self.unread) < MAX_UNREAD:
            self.unread.append("/".join(place))
        else:
            self.is_cut = True

    def _names(self, descriptor: int) -> list[str]:
        with os.scandir(descriptor) as found:
            names = [entry.name for entry in islice(found, self._left + 1)]
        if len(names) > self._left:
            self.is_cut = True
            names = names[: self._left]
        self._left -= len(names)
        return sorted(name for name in names if _can_be_said(name))


def _can_be_said(name: str) -> bool:
    """Return whether somebody could ask for an entry; the files that we write for a moment are nobody's business."""
    if name.startswith(TEMPORARY) and name.endswith(".tmp"):
        return False
    try:
        return split_path(name) == (name,)
    except PathError:
        return False


@contextmanager
def _told(path: str, denied: type[ReadDenied | WriteDenied], failed: type[ReadFailed | WriteFailed]) -> Iterator[None]:
    """Turn what the system says into words about the path as it was asked for."""
    try:
        yield
    except OSError as failure:
        if failure.errno in _ABSENT:
            raise FileMissing(path) from None
        if failure.errno in _DENIED:
            raise denied(path) from None
        raise failed(f"{path}: {_WORDS.get(failure.errno or 0, os.strerror(failure.errno or 0))}") from None


def _write_new(folder: int, name: str, data: bytes, mode: int) -> os.stat_result:
    descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=folder)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fchmod(descriptor, mode & 0o777)  # what an agent wrote never runs with somebody else's rights
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
        raise failed(f"{path} is no regular file")
    return about


def _entry(path: str, about: os.stat_result) -> Entry:
    kinds: dict[int, Literal["file", "directory", "link"]] = {
        stat.S_IFREG: "file",
        stat.S_IFDIR: "directory",
        stat.S_IFLNK: "link",
    }
    return Entry(path, kinds.get(stat.S_IFMT(about.st_mode), "other"), about.st_size, _moment(about))


def _identity(about: os.stat_result) -> tuple[int, int]:
    return about.st_dev, about.st_ino


def _moment(about: os.stat_result) -> datetime:
    return datetime.fromtimestamp(about.st_mtime, UTC)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
