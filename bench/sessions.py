"""Two hundred sessions at once: nothing fails, and in each everything is in its order."""

from collections.abc import Iterator
from typing import Any

import httpx

from bench.figure import Figure
from bench.processes import Team, artel, client, model_server

BENCH = "sessions"
SESSIONS = 200
MESSAGES = 4


def run() -> Iterator[Figure]:
    """Talk in all sessions at once, then read what each of them holds."""
    with model_server(delay_ms=100) as model, artel(model) as ours:
        team = Team.make(ours, agents=SESSIONS // 8)
        caller = team.caller(SESSIONS)
        measured = client("calls", ours, count=MESSAGES, **caller)
        wrong = sum(
            not _in_order(team.person.http, line["path"].removesuffix("/message"), number)
            for number, line in enumerate(caller["lines"])
        )
        note = f"{len(measured['taken']) / measured['elapsed']:.0f} calls per second, the model takes 100 ms"
    yield Figure(BENCH, f"{SESSIONS} sessions at once, errors", len(measured["failures"]), "", 0, "at most", note=note)
    yield Figure(BENCH, f"{SESSIONS} sessions at once, sessions with something out of order", wrong, "", 0, "at most")


def _in_order(http: httpx.Client, session: str, number: int) -> bool:
    """Return whether a session holds just what was said in it, question and answer in turn."""
    items: list[dict[str, Any]] = http.get(f"{session}/messages", params={"limit": 100}).json()["items"]
    expected = []
    for index in range(MESSAGES):
        text = f"call {number} {index}"
        expected += [("user", text), ("assistant", f"You said: {text}")]
    return [(item["role"], item["content"]) for item in items] == expected
