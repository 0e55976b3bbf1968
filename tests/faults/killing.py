"""What tests need that kill servers: a model that does it, and what the database says when they are dead."""

import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Row, create_engine, text

from tests.depth import IS_DEEP
from tests.model_server import ModelRequest, Say

MORTAL = "tests.faults.mortal_server"
KILLS = int(os.environ.get("KILLS_PER_POINT", "1"))
T = TypeVar("T")

BACKENDS = ("sqlite", "postgres")
TERMINAL_EVENTS = {"turn_completed", "turn_failed", "turn_cancelled"}


def points_of(points: Sequence[T], backend: str) -> Sequence[T]:
    """Return where to kill a server with this database; the short form takes half of them, the databases in turn."""
    return points if IS_DEEP else points[BACKENDS.index(backend) :: 2 * len(BACKENDS)]


def arm(file: Path, point: str, passage: int) -> None:
    """Let a mortal server die at a passage of a point; it may be reading the file at this moment."""
    new = file.with_suffix(".new")
    new.write_text(f"{point} {passage}")
    new.replace(file)


class Assassin:
    """Kills the server when its nth call of the model reaches a point."""

    def __init__(self) -> None:
        self._point, self._left, self._pid = "", 0, 0

    def arm(self, point: str, passage: int, pid: int) -> None:
        self._point, self._left, self._pid = point, passage, pid

    def passed(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                os.kill(self._pid, signal.SIGKILL)


@dataclass(frozen=True)
class Deadly(Say):
    """An answer, in pieces, that tells the assassin how far it is."""

    assassin: Assassin = field(default_factory=Assassin)
    called: str = "model_called"
    streaming: str = "streaming"

    async def __call__(self, request: ModelRequest, http: Any) -> Any:
        self.assassin.passed(self.called)
        return await super().__call__(request, http)

    def deltas(self, request: ModelRequest) -> Iterator[bytes]:
        for number, event in enumerate(super().deltas(request)):
            if number == 3:
                self.assassin.passed(self.streaming)
            yield event


class Rows:
    """What the database says, read behind the server's back."""

    def __init__(self, url: str) -> None:
        self._engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))

    def of(self, table: str, sessions: Iterable[str]) -> list[Row[Any]]:
        return self.where(table, "id" if table == "sessions" else "session_id", sessions)

    def where(self, table: str, column: str, wanted: Iterable[str | int]) -> list[Row[Any]]:
        values = ", ".join(repr(one) for one in wanted)
        with self._engine.connect() as connection:
            return list(connection.execute(text(f"SELECT * FROM {table} WHERE {column} IN ({values})")))  # noqa: S608

    def close(self) -> None:
        self._engine.dispose()
