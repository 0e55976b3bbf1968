"""Structured answers: JSON out of what a model wrote, checked against the schema that it was given."""

import asyncio
import importlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from artel.brain.brain import Completion, Schema

if TYPE_CHECKING:
    from pydantic import JsonValue


_loaded: dict[str, Any] = {}


class NotAsAsked(ValueError):
    """The text is no JSON, or not the JSON that was asked for; `place` says where, without quoting the text."""

    def __init__(self, message: str, place: str) -> None:
        super().__init__(message)
        self.place = place


async def parsed_answer(completion: Completion, schema: Schema) -> Completion:
    """Return the completion with `parsed` filled in, or raise `NotAsAsked`."""
    jsonschema = await load_jsonschema()
    value = parse(completion.content)
    check(value, schema, jsonschema)
    return replace(completion, parsed=value)


async def load_jsonschema() -> Any:
    """Return the library; it is imported late and in a thread, because it takes a tenth of a second."""
    name = "jsonschema"
    # Not by sys.modules: there it also is while another thread is still importing it.
    if name not in _loaded:
        _loaded[name] = await asyncio.to_thread(importlib.import_module, name)
    return _loaded[name]


def parse(text: str) -> "JsonValue":
    """Return the JSON value in the text, which may stand in a fence or between other words."""
    for candidate in _candidates(text):
        try:
            value: JsonValue = json.loads(candidate, parse_constant=_no_number)
        except (ValueError, RecursionError):
            continue
        return value
    raise NotAsAsked("it is not JSON", "it is not JSON")


def check(value: "JsonValue", schema: Schema, jsonschema: Any) -> None:
    """Raise when the value is not what the schema asks for."""
    validator = jsonschema.Draft202012Validator(schema.schema)
    wrong = jsonschema.exceptions.best_match(validator.iter_errors(value))
    if wrong is not None:
        place = "".join(f"[{step!r}]" for step in wrong.absolute_path) or "the document"
        raise NotAsAsked(f"{place}: {wrong.message[:500]}", f"{place} breaks the rule {wrong.validator!r}")


def _candidates(text: str) -> Iterator[str]:
    text = text.rpartition("</think>")[2]
    yield text
    _, opening, fenced = text.partition("```")
    if opening:
        yield fenced.partition("\n")[2].rpartition("```")[0]
    yield text[text.find("{") : text.rfind("}") + 1]


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
