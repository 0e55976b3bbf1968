"""Evaluates small arithmetic expressions without `eval`."""

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction

MAX_TEXT = 1000
MAX_CHARACTERS = 100
MAX_EXPONENT = 64
MAX_VALUE = 10**30

# Typed signs and their Python operators; the escapes are the cross, the dot, the obelus and the minus.
_SIGNS = str.maketrans({"\u00d7": "*", "\u00b7": "*", "\u00f7": "/", "\u2212": "-", "^": "**"})
_QUESTION = re.compile(
    r"(?i)^\s*(?:(?:hey|please|ok|and|so|what(?:'s| is| are)|how much (?:is|are)|calculate|compute|work out"
    r"|сколько будет|посчитай|计算)[,:]?\s*)*"
)
_SUM = re.compile(r"[-+\s(]*\d[\d.\s()]*(?:(?:\*\*?|//?|[-+%])[-+\s(]*\d[\d.\s()]*)+")
_DATE = re.compile(r"\d+-\d+-\d+")
_OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}


class NoSum(ValueError):
    """The expression can't be evaluated; the text says why."""


def find_sum(text: str) -> str | None:
    """Return the expression in the text, if the text asks for nothing else."""
    if len(text) > MAX_TEXT:
        return None
    rest = _QUESTION.sub("", text, count=1).rstrip(" =?.!")
    is_sum = _SUM.fullmatch(rest.translate(_SIGNS)) and not _DATE.fullmatch(rest)
    return rest if is_sum else None


def work_out(text: str) -> str:
    """Return the value of an expression, formatted; raise NoSum if it can't be evaluated."""
    if len(text) > MAX_CHARACTERS:
        raise NoSum("it is too long for me")
    try:
        value = _value(ast.parse(text.translate(_SIGNS).strip(), mode="eval").body)
    except SyntaxError:
        raise NoSum("it is not written as a sum") from None
    except ZeroDivisionError:
        raise NoSum("it divides by zero") from None
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.10g}"


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(Fraction(str(number)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left), _value(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _bounded(_OPERATIONS[type(op)](_value(left), _value(right)))
    raise NoSum("it is more than a small sum")


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1 or abs(exponent) > MAX_EXPONENT:
        raise NoSum("its exponent is more than I can do")
    return _bounded(base ** int(exponent))


def _bounded(value: Fraction) -> Fraction:
    if max(abs(value.numerator), value.denominator) > MAX_VALUE:
        raise NoSum("its numbers are too large for me")
    return value
