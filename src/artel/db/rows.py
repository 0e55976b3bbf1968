"""Results of statements."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

# Returns a value of rows that are read when it is called: statements that are queued until then share a round trip.
Later = Callable[[], T]


class Rows:
    """The result of a statement: its rows, or the number of changed rows."""

    __slots__ = ("_rowcount", "_rows")

    def __init__(self, rows: list[Any], rowcount: int) -> None:
        self._rows = rows
        self._rowcount = rowcount

    def __iter__(self) -> Iterator[Any]:
        return iter(self.all())

    @property
    def rowcount(self) -> int:
        """The number of rows that were changed or returned."""
        return self._rowcount

    def all(self) -> list[Any]:
        """Return every row."""
        return self._rows

    def one(self) -> Any:
        """Return the only row; raise ValueError if there is not exactly one."""
        [row] = self.all()
        return row

    def one_or_none(self) -> Any:
        """Return the only row, or None; raise ValueError if there are several."""
        return self.one() if self.all() else None

    def scalar_one_or_none(self) -> Any:
        """Return the first value of the only row, or None; raise ValueError if there are several."""
        return self.one()[0] if self.all() else None
