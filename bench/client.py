"""The load generator, a separate process: `python -m bench.client TASK` reads arguments from stdin, prints results."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlencode

import uvloop

from bench.connection import Connection
from bench.listener_client import listen

Measurements = dict[str, Any]


async def calls(
    port: int,
    token: str,
    targets: list[dict[str, str]],
    count: int,
    interval: float = 0,
    parallel: int = 1000,
    project_id: int | None = None,
) -> Measurements:
    """Send messages to all targets in parallel, one at a time to each; start each target `interval` seconds later.

    With `project_id` each message gets a session of its own, whose creation is part of the duration.
    """
    sent: dict[str, float] = {}
    durations: list[float] = []
    failures: list[str] = []
    semaphore = asyncio.Semaphore(parallel)

    async def send(number: int) -> None:
        await asyncio.sleep(interval * number)  # users don't send at the same moment
        path = targets[number]["path"]
        async with semaphore:
            connection = await Connection.open(port, token)
            for index in range(count):
                text = f"call {number} {index}"
                started = time.perf_counter()
                if project_id is not None:
                    _, body = await connection.call("POST", "/my/chat/sessions", {"project_id": project_id})
                    path = f"/my/chat/{json.loads(body)['session_id']}/message"
                sent[text] = time.time()
                status, body = await connection.call("POST", path, _message(text, targets[number]))
                durations.append(time.perf_counter() - started)
                if status != 200:
                    failures.append(f"{status} {body[:200]!r}")
            await connection.close()

    started = time.perf_counter()
    await asyncio.gather(*(send(number) for number in range(len(targets))))
    return {"durations": durations, "sent": sent, "elapsed": time.perf_counter() - started, "failures": failures}


async def requests(
    port: int, token: str, method: str, path: str, body: Any, connections: int, count: int
) -> Measurements:
    """Send the same request many times, over several parallel connections."""
    durations: list[float] = []

    async def send() -> None:
        connection = await Connection.open(port, token)
        for _ in range(count // connections):
            started = time.perf_counter()
            status, _ = await connection.call(method, path, body)
            durations.append(time.perf_counter() - started)
            assert status < 300, status
        await connection.close()

    started = time.perf_counter()
    await asyncio.gather(*(send() for _ in range(connections)))
    return {"durations": durations, "elapsed": time.perf_counter() - started}


async def first_tokens(
    port: int, token: str, targets: list[dict[str, str]], count: int, warm_up: int = 0
) -> Measurements:
    """Request streamed answers, one at a time; measure the time to the first token of each."""
    connection = await Connection.open(port, token)
    durations = []
    for index in range(warm_up + count):
        target = targets[index % len(targets)]
        started, first = time.perf_counter(), None
        async for piece in connection.stream("POST", target["path"], _message(f"token {index}", target)):
            if first is None and b"event: message_delta" in piece:
                first = time.perf_counter() - started
        assert first is not None, "no token in an answer"
        durations.append(first)
    await connection.close()
    return {"durations": durations[warm_up:]}


def _message(text: str, target: dict[str, str]) -> dict[str, str] | bytes:
    """Return the body for a target: JSON, or a form with the text in the field that the target names."""
    if field := target.get("form"):
        return urlencode({field: text, "stream": "false"}).encode()
    return {"content": text, "target_agent": target["agent"]} if target["agent"] else {"content": text}


TASKS: dict[str, Callable[..., Coroutine[Any, Any, Measurements]]] = {
    "calls": calls,
    "requests": requests,
    "first_tokens": first_tokens,
    "listen": listen,
}


def main() -> None:
    """Run one task."""
    print(json.dumps(uvloop.run(TASKS[sys.argv[1]](**json.load(sys.stdin)))))


if __name__ == "__main__":
    main()
