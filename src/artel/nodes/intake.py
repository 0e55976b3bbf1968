"""How a node takes commands: from its own queue and the one that its type shares, only as many as it has slots for."""

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress

from artel.bus.bus import MAX_DELIVERIES, RETIRED_SECONDS, Bus, Delivery, Handler, QueueSpec, Requeue, Subscription
from artel.bus.topology import all_key, any_key, command_queue, commands_of, shared_queue
from artel.contract.agent_file import AgentFile
from artel.errors import ArtelError
from artel.logs import get_logger
from artel.retry import Backoff, retry

# A node without a free slot leaves the shared queue after this time, so that other nodes of its type get what waits.
FULL_SECONDS = 0.25
SUBSCRIBE_BACKOFF = Backoff(0.2, 5.0)
NO_HURRY_SECONDS = 86_400.0  # for tasks of a subscription that only takes no more: their own limits end them

log = get_logger(__name__)


class Slots:
    """The tasks that a node may do at the same time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._changed = asyncio.Condition()

    @property
    def is_full(self) -> bool:
        """Whether no slot is free."""
        return self._used >= self._limit

    async def take(self, gives_up: Callable[[], bool] = lambda: False) -> bool:
        """Wait for a free slot and take it; return False if the caller gives up first."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self.is_full or gives_up())
            if self.is_full:
                return False
            self._used += 1
            return True

    async def free(self) -> None:
        """Give a slot back."""
        async with self._changed:
            self._used -= 1
            self._changed.notify_all()

    async def change(self, limit: int | None = None) -> None:
        """Change the number of slots, or let those who wait look again."""
        async with self._changed:
            self._limit = self._limit if limit is None else limit
            self._changed.notify_all()


class Source:
    """One subscription of a node; it can be left while its tasks go on."""

    def __init__(self) -> None:
        self.subscription: Subscription | None = None
        self.is_left = False
        self.is_left_for_lock = False


class Intake:
    """The command subscriptions of a node."""

    def __init__(self, bus: Bus, file: AgentFile, handler: Handler) -> None:
        name, node_type = file.name, file.type
        self._bus = bus
        keys = (commands_of(name), all_key(node_type))
        self._own = QueueSpec(command_queue(name), keys, expires_seconds=RETIRED_SECONDS)
        self._shared = QueueSpec(shared_queue(node_type), (any_key(node_type),))
        self._handler = handler
        self._limit = file.limits.max_concurrent_tasks
        self._slots = Slots(self._limit)
        self._sources: dict[str, Source] = {}  # by queue
        self._leaving: set[asyncio.Task[None]] = set()
        self._adjusting = asyncio.Lock()
        self._adjustments: set[asyncio.Task[None]] = set()
        self._full_timer: asyncio.TimerHandle | None = None
        self._is_open = False
        self._is_allowed = True
        self._ends_at = math.inf  # of the grace period, in seconds of the event loop
        self._grace: asyncio.Timeout | None = None

    async def open(self) -> None:
        """Take commands; raise BusUnavailable or QueueMismatch."""
        self._is_open = True
        try:
            await self._adjust()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Take no more commands; those that run go on."""
        self._is_open = False
        await self._adjust()
        await self._slots.change()  # what waits since the lock was lost goes back now

    def allow(self, is_allowed: bool) -> None:
        """Take commands, if it is open, or none for now: a node that lost its lock leaves them to others."""
        self._is_allowed = is_allowed
        self._adjust_soon()

    async def resize(self, limit: int) -> None:
        """Change how many commands may run at the same time."""
        if limit != self._limit:
            self._limit = limit
            await self._slots.change(limit)
            async with self._adjusting:
                await self._leave(*self._sources)
            self._adjust_soon()

    async def drain(self, grace_seconds: float) -> None:
        """Take no more commands, and wait for those that run; what is left then goes back to its queue."""
        self.hurry(grace_seconds)
        await self.close()
        for task in self._adjustments:
            task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._ends_at) as self._grace:
                if self._leaving:
                    await asyncio.wait(self._leaving)
        self._grace = None
        left = list(self._leaving)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    def hurry(self, grace_seconds: float) -> None:
        """Let `drain`, also one that waits already, wait no longer than this."""
        self._ends_at = min(self._ends_at, asyncio.get_running_loop().time() + grace_seconds)
        if self._grace and not self._grace.expired():
            self._grace.reschedule(self._ends_at)

    async def _adjust(self) -> None:
        """Subscribe to the queues that commands are wanted from, and leave the others."""
        async with self._adjusting:
            wanted = self._wanted()
            names = {spec.name for spec in wanted}
            await self._leave(*(name for name in self._sources if name not in names))
            for spec in wanted:
                if spec.name not in self._sources:
                    await self._subscribe(spec)

    def _wanted(self) -> tuple[QueueSpec, ...]:
        if not self._is_open or not self._is_allowed:
            return ()
        is_full_for_long = self._slots.is_full and self._full_timer is None
        return (self._own,) if is_full_for_long else (self._own, self._shared)

    async def _subscribe(self, spec: QueueSpec) -> None:
        source = Source()

        async def handle(delivery: Delivery) -> None:
            await self._handle(source, delivery)

        source.subscription = await self._bus.subscribe(spec, handle, at_once=self._limit)
        self._sources[spec.name] = source

    async def _leave(self, *names: str) -> None:
        """Stop consuming queues; what their subscriptions already handle goes on."""
        for name in names:
            source = self._sources.pop(name)
            source.is_left, source.is_left_for_lock = True, not self._is_allowed
            if source.subscription:
                cancelling = source.subscription.cancel(grace_seconds=NO_HURRY_SECONDS)
                task = asyncio.create_task(cancelling, name=f"intake-leaves-{name}")
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)
        if names:
            await self._slots.change()

    async def _handle(self, source: Source, delivery: Delivery) -> None:
        """Handle a command in a slot; one that still waits when the node leaves the queue goes back to it."""
        may_return = delivery.attempt < MAX_DELIVERIES - 1  # another return would make it a dead letter
        if not await self._slots.take(lambda: may_return and self._gives_back(source)):
            raise Requeue
        self._note_load()
        try:
            await self._handler(delivery)
        finally:
            await asyncio.shield(self._slots.free())
            self._note_load()

    def _gives_back(self, source: Source) -> bool:
        """Return whether what waits for a slot goes back to its queue.

        Not while only the lock is lost: it is soon back, and giving back counts as a delivery.
        """
        return source.is_left and not (source.is_left_for_lock and self._is_open)

    def _note_load(self) -> None:
        """Leave the shared queue when the node has been full for a while, and come back when it no longer is."""
        if not self._is_open:
            return
        if self._slots.is_full and self._full_timer is None and self._shared.name in self._sources:
            self._full_timer = asyncio.get_running_loop().call_later(FULL_SECONDS, self._is_full_for_long)
        elif not self._slots.is_full:
            if self._full_timer:
                self._full_timer.cancel()
                self._full_timer = None
            if self._shared.name not in self._sources:
                self._adjust_soon()

    def _is_full_for_long(self) -> None:
        self._full_timer = None
        self._adjust_soon()

    def _adjust_soon(self) -> None:
        task = asyncio.create_task(self._adjust_until_done(), name="intake-adjusts")
        self._adjustments.add(task)
        task.add_done_callback(self._adjustments.discard)

    async def _adjust_until_done(self) -> None:
        def note(problem: ArtelError) -> None:
            log.warning("commands_not_subscribed", problem=problem.detail)

        with suppress(asyncio.CancelledError):
            await retry(self._adjust, ArtelError, SUBSCRIBE_BACKOFF, note)
