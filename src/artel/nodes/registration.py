"""How a node announces itself to the registry, and takes its leave."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from pydantic import ValidationError

from artel.bus.bus import Bus
from artel.bus.topology import command_key, event_key
from artel.contract.envelope import Command, Envelope, Error, ErrorInfo, Event, Result
from artel.contract.node_messages import MAX_GIVEN_UP, NODE_DEREGISTERED, REGISTER, REGISTRY, RegistrationResult
from artel.errors import ArtelError, Kind
from artel.logs import get_logger
from artel.nodes.status import NodeStatus

REGISTER_SECONDS = 5.0
# The registry may have lost its rows: registering again keeps the epoch.
AGAIN_SECONDS = 60.0
FAREWELL_SECONDS = 5.0

log = get_logger(__name__)


class AddressTaken(ArtelError, kind=Kind.CONFLICT, code="node_address_taken"):
    """Another node that is alive has the same address on the bus, under a name that differs only in `.` and `_`."""


class NodeRegistration:
    """Registers a node, again after each reconnection and now and then, and never while it may have lost its name."""

    def __init__(
        self,
        status: NodeStatus,
        bus: Bus,
        may_register: Callable[[], bool],
        give_up: Callable[[str], object],
        on_refused: Callable[[str], None],
    ) -> None:
        """`give_up` gets the id of each command that nobody waits for: a signal to stop may have missed the node.

        `on_refused` gets the reason when the node has to end, because another one has its address.
        """
        self._status = status
        self._bus = bus
        self._may_register = may_register
        self._give_up = give_up
        self._on_refused = on_refused
        self._is_registered = False
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Register; without an answer go on with epoch 0, and try again with the next heartbeats.

        Raise AddressTaken if another node has the address.
        """
        file = self._status.file
        if not file.registry.enabled:
            log.info("node_not_registered", node=file.name, reason="registry.enabled is false in the agent's file")
            return
        await self._register()
        self._task = asyncio.create_task(self._keep(), name=f"registration-{file.name}")

    def again_soon(self) -> None:
        """Register again: the connection was lost, or the passport has changed."""
        self._is_registered = False
        self._wake.set()

    async def stop(self) -> None:
        """Register no more."""
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def farewell(self, reason: str) -> None:
        """Send the registry that the node stops; it would also find out by itself."""
        status = self._status
        if not status.file.registry.enabled:
            return
        data = {"name": status.file.name, "uid": status.uid, "epoch": status.epoch, "reason": reason}
        event = Event(event_type=NODE_DEREGISTERED, event_data=data)
        envelope = Envelope.of(event, source=status.file.name, nodeuid=status.uid, nodeepoch=status.epoch)
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                await self._bus.publish(event_key("node", "deregistered"), envelope)
        except (ArtelError, TimeoutError) as problem:
            log.warning("node_not_deregistered", node=status.file.name, problem=str(problem) or "no answer")

    async def _keep(self) -> None:
        due = time.monotonic() + AGAIN_SECONDS
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._status.file.registry.heartbeat_interval_seconds):
                    await self._wake.wait()
            self._wake.clear()
            if (not self._is_registered or time.monotonic() >= due) and self._may_register():
                try:
                    await self._register()
                except AddressTaken as taken:
                    self._on_refused(taken.detail)
                    return
                due = time.monotonic() + AGAIN_SECONDS

    def _apply(self, registered: RegistrationResult) -> None:
        """Take the epoch, and give up the commands that nobody waits for."""
        status = self._status
        if status.epoch != registered.epoch:
            log.info("node_registered", node=status.file.name, epoch=registered.epoch)
        status.epoch = registered.epoch
        for command_id in registered.given_up[:MAX_GIVEN_UP]:
            self._give_up(command_id)

    async def _register(self) -> None:
        """Send the passport and learn the epoch; raise AddressTaken."""
        status = self._status
        params = {"passport": status.passport().dump(), "epoch": status.epoch}
        command = Command(action=REGISTER, params=params, timeout_seconds=REGISTER_SECONDS)
        request = Envelope.of(command, source=status.file.name, nodeuid=status.uid, nodeepoch=status.epoch)
        self._is_registered = True  # unless it turns out otherwise; `again_soon` may come meanwhile
        try:
            reply = await self._bus.request(command_key(REGISTRY, REGISTER), request, timeout_seconds=REGISTER_SECONDS)
        except ArtelError as failure:
            problem = failure.detail
        else:
            match reply.data:
                case Result(output=output):
                    try:
                        registered = RegistrationResult.model_validate(output)
                    except ValidationError as invalid:
                        problem = f"the answer can't be read: {invalid.errors()[0]['msg']}"
                    else:
                        self._apply(registered)
                        return
                case Error(error=ErrorInfo(code="ALREADY_EXISTS", message=reason)):
                    raise AddressTaken(reason)
                case Error(error=error):
                    problem = error.message
                case _:
                    problem = f"the answer is {reply.type}"
        self._is_registered = False
        log.warning("node_not_registered", node=status.file.name, epoch=status.epoch, reason=problem)
