"""The lint of the language finds riddles and repeated class names."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def lint() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_language", ROOT / "scripts" / "check_language.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "code",
    [
        "def said(): ...",
        "async def _patiently(): ...",
        "class Told: ...",
        "class Entry:\n    what: str",
        "class Entry:\n    def __init__(self) -> None:\n        self._kept = 1",
        'def total():\n    """Answer the sum."""',
    ],
)
def test_riddle_is_reported_once(lint: ModuleType, code: str) -> None:
    assert len(list(lint.complaints(code, "src/artel/module.py"))) == 1


def test_plain_names_are_accepted(lint: ModuleType) -> None:
    code = "class Entry:\n    text: str\n\n    def show(self) -> str:\n        return self.text\n"

    assert list(lint.complaints(code, "src/artel/module.py")) == []


def test_class_name_of_two_modules_is_reported(lint: ModuleType) -> None:
    modules = [("a.py", "class Price: ...\nclass _Row: ..."), ("b.py", "class Price: ...\nclass _Row: ...")]

    [complaint] = lint.repeated_classes(modules)

    assert "Price" in complaint
