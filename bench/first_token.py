"""How much later than from the model itself the first piece of an answer comes."""

from collections.abc import Iterator

from bench.figure import Figure, percentile
from bench.processes import Team, bare_caller, both, client

BENCH = "first-token"
DELAY_MS = 50


def run() -> Iterator[Figure]:
    """Ask for streams, one at a time."""
    with both(delay_ms=DELAY_MS) as (ours, bare, _):
        taken = client("first_tokens", ours, count=200, warm=20, **Team.make(ours, 1).caller(1))["taken"]
        base = client("first_tokens", bare, count=200, warm=20, **bare_caller(1))["taken"]
    yield Figure(
        BENCH,
        "first piece of a streamed answer, over the model's own delay, P95",
        percentile(taken, 0.95) * 1000 - DELAY_MS,
        "ms",
        20.0,
        bare=percentile(base, 0.95) * 1000 - DELAY_MS,
        note=f"P50 {percentile(taken, 0.5) * 1000 - DELAY_MS:.1f} ms",
    )
