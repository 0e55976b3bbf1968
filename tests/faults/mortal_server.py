"""`artel` with kill points.

Markers in the code name them (`artel/kill_points.py`): `NAME` is a moment, `NAME:uncommitted` and `NAME:committed` are
right before and after the commit of a transaction. A point is armed by writing `point count` into the file that
MORTAL_FILE names; the process dies at that passage of the point, as by kill -9. If MORTAL_RECORD names a file, the
points that are passed are written to it.
"""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from artel import kill_points
from artel.cli import main as command_line
from artel.db.engine import Database, UserDatabase

POINTS: frozenset[str] = frozenset(
    [
        *get_args(kill_points.MomentName),
        *(f"{name}:{side}" for name in get_args(kill_points.TransactionName) for side in ("uncommitted", "committed")),
    ]
)


class Mortality:
    """Counts the passages of the armed kill point."""

    def __init__(self, file: Path, record: Path | None) -> None:
        self._file = file
        self._record = record
        self._recorded: set[str] = set()
        self._armed = ""
        self._left = 0
        self._lock = threading.Lock()  # transactions pass on threads

    def passed(self, name: str) -> None:
        """Kill this process at the armed passage."""
        with self._lock:
            if self._record is not None and name not in self._recorded:
                self._recorded.add(name)
                with self._record.open("a") as record:
                    record.write(f"{name}\n")
            if not self._file.exists():
                return
            armed = self._file.read_text()
            if armed != self._armed:
                self._armed, self._left = armed, int(armed.split()[1])
            if armed.split()[0] == name:
                self._left -= 1
                if self._left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)


def make_mortal(mortality: Mortality) -> None:
    """Let the markers in the code kill the process."""
    kill_points.reached = mortality.passed
    Database.run = _mortal_run(mortality, Database.run)  # type: ignore[method-assign]
    UserDatabase.run = _mortal_run(mortality, UserDatabase.run)  # type: ignore[method-assign]


def _mortal_run(mortality: Mortality, run: Callable[..., Any]) -> Callable[..., Any]:
    async def mortal_run(self: object, transaction: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        name = getattr(transaction, "kill_point", None)
        if name is None:
            return await run(self, transaction, *args, **kwargs)

        def mortal_transaction(*with_connection: Any, **named: Any) -> Any:
            result = transaction(*with_connection, **named)
            mortality.passed(f"{name}:uncommitted")
            return result

        result = await run(self, mortal_transaction, *args, **kwargs)
        mortality.passed(f"{name}:committed")
        return result

    return mortal_run


def main() -> None:
    """Run the command line with kill points."""
    record = os.environ.get("MORTAL_RECORD")
    make_mortal(Mortality(Path(os.environ["MORTAL_FILE"]), Path(record) if record else None))
    command_line.main()
