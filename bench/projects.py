"""Plain requests: read and create projects."""

from collections.abc import Iterator
from typing import Any

from bench.figure import Figure, percentile
from bench.processes import Running, Team, artel, baseline_server, client

BENCH = "projects"


def run() -> Iterator[Figure]:
    """Read a project with 1 and with 16 clients, and create projects with 8."""
    with artel() as server, baseline_server() as baseline:
        team = Team.make(server, agents=0)
        path, token = f"/my/projects/{team.project_id}", team.person.token
        body = team.person.http.get(path).json()
        for _ in range(team.project_id):  # so that the baseline has a project with this number too
            _load(baseline, "", "POST", "/my/projects", body, connections=1, count=1)
        for connections, clients in ((1, "1 client"), (16, "16 clients")):
            ours = _load(server, token, "GET", path, None, connections, count=2000)
            theirs = _load(baseline, "", "GET", path, None, connections, count=2000)
            yield from _compare(f"read a project, {clients}", ours, theirs)
        new = {"name": "Bench"}
        ours = _load(server, token, "POST", "/my/projects", new, connections=8, count=800)
        theirs = _load(baseline, "", "POST", "/my/projects", new, connections=8, count=800)
        yield from _compare("create a project, 8 clients", ours, theirs)


def _load(
    server: Running, token: str, method: str, path: str, body: Any, connections: int, count: int
) -> dict[str, Any]:
    """Send the requests; return the client's measurements, and the server's CPU time per request in milliseconds."""
    before = server.cpu_seconds()
    measured = client(
        "requests", server, token=token, method=method, path=path, body=body, connections=connections, count=count
    )
    return measured | {"cpu": (server.cpu_seconds() - before) / count * 1000}


def _compare(name: str, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[Figure]:
    our_rate, their_rate = (len(measured["durations"]) / measured["elapsed"] for measured in (ours, theirs))
    p95 = percentile(ours["durations"], 0.95) * 1000
    yield Figure(BENCH, name, our_rate, "per second", baseline=their_rate, note=f"P95 {p95:.1f} ms")
    yield Figure(BENCH, f"{name}, server CPU per request", ours["cpu"], "ms", baseline=theirs["cpu"])
