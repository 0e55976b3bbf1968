"""The server's folder, and the lock that keeps a second server away from the same SQLite database."""

import fcntl
import json
import os
from pathlib import Path
from typing import IO

from artel.errors import ConfigurationInvalid, DatabaseInUse


class DataFolder:
    """The folder, and the lock on it."""

    def __init__(self, path: Path, lock: IO[str] | None) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def open(cls, path: Path, *, lock_beside: Path | None = None) -> "DataFolder":
        """Make the folder if it is missing, and lock the file if one is named; what is made is for the owner only."""
        os.umask(0o077)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            return cls(path, _lock(lock_beside.with_name(f"{lock_beside.name}.lock")) if lock_beside else None)
        except OSError as failure:
            raise ConfigurationInvalid(
                f"The data folder {path} can't be used ({failure.strerror}). Set ARTEL_DATA_DIR to one that can."
            ) from failure

    def announce(self, url: str) -> None:
        """Tell whoever tries to start a second server where this one answers."""
        if self._lock:
            self._lock.seek(0)
            self._lock.truncate()
            json.dump({"pid": os.getpid(), "url": url}, self._lock)
            self._lock.flush()

    def close(self) -> None:
        """Let go of the folder."""
        if self._lock:
            self._lock.truncate(0)
            self._lock.close()


def _lock(path: Path) -> IO[str]:
    file = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with file:
            file.seek(0)
            holder = file.read(1000)
        raise DatabaseInUse(_in_use(path.with_suffix(""), holder)) from None
    return file


def _in_use(database: Path, holder: str) -> str:
    try:
        running = json.loads(holder)
        where = f"Artel is already running at {running['url']} (process {running['pid']}) with the database {database}."
    except (ValueError, KeyError, TypeError):
        where = f"Another Artel is using the database {database}."
    return f"{where} Use that one, end it, or set ARTEL_DATA_DIR to another folder."
