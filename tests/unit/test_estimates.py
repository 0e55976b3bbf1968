"""Prices of plans: never below nothing, never above the upper end, and honest about what is not known."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artel.brain import prices
from artel.plans.plan import TaskGraph
from artel.plans.pricing import AgentStatistics, PricedAgent, estimate, statistics_of
from tests.plan_tasks import DIAMOND, graph, graphs

CHEAP, DEAR, FREE, UNKNOWN = "gpt-4o-mini", "gpt-4", "ollama/llama3", "somebody/unknown"
workers = st.builds(
    PricedAgent,
    st.sampled_from([CHEAP, DEAR, FREE]),
    st.integers(1, 8_000),
    st.integers(0, 5_000),
    st.booleans(),
    st.builds(
        AgentStatistics, st.sampled_from([0, 3]), st.floats(1, 5_000), st.floats(1, 8), st.none() | st.floats(0.1, 100)
    ),
    st.integers(0, 3),
)


def row(status: str, usage: dict[str, Any] | None, seconds: float) -> SimpleNamespace:
    """Return the columns of a task that has ended."""
    return SimpleNamespace(status=status, usage=usage, seconds=seconds)


@given(graphs(), workers, st.none() | workers, st.integers(0, 1_000))
def test_low_expected_and_high_are_in_order_and_sums_of_the_tasks(
    planned: TaskGraph, worker: PricedAgent, merger: PricedAgent | None, tokens: int
) -> None:
    priced = estimate(planned, {"coder": worker}, dict.fromkeys(planned.tasks, tokens), merger)

    assert 0 <= priced.low_micros <= priced.high_micros
    assert 0 <= priced.expected_micros <= priced.high_micros
    assert list(priced.tasks) == list(planned.tasks)
    for name in ("low_micros", "expected_micros", "high_micros"):
        of_tasks = sum(getattr(task, name) for task in priced.tasks.values())
        assert getattr(priced, name) == of_tasks if merger is None else getattr(priced, name) >= of_tasks
    assert priced.unknown_models == ()
    longest = max(task.seconds for task in priced.tasks.values())
    assert longest <= priced.seconds + 0.1


def test_an_agent_without_a_history_is_expected_to_write_five_hundred_tokens() -> None:
    priced = estimate(graph({"a": ""}), {"coder": PricedAgent(DEAR, 4_000, 900)}, {"a": 100}, None)

    expected = prices.cost(DEAR, 1_000, 500)
    most = prices.cost(DEAR, 1_000, 4_000)
    assert expected
    assert most
    assert priced.expected_micros == round(expected * 1e6)
    assert most * 1e6 < priced.high_micros < 1.4 * most * 1e6


def test_what_an_agent_did_is_what_it_is_expected_to_do() -> None:
    done = [
        row("completed", {"output_tokens": 100, "calls": 2, "cost_usd": 0.01}, 4.0),
        row("completed", {"output_tokens": 300, "calls": 4, "cost_usd": None}, 6.0),
        row("failed", None, 30.0),
    ]

    statistics = statistics_of(done)

    assert statistics == AgentStatistics(3, 200, 3, 5.0, 0.67, 0.01)
    priced = estimate(
        graph({"a": ""}), {"coder": PricedAgent(DEAR, 4_000, 900, statistics=statistics)}, {"a": 100}, None
    )
    assert priced.tasks["a"].output_tokens == 200
    assert priced.seconds == 5.0


def test_phases_of_the_loop_are_more_calls_until_there_is_a_history() -> None:
    def cost(worker: PricedAgent) -> tuple[int | None, int | None]:
        task = estimate(graph({"a": ""}), {"coder": worker}, {"a": 100}, None).tasks["a"]
        return task.expected_micros, task.high_micros

    plain, thorough = cost(PricedAgent(DEAR, 4_000, 900)), cost(PricedAgent(DEAR, 4_000, 900, phases=3))

    assert thorough[0] == round((prices.cost(DEAR, 4_000, 500) or 0) * 1e6)
    assert (thorough[1] or 0) > 7 * (plain[1] or 0)
    statistics = AgentStatistics(tasks=3, calls=4.0)
    assert cost(PricedAgent(DEAR, 4_000, 900, statistics=statistics, phases=3))[0] == thorough[0]


@pytest.mark.parametrize("done", [[], [row("failed", None, 1.0)]])
def test_an_agent_that_never_finished_has_no_statistics(done: list[SimpleNamespace]) -> None:
    assert statistics_of(done).output_tokens == 500


def test_tasks_that_get_results_are_sent_more_and_wait_for_them() -> None:
    worker = PricedAgent(DEAR, 4_000, 0)

    priced = estimate(graph(DIAMOND), {"coder": worker}, dict.fromkeys("abcd", 10), None)

    assert [priced.tasks[one].input_tokens for one in "abcd"] == [10, 510, 510, 1_010]
    assert priced.seconds == pytest.approx(3 * priced.tasks["a"].seconds)


def test_a_model_without_a_known_price_is_named_and_not_taken_for_free() -> None:
    workers = {"coder": PricedAgent(UNKNOWN, 100, 10)}

    priced = estimate(graph({"a": ""}), workers, {"a": 1}, PricedAgent(CHEAP, 100, 10))

    assert priced.unknown_models == (UNKNOWN,)
    assert priced.tasks["a"].expected_micros is None
    assert priced.expected_micros > 0


def test_local_models_cost_nothing() -> None:
    priced = estimate(graph(DIAMOND), {"coder": PricedAgent(FREE, 100, 10)}, dict.fromkeys("abcd", 1), None)

    assert (priced.high_micros, priced.unknown_models) == (0, ())
