"""What a program in the sandbox uses: memory and disk, measured from outside."""

import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

SCRATCH = ("tmp", "home", "dev/shm")  # folders with a limit of their own
MAX_PROCESSES = 32
MAX_FILE_BYTES = 20_000_000
MAX_WORK_BYTES = 100_000_000
MAX_WORK_ENTRIES = 2_000
MAX_WORK_DEPTH = 40
MAX_MAPPINGS_BYTES = 1_000_000  # of the lists of all processes together; an ordinary process has a hundredth
MAX_DESCRIPTORS = 4_000  # of all threads together
SOCKET_BYTES = 2 * 212_992  # that a socket can hold as Linux is set up: twice net.core.wmem_max

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TRIES, _PAUSE_SECONDS = 10, 0.02  # on a busy machine a process may take long to become another program
_DELETED = re.compile(rb"^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) (\d+) [^\n]* \(deleted\)$", re.MULTILINE)
_SHARED_ZEROS = b" /dev/zero (deleted)\n"  # memory of which a process may hold more than it has mapped
_ON_THE_WAY = re.compile(rb"^scm_fds:\s*[1-9]", re.MULTILINE)

_File = tuple[int, int, int]  # device (major, minor) and number


class Used(NamedTuple):
    """Bytes of memory, and bytes of deleted files that are still open or mapped."""

    memory: int
    deleted: int


class _TooMuch(Exception):
    """It has too much to be measured."""


def used_by(pid: int) -> Used | None:
    """Return what bubblewrap and all its descendants use; None if that can't be measured.

    For a moment that is so with every process that becomes another program, and while a descriptor is sent to another
    process. If it stays so, something is hidden: a program without read permission, or files that wait in a socket.
    """
    for _ in range(_TRIES):
        try:
            return _Look().at(pid)
        except _TooMuch:
            return None
        except OSError:
            time.sleep(_PAUSE_SECONDS)
    return None


class _Look:
    """Adds up what processes use; raises OSError if that can't be seen."""

    def __init__(self) -> None:
        self._memory = 0
        self._descriptors = 0
        self._mappings_bytes = 0
        self._opened: dict[_File, int] = {}  # sizes of deleted files
        self._mapped: set[_File] = set()
        self._scratch: set[tuple[int, int]] = set()  # devices

    def at(self, pid: int) -> Used:
        """Return what a process and all its descendants use."""
        waiting = [pid]
        for number in range(10 * MAX_PROCESSES):
            if not waiting:
                break
            process = Path("/proc", str(waiting.pop()))
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                waiting += self._add_process(process)
                if number == 1:  # the first one in the sandbox, with the same network and folders as all others
                    self._add_shared(process)
        # How long a file is that is only mapped can't be seen.
        sizes = dict.fromkeys(self._mapped, MAX_FILE_BYTES) | self._opened
        return Used(self._memory, sum(size for file, size in sizes.items() if file[:2] not in self._scratch))

    def _add_shared(self, process: Path) -> None:
        """Add what the processes of a sandbox have in common."""
        self._memory += SOCKET_BYTES * int((process / "net/sockstat").read_bytes().split()[2])
        for name in SCRATCH:
            device = (process / "root" / name).stat().st_dev
            self._scratch.add((os.major(device), os.minor(device)))

    def _add_process(self, process: Path) -> list[int]:
        """Add a process, and return its children.

        Memory is seen at any thread that has not ended, which the first one may have. Files are looked for at each
        thread, since they need not share them.
        """
        children: list[int] = []
        is_counted = False
        for thread in (process / "task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                children += map(int, (thread / "children").read_bytes().split())
                size, resident, of_files = map(int, (thread / "statm").read_bytes().split()[:3])
                if size and not is_counted:
                    self._memory += (resident - of_files) * _PAGE
                    self._add_mappings(thread)
                    is_counted = True
                if size:
                    self._add_descriptors(thread)
        return children

    def _add_descriptors(self, thread: Path) -> None:
        with os.scandir(thread / "fd") as descriptors:
            for descriptor in descriptors:
                self._descriptors += 1
                if self._descriptors > MAX_DESCRIPTORS:
                    raise _TooMuch
                with suppress(FileNotFoundError):  # it was closed
                    about = descriptor.stat()
                    if stat.S_ISREG(about.st_mode) and not about.st_nlink:
                        file = os.major(about.st_dev), os.minor(about.st_dev), about.st_ino
                        self._opened[file] = about.st_size
                    elif stat.S_ISSOCK(about.st_mode):
                        _require_no_files((thread / "fdinfo" / descriptor.name).read_bytes())

    def _add_mappings(self, thread: Path) -> None:
        with (thread / "maps").open("rb") as file:
            lines = file.read(MAX_MAPPINGS_BYTES - self._mappings_bytes)
        self._mappings_bytes += len(lines)
        if self._mappings_bytes >= MAX_MAPPINGS_BYTES or _SHARED_ZEROS in lines:
            raise _TooMuch
        for major, minor, number in set(_DELETED.findall(lines)):
            self._mapped.add((int(major, 16), int(minor, 16), int(number)))


def _require_no_files(about_socket: bytes) -> None:
    if _ON_THE_WAY.search(about_socket):
        raise OSError("A descriptor is on its way to another process.")


def is_full(folder: Path) -> bool:
    """Return whether a work folder holds too much; links are not followed."""
    total, entries, folders = 0, 0, [(str(folder), 0)]
    while folders:
        path, depth = folders.pop()
        if depth > MAX_WORK_DEPTH:
            return True
        try:
            with os.scandir(path) as found:
                for entry in found:
                    entries += 1
                    total += entry.stat(follow_symlinks=False).st_size
                    if total > MAX_WORK_BYTES or entries > MAX_WORK_ENTRIES:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        folders.append((entry.path, depth + 1))
        except FileNotFoundError:  # it was deleted meanwhile
            continue
        except OSError:  # it can't be read, and so not be measured
            return True
    return False
