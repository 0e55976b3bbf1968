"""Check that no function is longer than 60 lines, and no file of `src` longer than 600."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "scripts", "bench")
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 600


def complaints(source: str, name: str) -> Iterator[str]:
    """Yield what is too long in a module."""
    count = len(source.splitlines())
    if name.startswith("src/") and count > MAX_FILE_LINES:
        yield f"{name}: {count} lines: split the module at {MAX_FILE_LINES}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            lines = node.end_lineno - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{name}:{node.lineno}: {node.name} has {lines} lines: split it at {MAX_FUNCTION_LINES}"


def main() -> int:
    """Print all errors; return the exit code."""
    found = [
        complaint
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for complaint in complaints(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())
    ]
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
