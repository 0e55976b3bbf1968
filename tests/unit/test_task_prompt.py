"""What an agent is told for a task fits into what it may be sent, in whatever language others have written."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from artel.brain.tokens import count_tokens
from artel.plans.task_run import task_text
from tests.plan_tasks import completed_task

LETTERS = {
    "chinese": [chr(code) for code in range(0x4E00, 0x9000)],
    "numbers": list("0123456789abcdef"),
    "english": ["result ", "of ", "the ", "study ", "is "],
    "lines": ["\n", '"', "\\"],
}


def written(kind: str, characters: int) -> str:
    chosen = random.Random(7)
    return "".join(chosen.choice(LETTERS[kind]) for _ in range(characters))[:characters]


@pytest.mark.req("AGT-03.2")
@pytest.mark.parametrize("kind", LETTERS)
@pytest.mark.parametrize("many", [1, 3, 19])
@pytest.mark.parametrize("tokens", [1_500, 5_000])
def test_task_prompt_stays_within_token_limit(kind: str, many: int, tokens: int) -> None:
    description = "" if kind == "lines" else written(kind, 2_000)
    needed = [completed_task(str(number), written(kind, 5_000), description) for number in range(many)]

    text = task_text(completed_task("d"), written(kind, 6_000), "Shortly.", needed, tokens)

    assert count_tokens(text) <= tokens
    assert text.startswith("Do d.")
    assert "Shortly." in text
    assert text.count('"agent": "agent_coder"') == many


def test_task_prompt_uses_available_room_and_keeps_short_results_whole() -> None:
    long, short = written("chinese", 3_000), written("chinese", 300)

    text = task_text(
        completed_task("d"),
        "Put it together.",
        "",
        [completed_task("a", long), completed_task("b", short), completed_task("c", long)],
        4_000,
    )

    assert 3_200 < count_tokens(text) <= 4_000
    assert short in text
    assert text.count("characters were left out here") == 2


def test_results_that_fit_are_not_shortened() -> None:
    result = written("chinese", 1_000)

    text = task_text(
        completed_task("d"), "Put it together.", "", [completed_task("a", result), completed_task("b", result)], 6_000
    )

    assert text.count(result) == 2
    assert "left out" not in text


SHORT_TEXTS = """
from artel.brain.tokens import is_ready
from artel.plans.merge import _results
from artel.plans.task_run import task_text
from tests.plan_tasks import completed_task

tasks = [completed_task(str(number), "Found it.") for number in range(20)]
assert "Found it." in task_text(completed_task("d"), "Look.", "", tasks, 10_000, "gpt-4o")
assert _results(tasks, "Look.", ["gpt-4o", "gpt-4"]).count("Found it.") == 20
assert not is_ready("gpt-4o") and not is_ready("gpt-4")
"""


@pytest.mark.req("AGT-03.2")
def test_texts_that_fit_in_bytes_load_no_vocabulary() -> None:
    root = Path(__file__).parents[2]

    subprocess.run([sys.executable, "-c", SHORT_TEXTS], check=True, cwd=root, timeout=120)
