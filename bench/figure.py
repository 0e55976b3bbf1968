"""A figure: what was measured, beside its target and beside a bare baseline of the same run."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

_BOUNDS = {"under": operator.lt, "at most": operator.le, "at least": operator.ge}


@dataclass(frozen=True)
class Figure:
    """One line of the table; `bound` says on which side of the target is good."""

    bench: str
    what: str
    measured: float | None
    unit: str
    target: float | None = None
    bound: Literal["under", "at most", "at least"] = "under"
    bare: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """Whether the target was met; `not measured` is no secret either."""
        if self.measured is None:
            return "not measured"
        if self.target is None:
            return ""
        return "met" if _BOUNDS[self.bound](self.measured, self.target) else "missed"

    @property
    def used(self) -> float | None:
        """How much of what the target allows is used: 1 is just the target, more is too much."""
        if self.measured is None or self.target is None:
            return None
        if self.target == 0:
            return 0.0 if self.measured == 0 else math.inf
        if self.bound != "at least":
            return self.measured / self.target
        return self.target / self.measured if self.measured else math.inf

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the line."""
        target = "" if self.target is None else f"{self.bound} {number(self.target)} {self.unit}".rstrip()
        return (
            self.what,
            "-" if self.measured is None else f"{number(self.measured)} {self.unit}".rstrip(),
            target,
            self.verdict,
            "" if self.bare is None else f"{number(self.bare)} {self.unit}".rstrip(),
            self._ratio(),
            self.note,
        )

    def _ratio(self) -> str:
        if not self.bare or self.measured is None:
            return ""
        return f"{self.measured / self.bare:.2g}" if self.measured < self.bare * 100 else "> 100"


def number(value: float) -> str:
    """Return a number with as many digits as mean something."""
    if value == 0 or abs(value) >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(len(ordered) * share) - 1)]
