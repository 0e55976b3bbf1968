"""Print for every requirement the tests or the benchmark that verify it, and whether they passed in the last run."""

import importlib.util
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.results import code_hash  # noqa: E402 - needs sys.path from the line above
from tests.depth import IS_DEEP  # noqa: E402 - needs sys.path from the line above
from tests.requirements import REPORT, benchmark_outcomes, known_requirements  # noqa: E402 - needs sys.path from the line above


def not_run() -> list[str]:
    """Return what this run did not test, and how to test it."""
    missing = []
    if not os.environ.get("ARTEL_TEST_QDRANT_URL"):
        missing.append("a Qdrant server: set ARTEL_TEST_QDRANT_URL (the embedded Qdrant engine was tested)")
    if importlib.util.find_spec("chromadb") is None:
        missing.append("Chroma: make test-chroma")
    if not IS_DEEP:
        missing.append("the full form of slow tests: make test-deep")
    return missing or ["nothing"]


def main() -> int:
    """Print the list; return 1 if a test with a requirement id has failed."""
    tests: dict[str, dict[str, str]] = json.loads((ROOT / REPORT).read_text())
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    for requirement, outcomes in benchmark_outcomes(page, code_hash(ROOT)).items():
        tests.setdefault(requirement, {}).update(outcomes)
    requirements = known_requirements(ROOT)
    failed = 0
    for requirement in requirements:
        outcomes_by_test = tests.get(requirement, {})
        passed = bool(outcomes_by_test) and set(outcomes_by_test.values()) == {"passed"}
        failed += bool(outcomes_by_test) and not passed
        print(f"{'passed' if passed else 'FAILED' if outcomes_by_test else '-':7} {requirement}")
        for test, outcome in sorted(outcomes_by_test.items()):
            print(f"          {outcome:7} {test}")
    verified = sum(1 for requirement in requirements if requirement in tests) - failed
    print(f"\n{verified} of {len(requirements)} requirements have tests that pass, {failed} have tests that fail.")
    print("\nNot run here:", *not_run(), sep="\n- ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
