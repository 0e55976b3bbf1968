"""Check that docstrings and names are plain English: no "Answer …" for "Return …", no pronoun-like variables.

A variable with such a name may be used within three lines, in a comprehension or a short loop. No two modules define
a public class of the same name.
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
# Names that two classes may have.
SHARED_CLASS_NAMES = frozenset(
    {
        # Of nodes and of the registry: being renamed there.
        "AddressTaken",
        "Node",
        "NodeTask",
        "NodeTools",
        "Registration",
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


def repeated_classes(modules: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the public classes that more than one module defines; a module is its name and its source."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, source in modules:
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{name}:{node.lineno}")
    for class_name, found in places.items():
        if len(found) > 1 and class_name not in SHARED_CLASS_NAMES:
            yield f"{found[-1]}: class {class_name} is also in {', '.join(found[:-1])}: name each after what it is"


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
