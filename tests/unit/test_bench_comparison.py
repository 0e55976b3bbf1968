"""How `make bench` compares a run with earlier ones, and what it keeps of them."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.comparison import changes, summary
from bench.figure import Figure
from bench.peers.results import PeerFigures, PeerRun, publish_peers, published_peers
from bench.plot import plot_ratios
from bench.report import PEERS_BEGIN, PEERS_END, write_peers, write_report
from bench.results import MAX_RUNS, Run, earlier_runs, keep, publish

CALL = Figure("calls", "a call", 10.0, "ms", baseline=1.0)
RATE = Figure("calls", "calls", 100.0, "per second", 50.0, "at least")
ERRORS = Figure("calls", "errors", 0.0, "", 0.0, "at most")


def run(*figures: Figure, day: int = 1, code: str = "c0de", machine: str = "2 cores") -> Run:
    return Run(f"2026-11-{day:02}T12:00:00+00:00", machine, code, 5.0, 1.0, figures)


def is_worse(now: Figure, *earlier: Run) -> bool:
    return changes([now], earlier)[now.name].is_worse


@pytest.mark.parametrize(
    ("before", "now", "worse", "cell"),
    [
        (CALL, 10.9, False, "+9 %"),
        (CALL, 11.2, True, "+12 % WORSE"),
        (CALL, 5.0, False, "-50 %"),
        (RATE, 91.0, False, "-9 %"),
        (RATE, 88.0, True, "-12 % WORSE"),
        (RATE, 150.0, False, "+50 %"),
        (ERRORS, 0.0, False, "was 0"),
        (ERRORS, 1.0, True, "was 0 WORSE"),
    ],
)
def test_figure_is_marked_if_it_lost_more_than_ten_percent(before: Figure, now: float, worse: bool, cell: str) -> None:
    change = changes([replace(before, measured=now)], [run(before)])[before.name]

    assert (change.is_worse, change.cell) == (worse, cell)


def test_spread_of_runs_of_the_same_code_is_noise() -> None:
    slower = replace(CALL, measured=12.0)

    assert is_worse(slower, run(CALL))
    assert not is_worse(slower, run(replace(CALL, measured=11.5), day=1), run(CALL, day=2))
    assert is_worse(slower, run(replace(CALL, measured=11.5), day=1, code="0ther"), run(CALL, day=2))


def test_change_of_the_bare_handler_is_noise() -> None:
    assert not is_worse(replace(CALL, measured=12.0, baseline=1.2), run(CALL))
    assert is_worse(replace(CALL, measured=14.0, baseline=1.2), run(CALL))


def test_figure_is_compared_with_the_last_run_that_measured_it() -> None:
    earlier = [run(CALL, day=1), run(replace(CALL, measured=20.0), day=2), run(replace(CALL, measured=None), day=3)]
    unknown = Figure("calls", "new", 1.0, "ms")

    compared = changes([CALL, unknown, replace(RATE, measured=None)], earlier)

    assert [compared[name].percent for name in compared] == [-50.0]


def test_summary_names_what_is_worse_and_the_previous_run() -> None:
    earlier = [run(CALL, RATE, day=1), run(RATE, day=2)]
    figures = [replace(CALL, measured=30.0), RATE]

    text = summary(figures, changes(figures, earlier), earlier)

    assert "2026-11-02 12:00 UTC" in text
    assert "1 of 2 figures are worse by more than 10 % beyond the noise: a call." in text
    assert "no figure is worse" in summary([RATE], changes([RATE], earlier), earlier)
    assert "no previous run" in summary([CALL], changes([CALL], []), [])


def test_runs_are_kept_in_the_build_folder_and_compared_on_such_a_machine(tmp_path: Path) -> None:
    history, published = tmp_path / "build" / "runs.json", tmp_path / "results" / "figures.json"
    assert earlier_runs("2 cores", history, published) == []
    both, other = run(CALL, RATE, day=9), run(CALL, day=9, machine="64 cores")
    for kept in (both, other):
        keep(kept, history)
    publish(both, published)
    assert earlier_runs("2 cores", history, published) == [both]
    publish(run(RATE, day=3), published)
    assert earlier_runs("2 cores", history, published) == [run(RATE, day=3), both]

    for day in range(1, MAX_RUNS):
        keep(run(CALL, day=day), history)

    assert both not in earlier_runs("2 cores", history, published)
    assert len(earlier_runs("2 cores", history, published)) == MAX_RUNS


def test_chart_of_ratios_shows_each_figure_with_a_baseline_and_its_previous_ratio() -> None:
    figures = [
        CALL,
        replace(CALL, name="huge", measured=1e6),
        replace(CALL, name="equal", measured=1.0),
        replace(RATE, baseline=1000.0),
        Figure("calls", "without", 1.0, "ms"),
    ]

    picture = ElementTree.fromstring(plot_ratios(figures, {"a call": 100.0}))  # noqa: S314 - our own

    svg = "{http://www.w3.org/2000/svg}"
    widths = [float(bar.get("width", 0)) for bar in picture.iter(f"{svg}rect")]
    previous = [line.get("x1") for line in picture.iter(f"{svg}line") if line.get("class") == "before"]
    assert widths == [150.0, 300.0, 2.0, 150.0]  # 10, more than 100, 1, and a tenth of the throughput
    assert len(previous) == 1
    assert "prefers-color-scheme: dark" in (picture.findtext(f"{svg}style") or "")


def test_peers_are_replaced_on_the_page_and_the_rest_stays(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    write_report(run(CALL), changes([CALL], [run(CALL)]), "No figure is worse.", tmp_path)
    page = tmp_path / "benchmarks.md"
    before = page.read_text()
    peers = PeerRun("2026-11-19T18:00:00+00:00", "2 cores", 4.0, (PeerFigures("Peer 1.0", 8.1, 8.9, 133, 357, 158),))
    publish_peers(peers, tmp_path / "peers.json")

    write_peers(published_peers(tmp_path / "peers.json") or pytest.fail("not stored"), page)

    outside, _, rest = page.read_text().partition(PEERS_BEGIN)
    part, _, end = rest.partition(PEERS_END)
    assert (outside, end) == (before.partition(PEERS_BEGIN)[0], before.partition(PEERS_END)[2])
    assert "| Peer 1.0 | 8.10 ms | 8.90 ms | 133 | 357 ms | 158 MB |" in part
    assert "19 November 2026" in part
    assert "load 4.0" in part
    assert "| a call | 10 ms |  |  | 1 ms | 10 | +0 % |  |" in before
    assert "images/benchmarks-ratio.svg" in before
    assert (tmp_path / "images" / "benchmarks-ratio.svg").exists()
