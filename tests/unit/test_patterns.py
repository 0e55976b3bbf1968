"""No regular expression takes more than linear time, whatever text it is given."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _slow_patterns(*patterns: str) -> list[str]:
    command = [sys.executable, "-m", "tests.hostile_patterns", *patterns]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False)
    assert run.returncode == 0, f"{run.stdout}{run.stderr}"
    *slow, count = run.stdout.splitlines()
    assert int(count.removesuffix(" patterns")) >= (len(patterns) or 80)
    return slow


@pytest.mark.req("SEC-02.1")
def test_every_pattern_of_the_source_takes_linear_time_on_hostile_text() -> None:
    assert _slow_patterns() == []


@pytest.mark.req("SEC-02.1")
def test_the_measurement_finds_quadratic_patterns_and_leaves_linear_ones() -> None:
    quadratic = r"(?<=://)[^\s]+(?=@)", r"[;,.]?\s*\bthen\b", r"^[^\x00]*[^\s\x00][^\x00]*$"

    slow = _slow_patterns(*quadratic, r"\bthen\b")

    assert [line.split(": ")[1] for line in slow] == [repr(pattern) for pattern in quadratic]
