"""A lock on RabbitMQ: an exclusive queue that nobody consumes, on the connection that also receives messages.

The broker deletes the queue together with that connection, so whoever has lost the lock receives nothing either. The
client may notice the loss later than the broker does: after a freeze, or when packets vanish. So the lock is confirmed
every few seconds, and counts as held only for as long as the broker can't have dropped a silent connection since.
A connection that an operator closes is gone earlier, so whoever is about to act asks the broker again.
"""

import asyncio
import time
from contextlib import suppress
from typing import Any

from aio_pika.abc import AbstractChannel
from aiormq.exceptions import ChannelLockedResource

from artel.bus.bus import LockCallback, LockState, NameTaken
from artel.bus.link import (
    STEP_SECONDS,
    BrokerConnectionLost,
    Link,
    ignore_loss,
    retry_until_deadline,
    translate_connection_errors,
)
from artel.bus.lock import BusLock
from artel.errors import ArtelError
from artel.logs import get_logger
from artel.retry import Backoff, retry

CONFIRMATIONS_PER_HEARTBEAT = 3
FRESH_SECONDS = 1.0  # for which an answer of the broker is enough to act
CONFLICT_HEARTBEATS = 3  # the broker drops a silent connection after one to two
AGAIN_BACKOFF = Backoff(0.1, 1.0)

log = get_logger(__name__)


class RabbitLock(BusLock):
    """Holds a name; declares it again after a lost connection."""

    def __init__(
        self,
        link: Link,
        name: str,
        on_change: LockCallback | None,
        *,
        deadline_seconds: float,
        registry: dict[str, BusLock],
    ) -> None:
        super().__init__(name, on_change)
        self._link = link
        self._deadline_seconds = deadline_seconds
        self._registry = registry
        self._channel: AbstractChannel | None = None
        self._confirmed = -1.0  # when the last declaration was sent that succeeded
        self._lost = asyncio.Event()
        self._asking: asyncio.Task[bool] | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def is_held(self) -> bool:
        """Whether the broker said so so recently that it can't have dropped the connection for its silence since."""
        return super().is_held and time.monotonic() < self._confirmed + self._link.heartbeat_seconds

    async def is_confirmed(self) -> bool:
        oldest = time.monotonic() - FRESH_SECONDS
        while self.is_held and self._confirmed < oldest:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._confirm(), name=f"bus-lock-{self.name}-asks")
            # Shielded: a cancelled declaration closes the channel, and others wait for the answer too.
            if not await asyncio.shield(self._asking):
                return False
        return self.is_held

    async def acquire(self) -> None:
        try:
            await retry_until_deadline(self._declare, self._deadline_seconds)
        except BaseException:
            await self._drop_channel()
            raise
        self._state = LockState.HELD
        self._keeping = asyncio.create_task(self._keep(), name=f"bus-lock-{self.name}")

    async def release(self) -> None:
        if tasks := [task for task in (self._keeping, self._asking) if task]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if self._state is LockState.HELD and self._link.connected:
            await ignore_loss(self._delete_queue())
        await self._drop_channel()
        self._change(LockState.RELEASED)
        self._registry.pop(self.name, None)

    async def _delete_queue(self) -> None:
        if self._channel is None or self._channel.is_closed:
            await self._open_channel()
        if self._channel:
            await self._channel.queue_delete(self.name)

    async def _declare(self) -> None:
        """Declare the queue, which on the connection that has it only confirms that it is there."""
        channel = self._channel
        if channel is None or channel.is_closed:
            channel = await self._open_channel()
        sent = time.monotonic()
        async with translate_connection_errors():
            try:
                await channel.declare_queue(self.name, exclusive=True, auto_delete=True)
            except ChannelLockedResource as refused:
                raise NameTaken(f"The name {self.name} is taken.") from refused
        self._confirmed = sent

    async def _open_channel(self) -> AbstractChannel:
        await self._drop_channel()
        self._lost.clear()
        channel = self._channel = await self._link.channel()

        def closed(*_: Any) -> None:
            if channel is self._channel:
                self._channel = None
                self._lost.set()
                if self._state is LockState.HELD:
                    self._change(LockState.LOST)

        channel.close_callbacks.add(closed)
        return channel

    async def _drop_channel(self) -> None:
        channel, self._channel = self._channel, None
        if channel:
            await ignore_loss(channel.close())

    async def _keep(self) -> None:
        """Confirm the lock regularly; after a loss declare it again until it is held or somebody else has it."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._link.heartbeat_seconds / CONFIRMATIONS_PER_HEARTBEAT):
                    await self._lost.wait()
            if await self._confirm():
                continue
            self._change(LockState.LOST)
            await self._drop_channel()
            if not await self._acquire_again():
                self._change(LockState.CONFLICT)
                return
            self._change(LockState.HELD)

    async def _confirm(self) -> bool:
        """Ask the broker, within the time for which its last answer counts; return whether the name is held."""
        if self._lost.is_set() or self._channel is None or self._channel.is_closed:
            return False
        left = self._confirmed + self._link.heartbeat_seconds - time.monotonic()
        try:
            async with asyncio.timeout(left):
                await self._declare()
        except (BrokerConnectionLost, TimeoutError, ArtelError) as problem:
            log.warning("lock_not_confirmed", lock=self.name, problem=repr(problem))
            return False
        return not self._lost.is_set()

    async def _acquire_again(self) -> bool:
        """Declare the lock until it is held; return False if it stays taken although the old connection is gone."""
        refused_at: float | None = None

        async def declare() -> bool:
            nonlocal refused_at
            await self._link.up.wait()
            try:
                async with asyncio.timeout(STEP_SECONDS):
                    await self._declare()
            except NameTaken:
                refused_at = refused_at or time.monotonic()
                if time.monotonic() > refused_at + CONFLICT_HEARTBEATS * self._link.heartbeat_seconds:
                    return False
                raise
            return True

        def note(problem: Exception) -> None:
            if isinstance(problem, BrokerConnectionLost | TimeoutError | ArtelError):
                log.info("lock_tried_again", lock=self.name, problem=repr(problem))
            else:
                log.error("lock_tried_again", lock=self.name, exc_info=problem)

        return await retry(declare, Exception, AGAIN_BACKOFF, note)  # any failure: nothing awaits this task
