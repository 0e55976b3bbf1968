"""A bar chart of the figures, each relative to its target."""

from collections.abc import Sequence
from xml.sax.saxutils import escape

from bench.figure import Figure, number

LABEL, BAR, VALUE, LINE, TOP = 470, 300, 190, 24, 44
TITLE = "Measured values relative to their targets"
MAX_SHARE = 1.5  # longer bars are cut here

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600 } .quiet { fill: #6e7781 }
  .met { fill: #2da44e } .missed { fill: #cf222e } .limit { stroke: #6e7781; stroke-dasharray: 4 3 }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .quiet { fill: #8b949e } .limit { stroke: #8b949e } }
"""


def plot(figures: Sequence[Figure]) -> str:
    """Return the chart as SVG, with one bar for each figure that has a target."""
    shown = [figure for figure in figures if figure.target is not None]
    height, width = TOP + LINE * len(shown) + 14, LABEL + BAR + VALUE
    target_x = LABEL + BAR / MAX_SHARE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{TITLE}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="8" y="22">{TITLE}</text>',
        f'<text class="quiet" x="{target_x}" y="22" text-anchor="middle">target</text>',
    ]
    for index, figure in enumerate(shown):
        parts += _bar(figure, TOP + index * LINE)
    parts.append(f'<line class="limit" x1="{target_x}" y1="30" x2="{target_x}" y2="{height - 8}"/>')
    return "\n".join([*parts, "</svg>\n"])


def _bar(figure: Figure, top: float) -> list[str]:
    used = figure.used
    length = 0 if used is None else max(2.0, min(used, MAX_SHARE) / MAX_SHARE * BAR)
    value = "not measured" if figure.measured is None else f"{number(figure.measured)} {figure.unit}"
    kind = "met" if figure.verdict == "met" else "missed"
    return [
        f'<text x="{LABEL - 10}" y="{top + 13}" text-anchor="end">{escape(figure.name)}</text>',
        f'<rect class="{kind}" x="{LABEL}" y="{top + 2}" width="{length:.1f}" height="14" rx="2"/>',
        f'<text class="quiet" x="{LABEL + BAR + 8}" y="{top + 13}">{escape(value)}</text>',
    ]
