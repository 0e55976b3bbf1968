"""Calls of a model in tests, and what they record."""

import itertools
import time
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from artel.brain.brain import Brain, Message, Request, Schema
from artel.brain.errors import ModelError

KEY = "sk-a-very-secret-key-0123456789"
MODEL, OTHER_MODEL = "openai/gpt-4o", "openai/gpt-4"
SOON = 60.0  # nothing here takes that long
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
CRITIQUE = Schema(
    "critique",
    {
        "type": "object",
        "properties": {"needs_improvement": {"type": "boolean"}, "critique": {"type": "string"}},
        "required": ["needs_improvement", "critique"],
        "additionalProperties": False,
    },
)
PLAN = Schema(
    "plan",
    {
        "type": "object",
        "properties": {
            "tasks": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string"},
                        "agent": {"type": "string"},
                        "description": {"type": "string"},
                        "depends_on": {"type": "array", "items": {"type": "string"}},
                    },
                    "required": ["id", "agent", "description", "depends_on"],
                },
            }
        },
        "required": ["tasks"],
    },
)
UNDERSTANDING = Schema(
    "understanding",
    {"type": "object", "properties": {"understanding": {"type": "string"}}, "required": ["understanding"]},
)
STEPS = Schema(
    "steps",
    {"type": "object", "properties": {"steps": {"type": "array", "items": {"type": "string"}}}, "required": ["steps"]},
)


@dataclass
class Sink:
    """Records the streamed chunks; a restart is None."""

    heard: list[str | None] = field(default_factory=list)

    def token(self, text: str) -> None:
        self.heard.append(text)

    def restart(self) -> None:
        self.heard.append(None)

    @property
    def text(self) -> str:
        last = list(itertools.takewhile(lambda text: text is not None, reversed(self.heard)))
        return "".join(str(text) for text in reversed(last))


@dataclass
class Pauses:
    """Replaces sleep; records the durations."""

    seconds: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def ask(text: str = "Hello there", **changes: Any) -> Request:
    messages = (Message("system", "You are brief."), Message("user", text))
    request = Request(MODEL, messages, temperature=0.3, max_tokens=50, deadline=time.monotonic() + SOON)
    return replace(request, **changes)


async def failure_of(brain: Brain, request: Request, stream: Sink | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await brain.complete(request, stream)
    return caught.value
