"""Latency from request to model call, and from request to answer with a slow model (CHT-02.2, CHT-02.3)."""

from collections.abc import Iterator
from typing import Any

from bench.figure import Figure, percentile
from bench.processes import Model, Running, Team, artel_and_baseline, baseline_arguments, client

BENCH = "start"
DELAY_MS = 200
SLOW_MODEL_MS = 1_000
CLIENTS = 16


def run() -> Iterator[Figure]:
    """Measure one client with a fast model, and many clients with a slow model."""
    with artel_and_baseline() as (server, baseline, model):
        arguments = Team.make(server, 1).client_arguments(1)
        yield _figure("1 client", 10.0, model_latencies(server, arguments, model, 400), baseline, model, 1)
    with artel_and_baseline(delay_ms=DELAY_MS) as (server, baseline, model):
        arguments = Team.make(server, 8).client_arguments(64)
        yield _figure("64 clients", 100.0, model_latencies(server, arguments, model, 15), baseline, model, 64)
    with artel_and_baseline(delay_ms=SLOW_MODEL_MS) as (server, baseline, _):
        durations = _call_durations(server, Team.make(server, 8).client_arguments(CLIENTS))
        yield Figure(
            BENCH,
            f"request to answer, 1 s model delay, {CLIENTS} clients, P95",
            percentile(durations, 0.95),
            "s",
            2.0,
            baseline=percentile(_call_durations(baseline, baseline_arguments(CLIENTS)), 0.95),
            note=f"P50 {percentile(durations, 0.5):.2f} s",
        )


def _figure(
    clients_label: str, target: float, latencies: list[float], baseline: Running, model: Model, clients: int
) -> Figure:
    baseline_latencies = model_latencies(baseline, baseline_arguments(clients), model, max(15, 400 // clients))
    return Figure(
        BENCH,
        f"request to model call, {clients_label}, P95",
        percentile(latencies, 0.95) * 1000,
        "ms",
        target,
        baseline=percentile(baseline_latencies, 0.95) * 1000,
        note=f"P50 {percentile(latencies, 0.5) * 1000:.1f} ms",
    )


def _call_durations(server: Running, arguments: dict[str, Any]) -> list[float]:
    """Return the duration of each call, in seconds."""
    client("calls", server, count=1, **arguments)
    measured = client("calls", server, count=5, **arguments)
    assert not measured["failures"], measured["failures"][:3]
    durations: list[float] = measured["durations"]
    return durations


def model_latencies(server: Running, arguments: dict[str, Any], model: Model, count: int) -> list[float]:
    """Return the time from each request to its model call, in seconds."""
    client("calls", server, count=max(3, 50 // len(arguments["targets"])), **arguments)
    model.arrivals()
    interval = DELAY_MS / 1000 / len(arguments["targets"])
    measured = client("calls", server, count=count, interval=interval, **arguments)
    assert not measured["failures"], measured["failures"][:3]
    arrivals = model.arrivals()
    return [arrivals[text] - sent for text, sent in measured["sent"].items()]
