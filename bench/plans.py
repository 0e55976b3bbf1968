"""Plans: duration relative to the model calls alone, CPU per task, and a thousand parallel tasks."""

import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.figure import Figure
from bench.processes import Running, Team, artel, client, model_server

BENCH = "plans"
TASKS = 20
AGENTS = 2  # with ten slots each: all tasks run in parallel
DELAY = 0.2
RUNS = 5
WORKFLOWS, PROJECTS = 50, 10
# Plans run without approval: only the server is measured.
NO_APPROVAL = {"plans": {"approve_from_tasks": 21, "approve_over_usd": 1_000_000}}


def run() -> Iterator[Figure]:
    """Run plans of twenty independent tasks."""
    for memory in (False, True):
        yield from _plan_duration(memory=memory)
        yield from _cpu_per_task(memory=memory)
    yield from _parallel_workflows()


def _plan_duration(*, memory: bool) -> Iterator[Figure]:
    with model_server(delay_ms=DELAY * 1000, plan=TASKS) as model, artel(model) as server:
        team = _team(server, AGENTS, memory=memory)
        session = team.session()
        _send(team, session, "warm up")
        durations = [_send(team, session, f"plan number {number}")[0] for number in range(RUNS)]
    ideal = 3 * DELAY  # one call to plan, one for all tasks, one to merge
    ratio = statistics.median(durations) / ideal
    note = f"{statistics.median(durations):.2f} s, the model calls alone take {ideal:.1f} s"
    name = f"plan of {TASKS} tasks{_memory(memory)}, 200 ms model delay, relative to the ideal"
    yield Figure(BENCH, name, ratio, "times", 1.1, note=note)


def _memory(memory: bool) -> str:
    return ", memory on" if memory else ""


def _cpu_per_task(*, memory: bool) -> Iterator[Figure]:
    with model_server(plan=TASKS) as model, artel(model) as server:
        team = _team(server, AGENTS, memory=memory)
        session = team.session()
        _send(team, session, "warm up")
        client("calls", server, count=20, parallel=10, **team.client_arguments(10))
        server.settle()
        before = server.cpu_seconds()
        for number in range(RUNS):
            _send(team, session, f"plan number {number}")
        server.settle()  # what is indexed after the answers belongs to them
        per_task = (server.cpu_seconds() - before) / (RUNS * TASKS)
        server.settle()
        arguments = team.client_arguments(10)
        before = server.cpu_seconds()
        client("calls", server, count=RUNS * TASKS // 10, parallel=10, **arguments)
        server.settle()
        per_call = (server.cpu_seconds() - before) / (RUNS * TASKS)
    overhead = (per_task - per_call) * 1000
    note = f"{per_task * 1000:.1f} ms per task including planning and merging, {per_call * 1000:.1f} ms per direct call"
    yield Figure(
        BENCH, f"server CPU per plan task{_memory(memory)}, minus a direct call", overhead, "ms", 2.0, note=note
    )


def _parallel_workflows() -> Iterator[Figure]:
    with model_server(delay_ms=1000, plan=TASKS) as model, artel(model) as server:
        team = _team(server, 10)
        projects = [team.project_id, *(_project(team) for _ in range(PROJECTS - 1))]
        sessions = [team.session(projects[number % PROJECTS]) for number in range(WORKFLOWS)]
        started = time.perf_counter()
        with ThreadPoolExecutor(WORKFLOWS) as threads:
            answers = list(threads.map(lambda session: _send(team, session, f"a plan for {session}"), sessions))
        seconds = time.perf_counter() - started
    errors = sum(answer.get("mode") != "orchestrated" or "Not done" in answer["content"] for _, answer in answers)
    note = f"{seconds:.1f} s, the model calls alone take 3 s"
    name = f"{WORKFLOWS * TASKS:,} tasks in {WORKFLOWS} parallel workflows, errors"
    yield Figure(BENCH, name, errors, "", 0, "at most", note=note)


def _team(server: Running, agents: int, *, memory: bool = False) -> Team:
    team = Team.make(server, agents, memory=memory)
    _disable_approval(team, team.project_id)
    return team


def _project(team: Team) -> int:
    number: int = team.person.project("Bench")["id"]
    for agent in range(10):
        team.person.agent(number, name=f"bench_{agent}", memory=False, tools=[], concurrency_limit=10)
    _disable_approval(team, number)
    return number


def _disable_approval(team: Team, project_id: int) -> None:
    answer = team.person.http.patch(f"/my/projects/{project_id}", json={"settings": NO_APPROVAL})
    assert answer.status_code == 200, answer.text


def _send(team: Team, session: str, text: str) -> tuple[float, dict[str, Any]]:
    started = time.perf_counter()
    answer = team.person.http.post(
        f"/my/chat/{session}/message", json={"content": text}, headers={"Prefer": "wait=60"}, timeout=70
    )
    assert answer.status_code == 200, answer.text
    return time.perf_counter() - started, answer.json()
