"""Values for any JSON schema, by rules: parameters and outputs of capabilities without a model."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from artel.text import one_line, shorten

MAX_DEPTH = 8
MAX_ITEMS = 20
LINES = 5  # of the text, in a list of texts
LINE_CHARACTERS = 200
# Properties that hold a few words and not the whole text.
_SHORT = frozenset(
    {"title", "headline", "heading", "name", "path", "purpose", "subject", "topic", "query", "verdict", "language"}
)

_ADDRESSES = frozenset({"sources", "links", "urls", "references"})
_ADDRESS = re.compile(r"https?://[^\s<>\"')\]]++")
_LISTED = re.compile(r"(?m)^(?:\d{1,2}\.|[-*])[ \t]++(?:\[ \][ \t]++)?(\S.*)")


@dataclass(frozen=True, slots=True)
class SchemaFiller:
    """Fills a schema: `title` goes into short texts, `text` into all others."""

    root: Mapping[str, Any]
    title: str
    text: str

    def value(self) -> JsonValue:
        """Return a value that matches the schema, as far as rules can tell."""
        return self._value(self.root, "", 0)

    def _value(self, schema: Any, name: str, depth: int) -> JsonValue:
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return None
        given: list[JsonValue] = [schema[key] for key in ("const", "default") if key in schema]
        given += schema.get("enum", ())
        if given:
            return given[0]
        if (inner := self._inner(schema)) is not None:
            return self._value(inner, name, depth + 1)
        kinds = schema.get("type", "object" if "properties" in schema else "string")
        kind = next((each for each in kinds if each != "null"), "null") if isinstance(kinds, list) else kinds
        values: dict[str, Callable[[], JsonValue]] = {
            "object": lambda: self._object(schema, depth),
            "array": lambda: self._array(schema, name, depth),
            "integer": lambda: _number(schema),
            "number": lambda: _number(schema),
            "boolean": lambda: False,
            "null": lambda: None,
        }
        return values.get(kind, lambda: self._string(schema, name))()

    def _inner(self, schema: Mapping[str, Any]) -> Any:
        """Return the schema that a reference or a choice stands for."""
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            found: Any = self.root
            for step in reference[2:].split("/"):
                found = found.get(step) if isinstance(found, Mapping) else None
            return found
        if "type" in schema or "properties" in schema:
            return None
        alternatives = (schema.get(key) for key in ("anyOf", "oneOf", "allOf"))
        return next((some[0] for some in alternatives if isinstance(some, list) and some), None)

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, JsonValue]:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            return {}
        return {name: self._value(rule, name, depth + 1) for name, rule in properties.items()}

    def _array(self, schema: Mapping[str, Any], name: str, depth: int) -> list[JsonValue]:
        items = schema.get("items")
        least, most = int(schema.get("minItems", 0)), int(schema.get("maxItems", MAX_ITEMS))
        is_text = isinstance(items, Mapping) and items.get("type") == "string" and items.keys() <= {"type", "minLength"}
        if not is_text:  # nothing is made up that is not required
            return [self._value(items, name, depth + 1) for _ in range(min(least, MAX_ITEMS))]
        lines = [one_line(line, LINE_CHARACTERS) for line in self._listed(name)]
        count = min(max(least, min(LINES, len(lines))), most, MAX_ITEMS)
        return [lines[number] if number < len(lines) else f"{self.title} ({number + 1})" for number in range(count)]

    def _listed(self, name: str) -> list[str]:
        """Return what a list of texts may hold: addresses of pages if it is for them, else the lists in the text."""
        return _ADDRESS.findall(self.text) if name in _ADDRESSES else _LISTED.findall(self.text)

    def _string(self, schema: Mapping[str, Any], name: str) -> str:
        text = self.title if name in _SHORT else self.text
        return shorten(text, max(1, int(schema.get("maxLength", len(text) or 1)))) or "-"


def _number(schema: Mapping[str, Any]) -> int | float:
    """Return the middle of the range, the limit if there is only one, else 0; a whole number where possible."""
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    if low is not None and high is not None:
        middle = (low + high) / 2
        return int(middle) if int(middle) >= low else float(middle)
    if low is not None:
        return int(low) + 1 if "exclusiveMinimum" in schema else int(low) if low == int(low) else float(low)
    return 0 if high is None or high >= 0 else int(high) - 1
