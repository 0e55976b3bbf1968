"""Thousands of listeners to streams of events on one process."""

from collections.abc import Iterator

from bench.figure import Figure, percentile
from bench.processes import Team, both, client

BENCH = "listeners"
LISTENERS = 5000
SESSIONS = 10


def run() -> Iterator[Figure]:
    """Connect them all, say one thing in every session, and see when the last of them has heard."""
    with both(ARTEL_MAX_STREAMS_PER_USER=str(LISTENERS)) as (ours, bare, _):
        team = Team.make(ours, agents=SESSIONS)
        caller = team.caller(SESSIONS)
        streams = [line["path"].removesuffix("message") + "events" for line in caller["lines"]]
        before = ours.megabytes()
        heard = client("listen", ours, streams=streams, count=LISTENERS, **caller)
        each = (ours.megabytes() - before) * 1024 / LISTENERS
        groups = [{"path": f"/say/{n}", "agent": ""} for n in range(SESSIONS)]
        base = client(
            "listen", bare, token="", streams=[f"/events/{n}" for n in range(SESSIONS)], lines=groups, count=LISTENERS
        )
    middle = percentile(heard["taken"] or [0], 0.5)
    name = f"{LISTENERS:,} listeners in {SESSIONS} sessions"
    yield Figure(BENCH, f"{name}, those that heard nothing", heard["missed"], "", 0, "at most", bare=base["missed"])
    yield Figure(
        BENCH,
        f"{name}, event at the last of them",
        max(heard["taken"], default=float("inf")),
        "s",
        1.0,
        bare=max(base["taken"]),
        note=f"P50 {middle:.2f} s; all connected in {heard['connected_seconds']:.1f} s; {each:.0f} KB each",
    )
