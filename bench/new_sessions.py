"""Direct calls with a new session for each, as most clients make them: both requests are measured together."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from bench.arrivals import model_latencies
from bench.direct_calls import CLIENTS, measured_calls
from bench.figure import Figure, percentile
from bench.postgres import postgres_database
from bench.processes import Model, Running, Team, artel_and_baseline, baseline_arguments

BENCH = "new"
DELAY_MS = 200
STARTING = 64


@dataclass(frozen=True)
class Variant:
    """A configuration of the server, with its targets."""

    name: str
    memory: bool
    postgres: bool
    milliseconds: float
    cpu_milliseconds: float
    per_second: float
    start_milliseconds: float
    megabytes: float


VARIANTS = (
    Variant("memory on", True, False, 6.0, 5.5, 200.0, 120.0, 160.0),
    Variant("memory off", False, False, 4.0, 3.5, 300.0, 80.0, 120.0),
    Variant("memory off, PostgreSQL", False, True, 8.0, 5.0, 180.0, 120.0, 130.0),
)


def run() -> Iterator[Figure]:
    """Measure each variant with a model without delay, and the start of calls with a slow one."""
    for variant in VARIANTS:
        with _servers(variant) as (server, baseline, _):
            yield from _fast_model(variant, server, baseline)
        with _servers(variant, DELAY_MS) as (server, baseline, model):
            yield _start(variant, server, baseline, model)


@contextmanager
def _servers(variant: Variant, delay_ms: float = 0) -> Iterator[tuple[Running, Running, Model]]:
    """Run Artel in this configuration, and the baseline."""
    with ExitStack() as stack:
        variables = {"ARTEL_DATABASE_URL": stack.enter_context(postgres_database())} if variant.postgres else {}
        yield stack.enter_context(artel_and_baseline(delay_ms, **variables))


def _fast_model(variant: Variant, server: Running, baseline: Running) -> Iterator[Figure]:
    def figure(what: str, measured: float, unit: str, target: float, bare: float | None, **more: Any) -> Figure:
        return Figure(
            BENCH, f"new session and call, {variant.name}, {what}", measured, unit, target, baseline=bare, **more
        )

    team = Team.make(server, agents=1, memory=variant.memory)
    single, cpu = measured_calls(server, new_session_arguments(team, 1), count=300)
    bare, bare_cpu = measured_calls(baseline, baseline_arguments(1), count=300)
    milliseconds, bare_milliseconds = (
        percentile(single["durations"], 0.5) * 1000,
        percentile(bare["durations"], 0.5) * 1000,
    )
    yield figure("1 client, P50", milliseconds, "ms", variant.milliseconds, bare_milliseconds)
    yield figure("server CPU", cpu, "ms", variant.cpu_milliseconds, bare_cpu)
    many, _ = measured_calls(server, new_session_arguments(team, CLIENTS), count=50)
    bare_many, _ = measured_calls(baseline, baseline_arguments(CLIENTS), count=50)
    per_second, bare_per_second = (len(run["durations"]) / run["elapsed"] for run in (many, bare_many))
    note = f"P95 {percentile(many['durations'], 0.95) * 1000:.0f} ms"
    yield figure(
        f"{CLIENTS} clients", per_second, "per second", variant.per_second, bare_per_second, bound="at least", note=note
    )
    server.settle()
    yield figure("resident memory after 1,200 calls", server.megabytes(), "MB", variant.megabytes, None)


def _start(variant: Variant, server: Running, baseline: Running, model: Model) -> Figure:
    team = Team.make(server, agents=8, memory=variant.memory)
    latencies = model_latencies(server, new_session_arguments(team, STARTING), model, 15)
    bare = model_latencies(baseline, baseline_arguments(STARTING), model, 15)
    return Figure(
        BENCH,
        f"new session, request to model call, {variant.name}, {STARTING} clients, P95",
        percentile(latencies, 0.95) * 1000,
        "ms",
        variant.start_milliseconds,
        baseline=percentile(bare, 0.95) * 1000,
        note=f"P50 {percentile(latencies, 0.5) * 1000:.1f} ms",
    )


def new_session_arguments(team: Team, count: int) -> dict[str, Any]:
    """Return the arguments of clients that create a session before each message."""
    agents = [{"path": "", "agent": team.agents[number % len(team.agents)]["name"]} for number in range(count)]
    return {"token": team.person.token, "targets": agents, "project_id": team.project_id}
