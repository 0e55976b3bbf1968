"""Control of a node: signals on a queue and a channel of their own, so that they work during a task."""

from datetime import datetime
from typing import Protocol

from artel.bus.bus import Bus, Delivery, QueueSpec, Subscription
from artel.bus.topology import control_queue, event_key, signals_to
from artel.contract.envelope import Control, Envelope, Event
from artel.contract.node_messages import (
    NODE_CONTROL_APPLIED,
    TARGET_NODE,
    ConfigParams,
    ControlApplied,
    ShutdownParams,
    SignalParams,
    StopParams,
    ignored_parameters,
    signal_parameters,
)
from artel.errors import ArtelError, Kind
from artel.logs import get_logger
from artel.nodes.status import NodeStatus

MAX_DETAIL = 1_000
STOP_SECONDS = 2.0  # for the report of a signal that is being applied

log = get_logger(__name__)


class ControlRefused(ArtelError, kind=Kind.INVALID, code="control_refused"):
    """A control signal can't be carried out."""


class ControlledNode(Protocol):
    """What a control signal can do to a node. Each method returns soon: the next signal waits for it."""

    status: NodeStatus

    async def stop_task(self, task_id: str, signalled_at: datetime) -> bool:
        """Cancel a task, which ends with CANCELLED, also if its command is older than the signal; whether it ran."""

    async def pause(self) -> None:
        """Take no commands; they stay in their queues, and running tasks go on."""

    async def resume(self) -> None:
        """Take commands again."""

    async def shutdown(self, reason: str, grace_seconds: float | None = None) -> None:
        """Begin the graceful stop: no new commands, running tasks get the grace period, by default what they need."""

    async def configure(self, parameters: ConfigParams) -> None:
        """Change settings while the node runs."""


class ControlListener:
    """Receives the signals to all nodes, to a type of nodes and to one node, and applies them one after the other."""

    def __init__(self, bus: Bus, node: ControlledNode) -> None:
        self._bus = bus
        self._node = node
        self._subscription: Subscription | None = None

    async def start(self) -> None:
        """Subscribe to signals; raise BusUnavailable."""
        status = self._node.status
        targets = ("all", status.file.type, status.file.name)
        spec = QueueSpec(
            control_queue(status.file.name, status.uid),
            tuple(signals_to(target) for target in targets),
            exclusive=True,
            durable=False,
        )
        self._subscription = await self._bus.subscribe(spec, self._receive)

    async def stop(self) -> None:
        """Receive no more signals."""
        if self._subscription:
            await self._subscription.cancel(grace_seconds=STOP_SECONDS)

    async def _receive(self, delivery: Delivery) -> None:
        """Apply a signal, or log why not; it is never delivered again, because nobody waits for an old signal."""
        status, control = self._node.status, delivery.envelope.data
        if not isinstance(control, Control):
            log.warning("control_ignored", node=status.file.name, key=delivery.key, problem="not a control message")
            return
        target = control.parameters.get(TARGET_NODE)
        if target is not None and target not in (status.file.name, status.uid):
            log.info("control_ignored", node=status.file.name, key=delivery.key, target_node=str(target)[:MAX_DETAIL])
            return
        try:
            detail, applied = await self._apply(control, delivery.key, delivery.envelope.time), True
        except ArtelError as refused:
            detail, applied = refused.detail, False
        except Exception as problem:
            log.exception("control_failed", node=status.file.name, control_type=control.control_type)
            detail, applied = f"{type(problem).__name__}: {problem}", False
        await self._report(delivery.envelope, control, detail[:MAX_DETAIL], applied)

    async def _apply(self, control: Control, key: str, signalled_at: datetime) -> str:
        """Carry out a signal and return what was done; raise ControlRefused."""
        if key.rpartition(".")[2] != control.control_type:
            raise ControlRefused(f"The key {key} is not one of {control.control_type}.")
        ignored = ignored_parameters(control.control_type, control.parameters)
        known = {name: value for name, value in control.parameters.items() if name not in ignored}
        try:
            parameters = signal_parameters(control.control_type, known)
        except ValueError as wrong:
            raise ControlRefused(str(wrong)) from None
        done = await self._carry_out(control, parameters, signalled_at)
        return f"{done}; ignored parameters: {', '.join(ignored)}" if ignored else done

    async def _carry_out(self, control: Control, parameters: SignalParams, signalled_at: datetime) -> str:
        node = self._node
        match parameters:
            case StopParams(task_id=task_id):
                return await self._stop_tasks(task_id, signalled_at)
            case ShutdownParams(grace_seconds=grace_seconds):
                await node.shutdown(control.reason or "control signal", grace_seconds)
                return "shutting down"
            case ConfigParams():
                await node.configure(parameters)
                return f"set {', '.join(sorted(parameters.model_fields_set))}"
        if control.control_type == "pause":
            await node.pause()
            return "paused"
        await node.resume()
        return "resumed"

    async def _stop_tasks(self, task_id: str | None, signalled_at: datetime) -> str:
        wanted = [task.task_id for task in self._node.status.tasks()] if task_id is None else [task_id]
        stopped = [each for each in wanted if await self._node.stop_task(each, signalled_at)]
        if task_id is not None and not stopped:
            raise ControlRefused(f"No task {task_id} runs here.")
        return f"stopped {', '.join(stopped) or 'nothing'}"

    async def _report(self, signal: Envelope, control: Control, detail: str, applied: bool) -> None:
        """Log what became of a signal, and send it as an event."""
        status = self._node.status
        fields = {"node": status.file.name, "control_type": control.control_type, "sender": signal.source}
        if applied:
            log.info("control_applied", **fields, reason=control.reason, detail=detail)
        else:
            log.warning("control_refused", **fields, reason=control.reason, detail=detail)
        report = ControlApplied(
            node=status.file.name,
            uid=status.uid,
            epoch=status.epoch,
            control_type=control.control_type,
            message_id=signal.id,
            applied=applied,
            detail=detail,
        )
        event = Event(event_type=NODE_CONTROL_APPLIED, event_data=report.model_dump())
        envelope = Envelope.of(event, source=status.file.name, nodeuid=status.uid, nodeepoch=status.epoch)
        try:
            await self._bus.publish(event_key("node", "control_applied"), envelope)
        except ArtelError as problem:
            log.warning("control_not_reported", node=status.file.name, problem=problem.detail)
