"""Run every regular expression of the source over hostile texts; print those whose time grows faster than the text.

A program of its own: a pattern that backtracks without end can only be stopped with its process.
"""

import ast
import importlib
import pkgutil
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

import artel
from artel.paths import policy
from tests.depth import by_depth

SIZES = (1_600, 6_400, 102_400)  # characters; the second, because what is quadratic would never end with the third
LONGEST_TEXTS = by_depth(2, 1_000)  # of the longest size only those that took longest before
FLOOR_SECONDS = 0.005  # of CPU; less can't be measured well, and nothing that is quadratic takes less
MAX_GROWTH = 2.3  # times that of the text: for four times the text linear is 4, quadratic is 16
CPU_SECONDS = 300
MAX_WORDS = 6

# Modules that make patterns from variables. All but the first two do so while they are imported: found as objects.
MADE_OF_VARIABLES = {
    "artel.connector.matcher",  # the pattern of a model, in a process that is killed when it takes long
    "artel.paths.policy",  # see below
    "artel.brain.demo.chat",
    "artel.brain.demo.plans",
    "artel.brain.demo.review",
    "artel.brain.demo.user_words",
}
_WHOLE = frozenset({"match", "fullmatch"})
_PARTS = frozenset({"search", "sub", "subn", "split", "findall", "finditer"})
_RUNS = (" ", "\n", "a", "A", "0", "-", ".", "/", "://", "eyJ", "a ", "a.", "a@", "0-", "é")

Use = Literal["whole", "parts", "pydantic"]


@dataclass(frozen=True)
class Found:
    """A pattern and how it is used: from the beginning of a text, for parts anywhere in it, or by pydantic."""

    pattern: str
    flags: int
    use: Use


def find_patterns() -> tuple[dict[Found, str], list[str]]:
    """Return the patterns of the package with their places, and the places that can't be read."""
    patterns: dict[Found, str] = {}
    unread: list[str] = []
    for info in pkgutil.walk_packages(artel.__path__, "artel."):
        if info.name.endswith("__main__") or ".migrations" in info.name:
            continue
        module = importlib.import_module(info.name)
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        uses = _uses(tree)
        compiled = [item for name, value in vars(module).items() for item in _objects(name, value, 3)]
        for name, pattern in compiled:
            found = _found(pattern, uses.get(name, "parts"))
            patterns.setdefault(found, f"{info.name}.{name}")
        compiled_texts = {_text(pattern.pattern) for _, pattern in compiled}
        for line, use, expression in _expressions(tree):
            try:
                value = _value(expression, module)
                if isinstance(value, str | bytes) and _text(value) not in compiled_texts:
                    patterns.setdefault(Found(_text(value), 0, use), f"{info.name}:{line}")
            except NameError:
                if info.name not in MADE_OF_VARIABLES:
                    unread.append(f"{info.name}:{line}")
    made_later = [*policy._compiled(policy.SECRET)[:2], *policy._compiled(policy.PROTECTED)[:2]]
    path_patterns = {Found(one.pattern, one.flags, "whole"): "artel.paths.policy" for one in made_later}
    return patterns | path_patterns, unread


def _found(pattern: "re.Pattern[Any]", use: Use) -> Found:
    """Return a compiled pattern; one of bytes as the pattern of a text that backtracks as it does."""
    flags = pattern.flags | re.ASCII if isinstance(pattern.pattern, bytes) else pattern.flags
    return Found(_text(pattern.pattern), flags, use)


def _text(pattern: str | bytes) -> str:
    return pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern


def _uses(tree: ast.Module) -> dict[str, Use]:
    """Return how the patterns of a module are used, by the name of the variable or field."""
    uses: dict[str, Use] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr=method):
                if method in _PARTS:
                    uses[name] = "parts"
                elif method in _WHOLE:
                    uses.setdefault(name, "whole")
    return uses


