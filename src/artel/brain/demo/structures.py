"""Structured answers of the demo brain: by the schema's name, else the smallest value that the schema allows."""

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
    """Return a sensible value that the schema allows."""
    request = next((message.content for message in reversed(messages) if message.role == "user"), "")
    fields: dict[str, Any] = {}
    match schema.name:
        case "plan":
            fields = {"tasks": plan(schema.schema, messages)}
        case "critique":
            fields = {
                "needs_improvement": False,
                "critique": "The demo brain has rules, no judgement: it stays as it is.",
            }
        case "understanding":
            fields = {"understanding": f"The user asks: {' '.join(request.split())[:SHOWN_CHARACTERS]}"}
        case "steps":
            fields = {"steps": [text for text, _ in steps_of(request)]}
    answer: JsonValue = _completed(fields, schema.schema)
    return answer


def _completed(fields: dict[str, Any], schema: Mapping[str, Any]) -> Any:
    """Return the fields that the schema allows, and the smallest values for other required ones."""
    properties = schema.get("properties") or {}
    if not properties:
        return fields or _smallest(schema, schema, 0)
    allowed = {name: value for name, value in fields.items() if name in properties}
    missing = (name for name in schema.get("required") or () if name not in allowed)
    return allowed | {name: _smallest(properties.get(name) or {}, schema, 0) for name in missing}


def _smallest(schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    """Return approximately the smallest value that a schema allows."""
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
