"""A rotating log of all calls and their outcomes, as JSON lines."""

import json
import threading
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from artel.client.credentials import append_private

MAX_BYTES = 5_000_000
MAX_FILES = 4


class AuditLog:
    """Up to four files: `audit.jsonl`, and older ones with a number appended."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def add(self, **fields: Any) -> None:
        """Append a line; a full disk is ignored."""
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="milliseconds")} | fields, ensure_ascii=True)
        with self._lock, suppress(OSError):
            if append_private(self._path, f"{line}\n").st_size >= self._max_bytes:
                numbered = [self._path.with_name(f"{self._path.name}.{number}") for number in range(1, MAX_FILES)]
                for newer, older in reversed([*pairwise([self._path, *numbered])]):
                    with suppress(FileNotFoundError):
                        newer.replace(older)
