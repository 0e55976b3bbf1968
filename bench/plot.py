"""Bar charts of the figures: relative to their targets, and relative to the bare handler."""

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from bench.figure import Figure, number

LABEL, BAR, VALUE, LINE, TOP = 470, 300, 190, 24, 44
TITLE = "Measured values relative to their targets"
MAX_SHARE = 1.5  # longer bars are cut here
RATIO_TITLE = "Times the bare handler's cost, logarithmic; the line in a bar is the previous run"
MAX_TIMES = 100.0  # longer bars are cut here

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600 } .quiet { fill: #6e7781 }
  .met { fill: #2da44e } .ratio { fill: #54aeff } .before { stroke: #24292f; stroke-width: 2 }
  .missed { fill: #cf222e } .limit { stroke: #6e7781; stroke-dasharray: 4 3 }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .quiet { fill: #8b949e } .limit { stroke: #8b949e }
    .ratio { fill: #1f6feb } .before { stroke: #e6edf3 } }
"""


def plot(figures: Sequence[Figure]) -> str:
    """Return the chart as SVG, with one bar for each figure that has a target."""
    shown = [figure for figure in figures if figure.target is not None]
    target_x = LABEL + BAR / MAX_SHARE
    bars = [line for index, figure in enumerate(shown) for line in _share(figure, TOP + index * LINE)]
    return _chart(TITLE, bars, len(shown), {target_x: "target"}, 22)


def plot_ratios(figures: Sequence[Figure], before: Mapping[str, float]) -> str:
    """Return the chart of the figures with a baseline as SVG; `before` are the ratios of the previous run, by name."""
    shown = [figure for figure in figures if figure.times_bare is not None]
    bars = []
    for index, figure in enumerate(shown):
        top, times = TOP + index * LINE, figure.times_bare or 0.0
        bars += _bar(figure.name, "ratio", _log_length(times), figure.cells()[5], top)
        if was := before.get(figure.name):
            x = LABEL + _log_length(was)
            bars.append(f'<line class="before" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + 18}"/>')
    grid = {LABEL + _log_length(times): f"{times:.0f}" for times in (1.0, 10.0, MAX_TIMES)}
    return _chart(RATIO_TITLE, bars, len(shown), grid, 40)


def _chart(title: str, bars: Sequence[str], count: int, grid: Mapping[float, str], label_y: int) -> str:
    """Return a chart with this many bars; `grid` are vertical lines by their positions, with their labels."""
    height, width = TOP + LINE * count + 14, LABEL + BAR + VALUE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="8" y="22">{title}</text>',
        *(
            f'<text class="quiet" x="{x}" y="{label_y}" text-anchor="middle">{label}</text>'
            for x, label in grid.items()
        ),
        *bars,
        *(f'<line class="limit" x1="{x}" y1="{label_y + 4}" x2="{x}" y2="{height - 8}"/>' for x in grid),
    ]
    return "\n".join([*parts, "</svg>\n"])


def _log_length(times: float) -> float:
    """Return the length of a bar that begins at 1."""
    return max(2.0, math.log(max(1.0, min(times, MAX_TIMES))) / math.log(MAX_TIMES) * BAR)


def _share(figure: Figure, top: int) -> list[str]:
    """Return the bar of the measured share of the target."""
    used = figure.used
    length = 0 if used is None else max(2.0, min(used, MAX_SHARE) / MAX_SHARE * BAR)
    value = "not measured" if figure.measured is None else f"{number(figure.measured)} {figure.unit}"
    return _bar(figure.name, "met" if figure.verdict == "met" else "missed", length, value, top)


def _bar(name: str, kind: str, length: float, value: str, top: int) -> list[str]:
    return [
        f'<text x="{LABEL - 10}" y="{top + 13}" text-anchor="end">{escape(name)}</text>',
        f'<rect class="{kind}" x="{LABEL}" y="{top + 2}" width="{length:.1f}" height="14" rx="2"/>',
        f'<text class="quiet" x="{LABEL + BAR + 8}" y="{top + 13}">{escape(value)}</text>',
    ]
