"""How long work takes to start, and the whole of it with a model that takes its time (CHT-02.2, CHT-02.3)."""

from collections.abc import Iterator
from typing import Any

from bench.figure import Figure, percentile
from bench.processes import Model, Running, Team, bare_caller, both, client

BENCH = "start"
DELAY_MS = 200
SLOW_MODEL_MS = 1_000
CLIENTS = 16


def run() -> Iterator[Figure]:
    """Measure one client with a fast model, and many with one that takes its time."""
    with both() as (ours, bare, model):
        yield _figure("1 client", 10.0, _starts(ours, Team.make(ours, 1).caller(1), model, 400), bare, model, 1)
    with both(delay_ms=DELAY_MS) as (ours, bare, model):
        yield _figure("64 clients", 100.0, _starts(ours, Team.make(ours, 8).caller(64), model, 15), bare, model, 64)
    with both(delay_ms=SLOW_MODEL_MS) as (ours, bare, _):
        taken = _whole(ours, Team.make(ours, 8).caller(CLIENTS))
        yield Figure(
            BENCH,
            f"request to answer, a model of 1 s, {CLIENTS} clients, P95",
            percentile(taken, 0.95),
            "s",
            2.0,
            bare=percentile(_whole(bare, bare_caller(CLIENTS)), 0.95),
            note=f"P50 {percentile(taken, 0.5):.2f} s",
        )


def _figure(who: str, target: float, starts: list[float], bare: Running, model: Model, clients: int) -> Figure:
    base = _starts(bare, bare_caller(clients), model, max(15, 400 // clients))
    return Figure(
        BENCH,
        f"request to arrival at the model, {who}, P95",
        percentile(starts, 0.95) * 1000,
        "ms",
        target,
        bare=percentile(base, 0.95) * 1000,
        note=f"P50 {percentile(starts, 0.5) * 1000:.1f} ms",
    )


def _whole(server: Running, caller: dict[str, Any]) -> list[float]:
    """Return the seconds from each request to its answer."""
    client("calls", server, count=1, **caller)
    measured = client("calls", server, count=5, **caller)
    assert not measured["failures"], measured["failures"][:3]
    taken: list[float] = measured["taken"]
    return taken


def _starts(server: Running, caller: dict[str, Any], model: Model, count: int) -> list[float]:
    """Return the seconds from each request to its arrival at the model."""
    client("calls", server, count=max(3, 50 // len(caller["lines"])), **caller)
    model.arrivals()
    lines = len(caller["lines"])
    measured = client("calls", server, count=count, apart=DELAY_MS / 1000 / lines, **caller)
    assert not measured["failures"], measured["failures"][:3]
    arrived = model.arrivals()
    return [arrived[text] - sent for text, sent in measured["sent"].items()]
