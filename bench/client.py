"""The client, in a process of its own: `python -m bench.client TASK` reads what to do and prints what it measured."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from bench.connection import Connection
from bench.listening import listen

Measured = dict[str, Any]


async def calls(
    port: int, token: str, lines: list[dict[str, str]], count: int, apart: float = 0, at_once: int = 1000
) -> Measured:
    """Send messages on every line at once, on each one after the other; each line begins a little later."""
    sent: dict[str, float] = {}
    taken: list[float] = []
    failures: list[str] = []
    room = asyncio.Semaphore(at_once)

    async def line(number: int) -> None:
        await asyncio.sleep(apart * number)  # people don't press the key at the same moment
        path, agent = lines[number]["path"], lines[number]["agent"]
        async with room:
            connection = await Connection.open(port, token)
            for index in range(count):
                text = f"call {number} {index}"
                began, sent[text] = time.perf_counter(), time.time()
                status, body = await connection.call("POST", path, _message(text, agent))
                taken.append(time.perf_counter() - began)
                if status != 200:
                    failures.append(f"{status} {body[:200]!r}")
            await connection.close()

    began = time.perf_counter()
    await asyncio.gather(*(line(number) for number in range(len(lines))))
    return {"taken": taken, "sent": sent, "elapsed": time.perf_counter() - began, "failures": failures}


async def requests(port: int, token: str, method: str, path: str, body: Any, connections: int, count: int) -> Measured:
    """Send the same request many times over some connections at once."""
    taken: list[float] = []

    async def line() -> None:
        connection = await Connection.open(port, token)
        for _ in range(count // connections):
            began = time.perf_counter()
            status, _ = await connection.call(method, path, body)
            taken.append(time.perf_counter() - began)
            assert status < 300, status
        await connection.close()

    began = time.perf_counter()
    await asyncio.gather(*(line() for _ in range(connections)))
    return {"taken": taken, "elapsed": time.perf_counter() - began}


async def first_tokens(port: int, token: str, lines: list[dict[str, str]], count: int, warm: int = 0) -> Measured:
    """Ask for answers as streams, one after the other; measure until the first piece of each has come."""
    connection = await Connection.open(port, token)
    taken = []
    for index in range(warm + count):
        line = lines[index % len(lines)]
        began, first = time.perf_counter(), None
        async for piece in connection.stream("POST", line["path"], _message(f"token {index}", line["agent"])):
            if first is None and b"event: message_delta" in piece:
                first = time.perf_counter() - began
        assert first is not None, "an answer without a piece"
        taken.append(first)
    await connection.close()
    return {"taken": taken[warm:]}


def _message(text: str, agent: str) -> dict[str, str]:
    return {"content": text, "target_agent": agent} if agent else {"content": text}


TASKS: dict[str, Callable[..., Coroutine[Any, Any, Measured]]] = {
    "calls": calls,
    "requests": requests,
    "first_tokens": first_tokens,
    "listen": listen,
}


def main() -> None:
    """Do one task."""
    print(json.dumps(uvloop.run(TASKS[sys.argv[1]](**json.load(sys.stdin)))))


if __name__ == "__main__":
    main()
