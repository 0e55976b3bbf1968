"""Structured answers of the demo brain: by name where it knows one, else the smallest that the schema allows."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from artel.brain.brain import Message, Schema
from artel.brain.demo.plans import plan, steps_of

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_DEPTH = 8
SHOWN_CHARACTERS = 200

_SMALLEST: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "null": None}


def structured_answer(schema: Schema, messages: tuple[Message, ...]) -> "JsonValue":
    """Return something sensible that the schema allows."""
    request = next((message.content for message in reversed(messages) if message.role == "user"), "")
    known: dict[str, Any] = {}
    match schema.name:
        case "plan":
            known = {"tasks": plan(schema.schema, messages)}
        case "critique":
            known = {
                "needs_improvement": False,
                "critique": "The demo brain has rules, no judgement: it stays as it is.",
            }
        case "understanding":
            known = {"understanding": f"The user asks: {' '.join(request.split())[:SHOWN_CHARACTERS]}"}
        case "steps":
            known = {"steps": [text for text, _ in steps_of(request)]}
    answer: JsonValue = _completed(known, schema.schema)
    return answer


def _completed(known: dict[str, Any], schema: Mapping[str, Any]) -> Any:
    """Return what is known, as far as the schema has a place for it, with the smallest values for the rest."""
    properties = schema.get("properties") or {}
    if not properties:
        return known or _smallest(schema, schema, 0)
    kept = {name: value for name, value in known.items() if name in properties}
    missing = (name for name in schema.get("required") or () if name not in kept)
    return kept | {name: _smallest(properties.get(name) or {}, schema, 0) for name in missing}


def _smallest(schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    """Return the smallest value that a schema allows, near enough."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return None
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return _smallest((root.get("$defs") or {}).get(name), root, depth + 1)
    for key in ("enum", "anyOf", "oneOf"):
        if schema.get(key):
            first = schema[key][0]
            return first if key == "enum" else _smallest(first, root, depth + 1)
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    kind = schema.get("type", "object")
    if kind != "object":
        return _SMALLEST.get(kind if isinstance(kind, str) else kind[0])
    properties = schema.get("properties") or {}
    return {name: _smallest(properties.get(name), root, depth + 1) for name in schema.get("required") or ()}
