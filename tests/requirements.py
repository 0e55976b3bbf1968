"""Requirement ids and the tests that prove them (for `make conformance`)."""

import json
import re
from pathlib import Path

import pytest

REPORT = Path("build") / "conformance.json"
_LINE = re.compile(r"^- ([A-Z]{3}-\d+\.\d+) (.+)$", re.MULTILINE)


def known_requirements(root: Path) -> dict[str, str]:
    """Return the requirements by id."""
    return dict(_LINE.findall((root / "docs" / "requirements.md").read_text(encoding="utf-8")))


# Requirements about time are measured by `make bench`, because tests may run on a busy machine. Values: figure names.
BENCHMARKS = {
    "CHT-02.2": "request to model call, 64 clients, P95",
    "CHT-02.3": "request to answer, 1 s model delay, 16 clients, P95",
    "UWS-19.1": "memory search, 100,000 memories, with embedding, P95",
}


def benchmark_outcomes(page: str, code: str) -> dict[str, dict[str, str]]:
    """Return the figures of docs/benchmarks.md, and whether they meet their targets, by requirement id.

    A page about other code than `code`, the hash of the source, verifies nothing.
    """
    measured_code = re.search(r"^<!-- .* Measured source: (\w+) -->$", page, re.MULTILINE)
    is_current = measured_code is not None and measured_code[1] == code
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    figures = {row[0]: row[1:4] for row in rows if len(row) >= 4}
    outcomes = {}
    for requirement, name in BENCHMARKS.items():
        measured, target, verdict = figures.get(name, ["-", "", "not measured"])
        outcome = "passed" if verdict == "met" and is_current else "failed"
        facts = f"{target or 'no target'}, {verdict}{'' if is_current else ', measured on other code'}"
        outcomes[requirement] = {f"make bench: {name}: {measured} ({facts})": outcome}
    return outcomes


class RequirementReport:
    """Collects the outcome of every test with a requirement id."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tests: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for kind, requirement in report.user_properties:
            if kind == "req" and (report.when == "call" or report.failed):
                self._tests.setdefault(str(requirement), {})[report.nodeid] = report.outcome

    def pytest_sessionfinish(self) -> None:
        path = self._root / REPORT
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(self._tests, indent=2, sort_keys=True))


class RequirementIndex:
    """Writes the tests of each id, for `make mutants`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        tests: dict[str, list[str]] = {}
        for item in session.items:
            for requirement in {name for marker in item.iter_markers("req") for name in marker.args}:
                tests.setdefault(requirement, []).append(item.nodeid)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(tests, indent=2, sort_keys=True))


def mark_properties(items: list[pytest.Item], root: Path) -> None:
    """Add the ids of each test to its reports; raise UsageError for unknown ids."""
    requirements = known_requirements(root)
    for item in items:
        for marker in item.iter_markers("req"):
            for requirement in marker.args:
                if requirement not in requirements:
                    raise pytest.UsageError(f"{item.nodeid} names {requirement}, which docs/requirements.md lacks")
                item.user_properties.append(("req", requirement))
