"""`artel connect` with kill points: it kills itself with SIGKILL at the one named in KILL_AT.

One is a marker in the code (`artel/kill_points.py`), the others are before and after calls that are wrapped here.
"""

import os
import signal
from collections.abc import Callable
from typing import Any

from artel import kill_points
from artel.cli import main as command_line
from artel.connector import service as serving
from artel.connector.journal import Journal
from artel.contract.connector import Call, CallResult

POINTS = ("making", "temporary", "before_started", "started", "renamed", "before_done", "done", "call.answer")


def passed(name: str) -> None:
    """Kill this process if this kill point is armed."""
    if name == os.environ["KILL_AT"]:
        os.kill(os.getpid(), signal.SIGKILL)


class MortalJournal(Journal):
    """A journal with kill points before and after each record."""

    def record_temporary(self, *change: Any) -> None:
        super().record_temporary(*change)
        passed("making")

    def record_start(self, *change: Any) -> None:
        passed("before_started")
        super().record_start(*change)
        passed("started")

    def record_result(self, call: Call, result: CallResult) -> CallResult:
        passed("before_done")
        recorded = super().record_result(call, result)
        passed("done")
        return recorded


def before(point: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with a kill point before it."""

    def mortal(*args: Any, **options: Any) -> Any:
        passed(point)
        return function(*args, **options)

    return mortal


def after(point: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with a kill point after it."""

    def mortal(*args: Any, **options: Any) -> Any:
        result = function(*args, **options)
        passed(point)
        return result

    return mortal


def main() -> None:
    """Run the command line with kill points."""
    serving.Journal = MortalJournal  # type: ignore[attr-defined]
    os.rename = after("renamed", os.rename)
    os.fchmod = before("temporary", os.fchmod)  # then the temporary file is there, with all that is to be in it
    kill_points.reached = passed
    command_line.main()
