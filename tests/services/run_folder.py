"""What the processes of one test run share in its folder: locks, and a record per service."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from .process import Process


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, against other threads as well as other processes."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class Record:
    """What is known of one service: its processes, and its URL or why it has none."""

    processes: tuple[Process, ...] = ()
    url: str = ""
    failure: str = ""

    @classmethod
    def read(cls, path: Path) -> "Record":
        """Read a record, empty when there is none yet."""
        if not path.exists():
            return cls()
        values = json.loads(path.read_text())
        return cls(tuple(Process(**process) for process in values["processes"]), values["url"], values["failure"])

    def write(self, path: Path) -> None:
        """Replace the record in one step, so that a killed writer leaves a whole one."""
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self)))
        fresh.replace(path)
