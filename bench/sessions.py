"""Two hundred parallel sessions: no errors, and all messages in order."""

from collections.abc import Iterator
from typing import Any

import httpx

from bench.figure import Figure
from bench.processes import Team, artel, client, model_server

BENCH = "sessions"
SESSIONS = 200
MESSAGES = 4


def run() -> Iterator[Figure]:
    """Send messages in all sessions in parallel, then read the history of each."""
    with model_server(delay_ms=100) as model, artel(model) as server:
        team = Team.make(server, agents=SESSIONS // 8)
        arguments = team.client_arguments(SESSIONS)
        measured = client("calls", server, count=MESSAGES, **arguments)
        out_of_order = sum(
            not _in_order(team.person.http, target["path"].removesuffix("/message"), number)
            for number, target in enumerate(arguments["targets"])
        )
        note = f"{len(measured['durations']) / measured['elapsed']:.0f} calls per second with a model delay of 100 ms"
    yield Figure(BENCH, f"{SESSIONS} parallel sessions, errors", len(measured["failures"]), "", 0, "at most", note=note)
    yield Figure(BENCH, f"{SESSIONS} parallel sessions, sessions out of order", out_of_order, "", 0, "at most")


def _in_order(http: httpx.Client, session: str, number: int) -> bool:
    """Return whether a session holds exactly the messages sent in it, each followed by its answer."""
    items: list[dict[str, Any]] = http.get(f"{session}/messages", params={"limit": 100}).json()["items"]
    expected = []
    for index in range(MESSAGES):
        text = f"call {number} {index}"
        expected += [("user", text), ("assistant", f"You said: {text}")]
    return [(item["role"], item["content"]) for item in items] == expected
