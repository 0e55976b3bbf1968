"""The way of a request to the model stays short: `make walk` counts its modules."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_CHAIN = re.compile(r"The call chain to the model has (\d+) modules: api/middleware\.py, .*enters none again")
_SPACE = re.compile(r"(\d+) methods of WorkerSpace")


@pytest.mark.timeout(120)
def test_messages_and_plans_reach_the_model_through_few_modules() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "walk.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout

    direct, plan = (int(count) for count in _CHAIN.findall(printed))
    assert direct <= 12, printed
    assert plan <= 25, printed
    assert int(_SPACE.findall(printed)[0]) <= 2, printed
