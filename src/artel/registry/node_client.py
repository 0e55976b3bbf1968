"""Commands of worker spaces to nodes: published until they are answered, and stopped when nobody wants the answer."""

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from artel.auth.principal import Principal
from artel.bus.bus import Bus, BusUnavailable, Delivery, QueueFull, QueueSpec, Subscription
from artel.bus.topology import command_key, event_key, event_queue, reply_queue
from artel.contract.envelope import Envelope, Error, ErrorInfo, Event, InvalidMessage, Result
from artel.contract.node_messages import SERVER, Progress
from artel.db.engine import Database
from artel.db.retries import with_outage_retry
from artel.db.tx import Tx
from artel.errors import DatabaseUnavailable, ServerBusy
from artel.ids import uuid7
from artel.logs import get_logger
from artel.poller import Poller
from artel.registry.commands import OPEN, NewCommand, NodeCommandRepository
from artel.registry.passports import InvalidPassport, read_report
from artel.registry.repository import CommandLook, look_at
from artel.registry.service import NodeRegistry
from artel.registry.stop_signal import stop_task

LOOK_SECONDS = 1.0
REPEAT_SECONDS = 15.0  # without a sign of the task; doubled with each repetition
MAX_RESTARTS = 3  # of a node during one command
CLOSE_SECONDS = 1.0
AT_ONCE = 100
MAX_IN_FLIGHT = 2_000  # of this process
MAX_IN_FLIGHT_OF_PROJECT = 200
LOOKS_AT_ONCE = 500  # commands in one query

OnProgress = Callable[[Progress], None]
LossReason = Literal["lost", "stuck", "restarted", "over"]

log = get_logger(__name__)


class NodeLost(Exception):
    """The node will not answer the command: it is gone or restarts too often, the task is stuck or the turn is over."""

    is_agents_fault = False

    def __init__(self, reason: LossReason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True, eq=False)
class _InFlight:
    """A command that waits for its answer; times are in seconds of `time.monotonic()`."""

    principal: Principal
    stored: NewCommand
    deadline: float
    on_progress: OnProgress
    uid: str
    # All nodes can read the ids of commands, in reports of progress; this only the one that gets the command.
    secret: str = field(default_factory=lambda: secrets.token_hex(16))
    restarts: int = 0  # of the node
    reply: Envelope | None = None
    problem: LossReason | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)  # there is a reply or a problem, or it is sent again
    is_publishing: bool = False
    is_sent: bool = False
    was_cut_off: bool = False
    heard_at: float = field(default_factory=time.monotonic)  # of the task, or when it was published
    repeat_seconds: float = field(default_factory=lambda: REPEAT_SECONDS)

    @property
    def tenant(self) -> tuple[int, int]:
        return self.principal.user_id, self.stored.project_id

    @property
    def correlation_id(self) -> str:
        """What an answer has to carry."""
        return f"{self.stored.id}.{self.secret}"

    def answer(self, reply: Envelope) -> None:
        """End the wait with the first answer."""
        if self.reply is None:
            self.reply = reply
            self.changed.set()

    def give_up(self, problem: LossReason) -> None:
        """End the wait without an answer."""
        self.problem = problem
        self.changed.set()


