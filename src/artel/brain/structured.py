"""Extracts the JSON value of a structured answer and validates it against its schema."""

import asyncio
import importlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from artel.brain.brain import Completion, Schema
from artel.contract.json_schema import schema_validator

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
    value = _parse(completion.content)
    error = jsonschema.exceptions.best_match(schema_validator(schema.schema).iter_errors(value))
    if error is not None:
        path = "".join(f"[{step!r}]" for step in error.absolute_path) or "the document"
        raise SchemaMismatch(f"{path}: {error.message[:500]}", f"{path} breaks the rule {error.validator!r}")
    return replace(completion, parsed=value)


async def load_jsonschema() -> Any:
    """Return the jsonschema module, imported on first use and in a thread, because that takes a tenth of a second."""
    name = "jsonschema"
    # Not by sys.modules, which also holds modules that another thread is still importing.
    if name not in _loaded:
        _loaded[name] = await asyncio.to_thread(importlib.import_module, name)
    return _loaded[name]


def refuse_constant(name: str) -> None:
    """Raise ValueError for NaN and Infinity, which `json.loads` accepts by default."""
    raise ValueError(f"{name} is not JSON")


def _parse(text: str) -> "JsonValue":
    """Return the JSON value in the text, which may be in a code fence or between other words."""
    text = text.rpartition("</think>")[2]
    fenced = text.partition("```")[2].partition("\n")[2].rpartition("```")[0]
    for candidate in (text, fenced, text[text.find("{") : text.rfind("}") + 1]):
        try:
            value: JsonValue = json.loads(candidate, parse_constant=refuse_constant)
        except (ValueError, RecursionError):
            continue
        return value
    raise SchemaMismatch("it is not JSON", "it is not JSON")
