"""A process with the threads of a node whose main thread is blocked: `blocked_node URL FILE FLAG`."""

import asyncio
import json
import os
import sys
from pathlib import Path

from artel.bus.bus import Sender
from artel.bus.rabbit import RabbitSender
from artel.contract.agent_file import AgentFile
from artel.logs import configure_logs
from artel.nodes.heartbeat import HeartbeatThread
from artel.nodes.progress import ProgressThread
from artel.nodes.status import NodeStatus


async def run(url: str, file: AgentFile, flag: Path) -> None:
    """Block the event loop with a loop in Python until the flag is there, then with a read until its input ends."""
    status = NodeStatus(file)

    async def connect() -> Sender:
        return await RabbitSender.connect(url, name="blocked-node")

    threads = [HeartbeatThread(status, connect), ProgressThread(status, connect)]
    for thread in threads:
        thread.start()
    status.began("task-1", "write_article")
    print("in a Python loop", flush=True)  # noqa: T201
    while not flag.exists():  # noqa: ASYNC240 - on purpose
        sum(range(10_000))
    print("in a call of C", flush=True)  # noqa: T201
    os.read(0, 1)
    for thread in threads:
        await thread.stop()


if __name__ == "__main__":
    configure_logs("json", "info")
    asyncio.run(run(sys.argv[1], AgentFile.model_validate(json.loads(sys.argv[2])), Path(sys.argv[3])))
