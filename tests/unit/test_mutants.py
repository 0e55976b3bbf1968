"""The faults of `make mutants` fit today's code."""

from pathlib import Path

import pytest

from tests.mutants import Mutant, load_mutants
from tests.requirements import known_requirements

ROOT = Path(__file__).parents[2]
MUTANTS = load_mutants()


def test_every_package_has_a_fault() -> None:
    packages = {path.parent.name for path in (ROOT / "src" / "artel").glob("*/__init__.py")}

    assert packages - {Path(mutant.file).parts[2] for mutant in MUTANTS if mutant.file.startswith("src/")} == set()
    assert len(MUTANTS) >= 60


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.source}:{mutant.why}")
def test_a_fault_changes_one_place_and_breaks_a_known_promise(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text(encoding="utf-8")

    assert source.count(mutant.find) == 1, "its text must occur once in the file"
    assert mutant.replace != mutant.find
    assert mutant.breaks
    assert mutant.database in ("sqlite", "postgres")
    assert set(mutant.breaks) <= set(known_requirements(ROOT))
    changed = source.replace(mutant.find, mutant.replace)
    if mutant.file.endswith(".py"):
        compile(changed, mutant.file, "exec")
