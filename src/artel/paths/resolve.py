"""Opening what a path leads to without ever leaving a folder, whoever moves folders and links about meanwhile.

Two ways, chosen at run time: Linux does it in the kernel (`openat2`); elsewhere the path is walked name by name, from
one open folder to the next. Both follow symbolic links as long as they stay inside, and both say what was reached.
"""

import ctypes
import errno
import os
import stat
import sys
from collections import deque
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

from artel.paths.errors import OutsideWorkspace
from artel.paths.policy import Parts

MAX_LINKS = 40
MAX_TRIES = 1_000  # the kernel gives up when folders move under its feet
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# To look at something, whatever it is: never waits for the other end of a pipe, never takes a terminal.
LOOK = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# Without even opening it, where that can be done.
LOOK_ONLY = getattr(os, "O_PATH", LOOK) | os.O_CLOEXEC

_OPENAT2 = 437  # the same on every architecture
_NO_MAGIC_LINKS, _BENEATH = 0x02, 0x08
_GONE = " (deleted)"


class Opened(NamedTuple):
    """An open file, and the names that lead to it without any link."""

    descriptor: int
    parts: Parts


class Resolver(Protocol):
    """A way to open what is beneath a folder."""

    def __call__(self, root: int, parts: Parts, flags: int) -> Opened:
        """Open something that exists; OutsideWorkspace if the way leads out, OSError as `os.open`."""


@cache
def best_resolver() -> Resolver:
    """Return the kernel's way where there is one."""
    return by_kernel if _kernel_can() else by_walking


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def by_kernel(root: int, parts: Parts, flags: int) -> Opened:
    """Open by `openat2`, and ask the kernel for the name of what it opened."""
    how = _OpenHow(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGIC_LINKS)
    path = os.fsencode("/".join(parts) or ".")
    for _ in range(MAX_TRIES):
        descriptor = _libc().syscall(_OPENAT2, root, path, ctypes.byref(how), ctypes.sizeof(how))
        if descriptor >= 0:
            reached = _names(root, descriptor)
            if reached is not None:
                return Opened(descriptor, reached)
            os.close(descriptor)  # it was moved out, removed or replaced in this moment
            continue
        failure = ctypes.get_errno()
        if failure == errno.EXDEV:
            raise OutsideWorkspace
        if failure not in (errno.EAGAIN, errno.EINTR):
            raise OSError(failure, os.strerror(failure))
    raise OutsideWorkspace


def by_walking(root: int, parts: Parts, flags: int) -> Opened:
    """Open name by name. A link is read and walked in the same way; `..` in one goes back to a folder that is open."""
    walker = _Walker(root, parts)
    try:
        return walker.open(flags)
    finally:
        walker.close()


class _Walker:
    """The folders that are open on the way, their names, and the names that are still to come."""

    def __init__(self, root: int, parts: Parts) -> None:
        self._folders = [os.dup(root)]
        self._names: list[str] = []
        self._left = deque(parts)
        self._links = 0

    def open(self, flags: int) -> Opened:
        """Go to the end and open it."""
        while self._left:
            name = self._left.popleft()
            if name == "..":
                self._back()
            elif name not in ("", ".") and not self._is_link(name):
                if not self._left:  # O_NOFOLLOW: it may have become a link since
                    opened = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folders[-1])
                    return Opened(opened, (*self._names, name))
                self._folders.append(os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=self._folders[-1]))
                self._names.append(name)
        return Opened(os.open(".", flags | os.O_CLOEXEC, dir_fd=self._folders[-1]), tuple(self._names))

    def close(self) -> None:
        """Close every folder."""
        for folder in self._folders:
            os.close(folder)

    def _back(self) -> None:
        if len(self._folders) == 1:
            raise OutsideWorkspace
        os.close(self._folders.pop())
        self._names.pop()

    def _is_link(self, name: str) -> bool:
        """Return whether a name is a link, and go on with what it says."""
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


def _names(root: int, descriptor: int) -> Parts | None:
    """Return where an open file lies beneath an open folder, by the kernel; None if it lies there no more."""
    here, there = (str(Path(f"/proc/self/fd/{number}").readlink()) for number in (root, descriptor))
    if there == here:
        return ()
    prefix = here.rstrip("/") + "/"
    if not there.startswith(prefix) or (there.endswith(_GONE) and not os.fstat(descriptor).st_nlink):
        return None
    return tuple(there.removeprefix(prefix).split("/"))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def _kernel_can() -> bool:
    """Try it: old kernels don't have it, containers may forbid it, and it takes /proc to ask for names."""
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
