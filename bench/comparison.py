"""Compare a run with the one before it: the change of each figure, and whether it is worse beyond the noise."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.figure import Figure, number
from bench.results import Run

WORSE_PERCENT = 10.0  # worse than this, beyond the noise, is marked
MARK = "WORSE"


@dataclass(frozen=True)
class Change:
    """The change of a figure since the previous run; `percent` is None where that was zero or less."""

    before: Figure
    percent: float | None
    noise_percent: float
    is_worse: bool

    @property
    def cell(self) -> str:
        """The cell of the table."""
        text = f"was {number(self.before.measured or 0)}" if self.percent is None else f"{self.percent:+.0f} %"
        return f"{text} {MARK}" if self.is_worse else text


def changes(figures: Sequence[Figure], runs: Sequence[Run]) -> dict[str, Change]:
    """Return the change of each measured figure that one of these runs has, the newest last, by name."""
    compared = ((figure, _change(figure, runs)) for figure in figures)
    return {figure.name: change for figure, change in compared if change}


def _change(figure: Figure, runs: Sequence[Run]) -> Change | None:
    found = [(run, before) for run in runs if (before := run.figure(figure.name))]
    if figure.measured is None or not found:
        return None
    run, before = found[-1]
    assert before.measured is not None
    if before.measured <= 0:  # no percentage of it; a target decides
        grew_worse = figure.measured < before.measured if figure.more_is_better else figure.measured > before.measured
        return Change(before, None, 0.0, grew_worse and figure.verdict == "missed")
    same_code = [old.measured for other, old in found if other.code == run.code and old.measured is not None]
    noise = max(_spread(same_code), _drift(figure, before))
    percent = (figure.measured / before.measured - 1) * 100
    loss = -percent if figure.more_is_better else percent
    return Change(before, percent, noise, loss > WORSE_PERCENT + noise)


def _spread(values: Sequence[float]) -> float:
    """Return how far the values of the same code are apart, in percent of the smallest."""
    return (max(values) / min(values) - 1) * 100 if min(values) > 0 else 0.0


def _drift(figure: Figure, before: Figure) -> float:
    """Return the change of the bare handler, whose code is always the same, in percent: the machine's own."""
    if not figure.baseline or not before.baseline:
        return 0.0
    return abs(figure.baseline / before.baseline - 1) * 100


def summary(figures: Sequence[Figure], compared: dict[str, Change], runs: Sequence[Run]) -> str:
    """Return a sentence about the comparison with the previous run."""
    if not compared:
        return "There is no previous run on such a machine to compare with."
    previous = next(run.date for run in reversed(runs) if any(run.figure(figure.name) for figure in figures))
    worse = [figure.name for figure in figures if figure.name in compared and compared[figure.name].is_worse]
    outcome = f"{len(worse)} of {len(compared)} figures are" if worse else "no figure is"
    names = f": {'; '.join(worse)}" if worse else ""
    return (
        f"Since the previous run ({previous[:16].replace('T', ' ')} UTC), {outcome} worse by more than "
        f"{WORSE_PERCENT:.0f} % beyond the noise{names}."
    )
