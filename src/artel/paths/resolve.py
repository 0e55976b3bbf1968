"""Opens a path beneath a folder without leaving the folder, also while other processes move folders and links.

Two implementations, chosen at run time: `openat2` on Linux; elsewhere the path is walked name by name, from one open
folder to the next. Both follow symbolic links that stay inside, and both return the path with links resolved.
"""

import ctypes
import errno
import os
import stat
import sys
from collections import deque
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from artel.paths.errors import OutsideWorkspace
from artel.paths.policy import Parts

MAX_LINKS = 40
MAX_ATTEMPTS = 1_000  # openat2 fails with EAGAIN while folders are being moved
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Opens anything: never blocks on a pipe, never acquires a controlling terminal.
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# For stat only; does not open the file itself where the system supports that.
PATH_ONLY = getattr(os, "O_PATH", READ) | os.O_CLOEXEC

_OPENAT2 = 437  # the same on every architecture
_NO_MAGIC_LINKS, _BENEATH = 0x02, 0x08
_DELETED = " (deleted)"


class Opened(NamedTuple):
    """An open file and its path with all links resolved."""

    descriptor: int
    parts: Parts


# Opens an existing path beneath an open folder, with flags; raises OutsideWorkspace if it leads out, OSError as
# `os.open` does.
Resolver = Callable[[int, Parts, int], Opened]


@cache
def best_resolver() -> Resolver:
    """Return `by_kernel` where it is supported, else `by_walking`."""
    return by_kernel if _has_openat2() else by_walking


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def by_kernel(root: int, parts: Parts, flags: int) -> Opened:
    """Open with `openat2`, and read the resolved path from /proc."""
    how = _OpenHow(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGIC_LINKS)
    path = os.fsencode("/".join(parts) or ".")
    for _ in range(MAX_ATTEMPTS):
        descriptor = _libc().syscall(_OPENAT2, root, path, ctypes.byref(how), ctypes.sizeof(how))
        if descriptor >= 0:
            resolved = _resolved_path(root, descriptor)
            if resolved is not None:
                return Opened(descriptor, resolved)
            os.close(descriptor)  # it was moved out, deleted or replaced meanwhile
            continue
        failure = ctypes.get_errno()
        if failure == errno.EXDEV:
            raise OutsideWorkspace
        if failure not in (errno.EAGAIN, errno.EINTR):
            raise OSError(failure, os.strerror(failure))
    raise OutsideWorkspace


def by_walking(root: int, parts: Parts, flags: int) -> Opened:
    """Open name by name; a link's target is walked in the same way, `..` in it goes back to the folder still open."""
    walker = _Walker(root, parts)
    try:
        return walker.open(flags)
    finally:
        walker.close()


class _Walker:
    """The open folders from the root on, their names, and the names that are left."""

    def __init__(self, root: int, parts: Parts) -> None:
        self._folders = [os.dup(root)]
        self._names: list[str] = []
        self._left = deque(parts)
        self._links = 0

    def open(self, flags: int) -> Opened:
        """Walk to the last name and open it."""
        while self._left:
            name = self._left.popleft()
            if name == "..":
                if len(self._folders) == 1:
                    raise OutsideWorkspace
                os.close(self._folders.pop())
                self._names.pop()
            elif name not in ("", ".") and not self._follow_link(name):
                if not self._left:  # O_NOFOLLOW: it may have been replaced by a link meanwhile
                    opened = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folders[-1])
                    return Opened(opened, (*self._names, name))
                self._folders.append(os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=self._folders[-1]))
                self._names.append(name)
        return Opened(os.open(".", flags | os.O_CLOEXEC, dir_fd=self._folders[-1]), tuple(self._names))

    def close(self) -> None:
        for folder in self._folders:
            os.close(folder)

    def _follow_link(self, name: str) -> bool:
        """If a name is a link, put its target before the names that are left; return whether it is one."""
        folder = self._folders[-1]
        if not stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return False
        self._links += 1
        if self._links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink(name, dir_fd=folder)
        if target.startswith("/"):
            raise OutsideWorkspace
        self._left.extendleft(reversed(target.split("/")))
        return True


def _resolved_path(root: int, descriptor: int) -> Parts | None:
    """Return the path of an open file relative to an open folder; None if it is no longer beneath that."""
    root_path, path = (str(Path(f"/proc/self/fd/{number}").readlink()) for number in (root, descriptor))
    if path == root_path:
        return ()
    prefix = root_path.rstrip("/") + "/"
    if not path.startswith(prefix) or (path.endswith(_DELETED) and not os.fstat(descriptor).st_nlink):
        return None
    return tuple(path.removeprefix(prefix).split("/"))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def _has_openat2() -> bool:
    """Return whether `openat2` works here: old kernels lack it, containers may forbid it, and /proc is needed too."""
    if not sys.platform.startswith("linux"):
        return False
    folder = os.open("/", FOLDER)
    try:
        os.close(by_kernel(folder, (), FOLDER).descriptor)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(folder)