def _expressions(tree: ast.Module) -> Iterator[tuple[int, Use, ast.expr]]:
    """Return the patterns that are not kept in a variable: arguments of `re`, of pydantic, and in JSON schemas."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=method), args=[first, *_]):
                if method in _WHOLE or method in _PARTS or method == "compile":
                    yield node.lineno, "whole" if method in _WHOLE else "parts", first
            case ast.keyword(arg="pattern" | "regex", value=value):
                yield value.lineno, "pydantic", value
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "pattern":
                        yield value.lineno, "parts", value


def _value(node: ast.expr, module: ModuleType) -> Any:
    return eval(compile(ast.Expression(node), "<pattern>", "eval"), vars(module))  # noqa: S307 - our own source


def _objects(name: str, value: Any, depth: int) -> Iterator[tuple[str, "re.Pattern[str]"]]:
    """Return the compiled patterns in what a module holds."""
    if isinstance(value, re.Pattern):
        yield name, value
    elif depth and isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _objects(name, item, depth - 1)
    elif depth and hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        for field in value.__dataclass_fields__:
            yield from _objects(field, getattr(value, field, None), depth - 1)


def hostile_texts(pattern: str, size: int) -> Iterator[str]:
    """Return texts made against a pattern: runs, also of its own words, ending in what does not match."""
    words = sorted(set(re.findall(r"[^\W_]{2,}|[^\w\s]", re.sub(r"\\.", " ", pattern))))[:MAX_WORDS]
    for run in (*_RUNS, *words, *(f"{word} " for word in words)):
        text = run * (size // len(run))
        yield text
        yield f"{text}\x00"
    for word in words:
        for run in (" ", "a", "0"):
            yield f"{word}{run * size}\x00"


def growth(found: Found) -> str | None:
    """Return how the time grows, if it grows faster than the text."""
    check = _check(found)
    before: list[float] = []
    size_before = SIZES[0]
    for size in SIZES:
        taken: list[float] = []
        slowest = sorted(range(len(before)), key=before.__getitem__)[-LONGEST_TEXTS:]
        for number, text in enumerate(hostile_texts(found.pattern, size)):
            if size == SIZES[-1] and number not in slowest:
                continue
            seconds = _seconds(check, text)
            limit = MAX_GROWTH * size / size_before * max(FLOOR_SECONDS, before[number] if before else 0)
            if before and seconds > limit and min(_seconds(check, text), _seconds(check, text)) > limit:
                return f"{before[number]:.3f} s, then {seconds:.3f} s for {size} characters like {text[:10]!r}"
            taken.append(seconds)
        before, size_before = taken, size
    return None


def _check(found: Found) -> Callable[[str], object]:
    if found.use == "pydantic":
        adapter: TypeAdapter[str] = TypeAdapter(Annotated[str, Field(pattern=found.pattern)])
        return lambda text: _is_valid(adapter, text)
    compiled = re.compile(found.pattern, found.flags)
    if found.use == "whole":
        return lambda text: (compiled.match(text), compiled.fullmatch(text))
    return lambda text: compiled.sub("", text)


def _is_valid(adapter: TypeAdapter[str], text: str) -> bool:
    try:
        adapter.validate_python(text)
    except ValidationError:
        return False
    return True


def _seconds(check: Callable[[str], object], text: str) -> float:
    began = time.process_time()
    check(text)
    return time.process_time() - began


def main() -> None:
    """Print the patterns that are slow or can't be read, and how many were tried: of the source, or the given ones."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    if len(sys.argv) > 1:
        patterns, unread = {Found(pattern, re.IGNORECASE, "parts"): "given" for pattern in sys.argv[1:]}, list[str]()
    else:
        patterns, unread = find_patterns()
    for location in unread:
        _print(f"{location}: a pattern that can't be read: compile it in the module")
    for found, location in patterns.items():
        slow = growth(found)
        if slow:
            _print(f"{location}: {found.pattern!r}: {slow}")
    _print(f"{len(patterns)} patterns")


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
