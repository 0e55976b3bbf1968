"""Helpers of tests that kill servers: kill points, a model that kills, and rows of the database."""

import json
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
    """Return the kill points for this database; a short run takes half of them, alternating between databases."""
    return points if IS_DEEP else points[BACKENDS.index(backend) :: 2 * len(BACKENDS)]


def arm(file: Path, point: str, passage: int) -> None:
    """Arm a kill point; write the file atomically because the server may be reading it."""
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
    """A streamed answer that reports its progress to the assassin."""

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
    """Rows of the server's database, read directly."""

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


def data_of(event: Row[Any]) -> dict[str, Any]:
    """Return the data of an event; SQLite stores it as text."""
    data: dict[str, Any] = json.loads(event.data) if isinstance(event.data, str) else event.data
    return data
