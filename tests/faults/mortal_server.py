"""`artel` with kill points.

The product knows nothing of this: its parts are wrapped here, in the process that runs it. A point is armed by writing
`name count` into the file that MORTAL_FILE names; the process dies at that passage of the point, as by kill -9.
"""

import os
import signal
import threading
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from artel.cli import main as command_line
from artel.db.engine import Database, UserDatabase
from artel.runs.direct_turn import DirectTurn
from artel.turns import service as turns

Points = tuple[str | None, str | None]
# Transactions: the point before the commit, and the one after it.
OF_TURNS: dict[str, Points] = {
    "accept_message": (None, "accepted"),
    "start_turn": ("before_start", "started"),
    "end_turn": ("before_finish", "finished"),
    "cancel_turn": ("cancelling", "cancelled"),
}
OF_PLANS: dict[str, Points] = {
    "begin": (None, "begun"),
    "store_plan": ("before_plan", "planned"),
    "decide_plan": ("before_decision", "decided"),
    "start_approved": ("before_approved", "approved"),
    "start_task": ("before_task", "task_started"),
    "end_task": ("before_end", "task_ended"),
    "park_task": ("before_waiting", "task_waits"),
    "park_run": ("before_parking", "parked"),
    "use": ("before_use", "used"),
    "retry": ("before_retry", "retried"),
    "_reserve": (None, "reserved"),
    "settle": ("before_settling", None),
}
TRANSACTIONS = OF_TURNS | OF_PLANS
TURN_POINTS = (
    "accepted",
    "before_start",
    "started",
    "before_finish",
    "finished",
    "cancelling",
    "answer_received",
    "before_answer",
)


class Mortality:
    """Counts the passages of the armed kill point."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._armed = ""
        self._left = 0
        self._lock = threading.Lock()  # transactions pass on threads

    def passed(self, point: str | None) -> None:
        """Kill this process at the armed passage."""
        if point is None or not self._file.exists():
            return
        with self._lock:
            armed = self._file.read_text()
            if armed != self._armed:
                self._armed, self._left = armed, int(armed.split()[1])
            if armed.split()[0] == point:
                self._left -= 1
                if self._left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)


def make_mortal(mortality: Mortality) -> None:
    """Wrap the functions that have kill points."""
    Database.run = _mortal_run(mortality, Database.run)  # type: ignore[method-assign]
    UserDatabase.run = _mortal_run(mortality, UserDatabase.run)  # type: ignore[method-assign]
    DirectTurn._finish = _passing(mortality, "answer_received", DirectTurn._finish)  # type: ignore[method-assign]
    turns._answer = _passing(mortality, "before_answer", turns._answer)


def _mortal_run(mortality: Mortality, run: Callable[..., Any]) -> Callable[..., Any]:
    async def mortal_run(self: object, transaction: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before, after = TRANSACTIONS.get(getattr(transaction, "__name__", ""), (None, None))

        def mortal_transaction(*with_connection: Any, **named: Any) -> Any:
            result = transaction(*with_connection, **named)
            mortality.passed(before)
            return result

        result = await run(self, mortal_transaction, *args, **kwargs)
        mortality.passed(after)
        return result

    return mortal_run


def _passing(mortality: Mortality, point: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def mortal(*args: Any, **kwargs: Any) -> Any:
        mortality.passed(point)
        return function(*args, **kwargs)

    return mortal


def main() -> None:
    """Run the command line with kill points."""
    make_mortal(Mortality(Path(os.environ["MORTAL_FILE"])))
    command_line.main()
