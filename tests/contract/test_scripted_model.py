"""The scripted model server, as other tests and the benchmarks use it."""

import json
import subprocess
import sys
from typing import Any

import httpx
import pytest

from tests.actors.model_caller import SOON
from tests.model_server import ModelServer, Say

pytestmark = pytest.mark.anyio


def completion_of(url: str) -> Any:
    body = {"model": "gpt-4", "messages": [{"role": "user", "content": "Hello there"}]}
    return httpx.post(f"{url}/chat/completions", json=body, timeout=SOON).json()["choices"][0]["message"]["content"]


def test_the_scripted_server_runs_in_a_thread() -> None:
    with ModelServer().running_in_thread() as models:
        models.script(Say("First."))

        assert [completion_of(models.url), completion_of(models.url)] == ["First.", "You said: Hello there"]
    assert len(models.asked) == 2


def test_the_scripted_server_runs_in_a_process() -> None:
    command = [sys.executable, "-m", "tests.model_server", "--port", "0", "--words", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        url = json.loads(process.stdout.readline())["url"]
        assert completion_of(url) == "word word word"
        [received] = httpx.get(url.replace("/v1", "/asked"), timeout=SOON).json()
        process.terminate()

    assert (received["model"], received["text"]) == ("gpt-4", "Hello there")
    assert process.returncode == 0
