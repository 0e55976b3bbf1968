"""A node: one agent on the bus. It connects, takes the lock of its name, listens, registers, and works."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from artel.brain.brain import Brain
from artel.bus.bus import Bus, LockState
from artel.contract.agent_file import AgentFile
from artel.contract.node_messages import ConfigParams
from artel.logs import get_logger, set_level
from artel.nodes.commands import CommandHandler
from artel.nodes.connection import NodeConnection
from artel.nodes.control import ControlListener, ControlRefused
from artel.nodes.fence import Fence
from artel.nodes.heartbeat import HeartbeatThread
from artel.nodes.idempotency import AnswerStore
from artel.nodes.intake import Intake
from artel.nodes.progress import ProgressThread
from artel.nodes.registration import NodeRegistration
from artel.nodes.singleton import SingletonLock
from artel.nodes.status import NodePhase, NodeStatus
from artel.nodes.task import TaskServices
from artel.nodes.tenants import TenantListener
from artel.nodes.toolbox import SharedTools, node_folder
from artel.poller import Poller
from artel.settings import Settings

ANSWERS_FILE = "answers.db"
SECONDS_PER_HOUR = 3600.0
CLEAN_UP_SECONDS = 3600.0
IN_PASSPORT = frozenset({"max_tokens", "max_concurrent_tasks", "progress_interval_seconds"})  # of what can be changed

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NodeExit:
    """Why a node has ended: it was stopped here, by a control signal, or another one has taken its name or address."""

    cause: Literal["stopped", "shutdown", "name_taken", "address_taken"]
    reason: str


class NodeParts:
    """What a started node consists of."""

    def __init__(
        self, node: "AgentNode", bus: Bus, lock: SingletonLock, tools: SharedTools, store: AnswerStore
    ) -> None:
        status, connection = node.status, node.connection
        self.bus = bus
        self.lock = lock
        self.tools = tools
        self.store = store
        self.fence = Fence(self._may_act)
        services = TaskServices(
            file=lambda: status.file,
            brain=node.brain,
            tools=tools,
            status=status,
            fence=self.fence,
            store=store,
            node_key=node.settings.node_key,
            most_tool_calls=node.settings.max_tool_calls_per_task,
        )
        self.commands = CommandHandler(bus, services, store)
        self.registration = NodeRegistration(
            status, bus, lambda: bus.connected and lock.is_held, self.commands.stop_task, node.lost_address
        )
        self.intake = Intake(bus, status.file, self.commands.handle)
        self.control = ControlListener(bus, node)
        self.tenants = TenantListener(bus, status.file.name, self._forget)
        self.clean_up = Poller("node-answers", store.delete_old, CLEAN_UP_SECONDS, "old_answers_not_deleted")
        self.heartbeat = HeartbeatThread(status, connection.sender)
        self.progress = ProgressThread(status, connection.sender)
        self.is_registered = asyncio.Event()  # or knows that it can't be, for now

    async def _forget(self, tenant: str) -> None:
        """Delete what the node keeps of a tenant."""
        await self.store.forget(tenant)
        await self.tools.forget(tenant)

    async def _may_act(self) -> None:
        """Wait until the node has its epoch and holds its lock; raise AgentAlreadyRunningError after a conflict."""
        await self.is_registered.wait()
        await self.lock.wait_until_held()


class AgentNode:
    """One instance of an agent. `finished` is done when it has ended, whoever ended it."""

    def __init__(
        self,
        file: AgentFile,
        connection: NodeConnection,
        brain: Brain,
        settings: Settings,
        *,
        is_embedded: bool = False,
        is_demo: bool = False,
    ) -> None:
        """An embedded node is part of a server. `is_demo`: the demo brain answers for its model, and is announced."""
        self.status = NodeStatus(file, connection.protocol, is_demo=is_demo)
        self.connection = connection
        self.brain = brain
        self.settings = settings
        self.finished: asyncio.Future[NodeExit] = asyncio.get_running_loop().create_future()
        self._folder = node_folder(settings, file.name)
        self._is_embedded = is_embedded
        self._parts: NodeParts | None = None
        self._stopping: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The name of the agent."""
        return self.status.file.name

    async def start(self) -> None:
        """Start; raise AgentAlreadyRunningError, AddressTaken, BusUnavailable, or what is wrong with the agent's tools.

        The order matters: nothing is taken without the lock, and nothing is answered before the node has its epoch.
        """
        tools = SharedTools(self.status.file, self.settings, self._folder)
        await tools.open()
        try:
            bus = await self.connection.bus()
        except BaseException:
            await tools.close()
            raise
        try:
            lock = SingletonLock(self.status.file, bus)
            await lock.acquire()
            hold_seconds = self.settings.node_answer_hours * SECONDS_PER_HOUR
            store = AnswerStore(self._folder / ANSWERS_FILE, hold_seconds=hold_seconds)
            parts = self._parts = NodeParts(self, bus, lock, tools, store)
            lock.on_change = self._lock_changed
            await parts.intake.open()
            await parts.control.start()
            await parts.tenants.start()
            await parts.registration.start()
            parts.clean_up.start()
            parts.heartbeat.start()
            parts.progress.start()
            parts.is_registered.set()
        except BaseException:
            await self._abort(bus, tools)
            raise
        log.info("node_started", node=self.name, uid=self.status.uid, epoch=self.status.epoch)

    async def stop(self, reason: str = "stopped", grace_seconds: float | None = None) -> None:
        """Take no more commands, let running tasks end, deregister, release the lock and close the connections.

        What does not end within the grace period goes back to its queue.
        """
        stopping = self._begin_stop(NodeExit("stopped", reason), grace_seconds)
        await asyncio.shield(stopping)

    async def stop_task(self, task_id: str, signalled_at: datetime) -> bool:
        """Cancel a task, also if its command still waits in a queue; return whether it ran."""
        return self._started.commands.stop_task(task_id, signalled_at) > 0

    async def pause(self) -> None:
        """Take no commands; they stay in their queues, and running tasks go on."""
        self._require_running()
        if self.status.phase == "Running":
            self._set_phase("Paused")
            await self._started.intake.close()

    async def resume(self) -> None:
        """Take commands again."""
        self._require_running()
        if self.status.phase == "Paused":
            await self._started.intake.open()
            self._set_phase("Running")

    async def shutdown(self, reason: str, grace_seconds: float | None = None) -> None:
        """Begin the graceful stop, or shorten it; running tasks may end, unless the signal limits their time."""
        if grace_seconds is None:
            longest = self.status.file.limits.max_execution_time_seconds
            grace_seconds = max(self.settings.drain_seconds, longest)
        self._begin_stop(NodeExit("shutdown", reason), grace_seconds)

    async def configure(self, parameters: ConfigParams) -> None:
        """Change settings; tasks that run keep those that they began with. Raise ControlRefused before any change."""
        if parameters.log_level is not None and self._is_embedded:
            raise ControlRefused("log_level is that of the server here: set ARTEL_LOG_LEVEL, and start it again.")
        if parameters.progress_interval_seconds is not None and not self.status.file.progress_heartbeat.enabled:
            raise ControlRefused("This agent sends no progress: progress_heartbeat.enabled is false in its file.")
        parts, changed = self._started, parameters.model_dump(exclude_none=True)
        brain = {name: value for name, value in changed.items() if name in ("temperature", "max_tokens")}
        self._change_file("brain", brain)
        if parameters.max_concurrent_tasks is not None:
            self._change_file("limits", {"max_concurrent_tasks": parameters.max_concurrent_tasks})
            await parts.intake.resize(parameters.max_concurrent_tasks)
        if parameters.heartbeat_interval_seconds is not None:
            self._change_file("registry", {"heartbeat_interval_seconds": parameters.heartbeat_interval_seconds})
            parts.heartbeat.interval_seconds = parameters.heartbeat_interval_seconds
        if parameters.progress_interval_seconds is not None:
            self._change_file("progress_heartbeat", {"interval_seconds": parameters.progress_interval_seconds})
            parts.progress.interval_seconds = parameters.progress_interval_seconds
        if not IN_PASSPORT.isdisjoint(changed):
            parts.registration.again_soon()
        if parameters.log_level is not None:
            set_level(parameters.log_level)

    @property
    def _started(self) -> NodeParts:
        if self._parts is None:
            raise RuntimeError("the node is not started")
        return self._parts

    def _require_running(self) -> None:
        if self._stopping is not None:
            raise ControlRefused("The node is stopping.")

    def _change_file(self, section: str, values: dict[str, object]) -> None:
        """Change a section of the file, whose new values are checked already."""
        file = self.status.file
        self.status.file = file.model_copy(update={section: getattr(file, section).model_copy(update=values)})

    def _set_phase(self, phase: NodePhase) -> None:
        self.status.phase = phase
        self._started.heartbeat.send_now()

    def lost_address(self, reason: str) -> None:
        """End at once: the registry knows another node that has the same address."""
        log.error("node_address_taken", node=self.name, reason=reason)
        self._begin_stop(NodeExit("address_taken", reason), 0.0)

    def _lock_changed(self, state: LockState) -> None:
        """Take commands and call tools only with the lock; end at once if another instance works under this name."""
        parts = self._started
        self.status.has_lock = state is LockState.HELD
        parts.heartbeat.send_now()
        parts.intake.allow(state is LockState.HELD)
        if state is LockState.HELD:
            parts.registration.again_soon()
        else:
            parts.fence.interrupt()
        if state is LockState.CONFLICT:
            self._begin_stop(NodeExit("name_taken", f"another instance of {self.name} has taken over"), 0.0)

    def _begin_stop(self, why: NodeExit, grace_seconds: float | None) -> asyncio.Task[None]:
        """Begin to stop; a node that stops already waits no longer than this grace period."""
        grace_seconds = self.settings.drain_seconds if grace_seconds is None else grace_seconds
        if self._stopping is not None:
            self._started.intake.hurry(grace_seconds)
        else:
            log.info("node_stops", node=self.name, cause=why.cause, reason=why.reason)
            self._stopping = asyncio.create_task(self._stop(why, grace_seconds), name=f"node-stops-{self.name}")
        return self._stopping

    async def _stop(self, why: NodeExit, grace_seconds: float) -> None:
        parts = self._started
        try:
            self._set_phase("Draining")
            if why.cause == "name_taken":
                await parts.commands.abandon()
            await parts.intake.drain(grace_seconds)
            await parts.commands.abandon()
            await parts.registration.stop()
            await asyncio.gather(parts.heartbeat.stop(), parts.progress.stop())
            if why.cause != "name_taken":  # the registry knows the other instance by now
                await parts.registration.farewell(why.reason)
            await parts.control.stop()
            await parts.tenants.stop()
            await parts.clean_up.close()
            await parts.lock.release()
        finally:
            await parts.bus.close(grace_seconds=0)
            await parts.tools.close()
            parts.store.close()
            self.status.phase = "Stopped"
            self.finished.set_result(why)
        log.info("node_stopped", node=self.name, cause=why.cause)

    async def _abort(self, bus: Bus, tools: SharedTools) -> None:
        """Undo a start that failed."""
        parts, self._parts = self._parts, None
        if parts:
            await parts.registration.stop()
            await asyncio.gather(parts.heartbeat.stop(), parts.progress.stop())
        await bus.close(grace_seconds=0)
        await tools.close()
        if parts:
            await parts.clean_up.close()
            parts.store.close()
