"""Plain requests: reading and making projects."""

from collections.abc import Iterator
from typing import Any

from bench.figure import Figure, percentile
from bench.processes import Running, Team, artel, bare, client

BENCH = "projects"


def run() -> Iterator[Figure]:
    """Read a project with one client and with 16, and make some with 8."""
    with artel() as ours, bare() as base:
        team = Team.make(ours, agents=0)
        path, token = f"/my/projects/{team.project_id}", team.person.token
        body = team.person.http.get(path).json()
        for _ in range(team.project_id):  # so that the baseline has one with this number too
            _load(base, "", "POST", "/my/projects", body, 1, 1)
        for connections in (1, 16):
            pair = [
                _load(server, key, "GET", path, None, connections, 2000) for server, key in ((ours, token), (base, ""))
            ]
            yield from _compare(f"read a project, {connections} at once", *pair)
        new = {"name": "Bench"}
        pair = [_load(server, key, "POST", "/my/projects", new, 8, 800) for server, key in ((ours, token), (base, ""))]
        yield from _compare("create a project, 8 at once", *pair)


def _load(
    server: Running, token: str, method: str, path: str, body: Any, connections: int, count: int
) -> dict[str, Any]:
    before = server.cpu_seconds()
    measured = client(
        "requests", server, token=token, method=method, path=path, body=body, connections=connections, count=count
    )
    return measured | {"cpu": (server.cpu_seconds() - before) / count * 1000}


def _compare(what: str, ours: dict[str, Any], base: dict[str, Any]) -> Iterator[Figure]:
    rates = [len(side["taken"]) / side["elapsed"] for side in (ours, base)]
    late = percentile(ours["taken"], 0.95) * 1000
    yield Figure(BENCH, what, rates[0], "per second", bare=rates[1], note=f"P95 {late:.1f} ms")
    yield Figure(BENCH, f"{what}, CPU of the server", ours["cpu"], "ms", bare=base["cpu"])
