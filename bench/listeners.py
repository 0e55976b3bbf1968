"""Thousands of event stream subscribers on one process."""

from collections.abc import Iterator

from bench.figure import Figure, percentile
from bench.processes import Team, artel_and_baseline, client

BENCH = "listeners"
SUBSCRIBERS = 5000
SESSIONS = 10


def run() -> Iterator[Figure]:
    """Connect all subscribers, send one message in every session, and measure the delivery of its event."""
    with artel_and_baseline(ARTEL_MAX_STREAMS_PER_USER=str(SUBSCRIBERS)) as (server, baseline, _):
        team = Team.make(server, agents=SESSIONS)
        arguments = team.client_arguments(SESSIONS)
        streams = [target["path"].removesuffix("message") + "events" for target in arguments["targets"]]
        before = server.megabytes()
        ours = client("listen", server, streams=streams, count=SUBSCRIBERS, **arguments)
        kilobytes = (server.megabytes() - before) * 1024 / SUBSCRIBERS
        targets = [{"path": f"/publish/{n}", "agent": ""} for n in range(SESSIONS)]
        streams = [f"/events/{n}" for n in range(SESSIONS)]
        theirs = client("listen", baseline, token="", streams=streams, targets=targets, count=SUBSCRIBERS)
    p50 = percentile(ours["durations"] or [0], 0.5)
    name = f"{SUBSCRIBERS:,} subscribers of {SESSIONS} sessions"
    yield Figure(BENCH, f"{name}, missed events", ours["missed"], "", 0, "at most", baseline=theirs["missed"])
    yield Figure(
        BENCH,
        f"{name}, last delivery",
        max(ours["durations"], default=float("inf")),
        "s",
        1.0,
        baseline=max(theirs["durations"]),
        note=f"P50 {p50:.2f} s; all connected in {ours['connected_seconds']:.1f} s; {kilobytes:.0f} KB each",
    )
