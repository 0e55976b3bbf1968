"""Print, for every requirement, the tests or the benchmark that prove it, and whether they passed in the last run."""

import importlib.util
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.depth import IS_DEEP  # noqa: E402 - found only after the line above
from tests.requirements import REPORT, benchmark_outcomes, known_requirements  # noqa: E402 - found only after the line above


def left_out() -> list[str]:
    """Return what this run did not try, and how to try it."""
    missing = []
    if not os.environ.get("ARTEL_TEST_QDRANT_URL"):
        missing.append("a Qdrant server: set ARTEL_TEST_QDRANT_URL (Qdrant's engine in the process did run)")
    if importlib.util.find_spec("chromadb") is None:
        missing.append("Chroma: make test-chroma")
    if not IS_DEEP:
        missing.append("the full form of what is slow by nature: make test-deep")
    return missing or ["nothing"]


def main() -> int:
    """Print the list; fail when a test that carries an id has failed."""
    tests: dict[str, dict[str, str]] = json.loads((ROOT / REPORT).read_text())
    for requirement, outcomes in benchmark_outcomes((ROOT / "docs" / "benchmarks.md").read_text()).items():
        tests.setdefault(requirement, {}).update(outcomes)
    requirements = known_requirements(ROOT)
    failed = 0
    for requirement in requirements:
        carriers = tests.get(requirement, {})
        passed = bool(carriers) and set(carriers.values()) == {"passed"}
        failed += bool(carriers) and not passed
        print(f"{'passed' if passed else 'FAILED' if carriers else '-':7} {requirement}")
        for test, outcome in sorted(carriers.items()):
            print(f"          {outcome:7} {test}")
    proved = sum(1 for requirement in requirements if requirement in tests) - failed
    print(f"\n{proved} of {len(requirements)} requirements have tests that pass, {failed} have tests that fail.")
    print("\nNot run here:", *left_out(), sep="\n- ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
