"""What nodes say on the bus: requests to register, heartbeats, farewells and progress of tasks."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from sqlalchemy import Connection

from artel.bus.bus import Bus, Delivery, QueueSpec, Subscription
from artel.bus.topology import command_queue, commands_of, event_key, event_queue
from artel.contract import node_messages
from artel.contract.envelope import NOTHING_USED, Command, Envelope, Error, ErrorCode, ErrorInfo, Event, Result
from artel.contract.node_messages import REGISTRY, ControlApplied, OverLimit, Progress, RegistrationResult
from artel.contract.passport import Passport
from artel.db.engine import Database
from artel.db.retries import with_outage_retry
from artel.errors import ArtelError, DatabaseUnavailable, Kind
from artel.logs import get_logger
from artel.registry import repository
from artel.registry.monitor import Monitor
from artel.registry.passports import InvalidPassport, read_heartbeat, read_passport, read_report
from artel.text import is_storable

REQUESTS_AT_ONCE = 4
EVENTS_AT_ONCE = 16
CLOSE_SECONDS = 5.0
MAX_LOCAL_UIDS = 10_000
OUTAGE_SECONDS = 300.0  # of the database, for which an event that is sent once is held

T = TypeVar("T")

REQUESTS = QueueSpec(command_queue(REGISTRY), (commands_of(REGISTRY),))
# Without dead letters: nobody misses an old heartbeat, and those of an hour without a server would push out the others.
EVENTS = QueueSpec(event_queue(REGISTRY), ("evt.node.*", event_key("task", "progress")), dead_letters=False)

log = get_logger(__name__)


class NodeListener:
    """Writes what nodes say into their rows. Of several processes that listen, one handles each message."""

    def __init__(self, database: Database, bus: Bus, monitor: Monitor, idle_seconds: float) -> None:
        """`idle_seconds` is how long a task may report that it has not moved."""
        self._database = database
        self._bus = bus
        self._monitor = monitor
        self._idle_seconds = idle_seconds
        self._reports = asyncio.Lock()  # of limits, which are handled in their order
        self._subscriptions: list[Subscription] = []
        self.heard: dict[str, None] = {}  # uids of the instances that this process has heard, the newest last

    async def start(self) -> None:
        """Listen to nodes."""
        for spec, handler, at_once in (
            (REQUESTS, self._on_request, REQUESTS_AT_ONCE),
            (EVENTS, self._on_event, EVENTS_AT_ONCE),
        ):
            self._subscriptions.append(await self._bus.subscribe(spec, handler, at_once=at_once))

    async def close(self) -> None:
        """Stop listening; what is not handled yet waits for another process or the next start."""
        for subscription in self._subscriptions:
            await subscription.cancel(grace_seconds=CLOSE_SECONDS)

    async def _on_request(self, delivery: Delivery) -> None:
        envelope = delivery.envelope
        if not isinstance(envelope.data, Command):
            answer: Result | Error = _error("INVALID_ARGUMENT", f"The registry takes commands, not {envelope.type}.")
        else:
            try:
                answer = await self._answer(envelope.data)
            except ArtelError as failure:
                answer = _error("INVALID_ARGUMENT" if failure.kind is Kind.INVALID else "UNAVAILABLE", failure.detail)
        if isinstance(answer, Error):
            log.warning("node_request_refused", node=envelope.source, key=delivery.key, reason=answer.error.message)
        subject = envelope.subject or envelope.id
        await self._bus.reply(delivery, Envelope.of(answer, source=REGISTRY, subject=subject))

    async def _answer(self, command: Command) -> Result | Error:
        match command.action:
            case node_messages.REGISTER:
                return await self._register(read_passport(command.params.get("passport")))
            case node_messages.DEREGISTER:
                is_gone = await self._deregister(command.params)
                return Result(output={"deregistered": is_gone}, metrics=NOTHING_USED)
        return _error("UNIMPLEMENTED", f"The registry has no action {command.action!r}; it has register, deregister.")

    async def _register(self, passport: Passport) -> Result | Error:
        name, uid = passport.metadata.name, passport.metadata.uid

        def store(connection: Connection) -> tuple[bool, int, list[str]]:
            is_new = repository.newest_instance(connection, name)[0] != uid
            return is_new, repository.register(connection, passport), repository.given_up(connection, name)

        try:
            is_new, epoch, given_up = await self._database.run(store)
        except repository.TooManyNodes:
            return _error("RESOURCE_EXHAUSTED", f"The registry has {repository.MAX_NODES} names and takes no more.")
        except repository.AddressInUse as taken:
            return _error("ALREADY_EXISTS", _address_taken(name, taken.name))
        except repository.OlderInstance:
            return _error("ABORTED", f"A later instance of {name} is registered and alive.")
        if is_new:
            await _stored(lambda: self._monitor.restarted(name))
        self._note(uid)
        log.info("node_registered", node=name, uid=uid, epoch=epoch)
        registered = RegistrationResult(epoch=epoch, given_up=tuple(given_up))
        return Result(output=registered.model_dump(mode="json"), metrics=NOTHING_USED)

    async def _on_event(self, delivery: Delivery) -> None:
        envelope = delivery.envelope
        if not isinstance(envelope.data, Event):
            log.warning("node_event_refused", node=envelope.source, key=delivery.key, reason=f"it is {envelope.type}")
            return
        try:
            await self._take(envelope.source, envelope.data)
        except InvalidPassport as problem:
            log.warning("node_event_refused", node=envelope.source, key=delivery.key, reason=problem.detail)
        except DatabaseUnavailable as failure:  # the next heartbeat, or report of progress, says the same
            self._monitor.missed_events()
            log.warning("node_event_not_stored", node=envelope.source, key=delivery.key, reason=failure.detail)

    async def _take(self, source: str, event: Event) -> None:
        data = event.event_data
        match event.event_type:
            case node_messages.NODE_HEARTBEAT:
                await self._heartbeat(data)
            case node_messages.NODE_REGISTERED if isinstance(passport := data.get("passport"), dict):
                await self._heartbeat({"status": passport.get("status"), **data})
            case node_messages.NODE_DEREGISTERED:
                await _stored(lambda: self._deregister(data))
            case node_messages.NODE_OVER_LIMIT:
                report = read_report(OverLimit, data)
                async with self._reports:
                    await _stored(lambda: self._monitor.over_limit(report))
            case node_messages.NODE_CONTROL_APPLIED:
                log.info("node_control_applied", **read_report(ControlApplied, data).model_dump())
            case node_messages.TASK_PROGRESS:
                await self._progress(source, data)

    async def _heartbeat(self, data: object) -> None:
        heartbeat, status, passport = read_heartbeat(data)

        def store(connection: Connection) -> tuple[bool, bool]:
            if repository.beat(connection, heartbeat.name, heartbeat.uid, heartbeat.epoch, status):
                return True, False
            is_new = passport is not None and repository.adopt(connection, passport, heartbeat.epoch)
            return is_new, is_new

        try:
            is_stored, is_new = await self._database.run(store)
        except repository.TooManyNodes:
            raise InvalidPassport(f"The registry has {repository.MAX_NODES} names and takes no more.") from None
        except repository.AddressInUse as taken:
            raise InvalidPassport(_address_taken(heartbeat.name, taken.name)) from None
        if is_new:
            await _stored(lambda: self._monitor.restarted(heartbeat.name))
            log.info("node_registered", node=heartbeat.name, uid=heartbeat.uid, by="heartbeat")
        if is_stored:
            self._note(heartbeat.uid)
        else:  # of an instance that was replaced or has stopped, or of one that will register soon
            log.info("heartbeat_ignored", node=heartbeat.name, uid=heartbeat.uid, epoch=heartbeat.epoch)

    async def _deregister(self, data: Mapping[str, object]) -> bool:
        name, uid = data.get("name"), data.get("uid")
        if not isinstance(name, str) or not isinstance(uid, str) or not is_storable(name + uid):
            raise InvalidPassport("A farewell needs name and uid of the node.")
        is_gone = await self._database.run(repository.deregister, name, uid)
        if is_gone:
            log.info("node_deregistered", node=name, uid=uid)
        return is_gone

    async def _progress(self, source: str, data: object) -> None:
        progress = read_report(Progress, data)
        await self._database.run(repository.note_progress, progress, progress.node or source, self._idle_seconds)

    def _note(self, uid: str) -> None:
        self.heard.pop(uid, None)
        self.heard[uid] = None
        if len(self.heard) > MAX_LOCAL_UIDS:
            del self.heard[next(iter(self.heard))]


async def _stored(store: Callable[[], Awaitable[T]]) -> T:
    """Store what a node says only once, when the database is back."""
    return await with_outage_retry(store, "node event", OUTAGE_SECONDS)


def _address_taken(name: str, other: str) -> str:
    return (
        f"Node {other} is alive and has the same address on the bus as {name}, {command_queue(name)!r}, because . and "
        "_ are the same there. Stop it, or give one of them another name."
    )


def _error(code: ErrorCode, message: str) -> Error:
    error = ErrorInfo(code=code, message=message, retryable=code == "UNAVAILABLE")
    return Error(error=error, metrics=NOTHING_USED)
