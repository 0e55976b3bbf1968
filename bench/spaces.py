"""What a server costs that has nothing to do: after its start, and with a thousand spaces that were used once."""

from collections.abc import Iterator

from bench.figure import Figure
from bench.processes import Team, artel, bare, client, model_server

BENCH = "idle"
SPACES = 1000


def run() -> Iterator[Figure]:
    """Start a server, then use a thousand projects of it once."""
    with artel() as first:
        started = [first.ready_seconds]
        first.settle()
        resident = first.megabytes()
    for _ in range(2):
        with artel() as again:
            started.append(again.ready_seconds)
    with model_server() as model, bare(model) as base:
        yield Figure(BENCH, "ready after the start", min(started), "s", 2.0, bare=base.ready_seconds)
        yield Figure(BENCH, "resident, with nothing to do", resident, "MB", 150.0, bare=base.megabytes())
    with model_server() as model, artel(model) as ours:
        team = Team.make(ours, agents=1)
        warm = {"path": f"/my/chat/{team.session()}/message", "agent": "agent_coder"}
        client("calls", ours, token=team.person.token, lines=[warm], count=100)
        ours.settle()
        before = ours.megabytes()
        yield Figure(BENCH, "resident, after 100 calls", before, "MB")
        lines = [
            {
                "path": f"/my/chat/{team.session(team.person.project(f'Space {n}')['id'])}/message",
                "agent": "agent_coder",
            }
            for n in range(SPACES)
        ]
        used = client("calls", ours, token=team.person.token, lines=lines, count=1, at_once=4)
        assert not used["failures"], used["failures"][:3]
        ours.settle()
        yield Figure(BENCH, f"{SPACES:,} spaces that were used once", ours.megabytes() - before, "MB", 100.0)
