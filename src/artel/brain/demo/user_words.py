"""What the user said, without what Artel puts around it for an agent.

The rules of the demo brain look at nothing else: not at results of other tasks, and not at prompts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from artel.brain.brain import Message

Language = Literal["en", "ru", "zh"]

MAX_CHARACTERS = 4_000  # of a message that the rules look at
# How the message of a task goes on after the task itself; plans/handing_on.py writes it.
_PART, _WHOLE = "\n\nThe user's request, of which this is a part:\n", "\n\nThe user's request:\n"
_AROUND = (
    _PART,
    _WHOLE,
    "\n\nThe user adds, for every part of the work: ",
    "\n\nWhat others have found out for you, as ",
)
_CHINESE, _RUSSIAN = re.compile(r"[\u4e00-\u9fff]"), re.compile("[\u0400-\u04ff]")


@dataclass(frozen=True, slots=True)
class Said:
    """A conversation in which only the user's words are left of their messages."""

    messages: tuple[Message, ...]
    last: str  # what the user said last: a message, or a task of a plan
    is_part: bool  # whether that is one task of several
    results: tuple[str, ...]  # what tools have answered since

    @property
    def language(self) -> Language:
        """The language of the last words, as far as their letters tell."""
        return language_of(self.last)


def said_in(messages: Sequence[Message]) -> Said:
    """Return what was said."""
    place = max((number for number, message in enumerate(messages) if message.role == "user"), default=-1)
    text = messages[place].content if place >= 0 else ""
    return Said(
        tuple(replace(one, content=user_words(one.content)) if one.role == "user" else one for one in messages),
        user_words(text),
        _PART in text,
        tuple(message.content for message in messages[place + 1 :] if message.role == "tool"),
    )


def user_words(text: str) -> str:
    """Return what the user said, or the task that was made of it; a request that is not divided is whole."""
    start = text.find(_WHOLE)
    if start >= 0 and _PART not in text:
        text = text[start + len(_WHOLE) :]
    end = min((found for mark in _AROUND if (found := text.find(mark)) >= 0), default=len(text))
    return text[: min(end, MAX_CHARACTERS)].strip()


def language_of(text: str) -> Language:
    """Return the language of a text, as far as its letters tell."""
    if _CHINESE.search(text):
        return "zh"
    return "ru" if _RUSSIAN.search(text) else "en"