class NodeClient:
    """The commands of this process that nodes have not answered; all answers arrive in one queue."""

    def __init__(self, bus: Bus, database: Database, registry: NodeRegistry, *, fails_over: bool = True) -> None:
        """`fails_over`: a command is given up when its node is lost or stuck, so that another one gets the task."""
        self.registry = registry
        self._bus = bus
        self._database = database
        self._fails_over = fails_over
        process = uuid7()
        self._address = reply_queue(process)
        self._replies = QueueSpec(self._address, (), exclusive=True, durable=False)
        progress = (event_key("task", "progress"),)
        self._progress = QueueSpec(event_queue(f"commands_{process}"), progress, exclusive=True, durable=False)
        self._subscriptions: list[Subscription] = []
        self._in_flight: dict[str, _InFlight] = {}
        self._looks = Poller("node-commands", self.look, LOOK_SECONDS, "node_commands_not_looked_after")

    async def start(self) -> None:
        """Listen for answers and progress, and look after the commands in flight."""
        on_invalid = self._on_unreadable_reply
        replies = await self._bus.subscribe(self._replies, self._on_reply, at_once=AT_ONCE, on_invalid=on_invalid)
        progress = await self._bus.subscribe(self._progress, self._on_progress, at_once=AT_ONCE)
        self._subscriptions += [replies, progress]
        self._looks.start()

    async def close(self) -> None:
        """Stop listening."""
        await self._looks.close()
        for subscription in self._subscriptions:
            await subscription.cancel(grace_seconds=CLOSE_SECONDS)

    async def ask(self, principal: Principal, stored: NewCommand, deadline: float, on_progress: OnProgress) -> Envelope:
        """Return the node's RESULT or ERROR; raise NodeLost if there will be none, and ServerBusy.

        `deadline` is in seconds of `time.monotonic()`; the caller stops waiting then.
        """
        waiting = _InFlight(principal, stored, deadline, on_progress, stored.node_uid)
        of_project = sum(other.tenant == waiting.tenant for other in self._in_flight.values())
        if len(self._in_flight) >= MAX_IN_FLIGHT or of_project >= MAX_IN_FLIGHT_OF_PROJECT:
            raise ServerBusy("Too many tasks are waiting for nodes. Try again in a moment.", retry_after=5)
        self._in_flight[stored.id] = waiting
        try:
            while True:
                await self._publish(waiting)
                await waiting.changed.wait()
                waiting.changed.clear()
                if waiting.reply is not None:
                    return waiting.reply
                if waiting.problem is not None:
                    raise NodeLost(waiting.problem)
        finally:
            if self._in_flight.get(stored.id) is waiting:  # else a later run of the task has taken its place
                del self._in_flight[stored.id]

    async def look(self) -> None:
        """Send commands in flight again if that may help, and give up those that the registry has given up."""
        if not self._bus.connected:
            for waiting in self._in_flight.values():
                waiting.was_cut_off = True  # an answer may have got lost with the connection
            return
        in_flight = list(self._in_flight)
        for first in range(0, len(in_flight), LOOKS_AT_ONCE):
            ids = in_flight[first : first + LOOKS_AT_ONCE]
            try:
                looks = await self._database.read(look_at, ids)
            except DatabaseUnavailable:
                return  # the nodes work on, and the database will be back
            for command_id in ids:
                found = self._in_flight.get(command_id)
                if found is not None and not found.is_publishing:
                    self._look_after(found, looks.get(command_id))

    async def stop(self, node_name: str, command_id: str, reason: str) -> None:
        """Send a node the signal to stop a task."""
        await stop_task(self._bus, node_name, command_id, reason)

    # Sending

    async def _publish(self, waiting: _InFlight) -> None:
        """Send the command; if the broker can't take it now, it is sent again later."""
        waiting.is_publishing = True
        try:
            waiting.was_cut_off = not await self._send(waiting)
        finally:
            waiting.is_publishing = False

    async def _send(self, waiting: _InFlight) -> bool:
        """Send the command and note that; return False if it did not reach its queue."""
        stored, left = waiting.stored, waiting.deadline - time.monotonic()
        if left <= 0:
            return True  # the caller stops waiting
        envelope = Envelope.of(
            stored.command.model_copy(update={"timeout_seconds": left}),
            source=SERVER,
            subject=stored.id,
            message_id=stored.id,
        )
        waiting.heard_at = time.monotonic()
        key, address = command_key(stored.node_name, stored.command.action), self._address
        try:
            routed = await self._bus.publish(
                key, envelope, ttl_seconds=left, reply_to=address, correlation_id=waiting.correlation_id
            )
        except (BusUnavailable, QueueFull) as failure:
            log.warning("node_command_not_sent", node=stored.node_name, command_id=stored.id, reason=failure.detail)
            return False
        if routed and not waiting.is_sent:
            with suppress(DatabaseUnavailable):  # noted with the next publication
                await self._database.of(waiting.principal).run(_note_sent, stored.id)
                waiting.is_sent = True
        return routed  # else its queue is not there, or not yet again

    def _look_after(self, waiting: _InFlight, look: CommandLook | None) -> None:
        """Let the command be published again if that may help, or given up if the node is.

        That a node was restarted is no reason to publish: its queue delivers the command again, but not too often.
        """
        problem: LossReason | None = "over" if look is None else look.problem
        if problem == "over" or (problem is not None and self._fails_over):
            waiting.give_up(problem)
            return
        if look is not None and look.node_uid not in (None, waiting.uid):
            waiting.uid, waiting.restarts = look.node_uid or "", waiting.restarts + 1
            restarts, name = waiting.restarts, waiting.stored.node_name
            log.warning("node_restarted", node=name, command_id=waiting.stored.id, restarts=restarts)
            if restarts >= MAX_RESTARTS:  # the command may be what ends it
                waiting.give_up("restarted")
                return
        if look is not None and look.is_working:
            waiting.heard_at = time.monotonic()  # a copy of the command would only wait until it is done
            return
        if time.monotonic() - waiting.heard_at >= waiting.repeat_seconds:
            waiting.repeat_seconds *= 2
            waiting.was_cut_off = True
        if waiting.was_cut_off:
            waiting.changed.set()

    # Listening

    async def _on_reply(self, delivery: Delivery) -> None:
        envelope, waiting = delivery.envelope, self._waiting_for(delivery.correlation_id or "")
        if waiting is None:
            log.info("node_reply_ignored", node=envelope.source, message_id=envelope.id)
            return
        if not isinstance(envelope.data, Result | Error):
            waiting.answer(_unreadable(waiting, f"It is {envelope.type}."))
            return
        name = waiting.stored.node_name
        left = max(0.0, waiting.deadline - time.monotonic())
        registered = await with_outage_retry(lambda: self.registry.epoch_of(name), "node answer", left)
        newest = max(registered, waiting.stored.node_epoch)
        # Only the bus answers without an epoch: that it can't read the command.
        is_refusal = envelope.nodeepoch is None and isinstance(envelope.data, Error)
        if not is_refusal and (envelope.nodeepoch or 0) < newest:
            log.warning("node_reply_refused", node=name, uid=envelope.nodeuid, epoch=envelope.nodeepoch, newest=newest)
            waiting.was_cut_off = True  # the newest instance has the answer, or finds it
        else:
            waiting.answer(envelope)

    def _on_unreadable_reply(self, correlation_id: str, problem: InvalidMessage) -> None:
        """End the wait for an answer that can't be read: the node would only send the same one again."""
        if waiting := self._waiting_for(correlation_id):
            waiting.answer(_unreadable(waiting, problem.detail))

    def _waiting_for(self, correlation_id: str) -> _InFlight | None:
        """Return the command that a reply answers; None if there is none, or another node has guessed its id."""
        waiting = self._in_flight.get(correlation_id.partition(".")[0])
        return waiting if waiting and waiting.correlation_id == correlation_id else None

    async def _on_progress(self, delivery: Delivery) -> None:
        data = delivery.envelope.data
        if not isinstance(data, Event):
            return
        try:
            progress = read_report(Progress, data.event_data)
        except InvalidPassport:
            return  # the registry logs it
        waiting = self._in_flight.get(progress.task_id)
        if waiting is not None and progress.node in ("", waiting.stored.node_name):
            waiting.heard_at = time.monotonic()
            waiting.on_progress(progress)


def _unreadable(waiting: _InFlight, problem: str) -> Envelope:
    """Return the error of a command whose answer can't be read; another node may do better."""
    name = waiting.stored.node_name
    error = ErrorInfo(code="INTERNAL", message=f"The answer can't be read. {problem}", retryable=True)
    return Envelope.of(Error(error=error), source=name, subject=waiting.stored.id, nodeepoch=waiting.stored.node_epoch)


def _note_sent(tx: Tx, command_id: str) -> None:
    NodeCommandRepository(tx).move(command_id, OPEN, "sent")
