"""What an agent is told fits, keeps its order, and quotes memory as data."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artel.agent_loop.context import (
    MAX_HISTORY_MESSAGES,
    MAX_HISTORY_TOKENS,
    MAX_MEMORY_TOKENS,
    ConversationMessage,
    Remembered,
    build_context,
)
from artel.brain.tokens import count_tokens


def count(text: str) -> int:
    return len(text)


def message(role: str, content: str) -> ConversationMessage:
    return ConversationMessage(role, content, count(content))  # type: ignore[arg-type]


TEXTS = st.text(max_size=600)
HISTORY = st.lists(st.builds(message, st.sampled_from(["user", "assistant"]), TEXTS), max_size=25)
MEMORY = st.lists(st.builds(Remembered, TEXTS, st.text(max_size=20), st.floats(0, 1)), max_size=8)


@pytest.mark.req("CHT-07.2")
@given(history=HISTORY, memory=MEMORY, task=TEXTS)
def test_context_has_the_newest_messages_without_gaps(
    history: list[ConversationMessage], memory: list[Remembered], task: str
) -> None:
    context = build_context("You review.", [*history, message("user", task)], memory)

    assert (context[0].role, context[0].content) == ("system", "You review.")
    assert (context[-1].role, context[-1].content) == ("user", task)
    middle = [message for message in context[1:-1] if message.role != "system"]
    assert all(message.part == "history" for message in middle)
    assert len(middle) + 1 <= MAX_HISTORY_MESSAGES
    assert sum(count(message.content) for message in middle) + len(task) <= max(MAX_HISTORY_TOKENS, len(task))
    newest = history[len(history) - len(middle) :] if middle else []
    assert [(message.role, message.content) for message in middle] == [(one.role, one.content) for one in newest]


@pytest.mark.req("CHT-07.1", "CHT-07.4")
def test_history_memory_and_task_reach_the_agent_as_one_context_in_order() -> None:
    context = build_context(
        "You review.",
        [message("user", "My name is Ada."), message("assistant", "Hello Ada."), message("user", "Who am I?")],
        [Remembered("Ada likes tea.", "2026-11-15 session", 0.4), Remembered("Ada writes code.", "memory", 0.9)],
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
    context = build_context("p", [message("user", "t")], [Remembered(text, source, 1.0)])

    lines = context[1].content.split("\n")
    assert len(lines) == 2
    assert json.loads(lines[1]) == {"source": source, "text": text}


def test_without_memory_there_is_no_empty_quotation() -> None:
    assert len(build_context("p", [message("user", "t")], [])) == 2


@pytest.mark.req("AGT-03.2")
def test_long_memories_are_cut_so_that_they_do_not_drive_out_what_was_said() -> None:
    memory = [Remembered("The name is Ada. " + "word " * 5_000, "note", 0.9), Remembered("She likes tea.", "note", 0.5)]

    quoted = build_context("p", [message("user", "t")], memory)[1]

    assert "The name is Ada." in quoted.content
    assert count_tokens(quoted.content) <= MAX_MEMORY_TOKENS + 60
    assert "She likes tea." in quoted.content
