"""What a node is doing now; written by the main thread, read by the threads of heartbeat and progress."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from artel.brain.prices import DEMO
from artel.bus.topology import command_queue
from artel.contract.agent_file import AgentFile
from artel.contract.passport import (
    BLOCKED_METRIC,
    LOOP_BLOCKED,
    Condition,
    CurrentTask,
    Endpoint,
    Metadata,
    NodeLease,
    Passport,
    PassportCapability,
    Resources,
    Spec,
    Status,
)
from artel.ids import uuid7
from artel.nodes.loop_watch import LoopWatch

BLOCKED_HEARTBEATS = 2  # without a sign of life of the event loop, before the node is not ready

NodePhase = Literal["Running", "Paused", "Draining", "Stopped"]


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A task in progress; times are in seconds of `time.monotonic()`."""

    task_id: str
    action: str
    began: float = field(default_factory=time.monotonic)
    phase: str = "understand"
    moved: float = field(default_factory=time.monotonic)
    commands: int = 1  # that name it


class NodeStatus:
    """The state of one instance of a node."""

    def __init__(self, file: AgentFile, protocol: Literal["amqp", "local"] = "amqp", *, is_demo: bool = False) -> None:
        self.file = file
        self.is_demo = is_demo  # the demo brain answers instead of the file's model, for nothing
        self.uid = uuid7()
        self.epoch = 0  # until the registry gives it one
        self.phase: NodePhase = "Running"
        self.has_lock = True
        self.metrics: Mapping[str, float] = {}  # what the node measured of itself, replaced as a whole
        self.loop_watch = LoopWatch()
        self._protocol: Literal["amqp", "local"] = protocol
        self._lock = threading.Lock()
        self._tasks: dict[str, RunningTask] = {}
        self._processed = 0
        self._began = time.monotonic()
        self._acquired = datetime.now(UTC)
        self._metadata = Metadata(
            uid=self.uid,
            name=file.name,
            node_type=file.type,
            labels={**file.labels, **{f"capability.{capability.name}": "true" for capability in file.capabilities}},
            version=file.version,
        )

    def began(self, task_id: str, action: str) -> None:
        """Note that a task begins, or another command of one that runs."""
        with self._lock:
            task = self._tasks.get(task_id)
            self._tasks[task_id] = replace(task, commands=task.commands + 1) if task else RunningTask(task_id, action)

    def moved(self, task_id: str, phase: str | None = None, action: str | None = None) -> None:
        """Note that a task moved, maybe into another phase, or that it is known which action it really is."""
        with self._lock:
            if task := self._tasks.get(task_id):
                phase, action = phase or task.phase, action or task.action
                self._tasks[task_id] = replace(task, phase=phase, action=action, moved=time.monotonic())

    def ended(self, task_id: str, *, is_over: bool = True) -> None:
        """Note that a task, or one of its commands, ended; a task that goes on later is not over, and not counted."""
        with self._lock:
            if task := self._tasks.pop(task_id, None):
                self._processed += is_over
                if task.commands > 1:
                    self._tasks[task_id] = replace(task, commands=task.commands - 1)

    def is_running(self, task_id: str) -> bool:
        """Return whether a task is in progress."""
        with self._lock:
            return task_id in self._tasks

    def tasks(self) -> tuple[CurrentTask, ...]:
        """Return the tasks in progress."""
        now = time.monotonic()
        with self._lock:
            return tuple(
                CurrentTask(
                    task_id=task.task_id,
                    action=task.action,
                    phase=task.phase,
                    elapsed_seconds=round(now - task.began, 3),
                    idle_seconds=round(now - task.moved, 3),
                )
                for task in self._tasks.values()
            )

    def status(self) -> Status:
        """Return the status for a heartbeat."""
        blocked_seconds = self.loop_watch.blocked_seconds()
        is_blocked = blocked_seconds >= BLOCKED_HEARTBEATS * self.file.registry.heartbeat_interval_seconds
        reason = LOOP_BLOCKED if is_blocked else "LockLost" if not self.has_lock else self.phase
        ready = Condition(type="Ready", status="True" if reason == "Running" else "False", reason=reason)
        return Status(
            phase=self.phase,
            conditions=(ready,),
            lease=NodeLease(holder_identity=self.uid, acquire_time=self._acquired),
            current_tasks=self.tasks(),
            total_tasks_processed=self._processed,
            uptime=round(time.monotonic() - self._began, 3),
            metrics={**self.metrics, **({BLOCKED_METRIC: round(blocked_seconds, 1)} if is_blocked else {})},
        )

    def passport(self) -> Passport:
        """Return the passport."""
        file, progress = self.file, self.file.progress_heartbeat
        limits = {name: float(value) for name, value in dict(file.limits).items() if value is not None}
        return Passport(
            metadata=self._metadata,
            spec=Spec(
                capabilities=tuple(
                    PassportCapability(
                        name=capability.name,
                        version=capability.version,
                        description=capability.description,
                        parameters=capability.parameters,
                        input_schema=capability.input_schema,
                        output_schema=capability.output_schema,
                    )
                    for capability in file.capabilities
                ),
                endpoint=Endpoint(protocol=self._protocol, queue=command_queue(file.name)),
                resources=Resources(limits=limits),
                display_name=file.display.name or file.name,
                description=file.display.description,
                avatar=file.display.avatar,
                model=DEMO if self.is_demo else file.brain.model_name,
                max_tokens=file.brain.max_tokens,
                tools=tuple(sorted(file.tools.usable)),
                max_concurrent_tasks=file.limits.max_concurrent_tasks,
                progress_interval_seconds=progress.interval_seconds if progress.enabled else None,
            ),
            status=self.status(),
        )
