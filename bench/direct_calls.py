"""A direct call, whole: from the request to the answer, with a model that takes no time."""

from collections.abc import Iterator
from typing import Any

from bench.figure import Figure, percentile
from bench.postgres import postgres_database
from bench.processes import Running, Team, artel, bare_caller, both, client, model_server

BENCH = "calls"
MEMORIES = 1000
AT_ONCE = 16


def run() -> Iterator[Figure]:
    """Measure on SQLite beside the baseline, then on PostgreSQL, then with memory."""
    with both() as (ours, bare, _):
        team = Team.make(ours, agents=8)
        yield from _one_client(ours, team, bare)
        yield from _many_clients(ours, team, bare)
    with postgres_database() as database, model_server() as model, artel(model, ARTEL_DATABASE_URL=database) as ours:
        team = Team.make(ours, agents=8)
        yield from _one_client(ours, team, None)
        yield from _many_clients(ours, team, None)
    with model_server() as model, artel(model) as ours:
        yield _with_memory(ours)


def _one_client(ours: Running, team: Team, bare: Running | None) -> Iterator[Figure]:
    where = "SQLite" if bare else "PostgreSQL"
    measured, cpu = _measured(ours, team.caller(1), count=500)
    base, base_cpu = _measured(bare, bare_caller(1), count=500) if bare else (None, None)
    for name, share, target in (("P50", 0.5, 7.0 if bare else None), ("P95", 0.95, None)):
        yield Figure(
            BENCH,
            f"whole direct call, {where}, 1 client, {name}",
            percentile(measured["taken"], share) * 1000,
            "ms",
            target,
            bare=percentile(base["taken"], share) * 1000 if base else None,
        )
    yield Figure(BENCH, f"CPU of the server per call, {where}, 1 client", cpu, "ms", bare=base_cpu)


def _many_clients(ours: Running, team: Team, bare: Running | None) -> Iterator[Figure]:
    where = "SQLite" if bare else "PostgreSQL"
    measured, cpu = _measured(ours, team.caller(AT_ONCE), count=100)
    base, base_cpu = _measured(bare, bare_caller(AT_ONCE), count=100) if bare else (None, None)
    yield Figure(
        BENCH,
        f"direct calls, {where}, {AT_ONCE} clients",
        len(measured["taken"]) / measured["elapsed"],
        "per second",
        150.0 if bare else None,
        "at least",
        bare=len(base["taken"]) / base["elapsed"] if base else None,
        note=f"P95 {percentile(measured['taken'], 0.95) * 1000:.0f} ms",
    )
    yield Figure(BENCH, f"CPU of the server per call, {where}, {AT_ONCE} clients", cpu, "ms", bare=base_cpu)


def _with_memory(ours: Running) -> Figure:
    what = f"whole direct call, memory on, {MEMORIES:,} memories, 1 client, P50"
    team = Team.make(ours, agents=1, memory=True)
    place = f"/my/projects/{team.project_id}/agents/{team.agents[0]['id']}/context"
    for number in range(MEMORIES):
        text = f"Memory {number}: the {_WORDS[number % len(_WORDS)]} of project {number % 37} was decided on."
        added = team.person.http.post(place, json={"content": text, "type": "chat", "success": True})
        if added.status_code != 201:
            return Figure(BENCH, what, None, "ms", 20.0, note=f"adding a memory answers {added.status_code}")
    measured, cpu = _measured(ours, team.caller(1), count=300)
    return Figure(
        BENCH, what, percentile(measured["taken"], 0.5) * 1000, "ms", 20.0, note=f"{cpu:.1f} ms of CPU per call"
    )


_WORDS = ("database", "colour", "deadline", "licence", "layout", "hosting", "budget", "logo", "language", "owner")


def _measured(server: Running, caller: dict[str, Any], count: int) -> tuple[dict[str, Any], float]:
    """Warm up, then call; return what the client saw, and the CPU time of the server per call, in milliseconds."""
    lines = len(caller["lines"])
    client("calls", server, count=max(10, 100 // lines), **caller)
    before = server.cpu_seconds()
    measured = client("calls", server, count=count, **caller)
    cpu = (server.cpu_seconds() - before) / (lines * count) * 1000
    assert not measured["failures"], measured["failures"][:3]
    return measured, cpu
