"""Label selectors as in Kubernetes: `env in (test, prod), gpu, !beta, tier notin (free), cores > 4`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from artel.errors import ArtelError, Kind

MAX_CHARACTERS = 1_000
MAX_DIGITS = 18
SHOWN_CHARACTERS = 20

# One word or one sign after spaces; every alternative is linear, and together they match any character.
_TOKEN = re.compile(r"\s*(?:([A-Za-z0-9_./-]+)|(==|!=|[=!<>(),])|(\S)|$)")


class SelectorInvalid(ArtelError, kind=Kind.INVALID, code="selector_invalid"):
    """A label selector can't be read; the message says where."""


class Operator(StrEnum):
    """How a label is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels meet the condition; as in Kubernetes, NotIn is met without the label too."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
        if value is None or not _is_integer(value):
            return False
        limit = int(self.values[0])
        return int(value) > limit if self.operator is Operator.GT else int(value) < limit


@dataclass(frozen=True, slots=True)
class Selector:
    """Conditions that all have to be met; none are met by all labels."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels meet every condition."""
        return all(requirement.matches(labels) for requirement in self.requirements)


def parse_selector(text: str) -> Selector:
    """Parse a selector; raise SelectorInvalid with the place of the mistake. An empty one selects everything."""
    if len(text) > MAX_CHARACTERS:
        raise SelectorInvalid(f"The selector has {len(text)} characters; at most {MAX_CHARACTERS} are allowed.")
    tokens = _Tokens(text)
    requirements: list[Requirement] = []
    if tokens.next:
        requirements.append(_requirement(tokens))
    while tokens.next:
        tokens.take_sign(",", expected="a comma or the end")
        requirements.append(_requirement(tokens))
    return Selector(tuple(requirements))


class _Tokens:
    """The words and signs of a selector, one at a time; `next` is empty at the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = 0
        self._read()

    def _read(self) -> None:
        found = _TOKEN.match(self._text, self._end)
        word, sign, other = found.groups() if found else (None, None, None)
        self.next = word or sign or other or ""
        self.is_word = bool(word)
        self._end = found.end() if found else len(self._text)
        self._start = self._end - len(self.next)

    def take(self) -> str:
        """Return the next token and go on."""
        token = self.next
        self._read()
        return token

    def take_word(self, expected: str) -> str:
        """Return the next token, which has to be a word."""
        if not self.is_word:
            raise self.mistake(expected)
        return self.take()

    def take_sign(self, sign: str, expected: str) -> None:
        """Go on after a sign, which has to be next."""
        if self.next != sign:
            raise self.mistake(expected)
        self.take()

    def mistake(self, expected: str) -> SelectorInvalid:
        """Return the error that something else is expected here."""
        rest = self._text[self._start : self._start + SHOWN_CHARACTERS]
        found = f"found {rest!r}" if rest else "it ends"
        return SelectorInvalid(
            f"The selector is not valid at character {self._start + 1}: expected {expected}, {found}."
        )


def _requirement(tokens: _Tokens) -> Requirement:
    if tokens.next == "!":
        tokens.take()
        return Requirement(tokens.take_word("the name of a label"), Operator.DOES_NOT_EXIST)
    key = tokens.take_word("the name of a label or !")
    match tokens.next:
        case "=" | "==" | "!=" as sign:
            tokens.take()
            values = (tokens.take_word("a value"),)
            return Requirement(key, Operator.NOT_IN if sign == "!=" else Operator.IN, values)
        case "in" | "notin" as word:
            tokens.take()
            return Requirement(key, Operator.IN if word == "in" else Operator.NOT_IN, _values(tokens))
        case ">" | "<" as sign:
            tokens.take()
            if not _is_integer(tokens.next):
                raise tokens.mistake("a whole number")
            return Requirement(key, Operator.GT if sign == ">" else Operator.LT, (tokens.take(),))
        case "" | ",":
            return Requirement(key, Operator.EXISTS)
    raise tokens.mistake("in, notin, =, !=, >, <, a comma or the end")


def _values(tokens: _Tokens) -> tuple[str, ...]:
    tokens.take_sign("(", expected="( and values")
    values = [tokens.take_word("a value")]
    while tokens.next == ",":
        tokens.take()
        values.append(tokens.take_word("a value"))
    tokens.take_sign(")", expected="a comma or )")
    return tuple(values)


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) <= MAX_DIGITS
