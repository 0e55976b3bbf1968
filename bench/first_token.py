"""Time to first token, minus the delay of the model."""

from collections.abc import Iterator

from bench.figure import Figure, percentile
from bench.processes import Team, artel_and_baseline, baseline_arguments, client

BENCH = "first-token"
DELAY_MS = 50


def run() -> Iterator[Figure]:
    """Request streamed answers, one at a time."""
    with artel_and_baseline(delay_ms=DELAY_MS) as (server, baseline, _):
        arguments = Team.make(server, 1).client_arguments(1)
        ours = client("first_tokens", server, count=200, warm_up=20, **arguments)["durations"]
        theirs = client("first_tokens", baseline, count=200, warm_up=20, **baseline_arguments(1))["durations"]
    yield Figure(
        BENCH,
        "time to first token, minus the model's delay, P95",
        percentile(ours, 0.95) * 1000 - DELAY_MS,
        "ms",
        20.0,
        baseline=percentile(theirs, 0.95) * 1000 - DELAY_MS,
        note=f"P50 {percentile(ours, 0.5) * 1000 - DELAY_MS:.1f} ms",
    )
