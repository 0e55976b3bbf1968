"""Mistakes in files of agents, named by line and key, with what is allowed there."""

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from artel.errors import ArtelError, Kind
from artel.nodes.located_yaml import Loc, LocatedYaml, YamlUnreadable
from artel.text import one_line, shorten

MAX_MISTAKES = 50
MAX_SHOWN = 60  # characters of a wrong value

# What pydantic says of these, in plainer words.
_RULES = {
    "int_parsing": "be a whole number",
    "int_from_float": "be a whole number",
    "float_parsing": "be a number",
    "bool_parsing": "be true or false",
}


@dataclass(frozen=True, slots=True)
class FileMistake:
    """A mistake in an agent file; line 0 means the file as a whole."""

    file: str
    line: int
    key: str
    text: str

    def __str__(self) -> str:
        parts = [f"{self.file}:{self.line}" if self.line else self.file, self.key, self.text]
        return ": ".join(part for part in parts if part)

    def dump(self) -> dict[str, str | int]:
        """Return the mistake as JSON."""
        return asdict(self)


class AgentFileInvalid(ArtelError, kind=Kind.INVALID, code="agent_file_invalid"):
    """Agent files have mistakes; `mistakes` are the first of them."""

    def __init__(self, mistakes: Sequence[FileMistake]) -> None:
        self.mistakes = tuple(mistakes[:MAX_MISTAKES])
        count = "A mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        more = [f"… and {len(mistakes) - MAX_MISTAKES} more"] if len(mistakes) > MAX_MISTAKES else []
        super().__init__("\n".join([f"{count} in agent files:", *map(str, self.mistakes), *more]))


def unreadable(failure: YamlUnreadable, source: str) -> FileMistake:
    """Return the mistake of a text that is no YAML; `source` is what the mistake names as the file."""
    return FileMistake(source, failure.mistake.line, "", failure.mistake.text)


def mistakes_in(document: LocatedYaml, source: str, found: Mapping[Loc, str]) -> list[FileMistake]:
    """Return what was wrong in reading a document, and what was found in its values, by line."""
    mistakes = [FileMistake(source, wrong.line, key_of(wrong.loc), wrong.text) for wrong in document.mistakes]
    unread = {wrong.loc for wrong in document.mistakes if wrong.is_unread}
    for loc, reason in found.items():
        if loc not in unread:  # one mistake for a key is enough
            mistakes.append(FileMistake(source, document.line(loc), key_of(loc), reason))
    return sorted(mistakes, key=lambda mistake: mistake.line)


def key_of(loc: Loc) -> str:
    """Return a path such as agent.capabilities[0].name."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc if step != "[key]")
    return one_line("".join(steps).removeprefix("."), 300)


def explain(error: Any, document: type[BaseModel]) -> str:
    """Return what is wrong with a value of a document and what is allowed, from an error of pydantic."""
    kind, loc, given = error["type"], error["loc"], error["input"]
    if kind == "missing":
        return ": ".join(part for part in ("is missing", _description(loc, document)) if part)
    if kind == "extra_forbidden":
        return f"is not a key here{instead(str(loc[-1]), _keys_at(loc[:-1], document))}"
    if kind in ("model_type", "dict_type", "list_type"):
        return _expected_shape(kind, _keys_at(loc, document), given)
    if kind == "string_type" and isinstance(given, bool | int | float):
        return f"must be text, not {json.dumps(given)}: write it in quotes"
    message: str = error["msg"].removeprefix("Value error, ")
    rule = _RULES.get(kind) or message.partition(" should ")[2]
    if kind == "value_error" or not rule:
        return message
    is_shown = isinstance(given, str | bool | int | float) and "secrets" not in loc and ", not " not in rule
    shown = f", not {shorten(json.dumps(given, ensure_ascii=False), MAX_SHOWN)}" if is_shown else ""
    return f"must {rule}{shown}"


def _expected_shape(kind: str, keys: Sequence[str], given: Any) -> str:
    if kind == "list_type":
        return "must be a list: [a, b], or lines that begin with -"
    if given is None:
        return "is empty: give it keys, or leave it out"
    return f"must be a mapping with the keys {', '.join(keys)}" if keys else "must be a mapping: lines of key: value"


def instead(name: str, allowed: Iterable[str]) -> str:
    """Return the most similar allowed name as a question, else all of them."""
    names = sorted(allowed)
    if not names:
        return ""
    similar = difflib.get_close_matches(name[:100], names, 1)
    return f"; did you mean {similar[0]}?" if similar else f": use {', '.join(names)}"


def _keys_at(loc: Loc, document: type[BaseModel]) -> list[str]:
    model = _model_at(loc, document)
    return list(model.model_fields) if model else []


def _description(loc: Loc, document: type[BaseModel]) -> str:
    model = _model_at(loc[:-1], document)
    field = model.model_fields.get(str(loc[-1])) if model else None
    return (field.description or "") if field else ""


def _model_at(loc: Loc, document: type[BaseModel]) -> type[BaseModel] | None:
    """Return the model of the mapping at a path, None if there is none."""
    annotation: Any = document
    for step in loc:
        if get_origin(annotation) in (dict, list):
            annotation = get_args(annotation)[-1]
        elif _is_model(annotation) and step in annotation.model_fields:
            annotation = annotation.model_fields[step].annotation
        else:
            return None
    return annotation if _is_model(annotation) else None


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
