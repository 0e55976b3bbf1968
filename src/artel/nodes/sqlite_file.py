"""Opening a SQLite file of a node, which threads use one at a time."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Literal

BUSY_SECONDS = 10.0  # if another process of the same name writes


def open_file(file: Path, schema: str, *, synchronous: Literal["NORMAL", "FULL"]) -> sqlite3.Connection:
    """Open a file that only its owner may read, create what is missing, and return the connection.

    What is committed survives a killed process; with FULL also a power cut.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    connection = sqlite3.connect(file, timeout=BUSY_SECONDS, check_same_thread=False)
    try:
        file.chmod(0o600)
        for pragma in ("journal_mode = WAL", f"synchronous = {synchronous}"):
            with closing(connection.execute(f"PRAGMA {pragma}")):
                pass
        connection.executescript(schema)
    except BaseException:
        connection.close()
        raise
    return connection
