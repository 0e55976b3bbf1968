"""Checks of the JSON Schemas in agent files: draft 2020-12, references within the schema only, defaults that fit."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import unquote

from artel.text import shorten

Loc = tuple[str | int, ...]
Mistake = tuple[Loc, str]  # where in the schema or value, and what is wrong

MAX_MISTAKES = 20
MAX_TEXT = 300
DIALECT = "https://json-schema.org/draft/2020-12/schema"
TYPES = "array, boolean, integer, null, number, object, string"

_ONE_SCHEMA = (
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_LIST_OF_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAP_OF_SCHEMAS = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
# Keywords whose schemas apply to the same value: a circle of them would never end.
_SAME_VALUE = frozenset({"allOf", "anyOf", "dependentSchemas", "else", "if", "not", "oneOf", "then"})
# Ways to refer to other documents, or to one by another name; `$ref: '#/$defs/…'` says the same.
_REFUSED = ("$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveRef")


def schema_mistakes(schema: Mapping[str, Any]) -> list[Mistake]:
    """Return what is wrong with a JSON Schema; nothing if a value can be checked against it."""
    try:
        found = list(islice(_invalid_keywords(schema), MAX_MISTAKES))
        found = found or list(islice(_bad_references(schema), MAX_MISTAKES))
        return found or list(islice(_bad_defaults(schema), MAX_MISTAKES))
    except RecursionError:
        return [((), "is nested too deeply")]


def schema_validator(schema: Mapping[str, Any]) -> Any:
    """Return the jsonschema validator of a schema; references to other documents are errors, and never fetched."""
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # takes a tenth of a second
    from referencing import Registry

    return Draft202012Validator(schema, registry=Registry())


def value_mistakes(schema: Mapping[str, Any], value: Any) -> list[Mistake]:
    """Return where a value does not fit a valid schema."""
    errors = schema_validator(schema).iter_errors(value)
    return [(tuple(error.absolute_path), _text(error)) for error in islice(errors, MAX_MISTAKES)]


def _invalid_keywords(schema: Mapping[str, Any]) -> Iterator[Mistake]:
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(
        Draft202012Validator.META_SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    for error in validator.iter_errors(schema):
        path = tuple(error.absolute_path)
        yield path, f"must be one of {TYPES}" if path and path[-1] == "type" else _text(error)


def _bad_references(schema: Mapping[str, Any]) -> Iterator[Mistake]:
    ending: set[int] = set()
    for path, part in _subschemas(schema, ()):
        if "$schema" in part and str(part["$schema"]).removesuffix("#") != DIALECT:
            yield (*path, "$schema"), f"must be {DIALECT}, or left out"
        yield from (((*path, key), "is not supported: use $ref with #/$defs/…") for key in _REFUSED if key in part)
        if "$ref" in part and _target(schema, part["$ref"]) is None:
            yield (*path, "$ref"), f"{shorten(str(part['$ref']), 100)} is not in this schema: write #/$defs/NAME"
        elif _is_endless(schema, part, (), ending):
            yield path, "refers to itself without end"
            return  # the other schemas of the circle would be named too


def _bad_defaults(schema: Mapping[str, Any]) -> Iterator[Mistake]:
    validator = schema_validator(schema)
    for path, part in _subschemas(schema, ()):
        if "default" in part:
            for error in validator.evolve(schema=part).iter_errors(part["default"]):
                yield (*path, "default", *error.absolute_path), _text(error)


def _subschemas(schema: Any, path: Loc) -> Iterator[tuple[Loc, Mapping[str, Any]]]:
    """Yield a schema and all schemas in it, with their paths."""
    if isinstance(schema, Mapping):  # it may be true or false
        yield path, schema
        for key, part in _parts(schema):
            yield from _subschemas(part, (*path, *key))


def _parts(schema: Mapping[str, Any]) -> Iterator[tuple[Loc, Any]]:
    """Yield the schemas directly in a schema."""
    for key in _ONE_SCHEMA:
        if key in schema:
            yield (key,), schema[key]
    for key in _LIST_OF_SCHEMAS:
        for index, part in enumerate(schema.get(key, ())):
            yield (key, index), part
    for key in _MAP_OF_SCHEMAS:
        for name, part in schema.get(key, {}).items():
            yield (key, name), part


def _is_endless(root: Mapping[str, Any], schema: Any, above: tuple[int, ...], ending: set[int]) -> bool:
    """Return whether the check of one value against a schema would come back to a schema on its way.

    `ending` collects the ids of schemas that do not, so that each is followed once.
    """
    if not isinstance(schema, Mapping) or id(schema) in ending:
        return False
    if id(schema) in above:
        return True
    applied = [part for key, part in _parts(schema) if key[0] in _SAME_VALUE]
    if "$ref" in schema:
        applied.append(_target(root, schema["$ref"]))
    if any(_is_endless(root, part, (*above, id(schema)), ending) for part in applied):
        return True
    ending.add(id(schema))
    return False


def _target(root: Mapping[str, Any], reference: Any) -> Any:
    """Return the schema that a local reference (`#`, `#/$defs/name`) names, None if there is none."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    found: Any = root
    for step in unquote(reference[2:]).split("/") if reference != "#" else ():
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdecimal() and int(name[:9]) < len(found):
            found = found[int(name[:9])]
        elif isinstance(found, Mapping) and name in found:
            found = found[name]
        else:
            return None
    return found if isinstance(found, Mapping | bool) else None


def _text(error: Any) -> str:
    return shorten(error.message, MAX_TEXT)
