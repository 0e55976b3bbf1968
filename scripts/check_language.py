"""Check that docstrings and names are plain English: no "Answer …" for "Return …", no pronoun-like names.

A variable with such a name may be used within three lines, in a comprehension or a short loop; a function, a class and
an attribute may not have it. No two modules define a public class of the same name.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "bench", "scripts")
FIRST_WORDS = {"Answer": "Return", "Answers": "Return", "Say": "Return whether, or Print", "Tell": "Return, or Print"}
VAGUE_NAMES = frozenset({"asked", "told", "said", "kept", "known", "place", "one"})
MAX_LINES = 3
# Of functions, classes and attributes too, without underscores; tests have stories of their own.
RIDDLES = VAGUE_NAMES | {
    "away",
    "decide_asked",
    "elsewhere",
    "is_untold",
    "let_go",
    "look_around",
    "meanwhile",
    "patiently",
    "untold",
    "went_wrong",
    "what",
    "while_space_is_there",
}
RIDDLE_FOLDERS = ("src/", "bench/", "scripts/")
ALLOWED_RIDDLES = frozenset(
    {
        ("src/artel/db/rows.py", "one"),  # as SQLAlchemy's Result.one()
        ("src/artel/contract/spaces.py", "what"),  # a field of the API
    }
)
WORDS = {
    "whosever": "whose",
    "dearer": "more expensive",
    "heeded": "followed",
    "purse": "budget guard",
    "beside the ideal": "relative to the ideal",
}
_WORDS = re.compile(r"\b(" + "|".join(WORDS) + r")\b", re.IGNORECASE)


def complaints(source: str, name: str) -> Iterator[str]:
    """Yield the language errors of a module, each with its line."""
    for node in ast.walk(ast.parse(source)):
        yield from (f"{name}:{_line_of(node)}: {complaint}" for complaint in _vague_docstring(node))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (f"{name}:{complaint}" for complaint in _vague_variables(node))
        if name.startswith(RIDDLE_FOLDERS):
            for riddle in _riddles(node):
                if (name, riddle) not in ALLOWED_RIDDLES:
                    yield f"{name}:{_line_of(node)}: `{riddle}` is a riddle: name what it is, or what it does"
    for number, line in enumerate(source.splitlines(), 1):
        for found in _WORDS.finditer(line):
            yield f"{name}:{number}: {found[0]!r}: write {WORDS[found[0].lower()]!r}"


def repeated_classes(modules: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the public classes that more than one module defines; a module is its name and its source."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, source in modules:
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{name}:{node.lineno}")
    for class_name, found in places.items():
        if len(found) > 1:
            yield f"{found[-1]}: class {class_name} is also in {', '.join(found[:-1])}: name each after what it is"


def _line_of(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)


def _vague_docstring(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        words = (ast.get_docstring(node) or "").split()
        first = words[0].strip(".,:") if words else ""
        if first in FIRST_WORDS:
            yield f"a docstring begins with {first!r}: write {FIRST_WORDS[first]!r}"


def _riddles(node: ast.AST) -> Iterator[str]:
    """Yield the riddles among the names that a node gives to functions, classes and attributes."""
    yield from (name for name in _names_of(node) if name.strip("_").lower() in RIDDLES)


def _names_of(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node gives to functions, classes and attributes."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield node.name
        case ast.ClassDef():
            yield node.name
            yield from (
                field.target.id
                for field in node.body
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            )
        case ast.Attribute(attr=attribute, ctx=ast.Store()):
            yield attribute


def _vague_variables(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield the variables with a vague name that a function uses over more than three lines."""
    lines: dict[str, list[int]] = {}
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if argument.arg in VAGUE_NAMES:
            lines.setdefault(argument.arg, []).append(argument.lineno)
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in VAGUE_NAMES:
            lines.setdefault(node.id, []).append(node.lineno)
    for variable, numbers in lines.items():
        if max(numbers) - min(numbers) >= MAX_LINES:
            yield f"{min(numbers)}: `{variable}` is used over {max(numbers) - min(numbers) + 1} lines: name what it is"


def main() -> int:
    """Print all errors; return the exit code."""
    modules = [
        (str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name != "check_language.py"
    ]
    found = [complaint for name, source in modules for complaint in complaints(source, name)]
    found += repeated_classes(module for module in modules if module[0].startswith("src/artel/"))
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
