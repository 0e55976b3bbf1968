"""Every call and what came of it, as lines of JSON in a file that is put aside when it is full."""

import json
import os
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MAX_BYTES = 5_000_000
MAX_FILES = 4


class AuditLog:
    """The last calls: up to four files, `audit.jsonl` and older ones with numbers."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def note(self, **what: Any) -> None:
        """Add a line. That there is no room for it is no reason not to work."""
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="milliseconds")} | what, ensure_ascii=True)
        with self._lock, suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, f"{line}\n".encode())
                is_full = os.fstat(descriptor).st_size >= self._max_bytes
            finally:
                os.close(descriptor)
            if is_full:
                self._put_aside()

    def _put_aside(self) -> None:
        for number in range(MAX_FILES - 1, 0, -1):
            newer = self._path if number == 1 else self._older(number - 1)
            with suppress(FileNotFoundError):
                newer.replace(self._older(number))

    def _older(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
