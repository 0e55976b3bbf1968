"""Heartbeats of a node, with what it measures of itself against its declared limits."""

import asyncio
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from artel.contract.envelope import Envelope, Event
from artel.contract.node_messages import (
    ALERT_RAISED,
    ALERT_RESOLVED,
    NODE_HEARTBEAT,
    NODE_OVER_LIMIT,
    Heartbeat,
    NodeAlert,
    OverLimit,
)
from artel.contract.passport import CurrentTask
from artel.nodes.event_thread import Connect, EventThread
from artel.nodes.status import NodeStatus

SHORTEST_WINDOW_SECONDS = 0.05  # CPU time over less is noise
UNDER_AGAIN = 0.9  # share of a limit below which it is no longer exceeded, so that noise around it is reported once
LATE_SECONDS = 1.0  # how long a task may take to end after its time
PASSPORT_EVERY = 6  # heartbeats, so that a registry that lost its rows knows the node again
MEGABYTE = 1024 * 1024

_UNITS = {"max_memory_mb": "MB of memory", "max_cpu_percent": "% of a core", "max_execution_time_seconds": "s"}


class ProcessMeter:
    """Measures the memory and the CPU time of this process."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._cpu = time.process_time()
        self._cpu_percent = 0.0

    def measure(self) -> dict[str, float]:
        """Return the memory in use, and the CPU time since the last measurement in percent of one core."""
        now, cpu = time.monotonic(), time.process_time()
        if now - self._at >= SHORTEST_WINDOW_SECONDS:
            self._cpu_percent = 100 * (cpu - self._cpu) / (now - self._at)
            self._at, self._cpu = now, cpu
        return {"memory_mb": round(_resident_bytes() / MEGABYTE, 1), "cpu_percent": round(self._cpu_percent, 1)}


def _resident_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):  # not Linux: the peak is the best there is
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


class LimitWatch:
    """Compares a node with its declared limits, and knows which of them it has reported as exceeded."""

    def __init__(self, status: NodeStatus) -> None:
        self._status = status
        self._reported: dict[tuple[str, str], OverLimit] = {}  # by limit and task

    def changes(self) -> list[OverLimit]:
        """Return the limits that are newly exceeded, and those that are no longer."""
        exceeded = {(each.limit, each.task_id): each for each in self._exceeded()}
        began = [each for key, each in exceeded.items() if key not in self._reported]
        over = [each.model_copy(update={"over": False}) for key, each in self._reported.items() if key not in exceeded]
        return began + over

    def reported(self, change: OverLimit) -> None:
        """Note that a change was sent."""
        if change.over:
            self._reported[change.limit, change.task_id] = change
        else:
            del self._reported[change.limit, change.task_id]

    def _exceeded(self) -> Iterator[OverLimit]:
        limits, metrics = self._status.file.limits, self._status.metrics
        for name, allowed, measure in (
            ("max_memory_mb", limits.max_memory_mb, "memory_mb"),
            ("max_cpu_percent", limits.max_cpu_percent, "cpu_percent"),
        ):
            value = metrics.get(measure, 0.0)
            if allowed is not None and value > allowed * (UNDER_AGAIN if (name, "") in self._reported else 1):
                yield self._over(name, value, allowed)
        longest = limits.max_execution_time_seconds
        for task in self._status.tasks():
            if task.elapsed_seconds > longest + LATE_SECONDS:
                yield self._over("max_execution_time_seconds", task.elapsed_seconds, longest, task)

    def _over(self, limit: str, value: float, allowed: float, task: CurrentTask | None = None) -> OverLimit:
        status = self._status
        return OverLimit(
            node=status.file.name,
            uid=status.uid,
            epoch=status.epoch,
            limit=limit,
            value=value,
            allowed=allowed,
            task_id=task.task_id if task else "",
        )


class HeartbeatThread(EventThread):
    """Sends the whole status at each interval, and a report when a declared limit is exceeded or no longer is."""

    def __init__(self, status: NodeStatus, connect: Connect) -> None:
        super().__init__("heartbeat", status, connect, status.file.registry.heartbeat_interval_seconds)
        self._meter = ProcessMeter()
        self._limits = LimitWatch(status)
        self._beats = 0

    def start(self) -> None:
        """Start the thread; from now on it also watches the event loop of the caller."""
        self._status.loop_watch.watch(asyncio.get_running_loop())
        super().start()

    def _events(self) -> Iterator[Envelope]:
        status = self._status
        status.metrics = self._meter.measure()
        if status.file.registry.enabled:
            has_passport = status.epoch == 0 or self._beats % PASSPORT_EVERY == 0
            beat = Heartbeat(
                name=status.file.name,
                uid=status.uid,
                epoch=status.epoch,
                status=status.status().model_dump(mode="json", by_alias=True),
                passport=status.passport().dump() if has_passport else None,
            )
            yield self._envelope(Event(event_type=NODE_HEARTBEAT, event_data=beat.model_dump(exclude_none=True)))
            self._beats += 1
        for change in self._limits.changes():
            severity = "warning" if change.over else "info"
            yield self._envelope(
                Event(event_type=NODE_OVER_LIMIT, event_data=change.model_dump(), severity=severity),
                change.task_id or None,
            )
            yield self._envelope(
                Event(
                    event_type=ALERT_RAISED if change.over else ALERT_RESOLVED,
                    event_data=_alert(change).model_dump(),
                    severity=severity,
                ),
                change.task_id or None,
            )
            self._limits.reported(change)


def _alert(change: OverLimit) -> NodeAlert:
    subject = f"Task {change.task_id} on node {change.node}" if change.task_id else f"Node {change.node}"
    state = "exceeds" if change.over else "no longer exceeds"
    return NodeAlert(
        node=change.node,
        uid=change.uid,
        epoch=change.epoch,
        kind="over_limit",
        task_id=change.task_id,
        message=f"{subject} {state} {change.limit}: {change.value:g} of {change.allowed:g} {_UNITS[change.limit]}.",
    )
