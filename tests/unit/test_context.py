"""What an agent is told fits, keeps its order, and quotes memory as data."""

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from artel.agents.context import (
    MAX_HISTORY_MESSAGES,
    MAX_HISTORY_TOKENS,
    TOKENS_PER_MESSAGE,
    ContextLimits,
    ContextTooLarge,
    Remembered,
    Said,
    build_context,
    fit_tool_results,
)
from artel.brain.brain import Message


def count(text: str) -> int:
    return len(text)


def said(role: str, content: str) -> Said:
    return Said(role, content, count(content))  # type: ignore[arg-type]


TEXTS = st.text(max_size=400)
HISTORY = st.lists(st.builds(said, st.sampled_from(["user", "assistant"]), TEXTS), max_size=25)
MEMORY = st.lists(st.builds(Remembered, TEXTS, st.text(max_size=20), st.floats(0, 1)), max_size=8)


@pytest.mark.req("CHT-07.2", "AGT-03.2")
@given(
    prompt=TEXTS,
    history=HISTORY,
    memory=MEMORY,
    task=TEXTS,
    most=st.integers(50, 9000),
    window=st.none() | st.integers(100, 10_000),
    max_tokens=st.integers(1, 90),
)
def test_what_is_sent_fits_and_is_the_newest_without_gaps(
    prompt: str,
    history: list[Said],
    memory: list[Remembered],
    task: str,
    most: int,
    window: int | None,
    max_tokens: int,
) -> None:
    limits = ContextLimits(most, window, max_tokens)
    assume(len(prompt) + len(task) + 2 * TOKENS_PER_MESSAGE <= limits.tokens)

    context = build_context(prompt, [*history, said("user", task)], memory, limits, count)

    assert sum(count(message.content) + TOKENS_PER_MESSAGE for message in context) <= limits.tokens
    if window is not None:
        assert limits.tokens <= window - max_tokens
    assert (context[0].role, context[0].content) == ("system", prompt)
    assert (context[-1].role, context[-1].content) == ("user", task)
    middle = [message for message in context[1:-1] if message.role != "system"]
    assert len(middle) + 1 <= MAX_HISTORY_MESSAGES
    assert sum(count(message.content) for message in middle) + len(task) <= max(MAX_HISTORY_TOKENS, len(task))
    newest = history[len(history) - len(middle) :] if middle else []
    assert [(message.role, message.content) for message in middle] == [(one.role, one.content) for one in newest]


@pytest.mark.req("CHT-07.1", "CHT-07.4")
def test_history_memory_and_task_reach_the_agent_as_one_context_in_order() -> None:
    context = build_context(
        "You review.",
        [said("user", "My name is Ada."), said("assistant", "Hello Ada."), said("user", "Who am I?")],
        [Remembered("Ada likes tea.", "2026-11-15 session", 0.4), Remembered("Ada writes code.", "memory", 0.9)],
        ContextLimits(),
        count,
    )

    assert [message.role for message in context] == ["system", "system", "user", "assistant", "user"]
    quoted = [json.loads(line) for line in context[1].content.splitlines()[1:]]
    assert quoted == [
        {"source": "memory", "text": "Ada writes code."},
        {"source": "2026-11-15 session", "text": "Ada likes tea."},
    ]
    assert [message.content for message in context[2:]] == ["My name is Ada.", "Hello Ada.", "Who am I?"]


@given(st.text(max_size=200), st.text(max_size=50))
def test_no_memory_can_end_its_quotation(text: str, source: str) -> None:
    context = build_context("p", [said("user", "t")], [Remembered(text, source, 1.0)], ContextLimits(), count)

    lines = context[1].content.split("\n")
    assert len(lines) == 2
    assert json.loads(lines[1]) == {"source": source, "text": text}


def test_without_memory_there_is_no_empty_quotation() -> None:
    assert len(build_context("p", [said("user", "t")], [], ContextLimits(), count)) == 2


def test_a_task_that_can_not_fit_is_refused_with_advice() -> None:
    with pytest.raises(ContextTooLarge, match="Shorten"):
        build_context("p" * 5000, [said("user", "t" * 5000)], [], ContextLimits(), count)


@pytest.mark.req("AGT-03.2")
@given(
    results=st.lists(st.text(alphabet='ab \n"é', max_size=4_000), min_size=1, max_size=8),
    tokens=st.integers(500, 3_000),
)
def test_what_tools_answer_is_cut_until_it_fits(results: list[str], tokens: int) -> None:
    asked = Message("user", "Do it")
    exchange = tuple(Message("tool", text, tool_call_id=str(number)) for number, text in enumerate(results))
    fitting = fit_tool_results((asked, *exchange), tokens, len)

    whole = sum(len(message.content) + TOKENS_PER_MESSAGE for message in (asked, *exchange))
    assert [message.tool_call_id for message in fitting] == [None, *(str(number) for number in range(len(results)))]
    assert fitting[0] == asked
    if whole <= tokens:
        assert fitting == (asked, *exchange)
    else:
        assert sum(len(message.content) + TOKENS_PER_MESSAGE for message in fitting) <= max(tokens, 600)
    for before, after in zip(exchange, fitting[1:], strict=True):
        assert after == before or "cut" in json.loads(after.content)


def test_the_newest_tool_result_stays_whole_when_an_older_one_can_make_room() -> None:
    old, new = (Message("tool", letter * 1_000, tool_call_id=letter) for letter in "ab")

    fitting = fit_tool_results((old, new), 1_500, len)

    assert fitting[1] == new
    assert json.loads(fitting[0].content)["begin"].startswith("aaa")
