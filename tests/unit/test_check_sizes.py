"""The lint of sizes finds long functions and files."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
LONG = "def total():\n" + "    pass\n" * 60


@pytest.fixture(scope="module")
def lint() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_sizes", ROOT / "scripts" / "check_sizes.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("source", "name", "count"),
    [
        (LONG, "tests/test_a.py", 1),
        (LONG.removesuffix("    pass\n"), "tests/test_a.py", 0),
        ("\n" * 601, "src/artel/a.py", 1),
        ("\n" * 600, "src/artel/a.py", 0),
        ("\n" * 601, "tests/test_a.py", 0),
        (LONG, "src/artel/db/migrations/versions/0001_foundation.py", 1),
    ],
)
def test_long_functions_and_files_are_reported(lint: ModuleType, source: str, name: str, count: int) -> None:
    assert len(list(lint.complaints(source, name))) == count
