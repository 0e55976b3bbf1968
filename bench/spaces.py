"""Startup time, and memory of an idle server: after the start, and with a thousand idle worker spaces."""

from collections.abc import Iterator

from bench.figure import Figure
from bench.processes import Team, artel, baseline_server, client, model_server

BENCH = "idle"
SPACES = 1000


def run() -> Iterator[Figure]:
    """Start a server, then send one message in each of a thousand projects."""
    with artel() as first:
        startup_seconds = [first.ready_seconds]
        first.settle()
        resident = first.megabytes()
    for _ in range(2):
        with artel() as again:
            startup_seconds.append(again.ready_seconds)
    with model_server() as model, baseline_server(model) as baseline:
        yield Figure(BENCH, "startup time", min(startup_seconds), "s", 2.0, baseline=baseline.ready_seconds)
        yield Figure(BENCH, "resident memory, idle", resident, "MB", 150.0, baseline=baseline.megabytes())
    with model_server() as model, artel(model) as server:
        team = Team.make(server, agents=1)
        target = {"path": f"/my/chat/{team.session()}/message", "agent": "agent_coder"}
        client("calls", server, token=team.person.token, targets=[target], count=100)
        server.settle()
        before = server.megabytes()
        yield Figure(BENCH, "resident memory, after 100 calls", before, "MB")
        targets = [
            {
                "path": f"/my/chat/{team.session(team.person.project(f'Space {n}')['id'])}/message",
                "agent": "agent_coder",
            }
            for n in range(SPACES)
        ]
        used = client("calls", server, token=team.person.token, targets=targets, count=1, parallel=4)
        assert not used["failures"], used["failures"][:3]
        server.settle()
        yield Figure(
            BENCH, f"resident memory of {SPACES:,} idle worker spaces", server.megabytes() - before, "MB", 100.0
        )
