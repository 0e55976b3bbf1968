"""Requests are shortened until messages, tools and answer fit the model's window."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artel.brain.brain import Message, Part, Request, Schema, ToolCall, ToolSchema
from artel.brain.errors import ContextTooLarge
from artel.brain.tokens import count_tokens, encoding_of
from artel.brain.window import (
    GOOD_ANSWER_TOKENS,
    LEAST_ANSWER_TOKENS,
    TOKENS_PER_MESSAGE,
    fit,
    fit_to_model,
    window_of,
)


def size_of(request: Request) -> int:
    """Return the tokens that a server would count: a simpler formula than ours, without margins."""
    texts = [message.content for message in request.messages]
    texts += [call.name + call.arguments for message in request.messages for call in message.tool_calls]
    texts += [
        json.dumps({"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)})
        for tool in request.tools
    ]
    if request.response_format:
        texts.append(json.dumps(request.response_format.schema))
    return sum(len(text) for text in texts) + TOKENS_PER_MESSAGE * len(request.messages)


def request(*messages: Message, max_tokens: int = 1_000, model: str = "gpt-4", **more: Any) -> Request:
    return Request(model, messages, 0.2, max_tokens, deadline=0.0, **more)


def memory(lines: list[int]) -> Message:
    return Message("system", "\n".join(["Remembered:", *("m" * size for size in lines)]), part="memory")


def exchange(written: list[tuple[int, int, int]]) -> list[Message]:
    messages = []
    for number, (text, argument, result) in enumerate(written):
        call = ToolCall(f"call_{number}", "tool_write_file", json.dumps({"path": "a.py", "content": "w" * argument}))
        messages.append(Message("assistant", "s" * text, tool_calls=(call,)))
        messages.append(Message("tool", "r" * result, tool_call_id=call.id))
    return messages


SIZES = st.integers(0, 6_000)
PARTS: dict[Part, int] = {"guidance": 9_000, "note": 3_000}
REQUESTS = st.builds(
    lambda prompt, memories, guidance, note, history, task, written, tools, schema, max_tokens, most: request(
        Message("system", "p" * prompt),
        *([Message("system", "g" * guidance, part="guidance")] if guidance else []),
        *([memory(memories)] if memories else []),
        *([Message("system", "n" * note, part="note")] if note else []),
        *(Message("user", f"{number}" + "h" * size, part="history") for number, size in enumerate(history)),
        Message("user", "t" * task),
        *exchange(written),
        tools=tuple(ToolSchema(f"tool_{size}", "d" * size, {"type": "object"}) for size in tools),
        response_format=Schema("plan", {"description": "x" * schema}) if schema else None,
        max_tokens=max_tokens,
        max_context_tokens=most,
    ),
    st.integers(0, 2_000),
    st.lists(st.integers(0, 1_000), max_size=5),
    st.integers(0, PARTS["guidance"]),
    st.integers(0, PARTS["note"]),
    st.lists(st.integers(0, 2_000), max_size=9),
    st.integers(1, 3_000),
    st.lists(st.tuples(st.integers(0, 500), SIZES, SIZES), max_size=6),
    st.lists(st.integers(0, 600), max_size=5),
    st.integers(0, 300),
    st.integers(1, 12_000),
    st.none() | st.integers(500, 12_000),
)


@pytest.mark.req("AGT-03.2")
@given(REQUESTS, st.none() | st.integers(300, 16_000))
def test_input_and_answer_fit_the_window_or_the_request_is_refused(original: Request, window: int | None) -> None:
    try:
        fitting = fit(original, window, len)
    except ContextTooLarge:
        bare = replace(
            original,
            messages=tuple(
                message
                for message in original.messages
                if not message.part and not message.tool_calls and message.role != "tool"
            ),
        )
        least = min(original.max_tokens, LEAST_ANSWER_TOKENS)
        limit = min(original.max_context_tokens or 10**9, (window or 10**9) - least)
        stubs = 250 * sum(message.role == "tool" for message in original.messages)
        overhead = 100 + 8 * len(original.tools)
        assert size_of(bare) + stubs + overhead > limit
        return

    size = size_of(fitting)
    if original.max_context_tokens is not None:
        assert size <= original.max_context_tokens
    if window is not None:
        assert size + fitting.max_tokens <= window
        assert fitting.max_tokens >= min(original.max_tokens, LEAST_ANSWER_TOKENS)
    assert fitting.max_tokens <= original.max_tokens
    before, after = original.messages, fitting.messages
    assert [message for message in before if not message.part and message.role in ("system", "user")] == [
        message for message in after if not message.part and message.role in ("system", "user")
    ]
    history = [message for message in before if message.part == "history"]
    kept_history = [message for message in after if message.part == "history"]
    assert kept_history == history[len(history) - len(kept_history) :]
    assert [message.tool_call_id for message in after if message.role == "tool"] == [
        message.tool_call_id for message in before if message.role == "tool"
    ]
    for message in after:
        for call in message.tool_calls:
            assert isinstance(json.loads(call.arguments), dict)
    unlimited = window is None or size_of(original) + 200 + original.max_tokens <= window
    if unlimited and size_of(original) + 200 <= (original.max_context_tokens or 10**9):
        assert fitting == original


@pytest.mark.req("AGT-03.2")
def test_order_of_cuts_is_history_memory_answer_guidance() -> None:
    original = request(
        Message("system", "p" * 100),
        Message("system", "g" * 1_000, part="guidance"),
        memory([400, 300]),
        Message("user", "a" * 500, part="history"),
        Message("assistant", "b" * 500, part="history"),
        Message("user", "task"),
        max_tokens=2_000,
    )

    def at(window: int) -> tuple[int, int, int, int]:
        fitting = fit(original, window, len)
        parts = [message.part for message in fitting.messages]
        lines = next((message.content.count("\n") for message in fitting.messages if message.part == "memory"), 0)
        guidance = next((len(message.content) for message in fitting.messages if message.part == "guidance"), 0)
        return parts.count("history"), lines, fitting.max_tokens, guidance

    assert at(5_000) == (2, 2, 2_000, 1_000)
    assert at(4_500) == (1, 2, 2_000, 1_000)
    assert at(4_000) == (0, 2, 2_000, 1_000)
    history, memories, answer, guidance = at(3_000)
    assert (history, memories, guidance) == (0, 0, 1_000)
    assert GOOD_ANSWER_TOKENS <= answer <= 2_000
    history, memories, answer, guidance = at(2_000)
    assert (history, memories) == (0, 0)
    assert answer >= min(GOOD_ANSWER_TOKENS, 1_000)
    assert 0 < guidance < 1_000
    with pytest.raises(ContextTooLarge, match="Shorten"):
        at(300)


@pytest.mark.req("AGT-03.2")
def test_older_tool_results_are_cut_before_the_newest() -> None:
    original = request(Message("user", "Do it"), *exchange([(0, 10, 3_000), (0, 10, 3_000)]), max_context_tokens=5_000)

    fitting = fit(original, None, len)

    old, new = (message for message in fitting.messages if message.role == "tool")
    assert new.content == "r" * 3_000
    assert json.loads(old.content)["begin"].startswith("rrr")


@pytest.mark.req("AGT-03.2")
def test_tokens_are_counted_with_the_vocabulary_of_the_model() -> None:
    text = "Благодарность и ответственность. " * 100
    assert encoding_of("openai/gpt-4o") != encoding_of("gpt-4")
    old, new = count_tokens(text, "gpt-4"), count_tokens(text, "gpt-4o")
    assert new < old
    history = Message("user", text, part="history")
    original = request(history, Message("user", "And?"), max_context_tokens=(old + new) // 2)

    assert len(asyncio.run(fit_to_model(original)).messages) == 1
    assert len(asyncio.run(fit_to_model(replace(original, model="gpt-4o"))).messages) == 2


def test_foreign_vocabulary_leaves_a_fifth_of_the_window_free() -> None:
    assert window_of("gpt-4") == 8_192
    assert window_of("ollama/llama3") == int(8_192 * 0.8)
    assert window_of("nobody/knows-this") is None
