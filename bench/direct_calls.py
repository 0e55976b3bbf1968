"""Direct calls, from request to answer, with a model without delay."""

from collections.abc import Iterator
from typing import Any

from bench.figure import Figure, percentile
from bench.postgres import postgres_database
from bench.processes import Running, Team, artel, artel_and_baseline, baseline_arguments, client, model_server

BENCH = "calls"
MEMORIES = 1000
CLIENTS = 16


def run() -> Iterator[Figure]:
    """Measure on SQLite and compare with the baseline, then on PostgreSQL, then with memory."""
    with artel_and_baseline() as (server, baseline, _):
        team = Team.make(server, agents=8)
        yield from _one_client(server, team, baseline)
        yield from _many_clients(server, team, baseline)
    with postgres_database() as database, model_server() as model, artel(model, ARTEL_DATABASE_URL=database) as server:
        team = Team.make(server, agents=8)
        yield from _one_client(server, team, None)
        yield from _many_clients(server, team, None)
    with model_server() as model, artel(model) as server:
        yield _with_memory(server)


def _one_client(server: Running, team: Team, baseline: Running | None) -> Iterator[Figure]:
    database = "SQLite" if baseline else "PostgreSQL"
    measured, cpu = measured_calls(server, team.client_arguments(1), count=500)
    theirs, their_cpu = measured_calls(baseline, baseline_arguments(1), count=500) if baseline else (None, None)
    for name, share, target in (("P50", 0.5, 7.0 if baseline else None), ("P95", 0.95, None)):
        yield Figure(
            BENCH,
            f"direct call, {database}, 1 client, {name}",
            percentile(measured["durations"], share) * 1000,
            "ms",
            target,
            baseline=percentile(theirs["durations"], share) * 1000 if theirs else None,
        )
    yield Figure(BENCH, f"server CPU per call, {database}, 1 client", cpu, "ms", baseline=their_cpu)


def _many_clients(server: Running, team: Team, baseline: Running | None) -> Iterator[Figure]:
    database = "SQLite" if baseline else "PostgreSQL"
    measured, cpu = measured_calls(server, team.client_arguments(CLIENTS), count=100)
    theirs, their_cpu = measured_calls(baseline, baseline_arguments(CLIENTS), count=100) if baseline else (None, None)
    yield Figure(
        BENCH,
        f"direct call throughput, {database}, {CLIENTS} clients",
        len(measured["durations"]) / measured["elapsed"],
        "per second",
        150.0 if baseline else None,
        "at least",
        baseline=len(theirs["durations"]) / theirs["elapsed"] if theirs else None,
        note=f"P95 {percentile(measured['durations'], 0.95) * 1000:.0f} ms",
    )
    yield Figure(BENCH, f"server CPU per call, {database}, {CLIENTS} clients", cpu, "ms", baseline=their_cpu)


def _with_memory(server: Running) -> Figure:
    name = f"direct call, {MEMORIES:,} memories, 1 client, P50"
    team = Team.make(server, agents=1, memory=True)
    url = f"/my/projects/{team.project_id}/agents/{team.agents[0]['id']}/context"
    for number in range(MEMORIES):
        text = f"Memory {number}: the {_WORDS[number % len(_WORDS)]} of project {number % 37} was decided on."
        added = team.person.http.post(url, json={"content": text, "type": "chat", "success": True})
        if added.status_code != 201:
            return Figure(BENCH, name, None, "ms", 20.0, note=f"adding a memory returned {added.status_code}")
    measured, cpu = measured_calls(server, team.client_arguments(1), count=300)
    return Figure(
        BENCH, name, percentile(measured["durations"], 0.5) * 1000, "ms", 20.0, note=f"{cpu:.1f} ms CPU per call"
    )


_WORDS = ("database", "colour", "deadline", "licence", "layout", "hosting", "budget", "logo", "language", "owner")


def measured_calls(server: Running, arguments: dict[str, Any], count: int) -> tuple[dict[str, Any], float]:
    """Warm up, then call; return the client's measurements, and the server's CPU time per call in milliseconds."""
    targets = len(arguments["targets"])
    client("calls", server, count=max(10, 100 // targets), **arguments)
    before = server.cpu_seconds()
    measured = client("calls", server, count=count, **arguments)
    cpu = (server.cpu_seconds() - before) / (targets * count) * 1000
    assert not measured["failures"], measured["failures"][:3]
    return measured, cpu
