"""Extracts the user's own words from messages that Artel has extended for an agent.

The rules of the demo brain read nothing else: no results of other tasks, and no prompts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from artel.brain.brain import Message

Language = Literal["en", "ru", "zh"]

MAX_CHARACTERS = 4_000  # of a message that the rules read
# What follows the description in the message of a task; plans/task_prompt.py writes it.
_PART, _WHOLE = "\n\nThe user's request, of which this is a part:\n", "\n\nThe user's request:\n"
_AROUND = (
    _PART,
    _WHOLE,
    "\n\nThe user adds, for every part of the work: ",
    "\n\nWhat others have found out for you, as ",
)
_CHINESE, _RUSSIAN = re.compile(r"[\u4e00-\u9fff]"), re.compile("[\u0400-\u04ff]")


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation whose user messages hold only the user's own words."""

    messages: tuple[Message, ...]
    last: str  # the last user message, or the task of a plan
    is_part: bool  # whether `last` is one task of several
    results: tuple[str, ...]  # tool results after `last`

    @property
    def language(self) -> Language:
        """The language of the last user message, judged by its script."""
        return language_of(self.last)


def parse_conversation(messages: Sequence[Message]) -> Conversation:
    """Return the conversation with only the user's own words in user messages."""
    last = max((index for index, message in enumerate(messages) if message.role == "user"), default=-1)
    text = messages[last].content if last >= 0 else ""
    return Conversation(
        tuple(
            replace(message, content=user_words(message.content)) if message.role == "user" else message
            for message in messages
        ),
        user_words(text),
        _PART in text,
        tuple(message.content for message in messages[last + 1 :] if message.role == "tool"),
    )


def user_words(text: str) -> str:
    """Return the user's request, or the task of a plan that was divided into several."""
    start = text.find(_WHOLE)
    if start >= 0 and _PART not in text:
        text = text[start + len(_WHOLE) :]
    end = min((found for mark in _AROUND if (found := text.find(mark)) >= 0), default=len(text))
    return text[: min(end, MAX_CHARACTERS)].strip()


def language_of(text: str) -> Language:
    """Return the language of a text, judged by its script."""
    if _CHINESE.search(text):
        return "zh"
    return "ru" if _RUSSIAN.search(text) else "en"
