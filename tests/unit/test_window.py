"""Whatever is sent fits its model: messages, tools and the room for the answer together."""

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
    """Return what a server would count: more simply than our own code does, and without its margins."""
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
    for number, (said, argument, result) in enumerate(written):
        call = ToolCall(f"call_{number}", "tool_write_file", json.dumps({"path": "a.py", "content": "w" * argument}))
        messages.append(Message("assistant", "s" * said, tool_calls=(call,)))
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
def test_all_that_is_sent_and_may_be_written_fits_or_is_refused(asked: Request, window: int | None) -> None:
    try:
        fitting = fit(asked, window, len)
    except ContextTooLarge:
        bare = replace(
            asked,
            messages=tuple(one for one in asked.messages if not one.part and not one.tool_calls and one.role != "tool"),
        )
        least = min(asked.max_tokens, LEAST_ANSWER_TOKENS)
        limit = min(asked.max_context_tokens or 10**9, (window or 10**9) - least)
        stubs = 250 * sum(one.role == "tool" for one in asked.messages)
        overhead = 100 + 8 * len(asked.tools)
        assert size_of(bare) + stubs + overhead > limit
        return

    size = size_of(fitting)
    if asked.max_context_tokens is not None:
        assert size <= asked.max_context_tokens
    if window is not None:
        assert size + fitting.max_tokens <= window
        assert fitting.max_tokens >= min(asked.max_tokens, LEAST_ANSWER_TOKENS)
    assert fitting.max_tokens <= asked.max_tokens
    before, after = asked.messages, fitting.messages
    assert [one for one in before if not one.part and one.role in ("system", "user")] == [
        one for one in after if not one.part and one.role in ("system", "user")
    ]
    history = [one for one in before if one.part == "history"]
    kept = [one for one in after if one.part == "history"]
    assert kept == history[len(history) - len(kept) :]
    assert [one.tool_call_id for one in after if one.role == "tool"] == [
        one.tool_call_id for one in before if one.role == "tool"
    ]
    for message in after:
        for call in message.tool_calls:
            assert isinstance(json.loads(call.arguments), dict)
    unlimited = window is None or size_of(asked) + 200 + asked.max_tokens <= window
    if unlimited and size_of(asked) + 200 <= (asked.max_context_tokens or 10**9):
        assert fitting == asked


@pytest.mark.req("AGT-03.2")
def test_history_goes_first_then_memory_then_room_for_the_answer_then_guidance() -> None:
    asked = request(
        Message("system", "p" * 100),
        Message("system", "g" * 1_000, part="guidance"),
        memory([400, 300]),
        Message("user", "a" * 500, part="history"),
        Message("assistant", "b" * 500, part="history"),
        Message("user", "task"),
        max_tokens=2_000,
    )

    def at(window: int) -> tuple[int, int, int, int]:
        fitting = fit(asked, window, len)
        parts = [one.part for one in fitting.messages]
        lines = next((one.content.count("\n") for one in fitting.messages if one.part == "memory"), 0)
        guidance = next((len(one.content) for one in fitting.messages if one.part == "guidance"), 0)
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
def test_the_newest_tool_result_stays_whole_when_an_older_one_can_make_room() -> None:
    asked = request(Message("user", "Do it"), *exchange([(0, 10, 3_000), (0, 10, 3_000)]), max_context_tokens=5_000)

    fitting = fit(asked, None, len)

    old, new = (one for one in fitting.messages if one.role == "tool")
    assert new.content == "r" * 3_000
    assert json.loads(old.content)["begin"].startswith("rrr")


@pytest.mark.req("AGT-03.2")
def test_tokens_are_counted_by_the_vocabulary_of_the_model_that_is_called() -> None:
    text = "Благодарность и ответственность. " * 100
    assert encoding_of("openai/gpt-4o") != encoding_of("gpt-4")
    old, new = count_tokens(text, "gpt-4"), count_tokens(text, "gpt-4o")
    assert new < old
    history = Message("user", text, part="history")
    asked = request(history, Message("user", "And?"), max_context_tokens=(old + new) // 2)

    assert len(asyncio.run(fit_to_model(asked)).messages) == 1
    assert len(asyncio.run(fit_to_model(replace(asked, model="gpt-4o"))).messages) == 2


def test_a_vocabulary_that_is_not_the_models_own_leaves_a_fifth_of_the_window_free() -> None:
    assert window_of("gpt-4") == 8_192
    assert window_of("ollama/llama3") == int(8_192 * 0.8)
    assert window_of("nobody/knows-this") is None
