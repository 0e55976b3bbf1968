"""What calls cost on a server that was used for years, relative to a new one in the same run; and searches there.

The new server has what one page of each list shows, so that both servers answer the same.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figure import Figure, percentile
from bench.grown import Growing, Owner, Sizes
from bench.postgres import postgres_database
from bench.processes import Model, Running, Team, artel, client, model_server

BENCH = "growth"
NEW = Sizes(sessions=60, messages=6_000, projects=60, events=60_000, messages_of_others=600, memories_of_others=60)
TARGET = 1.3
ROUNDS = 3  # of each server in turn; the best one counts, because other programs disturb a measurement
PLAN_TASKS = 5
SEARCH_MILLISECONDS = 50.0
SEARCHES = {"a rare word": "number777", "a frequent word": "and", "no such word": "qwxzvk", "two letters": "zq"}


@dataclass(frozen=True)
class Operation:
    """What is measured: a function that sends so many requests and returns their durations."""

    name: str
    count: int
    send: Callable[["Grown", int], list[float]]
    is_answered_early: bool = False  # the server goes on working after the answer


@dataclass(frozen=True)
class Grown:
    """A server with its rows."""

    server: Running
    team: Team
    other: Team

    def request(self, method: str, path: str, body: Any, count: int, team: Team | None = None) -> list[float]:
        """Send a request many times; return the durations."""
        token = (team or self.team).person.token
        arguments = {"token": token, "method": method, "path": path, "body": body, "connections": 1, "count": count}
        durations: list[float] = client("requests", self.server, **arguments)["durations"]
        return durations

    def call(self, count: int) -> list[float]:
        """Call an agent in a session that has messages."""
        body = {"content": "What was decided on the database?", "target_agent": self.team.agents[0]["name"]}
        return self.request("POST", "/my/chat/own-s-1/message", body, count)

    def plan(self, count: int) -> list[float]:
        """Have plans made and estimated, each in a new session, up to the question whether to run them."""
        target, project = {"path": "", "agent": ""}, self.team.project_id
        arguments = {"token": self.team.person.token, "targets": [target], "project_id": project, "count": count}
        durations: list[float] = client("calls", self.server, **arguments)["durations"]
        return durations

    def recall(self, count: int) -> list[float]:
        """Search the memories of an agent."""
        agent = self.team.agents[0]["id"]
        path = f"/my/projects/{self.team.project_id}/agents/{agent}/context/search"
        return self.request("POST", path, {"query": "What was decided on the database?"}, count)


OPERATIONS = (
    Operation("direct call", 100, Grown.call, is_answered_early=True),
    Operation(
        "new session",
        100,
        lambda grown, count: grown.request("POST", "/my/chat/sessions", {"project_id": grown.team.project_id}, count),
    ),
    Operation("list of sessions", 200, lambda grown, count: grown.request("GET", "/my/chat/sessions", None, count)),
    Operation(
        "history of a session", 200, lambda grown, count: grown.request("GET", "/my/chat/own-s-2/messages", None, count)
    ),
    Operation("list of projects", 200, lambda grown, count: grown.request("GET", "/my/projects", None, count)),
    Operation(f"estimate of a plan of {PLAN_TASKS} tasks", 20, Grown.plan, is_answered_early=True),
    Operation("memory recall", 100, Grown.recall),
)


def run() -> Iterator[Figure]:
    """Measure on SQLite."""
    yield from measure(Sizes())


def measure(
    sizes: Sizes, new_sizes: Sizes = NEW, *, postgres: bool = False, share: float = 1.0, rounds: int = ROUNDS
) -> Iterator[Figure]:
    """Measure servers with these sizes, with a share of the requests."""
    with ExitStack() as stack:
        model = stack.enter_context(model_server(plan=PLAN_TASKS))
        new, grown = (stack.enter_context(_grown(model, each, postgres=postgres)) for each in (new_sizes, sizes))
        for operation in OPERATIONS:
            yield from _compare(operation, new, grown, max(1, int(operation.count * share)), rounds)
        for what, words in SEARCHES.items():
            yield from _search(grown, sizes, what, words, max(1, int(20 * share)))


def _compare(operation: Operation, new: Grown, grown: Grown, count: int, rounds: int) -> Iterator[Figure]:
    cpu: dict[str, list[float]] = {"new": [], "grown": []}
    milliseconds: dict[str, list[float]] = {"new": [], "grown": []}
    for _ in range(rounds):
        for key, server in (("new", new), ("grown", grown)):
            before = server.server.cpu_seconds()
            durations = operation.send(server, count)
            if operation.is_answered_early:
                server.server.settle()
            cpu[key].append((server.server.cpu_seconds() - before) / count * 1000)
            milliseconds[key].append(percentile(durations, 0.5) * 1000)
    for what, measured in (("CPU", cpu), ("time", milliseconds)):
        ours, theirs = min(measured["grown"]), min(measured["new"])
        note = f"{ours:.2f} ms, on a new server {theirs:.2f} ms"
        name = f"{operation.name}, {what} on a large server"
        yield Figure(BENCH, name, ours / theirs if theirs else None, "times", TARGET, "at most", note=note)


def _search(grown: Grown, sizes: Sizes, what: str, words: str, count: int) -> Iterator[Figure]:
    everybody = sizes.messages + sizes.messages_of_others
    users = (grown.team, sizes.messages), (grown.other, sizes.messages_of_others)
    for team, own in users:
        durations = grown.request("GET", f"/my/search?q={words}", None, count, team)
        name = f"search for {what}, {own:,} own of {everybody:,} messages, P95"
        note = f"P50 {percentile(durations, 0.5) * 1000:.1f} ms"
        yield Figure(BENCH, name, percentile(durations, 0.95) * 1000, "ms", SEARCH_MILLISECONDS, note=note)


@contextmanager
def _grown(model: Model, sizes: Sizes, *, postgres: bool) -> Iterator[Grown]:
    """Run a server whose database has these rows."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(postgres_database()) if postgres else f"sqlite:///{folder}/artel.db"
        server = stack.enter_context(artel(model, ARTEL_DATABASE_URL=url, ARTEL_MAX_AGENTS_PER_PROJECT="100"))
        teams = [Team.make(server, agents=2, memory=True) for _ in range(2)]
        owner, other = (
            Owner(prefix, team.person.user_id, team.project_id, team.agents[0]["id"])
            for prefix, team in zip(("own", "other"), teams, strict=True)
        )
        Growing(url).grow(owner, other, sizes)
        grown = Grown(server, *teams)
        server.settle()  # it indexes memories
        grown.call(1)
        server.settle()
        yield grown
