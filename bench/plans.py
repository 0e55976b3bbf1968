"""Plans: how much slower than their tasks they are, what a task costs beside its call, and a thousand tasks at once."""

import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.figure import Figure
from bench.processes import Running, Team, artel, client, model_server

BENCH = "plans"
TASKS = 20
AGENTS = 2  # of ten slots each: all tasks run at once
DELAY = 0.2
RUNS = 5
WORKFLOWS, PROJECTS = 50, 10
# Nobody is asked: what is measured is the server.
UNASKED = {"plans": {"approve_from_tasks": 21, "approve_over_usd": 1_000_000}}


def run() -> Iterator[Figure]:
    """Run plans of twenty tasks that need nothing of each other."""
    yield from _beside_the_ideal()
    yield from _beside_direct_calls()
    yield from _many()


def _beside_the_ideal() -> Iterator[Figure]:
    with model_server(delay_ms=DELAY * 1000, plan=TASKS) as model, artel(model) as ours:
        team = _team(ours, AGENTS)
        session = team.session()
        _ask(team, session, "warm")
        taken = [_ask(team, session, f"plan number {number} of them")[0] for number in range(RUNS)]
    ideal = 3 * DELAY  # one call to plan, one for all tasks, one to merge
    ratio = statistics.median(taken) / ideal
    note = f"{statistics.median(taken):.2f} s, where the calls alone take {ideal:.1f} s"
    yield Figure(BENCH, f"plan of {TASKS} tasks, model of 200 ms, beside the ideal", ratio, "times", 1.5, note=note)


def _beside_direct_calls() -> Iterator[Figure]:
    with model_server(plan=TASKS) as model, artel(model) as ours:
        team = _team(ours, AGENTS)
        session = team.session()
        _ask(team, session, "warm")
        client("calls", ours, count=20, at_once=10, **team.caller(10))
        ours.settle()
        before = ours.cpu_seconds()
        for number in range(RUNS):
            _ask(team, session, f"plan number {number} of them")
        of_task = (ours.cpu_seconds() - before) / (RUNS * TASKS)
        ours.settle()
        caller = team.caller(10)
        before = ours.cpu_seconds()
        client("calls", ours, count=RUNS * TASKS // 10, at_once=10, **caller)
        of_call = (ours.cpu_seconds() - before) / (RUNS * TASKS)
    more = (of_task - of_call) * 1000
    note = f"{of_task * 1000:.1f} ms for a task with its share of planning and merging, {of_call * 1000:.1f} for a call"
    yield Figure(BENCH, "CPU of the server per task, beyond that of a direct call", more, "ms", 2.0, note=note)


def _many() -> Iterator[Figure]:
    with model_server(delay_ms=1000, plan=TASKS) as model, artel(model) as ours:
        team = _team(ours, 10)
        projects = [team.project_id, *(_project(team) for _ in range(PROJECTS - 1))]
        sessions = [team.session(projects[number % PROJECTS]) for number in range(WORKFLOWS)]
        began = time.perf_counter()
        with ThreadPoolExecutor(WORKFLOWS) as threads:
            ended = list(threads.map(lambda one: _ask(team, one, f"all of it in {one}"), sessions))
        seconds = time.perf_counter() - began
    wrong = sum(answer.get("mode") != "orchestrated" or "Not done" in answer["content"] for _, answer in ended)
    note = f"{seconds:.1f} s, where the calls alone take 3 s"
    what = f"{WORKFLOWS * TASKS:,} tasks in {WORKFLOWS} workflows at once, errors"
    yield Figure(BENCH, what, wrong, "", 0, "at most", note=note)


def _team(server: Running, agents: int) -> Team:
    team = Team.make(server, agents)
    _unasked(team, team.project_id)
    return team


def _project(team: Team) -> int:
    number: int = team.person.project("Bench")["id"]
    for agent in range(10):
        team.person.agent(number, name=f"bench_{agent}", memory=False, tools=[], concurrency_limit=10)
    _unasked(team, number)
    return number


def _unasked(team: Team, project_id: int) -> None:
    answer = team.person.http.patch(f"/my/projects/{project_id}", json={"settings": UNASKED})
    assert answer.status_code == 200, answer.text


def _ask(team: Team, session: str, text: str) -> tuple[float, dict[str, Any]]:
    began = time.perf_counter()
    answer = team.person.http.post(
        f"/my/chat/{session}/message", json={"content": text}, headers={"Prefer": "wait=60"}, timeout=70
    )
    assert answer.status_code == 200, answer.text
    return time.perf_counter() - began, answer.json()
