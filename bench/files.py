"""File reads through the connector, and path checks."""

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from websockets.sync.client import connect

from artel.contract.connector import PROTOCOL
from artel.paths.beneath import Beneath
from artel.paths.resolve import best_resolver
from bench.figure import Figure, percentile
from bench.processes import Running, Team, artel, model_server
from tests.running import ARTEL, clean_environment

BENCH = "files"
TEAMS, READS = 4, 50  # the rate limit of a project is sixty calls a minute
CONTENT = "0123456789abcde\n" * 256  # 4 KB
PATH = "src/package/module.py"


def run() -> Iterator[Figure]:
    """Let an agent read a file many times; then only check its path."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "work"
        (folder / PATH).parent.mkdir(parents=True)
        (folder / PATH).write_text(CONTENT)
        call = {"name": "tool_read_file", "arguments": json.dumps({"path": PATH})}
        with model_server(tool=json.dumps(call)) as model, artel(model) as server:
            trip = _round_trip(server)
            durations = [seconds for _ in range(TEAMS) for seconds in _reads(server, folder, Path(temporary))]
        path_durations = _path_checks(folder)
    yield Figure(
        BENCH,
        "4 KB file read through the connector, minus round trip, P95",
        (percentile(durations, 0.95) - trip) * 1000,
        "ms",
        5.0,
        note=f"P50 {(percentile(durations, 0.5) - trip) * 1000:.1f} ms; round trip {trip * 1000:.2f} ms",
    )
    yield Figure(
        BENCH,
        "path check, P95",
        percentile(path_durations, 0.95) * 1000,
        "ms",
        0.1,
        note=f"P50 {percentile(path_durations, 0.5) * 1000:.3f} ms",
    )


def _reads(server: Running, folder: Path, state: Path) -> list[float]:
    """Return the duration of each read in seconds, from its start to its end in the audit log."""
    team = Team.make(server, 1)
    agent_url = f"/my/projects/{team.project_id}/agents/{team.agents[0]['id']}"
    team.person.http.patch(agent_url, json={"tools": ["tool_read_file"]})
    with _connector(server, team, folder, state):
        session = team.session()
        for _ in range(READS):
            body = {"content": "Read it", "target_agent": team.agents[0]["id"]}
            answer = team.person.http.post(f"/my/chat/{session}/message", json=body)
            assert answer.status_code == 200, answer.text
    durations: list[float] = []
    calls = team.person.http.get(f"/my/projects/{team.project_id}/audit", params={"limit": 100}).json()["items"]
    assert len(calls) == READS, len(calls)
    for call in calls:
        assert call["status"] == "done", call
        started, ended = (datetime.fromisoformat(call[name]) for name in ("created_at", "finished_at"))
        durations.append((ended - started).total_seconds())
    return durations


@contextmanager
def _connector(server: Running, team: Team, folder: Path, state: Path) -> Iterator[None]:
    env = clean_environment(state, ARTEL_SERVER=server.url, ARTEL_TOKEN=team.person.token)
    command = [ARTEL, "connect", str(folder), "--project", str(team.project_id), "--read-only"]
    with (state / "connector.txt").open("w") as out:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 20
        while not team.person.http.get(f"/my/projects/{team.project_id}/connector").json()["online"]:
            assert time.monotonic() < deadline, (state / "connector.txt").read_text()
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(20)


def _round_trip(server: Running) -> float:
    """Return the median duration of a ping on a connector's socket, in seconds."""
    team = Team.make(server, 1)
    url = f"{server.url.replace('http', 'ws', 1)}/my/projects/{team.project_id}/connector"
    headers = {"Authorization": f"Bearer {team.person.token}"}
    trips: list[float] = []
    with connect(url, additional_headers=headers, subprotocols=[PROTOCOL], compression=None) as socket:  # type: ignore[list-item]
        for _ in range(100):
            started = time.perf_counter()
            socket.ping().wait(10)
            trips.append(time.perf_counter() - started)
    return percentile(trips, 0.5)


def _path_checks(folder: Path) -> list[float]:
    durations: list[float] = []
    with Beneath(folder, resolver=best_resolver()) as files:
        for _ in range(5_000):
            started = time.perf_counter()
            files.stat(PATH)
            durations.append(time.perf_counter() - started)
    return durations
