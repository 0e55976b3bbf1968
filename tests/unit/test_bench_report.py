"""What the report of `make bench` says of a figure."""

import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.figure import Figure, number, percentile
from bench.plot import plot
from bench.report import HEADINGS
from bench.results import code_hash
from tests.requirements import BENCHMARKS, benchmark_outcomes


@pytest.mark.parametrize(
    ("measured", "bound", "target", "verdict"),
    [
        (6.9, "under", 7, "met"),
        (7.0, "under", 7, "missed"),
        (150, "at least", 150, "met"),
        (149, "at least", 150, "missed"),
        (0, "at most", 0, "met"),
        (1, "at most", 0, "missed"),
        (None, "under", 7, "not measured"),
        (5, "under", None, ""),
    ],
)
def test_a_target_is_met_or_missed_or_was_not_measured(
    measured: float | None, bound: str, target: float | None, verdict: str
) -> None:
    figure = Figure("calls", "a call", measured, "ms", target, bound)  # type: ignore[arg-type]

    assert figure.verdict == verdict
    assert figure.cells()[3] == verdict


def test_the_plot_shows_every_target_and_those_that_were_missed() -> None:
    figures = [
        Figure("calls", "fast & good", 1, "ms", 7),
        Figure("calls", "slow", 70, "ms", 7),
        Figure("calls", "few", 0, "per second", 150, "at least"),
        Figure("calls", "unknown", None, "ms", 7),
        Figure("calls", "no target", 1, "ms"),
    ]

    picture = ElementTree.fromstring(plot(figures))  # noqa: S314 - our own

    bars = [bar.get("class") for bar in picture.iter("{http://www.w3.org/2000/svg}rect")]
    assert bars == ["met", "missed", "missed", "missed"]


def test_numbers_have_the_digits_that_mean_something() -> None:
    assert [number(value) for value in (0, 0.123, 5.678, 12.34, 150, 2876.5)] == [
        "0", "0.12", "5.68", "12.3", "150", "2,876",
    ]  # fmt: skip
    assert percentile([float(n) for n in range(1, 101)], 0.95) == 95


def test_promises_about_time_are_proved_by_the_page_of_benchmarks() -> None:
    name = BENCHMARKS["UWS-19.1"]

    def outcome(*figures: Figure, code: str = "c0de", measured_code: str = " Measured source: c0de") -> str:
        lines = [HEADINGS, *(figure.cells() for figure in figures)]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        page = f"<!-- Written by `make bench`.{measured_code} -->\n{table}"
        [(text, passed)] = benchmark_outcomes(page, code)["UWS-19.1"].items()
        assert name in text
        assert ("measured on other code" in text) == (code not in measured_code)
        return passed

    assert outcome(Figure("memory", "another", 70, "ms", 50), Figure("memory", name, 17, "ms", 50)) == "passed"
    assert outcome(Figure("memory", name, 70, "ms", 50)) == "failed"
    assert outcome(Figure("memory", name, None, "ms", 50)) == "failed"
    assert outcome(Figure("memory", "another", 17, "ms", 50)) == "failed"
    met = Figure("memory", name, 17, "ms", 50)
    assert outcome(met, code="0ther") == outcome(met, measured_code="") == "failed"


def test_hash_of_the_code_changes_with_names_and_contents_of_known_files(tmp_path: Path) -> None:
    package = tmp_path / "src" / "artel"
    package.mkdir(parents=True)
    (package / "turn.py").write_text("a = 1\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    first = code_hash(tmp_path)
    (package / "unknown.py").write_text("not added")
    (tmp_path / "README.md").write_text("not measured")
    assert code_hash(tmp_path) == first

    (package / "turn.py").write_text("a = 2\n")
    changed = code_hash(tmp_path)
    subprocess.run(["git", "mv", "src/artel/turn.py", "src/artel/plan.py"], cwd=tmp_path, check=True)

    assert len({first, changed, code_hash(tmp_path)}) == 3
