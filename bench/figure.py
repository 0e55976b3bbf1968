"""A figure: a measured value with its target and the value of the baseline in the same run."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

_BOUNDS = {"under": operator.lt, "at most": operator.le, "at least": operator.ge}


@dataclass(frozen=True)
class Figure:
    """One row of the table; `bound` is the direction of the target."""

    bench: str
    name: str
    measured: float | None
    unit: str
    target: float | None = None
    bound: Literal["under", "at most", "at least"] = "under"
    baseline: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """Whether the target was met: `met`, `missed`, `not measured`, or empty without a target."""
        if self.measured is None:
            return "not measured"
        if self.target is None:
            return ""
        return "met" if _BOUNDS[self.bound](self.measured, self.target) else "missed"

    @property
    def used(self) -> float | None:
        """The measured share of the target: 1 is exactly the target, more is a miss."""
        if self.measured is None or self.target is None:
            return None
        if self.target == 0:
            return 0.0 if self.measured == 0 else math.inf
        if self.bound != "at least":
            return self.measured / self.target
        return self.target / self.measured if self.measured else math.inf

    @property
    def more_is_better(self) -> bool:
        """Whether a larger value is an improvement."""
        return self.bound == "at least" or self.unit in ("per second", "%")

    @property
    def times_bare(self) -> float | None:
        """What a request costs, in times of what it costs the bare handler; None without one."""
        if not self.baseline or not self.measured:
            return None
        return self.baseline / self.measured if self.more_is_better else self.measured / self.baseline

    def cells(self, change: str = "") -> tuple[str, ...]:
        """Return the cells of the row; `change` is since the previous run."""
        target = "" if self.target is None else f"{self.bound} {number(self.target)} {self.unit}".rstrip()
        return (
            self.name,
            "-" if self.measured is None else f"{number(self.measured)} {self.unit}".rstrip(),
            target,
            self.verdict,
            "" if self.baseline is None else f"{number(self.baseline)} {self.unit}".rstrip(),
            self._ratio(),
            change,
            self.note,
        )

    def _ratio(self) -> str:
        times = self.times_bare
        if times is None:
            return ""
        return f"{times:.2g}" if times < 100 else "> 100"


def number(value: float) -> str:
    """Format a number with its significant digits."""
    if value == 0 or abs(value) >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(len(ordered) * share) - 1)]
