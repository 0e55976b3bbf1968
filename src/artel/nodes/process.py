"""Nodes as a process: they start together, stop with a signal, and the process ends with the last of them."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from artel.logs import get_logger
from artel.nodes.node import AgentNode, NodeExit

INTERRUPTED = 130

log = get_logger(__name__)


async def run_nodes(nodes: Sequence[AgentNode], ready: Callable[[], None]) -> list[NodeExit]:
    """Start nodes, call `ready`, and return why each has ended; if one can't start, stop the others and raise why.

    The first SIGTERM or SIGINT stops them gracefully, the second one ends the process at once.
    """
    wanted = asyncio.Event()
    with _stopping_with_signals(wanted):
        started = await _start(nodes, wanted)
        if started:
            ready()
            stopping: asyncio.Future[Any] = asyncio.create_task(wanted.wait())
            ending: asyncio.Future[list[NodeExit]] = asyncio.gather(*(node.finished for node in nodes))
            await asyncio.wait({stopping, ending}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            await asyncio.gather(*(node.stop("signal") for node in nodes if not node.finished.done()))
            return await ending
        return [NodeExit("stopped", "signal") for _ in nodes]


async def _start(nodes: Sequence[AgentNode], stop_wanted: asyncio.Event) -> bool:
    """Start nodes; return False if they are to stop before they have started."""
    starts = [asyncio.create_task(node.start()) for node in nodes]
    waiting: asyncio.Future[Any] = asyncio.create_task(stop_wanted.wait())
    starting: asyncio.Future[Any] = asyncio.gather(*starts)
    try:
        await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            return True
    except BaseException:
        await _undo(nodes, starts)
        raise
    finally:
        waiting.cancel()
    starting.cancel()
    await _undo(nodes, starts)
    return False


async def _undo(nodes: Sequence[AgentNode], starts: Sequence[asyncio.Task[None]]) -> None:
    """Stop the nodes that have started."""
    for start in starts:
        start.cancel()
    await asyncio.wait(starts)
    done = [node for node, start in zip(nodes, starts, strict=True) if not start.cancelled() and not start.exception()]
    await asyncio.gather(*(node.stop("another node could not start", grace_seconds=0) for node in done))


@contextmanager
def _stopping_with_signals(wanted: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if wanted.is_set():
            log.warning("nodes_ended_at_once", signal=signal.Signals(number).name)
            os._exit(INTERRUPTED)  # the broker takes back the commands and frees the names
        log.info("nodes_stop", signal=signal.Signals(number).name)
        wanted.set()

    numbers = signal.SIGINT, signal.SIGTERM
    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
