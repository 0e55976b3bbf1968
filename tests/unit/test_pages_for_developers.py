"""The files, functions and classes that pages for developers name exist; the code map names every package."""

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "artel"
PAGE = ROOT / "docs" / "architecture.md"
PAGES = [PAGE, ROOT / "docs" / "how-to" / "extend-the-server.md", ROOT / "docs" / "glossary.md"]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
HINT = "Correct the page; for the generated tables run: make walk ARGS=--write"
_CODE = re.compile(r"`([^`]+)`")
_FILE = re.compile(r"^[a-z_/]+\.py$")
_NAME = re.compile(r"^(?!.*\.(?:py|md|js)$)_*[A-Za-z]\w*(\.\w+)*$")
_METHOD = re.compile(r"^[A-Z]\w*\.\w+$")
_CLASS = re.compile(r"^(?:[A-Z][a-z]+){2,}$")
_FOLDER = re.compile(r"^[a-z_]+(?:/\w+)*/$")
_DIAGRAM = re.compile(r"```mermaid\n(.+?)```", re.DOTALL)
_SECTION = re.compile(r"(?m)^(?=\d+\. |#+ |\| |- )|\n\n")


def test_every_package_is_in_the_code_map() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}

    assert set(re.findall(r"^\| `([a-z_]+)/` \|", PAGE.read_text(), re.MULTILINE)) == packages


def test_every_module_outside_packages_is_below_the_code_map() -> None:
    modules = {path.name for path in SOURCE.glob("*.py") if not path.name.startswith("__")}

    assert modules - set(re.findall(r"`([a-z_]+\.py)`", PAGE.read_text().partition("## Objects")[0])) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_and_functions_in_the_text_exist(page: Path) -> None:
    missing = []
    for section in _SECTION.split(_DIAGRAM.sub("", page.read_text())):
        words = _CODE.findall(section)
        files = [word for word in words if _FILE.match(word)]
        folders = [word for word in words if _FOLDER.match(word)]
        missing += [path for path in files + folders if not ((SOURCE / path).exists() or (ROOT / path).exists())]
        if files:
            names = _NAME if page == PAGE else _METHOD  # other pages also have names of fields in requests
            missing += [word for word in words if names.match(word) and not _is_defined(word, files)]

    assert missing == [], HINT


@pytest.mark.parametrize("page", [*PAGES, *DECISIONS], ids=lambda page: page.stem)
def test_classes_in_the_text_exist(page: Path) -> None:
    named = {word for word in _CODE.findall(page.read_text()) if _CLASS.match(word)}
    defined = {name for file in SOURCE.rglob("*.py") for name in _names(str(file.relative_to(SOURCE)))}

    assert named - defined - set(dir(builtins)) - {"SameSite", "HttpOnly"} == set()


def test_files_and_functions_in_the_diagrams_exist() -> None:
    diagrams = _DIAGRAM.findall(PAGE.read_text())
    assert len(diagrams) == 4
    for diagram in diagrams:
        files = re.findall(r"\b[a-z_]+(?:/[a-z_]+)*\.py\b", diagram)
        functions = re.findall(r"\b((?:\w+\.)?\w+)\(\)", diagram)

        assert [file for file in files if not (SOURCE / file).exists()] == []
        assert [name for name in functions if not _is_defined(name, files)] == [], HINT


def test_page_has_twenty_questions() -> None:
    table = PAGE.read_text().partition("## Twenty questions")[2]

    assert len(re.findall(r"^\| [A-Z].*\? \|", table, re.MULTILINE)) == 20


def test_walk_leaves_out_functions_that_exist() -> None:
    names = re.findall(r'"artel\.([\w.]+):([\w.]+)"', (ROOT / "scripts" / "walk.py").read_text())
    assert names
    for module, function in names:
        assert _is_defined(function, [f"{module.replace('.', '/')}.py"]), (module, function)


def _is_defined(name: str, files: list[str]) -> bool:
    return any(name in _names(file) for file in files if (SOURCE / file).exists())


@cache
def _names(file: str) -> frozenset[str]:
    return frozenset(_defined(ast.parse((SOURCE / file).read_text()).body, ""))


def _defined(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    """Yield the names of functions, classes, constants and fields, those of classes with the name of the class."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from _defined(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))
