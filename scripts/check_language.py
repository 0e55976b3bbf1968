"""Check that docstrings and names are plain English: no "Answer …" for "Return …", no pronoun-like variables.

A variable with such a name may be used within three lines, in a comprehension or a short loop.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "bench", "scripts")
FIRST_WORDS = {"Answer": "Return", "Answers": "Return", "Say": "Return whether, or Print", "Tell": "Return, or Print"}
VAGUE_NAMES = frozenset({"asked", "told", "said", "kept", "known", "place", "one"})
MAX_LINES = 3
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
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            first = text.split()[0].strip(".,:") if text and text.split() else ""
            if first in FIRST_WORDS:
                yield f"{name}:{_line_of(node)}: a docstring begins with {first!r}: write {FIRST_WORDS[first]!r}"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (f"{name}:{complaint}" for complaint in _vague_variables(node))
    for number, line in enumerate(source.splitlines(), 1):
        for found in _WORDS.finditer(line):
            yield f"{name}:{number}: {found[0]!r}: write {WORDS[found[0].lower()]!r}"


def _line_of(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)


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
    found = [
        complaint
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name != "check_language.py"
        for complaint in complaints(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    ]
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
