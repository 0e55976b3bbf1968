"""Notifies readers in this process and other processes that something was committed.

Signals are hints: the data is in the database, and a process that missed a signal finds it there.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Literal

from artel.auth.principal import Principal
from artel.bus.bus import Hint, Hints
from artel.db.tenant import Tenant
from artel.events.hub import AnswerKey, EventHub, Snapshot
from artel.ids import uuid7
from artel.logs import get_logger

SHARE_SECONDS = 0.1

# session: events of a session (id). work: turns or calls of a project wait (id). cancelled: a turn was ended by another
# process than its runner (id). agents: an agent was changed or deleted (ids of project and agent). settings: an
# administrator changed the settings of the server. missed: signals may have been lost while there was no connection.
Kind = Literal["session", "work", "cancelled", "agents", "settings", "missed"]

log = get_logger(__name__)


class Signals:
    """Signals of one process; `bus` is what sends them, None if there are no other processes."""

    def __init__(self, hub: EventHub, project_hub: EventHub, bus: Hints | None) -> None:
        self._hub = hub
        self._project_hub = project_hub
        self._bus = bus
        self._origin = uuid7()  # to ignore this process's own hints, which the bus sends back to it
        self._handlers: defaultdict[str, list[Callable[..., None]]] = defaultdict(list)
        self._stop: Callable[[], None] = bus.on_hint(self._on_hint) if bus else lambda: None

    @property
    def connected(self) -> bool:
        """Whether signals currently reach the other processes, if there are any."""
        return self._bus is None or self._bus.connected

    def on(self, kind: Kind, handler: Callable[..., None]) -> None:
        """Call a handler with the ids of every signal of this kind from other processes; `cancelled` also from this."""
        self._handlers[kind].append(handler)

    def session_changed(self, session_id: str) -> None:
        self._hub.notify(session_id)
        self._send("session", session_id)

    def project_changed(self, project_id: int) -> None:
        self._project_hub.notify(str(project_id))
        self._send("project", str(project_id))

    def project_deleted(self, tenant: Tenant, project_id: int) -> None:
        """End the streams of a deleted project and its sessions."""
        self._hub.notify_all_of(tenant)
        self.project_changed(project_id)

    def work(self, project_id: int) -> None:
        """Signal to other processes that a project has waiting turns or calls."""
        self._send("work", str(project_id))

    def cancelled(self, turn_id: str) -> None:
        """Signal that a turn was ended by another process than its runner."""
        self._notify("cancelled", turn_id)
        self._send("cancelled", turn_id)

    def agents_changed(self, project_id: int, agent_ids: Iterable[int]) -> None:
        """Signal to other processes that agents were changed or deleted."""
        for agent_id in agent_ids:
            self._send("agents", f"{project_id}/{agent_id}")

    def settings_changed(self) -> None:
        """Signal to other processes that an administrator changed the settings of the server."""
        self._send("settings", "")

    def write_answer(self, key: AnswerKey, text: str) -> None:
        """Stream a piece of a partial answer; other processes get the text so far, every SHARE_SECONDS at most.

        A text that is too long for a hint is seen by their readers only when it is complete.
        """
        self._hub.write(key, text)
        snapshot = self._hub.snapshot_to_share(key, SHARE_SECONDS) if self._bus else None
        if snapshot is not None:
            fields = snapshot.message_id, snapshot.task_id, snapshot.n, snapshot.text, snapshot.turn_id
            self._send("written", json.dumps([key.tenant.user_id, key.session_id, *fields], ensure_ascii=False))

    def close(self) -> None:
        self._stop()

    def _send(self, kind: str, key: str) -> None:
        if self._bus is None:
            return
        hint = Hint(kind, f"{self._origin} {key}")
        if len(hint.key.encode(errors="surrogatepass")) > self._bus.max_hint_bytes:
            log.debug("hint_too_long", kind=kind)
        else:
            self._bus.send_hint(hint)

    def _on_hint(self, hint: Hint) -> None:
        try:
            origin, key = hint.key.split(" ", 1)
            if origin != self._origin:
                self._handle(hint.kind, key)
        except (ValueError, TypeError, KeyError) as failure:  # perhaps sent by another version
            log.info("hint_not_understood", kind=hint.kind, error=str(failure))

    def _handle(self, kind: str, key: str) -> None:
        match kind:
            case "session":
                self._hub.notify(key)
                self._notify(kind, key)
            case "project":
                self._project_hub.notify(key)
            case "work":
                self._notify(kind, int(key))
            case "cancelled":
                self._notify(kind, key)
            case "agents":
                project_id, agent_id = key.split("/")
                self._notify(kind, int(project_id), int(agent_id))
            case "settings" | "missed":
                self._notify(kind)
            case "written":
                user_id, session_id, message_id, task_id, n, text, *more = json.loads(key)
                turn_id = more[0] if more else None  # an older version does not send it
                self._hub.replace(Principal(user_id), session_id, Snapshot(message_id, task_id, n, text, turn_id))

    def _notify(self, kind: str, *ids: Any) -> None:
        for handler in self._handlers[kind]:
            handler(*ids)
