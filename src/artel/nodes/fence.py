"""What keeps a node from acting without its lock: each step of a task asks here first."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from artel.brain.brain import Brain, Completion, Request, TokenSink
from artel.bus.bus import Requeue
from artel.logs import get_logger

T = TypeVar("T")

log = get_logger(__name__)


class Fence:
    """Lets the tasks of a node act while it holds its lock, and interrupts tool calls when it is lost."""

    def __init__(self, wait: Callable[[], Awaitable[None]]) -> None:
        """`wait` returns when the node holds its lock, and raises when it never will again."""
        self.wait = wait
        self._calls: set[asyncio.Task[Any]] = set()

    async def call(self, call: Coroutine[Any, Any, T]) -> T:
        """Return what a tool call returns; raise Requeue if the lock is lost before it is done."""
        try:
            await self.wait()
        except BaseException:
            call.close()
            raise
        task = asyncio.create_task(call)
        self._calls.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task in self._calls or (current and current.cancelling()):
                raise
            raise Requeue from None
        finally:
            self._calls.discard(task)

    def interrupt(self) -> None:
        """Cancel the tool calls in progress: another instance may have the name, and takes the commands over."""
        calls, self._calls = self._calls, set()
        for task in calls:
            task.cancel()
        if calls:
            log.warning("tool_calls_interrupted", count=len(calls))


class FencedBrain:
    """A brain whose calls wait until the node may act; one that was sent before may end."""

    def __init__(self, brain: Brain, fence: Fence) -> None:
        self._brain = brain
        self._fence = fence

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the model's answer."""
        await self._fence.wait()
        return await self._brain.complete(request, stream)

    async def close(self) -> None:
        """Do nothing: the caller closes the wrapped brain."""
