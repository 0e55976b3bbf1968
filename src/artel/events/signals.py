"""Tells whoever needs to know that something was committed: readers in this process, and the other processes.

Signals are hints. What they tell is in the database, and is found there by those that a signal did not reach.
"""

import json
from collections.abc import Callable
from typing import Protocol

from artel.bus.bus import Bus, Hint
from artel.db.tenant import Tenant
from artel.events.hub import EventHub, Snapshot
from artel.ids import uuid7
from artel.logs import get_logger

MAX_REMOTE_TEXT = 262_144  # a longer answer is seen by readers at other processes when it is whole

log = get_logger(__name__)


class OnSignal(Protocol):
    """Somebody who wants to hear of signals, of this process and of others."""

    def session_changed(self, session_id: str) -> None:
        """Hear that a session has new events."""

    def work(self, project_id: int) -> None:
        """Hear that a project has turns or calls that wait."""

    def cancelled(self, turn_id: str) -> None:
        """Hear that a turn was ended by somebody else than the one who runs it."""

    def agents_changed(self, project_id: int, agent_id: int) -> None:
        """Hear that an agent was changed or deleted."""


class _Owner:
    """The user of a snapshot that came from another process."""

    def __init__(self, user_id: int) -> None:
        self.user_id = user_id


class Signals:
    """The signals of one process; `bus` is given when there are other processes."""

    def __init__(self, hub: EventHub, project_hub: EventHub, bus: Bus | None) -> None:
        self._hub = hub
        self._project_hub = project_hub
        self._bus = bus
        self._origin = uuid7()  # of what this process sends, which comes back to it and says nothing new
        self._listeners: list[OnSignal] = []
        self._stop: Callable[[], None] = bus.on_hint(self._hint) if bus else lambda: None

    @property
    def reach_others(self) -> bool:
        """Whether there may be other processes that hear the signals."""
        return self._bus is not None

    @property
    def connected(self) -> bool:
        """Whether signals reach other processes now, if there are any."""
        return self._bus is None or self._bus.connected

    def add(self, listener: OnSignal) -> None:
        """Let somebody hear of signals."""
        self._listeners.append(listener)

    def session_changed(self, session_id: str) -> None:
        """Say that a session has new events."""
        self._hub.notify(session_id)
        self._send("session", session_id)

    def project_changed(self, project_id: int) -> None:
        """Say that a project's own stream has new events."""
        self._project_hub.notify(str(project_id))
        self._send("project", str(project_id))

    def work(self, project_id: int) -> None:
        """Say to other processes that a project has turns or calls that wait."""
        self._send("work", str(project_id))

    def cancelled(self, turn_id: str) -> None:
        """Say that a turn was ended by somebody else than the one who runs it."""
        for listener in self._listeners:
            listener.cancelled(turn_id)
        self._send("cancelled", turn_id)

    def agents_changed(self, project_id: int, agent_id: int) -> None:
        """Say to other processes that an agent was changed or deleted."""
        self._send("agents", f"{project_id}/{agent_id}")

    def written(self, tenant: Tenant, session_id: str, snapshot: Snapshot) -> None:
        """Show other processes an answer that is being written."""
        if len(snapshot.text) <= MAX_REMOTE_TEXT:
            what = snapshot.message_id, snapshot.task_id, snapshot.n, snapshot.text, snapshot.turn_id
            self._send("written", json.dumps([tenant.user_id, session_id, *what]))

    def close(self) -> None:
        """Hear no more."""
        self._stop()

    def _send(self, kind: str, key: str) -> None:
        if self._bus is not None:
            self._bus.send_hint(Hint(kind, f"{self._origin} {key}"))

    def _hint(self, hint: Hint) -> None:
        try:
            origin, key = hint.key.split(" ", 1)
            if origin != self._origin:
                self._take(hint.kind, key)
        except (ValueError, TypeError, KeyError) as failure:  # of another version, perhaps
            log.info("hint_not_understood", kind=hint.kind, error=str(failure))

    def _take(self, kind: str, key: str) -> None:
        match kind:
            case "session":
                self._hub.notify(key)
                self._tell(lambda listener: listener.session_changed(key))
            case "project":
                self._project_hub.notify(key)
            case "work":
                self._tell(lambda listener: listener.work(int(key)))
            case "cancelled":
                self._tell(lambda listener: listener.cancelled(key))
            case "agents":
                project_id, agent_id = key.split("/")
                self._tell(lambda listener: listener.agents_changed(int(project_id), int(agent_id)))
            case "written":
                user_id, session_id, message_id, task_id, n, text, *more = json.loads(key)
                turn_id = more[0] if more else None  # a process of an older version says nothing of it
                self._hub.replace(_Owner(user_id), session_id, Snapshot(message_id, task_id, n, text, turn_id))

    def _tell(self, call: Callable[[OnSignal], None]) -> None:
        for listener in self._listeners:
            call(listener)
