"""Reads YAML as JSON values with the line of each key, so that a mistake can be named by its place in the file.

Bounded in depth and size, aliases included. Nothing is guessed: keys are text, no key is given twice, dates stay text.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import yaml

from artel.text import is_storable, one_line, shorten

MAX_DEPTH = 50
MAX_NODES = 10_000
MAX_INTEGER = 2**63 - 1

Loc = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = frozenset({f"{_TAG}str", f"{_TAG}timestamp", f"{_TAG}value"})


@dataclass(frozen=True, slots=True)
class YamlMistake:
    """Something in a file that is not what it must be, at a line and a key."""

    line: int
    loc: Loc
    text: str
    is_unread: bool = False  # the value could not be read: the key has None instead


class YamlUnreadable(Exception):
    """The text is no YAML at all, or too much of it."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.mistake = YamlMistake(line, (), text)


@dataclass(slots=True)
class LocatedYaml:
    """The value of a document, the line of each of its keys and items, and what was wrong on the way."""

    value: Any = None
    lines: dict[Loc, int] = field(default_factory=dict)
    mistakes: list[YamlMistake] = field(default_factory=list)

    def line(self, loc: Loc) -> int:
        """Return the line of a key, or of the nearest one above it that is in the file."""
        while loc and loc not in self.lines:
            loc = loc[:-1]
        return self.lines.get(loc, 1)


def read_yaml(text: str) -> LocatedYaml:
    """Return the only document of a YAML text; raise YamlUnreadable if it is not valid YAML or too large."""
    try:
        root = _BoundedLoader(text).get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlUnreadable(line, f"the character {chr(error.character)!a} is not allowed in YAML") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = f"{error.problem} ({error.context})" if error.context else str(error.problem)
        raise YamlUnreadable(mark.line + 1 if mark else 1, f"not valid YAML: {one_line(reason, 300)}") from None
    reader = _Reader()
    if root is not None:
        reader.document.lines[()] = root.start_mark.line + 1
        reader.document.value = reader.read(root, (), ())
    return reader.document


class _BoundedLoader(yaml.SafeLoader):
    """Composes the nodes of a document, up to a depth and a number."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        self._nodes += 1
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self._depth > MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, f"nested deeper than {MAX_DEPTH} levels", mark)
        if self._nodes > MAX_NODES:
            raise yaml.composer.ComposerError(None, None, f"more than {MAX_NODES:,} values", mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


class _Reader:
    """Makes JSON values of nodes."""

    def __init__(self) -> None:
        self.document = LocatedYaml()
        self._count = 0
        self._constructor = yaml.constructor.SafeConstructor()

    def read(self, node: yaml.Node, loc: Loc, above: tuple[int, ...]) -> Any:
        """Return the value of a node; what is wrong in it is noted, and its value is None."""
        line = node.start_mark.line + 1
        self._count += 1
        if self._count > MAX_NODES:  # aliases multiply: ten of ten of ten
            raise YamlUnreadable(line, f"more than {MAX_NODES:,} values, counting every use of an alias")
        if id(node) in above:
            return self._wrong(line, loc, "contains itself, by an alias")
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, loc, (*above, id(node)))
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self._item(item, (*loc, number), (*above, id(node))) for number, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, loc)
        return self._wrong(line, loc, f"the tag {_tag_name(node)} is not allowed")

    def _item(self, node: yaml.Node, loc: Loc, above: tuple[int, ...]) -> Any:
        self.document.lines[loc] = node.start_mark.line + 1
        return self.read(node, loc, above)

    def _mapping(self, node: yaml.MappingNode, loc: Loc, above: tuple[int, ...]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                values.update(self._merged(value, loc, above))
        first: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag == f"{_TAG}merge":
                continue
            if not isinstance(key, yaml.ScalarNode) or key.tag not in _TEXT_TAGS or not is_storable(key.value):
                name = f"the key {shorten(str(key.value), 50)}" if isinstance(key, yaml.ScalarNode) else "a key"
                self._wrong(line, loc, f"{name} is not text: write it in quotes", is_unread=False)
            elif key.value in first:
                text = f"is given twice; the first is in line {first[key.value]}"
                self._wrong(line, (*loc, key.value), text, is_unread=False)
            else:
                first[key.value] = self.document.lines[(*loc, key.value)] = line
                values[key.value] = self.read(value, (*loc, key.value), above)
        return values

    def _merged(self, node: yaml.Node, loc: Loc, above: tuple[int, ...]) -> dict[str, Any]:
        """Return the values of the mappings that `<<` names; earlier ones win."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        values: dict[str, Any] = {}
        for source in reversed(sources):
            merged = self.read(source, loc, above)
            if isinstance(merged, dict):
                values.update(merged)
            else:
                self._wrong(source.start_mark.line + 1, loc, "`<<` takes the alias of a mapping", is_unread=False)
        return values

    def _scalar(self, node: yaml.ScalarNode, loc: Loc) -> Any:
        line = node.start_mark.line + 1
        if not is_storable(node.value):
            return self._wrong(line, loc, "contains a NUL or half of a character, which can't be sent as JSON")
        kind = node.tag.removeprefix(_TAG)
        try:
            if node.tag in _TEXT_TAGS or kind == "null":
                return node.value if kind != "null" else None
            if kind == "bool":
                return self._constructor.construct_yaml_bool(node)
            if kind in ("int", "float"):
                return self._number(node, loc, kind)
        except (ValueError, KeyError, OverflowError):
            return self._wrong(line, loc, f"{shorten(node.value, 50)} can't be read as {_tag_name(node)}")
        return self._wrong(line, loc, f"the tag {_tag_name(node)} is not allowed")

    def _number(self, node: yaml.ScalarNode, loc: Loc, kind: str) -> int | float | None:
        line = node.start_mark.line + 1
        if kind == "int":
            whole = int(self._constructor.construct_yaml_int(node))
            if abs(whole) <= MAX_INTEGER:
                return whole
            self._wrong(line, loc, "the number is too large")
            return None
        number = float(self._constructor.construct_yaml_float(node))
        if math.isfinite(number):
            return number
        self._wrong(line, loc, "must be a finite number")
        return None

    def _wrong(self, line: int, loc: Loc, text: str, *, is_unread: bool = True) -> None:
        self.document.mistakes.append(YamlMistake(line, loc, text, is_unread))


def _tag_name(node: yaml.Node) -> str:
    return shorten(node.tag.replace(_TAG, "!!"), 50)
