"""The way of a request to the model stays short: `make walk` counts its modules."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_CHAIN = re.compile(r"The call chain to the model has (\d+) modules: api/middleware\.py, (.*)\. It enters none again")
_TASK_CHAIN = re.compile(r"After the approval, .* has (\d+) modules: (.*)\. It enters none again")
_SPACE = re.compile(r"(\d+) methods of WorkerSpace")


@pytest.mark.timeout(120)
def test_messages_and_plans_reach_the_model_through_few_modules() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "walk.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout

    direct, plan = _CHAIN.findall(printed)
    assert int(direct[0]) <= 12, printed
    assert int(plan[0]) <= 25, printed
    assert "runs/agent_run.py" in direct[1], printed
    assert "plans/planner.py" in plan[1], printed
    [(task_count, task_modules)] = _TASK_CHAIN.findall(printed)
    assert int(task_count) <= 25, printed
    assert "plans/plan_run.py" in task_modules, printed
    assert int(_SPACE.findall(printed)[0]) <= 2, printed
