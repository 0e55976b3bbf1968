"""A capability at work: its parameters checked, its task as text, its output checked."""

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from artel.brain.brain import Completion, Schema, Usage
from artel.brain.structured import SchemaMismatch, load_jsonschema, parsed_answer
from artel.contract.agent_file import PLACEHOLDER, Capability
from artel.contract.json_schema import schema_validator
from artel.errors import ArtelError, Kind
from artel.text import shorten

MAX_DEPTH = 20
MAX_VIOLATIONS = 10
MAX_MESSAGE_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule of a schema that a value breaks; `property` is its path, such as `options.style`."""

    property: str
    message: str


class ParamsInvalid(ArtelError, kind=Kind.INVALID, code="params_invalid"):
    """The parameters of a command break the input schema."""

    def __init__(self, action: str, violations: list[Violation]) -> None:
        shown = "; ".join(f"{violation.property}: {violation.message}" for violation in violations)
        super().__init__(f"The parameters of {action} are not valid. {shown}")
        self.violations = violations


async def checked_params(capability: Capability, params: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the parameters with the defaults of the input schema filled in; raise ParamsInvalid."""
    schema = capability.input_schema
    filled: dict[str, JsonValue] = with_defaults(schema, dict(params))
    await load_jsonschema()
    errors = schema_validator(schema).iter_errors(filled)
    violations = [_violation(error) for error, _ in zip(errors, range(MAX_VIOLATIONS), strict=False)]
    if violations:
        raise ParamsInvalid(capability.name, violations)
    return filled


def with_defaults(schema: Mapping[str, Any], value: Any, depth: int = 0) -> Any:
    """Return a value with the defaults of missing properties, also inside objects and lists."""
    if depth >= MAX_DEPTH:
        return value
    properties = schema.get("properties")
    if isinstance(value, dict) and isinstance(properties, dict):
        filled = dict(value)
        for name, rule in properties.items():
            if not isinstance(rule, dict):
                continue
            if name not in filled and "default" in rule:
                filled[name] = deepcopy(rule["default"])
            if name in filled:
                filled[name] = with_defaults(rule, filled[name], depth + 1)
        return filled
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        return [with_defaults(items, item, depth + 1) for item in value]
    return value


def text_property(schema: Mapping[str, Any]) -> str | None:
    """Return the property that a plain text stands for: the only required one, if it is a string."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list) or len(required) != 1:
        return None
    name = required[0]
    rule = properties.get(name)
    return name if isinstance(rule, dict) and rule.get("type") == "string" and "enum" not in rule else None


def task_text(capability: Capability, params: Mapping[str, JsonValue]) -> str:
    """Return the task as text: the template with the parameters in it, and those that it leaves out below."""
    template = capability.prompt_template
    if template is None:
        template = capability.description or f"Do this: {capability.name.replace('_', ' ')}."
    used = set(PLACEHOLDER.findall(template))
    # In one pass, so that a parameter that contains a placeholder stays as it is.
    text = PLACEHOLDER.sub(lambda found: _shown(params[found[1]]) if found[1] in params else found[0], template)
    others = {name: value for name, value in params.items() if name not in used}
    if others:
        text = f"{text.rstrip()}\n\nParameters, as JSON:\n{json.dumps(others, ensure_ascii=False, indent=1)}"
    return text


async def parsed_output(draft: str, schema: Mapping[str, Any]) -> JsonValue:
    """Return the output that a draft holds; raise SchemaMismatch if it does not match the output schema."""
    try:
        completion = Completion(draft, (), "stop", Usage(""))
        return (await parsed_answer(completion, Schema("output", schema))).parsed
    except SchemaMismatch as mismatch:
        # A text instead of a document is enough where only a text is wanted.
        wrapped = _wrapped(draft, schema)
        if wrapped is None or (await _problem(wrapped, schema)) is not None:
            raise mismatch from None
        return wrapped


def readable(output: JsonValue) -> str:
    """Return an output as text for people, in Markdown."""
    if isinstance(output, str):
        return output
    if not isinstance(output, dict) or not output:
        return json.dumps(output, ensure_ascii=False, indent=1)
    if len(output) == 1:
        [only] = output.values()
        return readable(only)
    parts = []
    for name, value in output.items():
        title = _title(name)
        if _is_long(value):
            parts.append(f"**{title}**\n\n{value}")
        elif isinstance(value, list) and value:
            parts.append("\n".join([f"**{title}**", "", *map(_entry, value)]))
        else:
            parts.append(f"**{title}:** {_shown(value)}")
    return "\n\n".join(parts)


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _is_long(value: JsonValue) -> bool:
    return isinstance(value, str) and ("\n" in value or len(value) > MAX_MESSAGE_CHARACTERS)


def _entry(item: JsonValue) -> str:
    """Return an item of a list: an object as its values, the long ones below it."""
    if not isinstance(item, dict):
        return f"- {_shown(item)}"
    short = "; ".join(f"{_title(name)}: {_shown(value)}" for name, value in item.items() if not _is_long(value))
    return "\n".join([f"- {short}", *(f"\n~~~\n{value}\n~~~\n" for value in item.values() if _is_long(value))])


def _shown(value: JsonValue) -> str:
    if value in ("", [], {}, None):
        return "none"
    if isinstance(value, list):
        return " · ".join(map(_shown, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _wrapped(draft: str, schema: Mapping[str, Any]) -> JsonValue:
    """Return the draft as the string, or as the only property, that the schema wants."""
    if schema.get("type") == "string":
        return draft
    properties = schema.get("properties")
    if isinstance(properties, dict) and len(properties) == 1:
        [(name, rule)] = properties.items()
        if isinstance(rule, dict) and rule.get("type") == "string" and draft.strip():
            return {name: draft}
    return None


async def _problem(value: JsonValue, schema: Mapping[str, Any]) -> str | None:
    jsonschema = await load_jsonschema()
    error = jsonschema.exceptions.best_match(schema_validator(schema).iter_errors(value))
    return None if error is None else str(error.message)


def _violation(error: Any) -> Violation:
    path = [str(step) for step in error.absolute_path]
    if error.validator == "required":
        path.append(next((name for name in error.validator_value if name not in error.instance), ""))
    return Violation(".".join(path) or "params", shorten(error.message, MAX_MESSAGE_CHARACTERS))
