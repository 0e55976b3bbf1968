"""Extracts the JSON value of a structured answer and validates it against its schema."""

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


class SchemaMismatch(ValueError):
    """The text is not JSON, or invalid against the schema; `location` says where, without quoting the text."""

    def __init__(self, message: str, location: str) -> None:
        super().__init__(message)
        self.location = location


async def parsed_answer(completion: Completion, schema: Schema) -> Completion:
    """Return the completion with `parsed` filled in, or raise `SchemaMismatch`."""
    jsonschema = await load_jsonschema()
    value = parse(completion.content)
    check(value, schema, jsonschema)
    return replace(completion, parsed=value)


async def load_jsonschema() -> Any:
    """Return the jsonschema module, imported on first use and in a thread, because that takes a tenth of a second."""
    name = "jsonschema"
    # Not by sys.modules, which also holds modules that another thread is still importing.
    if name not in _loaded:
        _loaded[name] = await asyncio.to_thread(importlib.import_module, name)
    return _loaded[name]


def parse(text: str) -> "JsonValue":
    """Return the JSON value in the text, which may be in a code fence or between other words."""
    for candidate in _candidates(text):
        try:
            value: JsonValue = json.loads(candidate, parse_constant=_no_number)
        except (ValueError, RecursionError):
            continue
        return value
    raise SchemaMismatch("it is not JSON", "it is not JSON")


def check(value: "JsonValue", schema: Schema, jsonschema: Any) -> None:
    """Raise SchemaMismatch if the value is invalid against the schema."""
    validator = jsonschema.Draft202012Validator(schema.schema)
    error = jsonschema.exceptions.best_match(validator.iter_errors(value))
    if error is not None:
        path = "".join(f"[{step!r}]" for step in error.absolute_path) or "the document"
        raise SchemaMismatch(f"{path}: {error.message[:500]}", f"{path} breaks the rule {error.validator!r}")


def _candidates(text: str) -> Iterator[str]:
    text = text.rpartition("</think>")[2]
    yield text
    _, opening, fenced = text.partition("```")
    if opening:
        yield fenced.partition("\n")[2].rpartition("```")[0]
    yield text[text.find("{") : text.rfind("}") + 1]


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
