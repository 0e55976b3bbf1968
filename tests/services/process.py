"""Processes that outlive the one that started them, known by their pid and start time."""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

POLL_SECONDS = 0.05
ENDING_SECONDS = 60.0


def until(condition: Callable[[], bool], seconds: float, every: float = POLL_SECONDS) -> bool:
    """Poll the condition until it holds, and say whether it did within the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(every)
    return True


@dataclass(frozen=True)
class Process:
    """One process; the start time tells it from a later one with the same pid."""

    pid: int
    started: str
    ending: int

    @classmethod
    def of(cls, pid: int, ending: int = signal.SIGTERM) -> "Process":
        """Identify a process that runs now, and the signal that asks it to end."""
        return cls(pid, _status(pid).started, ending)

    def alive(self) -> bool:
        """Return whether this very process still runs."""
        status = _status(self.pid)
        if not status.started or status.started != self.started:
            return False
        with suppress(ChildProcessError):  # a dead child stays in the table until its parent asks for it
            return os.waitpid(self.pid, os.WNOHANG) == (0, 0)
        return not status.dead

    def send(self, number: int) -> None:
        """Send a signal, unless the process is gone."""
        if self.alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def end(processes: Sequence[Process]) -> None:
    """Ask the processes to end, and kill those that do not in time."""
    for process in processes:
        process.send(process.ending)
    if not until(lambda: not any(process.alive() for process in processes), ENDING_SECONDS):
        for process in processes:
            process.send(signal.SIGKILL)
        until(lambda: not any(process.alive() for process in processes), ENDING_SECONDS)


def spawn(
    command: Sequence[str | Path],
    *,
    folder: Path,
    log: Path,
    environment: Mapping[str, str] | None = None,
    ending: int = signal.SIGTERM,
) -> Process:
    """Start a command in a folder and a session of its own, with all output in the log."""
    # Not subprocess: its objects warn when they are dropped while the process runs on, and warnings are errors here.
    pid = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", 'cd "$0" && exec "$@"', str(folder), *map(str, command)],
        os.environ if environment is None else environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigdef=[signal.SIGINT, signal.SIGPIPE],
    )
    return Process.of(pid, ending)


class _Status(NamedTuple):
    """When the process with some pid started, empty when there is none, and whether only its entry is left."""

    started: str
    dead: bool


def _status(pid: int) -> _Status:
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        known = not Path("/proc/self/stat").exists() and _has_pid(pid)
        return _Status("unknown" if known else "", dead=not known)
    return _Status(fields[18], dead=state in "ZX")


def _has_pid(pid: int) -> bool:
    """Return whether any process has this pid, for systems without /proc."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
