"""The server's data folder, and the lock against a second server on the same SQLite database."""

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from artel.errors import ConfigurationInvalid, DatabaseInUse

MAX_COUNTED = 200_000  # files and folders
COUNT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class FolderSize:
    """The size of a folder; not complete if it has too many files to count."""

    bytes: int
    files: int
    is_complete: bool


def folder_size(folder: Path) -> FolderSize:
    """Return the size of the files in a folder; links are not followed."""
    size, files, seen, deadline = 0, 0, 0, time.monotonic() + COUNT_SECONDS
    for path, folders, names in os.walk(folder):
        for name in names:
            seen += 1
            if seen > MAX_COUNTED or time.monotonic() > deadline:
                return FolderSize(size, files, is_complete=False)
            try:
                size += os.lstat(f"{path}/{name}").st_size
            except OSError:  # deleted meanwhile
                continue
            files += 1
        seen += len(folders)
    return FolderSize(size, files, is_complete=True)


class DataFolder:
    """The data folder and its lock."""

    def __init__(self, path: Path, lock: IO[str] | None) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def open(cls, path: Path, *, lock_beside: Path | None = None) -> "DataFolder":
        """Create the folder if necessary and lock the database file; everything is private to the owner."""
        os.umask(0o077)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            return cls(path, _lock(lock_beside.with_name(f"{lock_beside.name}.lock")) if lock_beside else None)
        except OSError as failure:
            raise ConfigurationInvalid(
                f"The data folder {path} can't be used ({failure.strerror}). Set ARTEL_DATA_DIR to another folder."
            ) from failure

    def announce(self, url: str) -> None:
        """Write process id and URL into the lock file, for the error message of a second server."""
        if self._lock:
            self._lock.seek(0)
            self._lock.truncate()
            json.dump({"pid": os.getpid(), "url": url}, self._lock)
            self._lock.flush()

    def close(self) -> None:
        """Release the lock."""
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
        database = path.with_suffix("")
        try:
            running = json.loads(holder)
            where = (
                f"Artel is already running at {running['url']} (process {running['pid']}) with the database {database}."
            )
        except (ValueError, KeyError, TypeError):
            where = f"Another Artel server is using the database {database}."
        raise DatabaseInUse(f"{where} Use that server, stop it, or set ARTEL_DATA_DIR to another folder.") from None
    return file
