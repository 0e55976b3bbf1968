"""Finds lost nodes and stuck tasks, and raises alerts in the projects that they work for."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from artel.alerts.transactions import NODE_ALERTS, NODE_LOST, NODE_OVER_LIMIT, TASK_STUCK, raise_alert, resolve_alert
from artel.auth.principal import Principal
from artel.bus.bus import Bus
from artel.bus.topology import event_key
from artel.contract.envelope import Envelope, Event, Severity
from artel.contract.node_messages import ALERT_RAISED, REGISTRY, NodeAlert, OverLimit
from artel.contract.passport import FORGOTTEN_SECONDS, OFFLINE_SECONDS
from artel.contract.spaces import Alert
from artel.db.engine import Database
from artel.errors import ArtelError, DatabaseUnavailable
from artel.ids import uuid7
from artel.logs import get_logger
from artel.registry import repository
from artel.registry.commands import Problem
from artel.registry.repository import AlertKey, NodeAge, OpenCommand
from artel.registry.stop_signal import stop_task

MAX_SUBJECT_CHARACTERS = 60
ALERT_TTL_SECONDS = 60.0
CHECK_SECONDS = 5.0
MAX_CHECK_GAP_SECONDS = 2 * CHECK_SECONDS
MISSED_REPORTS = 3  # of progress, before a task is stuck

PROBLEMS: tuple[Problem | None, ...] = ("stuck", "lost", None)

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _View:
    """What one look at the database shows."""

    commands: list[OpenCommand]
    ages: dict[str, NodeAge]  # of the nodes that have open commands
    alerts: dict[AlertKey, NodeAge | None]  # open ones, with the age of the node that they are about if it is known
    offline: set[tuple[str, str]]  # name and uid
    orphans: list[tuple[str, str]]  # node and id of open commands whose turn is over
    at: datetime  # by the clock of the database


class Monitor:
    """Compares what should be with what is and remembers nothing, so that any process can go on with it.

    Silence counts only while this process could have heard something: after an outage of the server, the broker or the
    database nodes get the time to speak up before they are called lost.
    """

    def __init__(
        self,
        database: Database,
        bus: Bus,
        stuck_seconds: float,
        alerted: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._bus = bus
        self._stuck_seconds = stuck_seconds
        self._alerted = alerted
        self._clock = clock
        self._listening_since = self._checked_at = clock()
        self._looked_at: datetime | None = None  # of the last check, by the clock of the database
        self._offline: set[tuple[str, str]] = set()

    async def check(self) -> None:
        """Mark open commands that have a problem, raise and resolve alerts, and stop tasks that nobody waits for."""
        try:
            if self._bus.connected:
                await self._check()
            else:
                self.missed_events()
        except DatabaseUnavailable:
            self.missed_events()
            raise
        finally:
            self._checked_at = self._clock()

    def missed_events(self) -> None:
        """Measure silence from now on: what nodes said until now may not have been heard, or not stored."""
        self._listening_since = self._clock()

    async def _check(self) -> None:
        view = await self._database.read(_look)
        listening = self._listening_seconds(view.at)
        problems = {command.id: self._problem(command, view.ages, listening) for command in view.commands}
        for problem in PROBLEMS:
            changed = [each.id for each in view.commands if problems[each.id] == problem != each.problem]
            if changed:
                await self._database.run(repository.mark, problem, changed)
        await self._update_alerts(view, problems, listening)
        self._note_offline(view, listening)
        if view.orphans:
            await self._stop(view.orphans)

    def _listening_seconds(self, looked_at: datetime) -> float:
        """Return for how long this process has heard the nodes without an interruption.

        A late check shows that the process or its machine stood still, and heard nothing. The clock of the process may
        have stood still, too, and that of the database may have been set: both make heartbeats look old.
        """
        since_last_look = (looked_at - (self._looked_at or looked_at)).total_seconds()
        self._looked_at = looked_at
        if max(self._clock() - self._checked_at, since_last_look) > MAX_CHECK_GAP_SECONDS:
            self.missed_events()
        return self._clock() - self._listening_since

    async def _stop(self, orphans: list[tuple[str, str]]) -> None:
        """Stop tasks that nobody waits for, and cancel their commands; the next check tries again where that failed."""
        reason = "the turn is over"
        told = await asyncio.gather(*(stop_task(self._bus, *orphan, reason) for orphan in orphans))
        stopped = [command_id for (_, command_id), is_told in zip(orphans, told, strict=True) if is_told]
        if stopped:
            await self._database.run(repository.cancel, stopped)
            log.info("orphaned_commands_cancelled", command_ids=stopped)

    async def _update_alerts(self, view: _View, problems: Mapping[str, Problem | None], listening: float) -> None:
        wanted = {
            key: (message, each.node_name)
            for each in view.commands
            for key, message in self._alerts_of(each, problems[each.id])
        }
        for key in wanted.keys() - view.alerts.keys():
            message, node = wanted[key]
            await self._raise(key, message, node)
        for key, age in view.alerts.items():
            if key not in wanted and _is_over(key[2], age, listening):
                await self._resolve(key)

    async def over_limit(self, change: OverLimit) -> None:
        """Raise or resolve the alert that a node exceeds a limit, in the projects that it works for; idempotent.

        An instance that was replaced says nothing about the node any more.
        """
        if change.uid != (await self._database.read(repository.newest_instance, change.node))[0]:
            return
        log.warning("node_over_limit", node=change.node, limit=change.limit, value=change.value, over=change.over)
        subject = f"{_subject(change.node)} {change.limit}"
        if not change.over:
            for key in await self._database.read(repository.open_alerts, (NODE_OVER_LIMIT,)):
                if key[3] == subject:
                    await self._resolve(key)
            return
        message = f"Node {change.node} exceeds its {change.limit}: {change.value:g} of {change.allowed:g}."
        for of_project in await self._database.read(repository.projects_of, change.node, change.task_id):
            await self._raise((*of_project, NODE_OVER_LIMIT, subject), message, change.node)

    async def restarted(self, name: str) -> None:
        """Resolve the alerts that a node exceeds its limits: the instance that did is gone and can't say so."""
        for key in await self._database.read(repository.open_alerts, (NODE_OVER_LIMIT,)):
            if key[3].partition(" ")[0] == _subject(name):
                await self._resolve(key)

    def _problem(self, command: OpenCommand, ages: dict[str, NodeAge], listening: float) -> Problem | None:
        """Return what is wrong with an open command.

        A task without any report of progress is not stuck while its node has as many others as it takes, because it
        waits for its turn, or while the node says in its heartbeats that it works on it; unless its event loop stands
        still.
        """
        age = ages.get(command.node_name)
        if age is None or age.is_gone or min(age.seconds, listening) >= OFFLINE_SECONDS:
            return "lost"
        longest = max(self._stuck_seconds, MISSED_REPORTS * age.progress_seconds)
        is_known = bool({command.id, command.task_id} & age.task_ids)
        is_waiting = not command.has_begun and (age.is_full or is_known) and age.blocked_seconds < longest
        is_silent = min(command.silent_seconds, listening) >= longest
        return "stuck" if command.is_sent and is_silent and not is_waiting else None

    def _alerts_of(self, command: OpenCommand, problem: Problem | None) -> list[tuple[AlertKey, str]]:
        of_project, node = (command.user_id, command.project_id), command.node_name
        if problem == "lost":
            message = f"Node {node} is lost while it has tasks of this project: it sends no heartbeats."
            return [((*of_project, NODE_LOST, _subject(node)), message)]
        if problem == "stuck":
            message = (
                f"A task on node {node} is stuck: no progress for {command.silent_seconds:.0f} s"
                f"{f', in the phase {command.phase}' if command.phase else ''}."
            )
            return [((*of_project, TASK_STUCK, _subject(command.id)), message)]
        return []

    async def _raise(self, key: AlertKey, message: str, node: str) -> None:
        user_id, project_id, kind, subject = key
        alert = Alert(
            id=uuid7(),
            project_id=project_id,
            kind=kind,
            severity="critical" if kind == NODE_LOST else "warning",
            message=message,
            raised_at=datetime.now(UTC),
            resolved_at=None,
        )
        try:
            if not await self._database.of(Principal(user_id)).run(raise_alert, alert, subject):
                return
        except DatabaseUnavailable:
            raise
        except (ArtelError, IntegrityError) as failure:  # the project is gone, or another process was faster
            log.info("alert_not_raised", kind=kind, project_id=project_id, reason=str(failure))
            return
        log.warning("alert_raised", kind=kind, project_id=project_id, message=message)
        self._alerted(kind)
        if kind == NODE_OVER_LIMIT:
            return  # the node itself has told the bus
        about = NodeAlert(node=node, uid="", epoch=0, kind=kind, message=message)
        severity: Severity = "critical" if kind == NODE_LOST else "warning"
        data = Event(event_type=ALERT_RAISED, event_data=about.model_dump(), severity=severity)
        with suppress(ArtelError):  # the alert is stored; this only tells who listens to the bus
            event = Envelope.of(data, source=REGISTRY)
            await self._bus.publish(event_key("alert", "raised"), event, ttl_seconds=ALERT_TTL_SECONDS)

    async def _resolve(self, key: AlertKey) -> None:
        user_id, project_id, kind, subject = key
        try:
            if await self._database.of(Principal(user_id)).run(resolve_alert, project_id, kind, subject):
                log.info("alert_resolved", kind=kind, project_id=project_id)
        except DatabaseUnavailable:
            raise
        except ArtelError as failure:
            log.info("alert_not_resolved", kind=kind, project_id=project_id, reason=failure.detail)

    def _note_offline(self, view: _View, listening: float) -> None:
        """Log nodes that are newly offline, and count those that have no tasks: they raise no alert in a project.

        Each process counts them for itself, as it has heard them; alerts of projects are raised and counted once.
        """
        offline = view.offline if listening >= OFFLINE_SECONDS else set()
        for name, uid in sorted(offline - self._offline):
            log.warning("node_offline", node=name, uid=uid)
            if name not in view.ages:
                self._alerted(NODE_LOST)
        self._offline = offline


def _look(connection: Connection) -> _View:
    commands = repository.open_commands(connection)
    ages = repository.node_ages(connection, {command.node_name for command in commands})
    alerts = repository.open_alerts(connection, NODE_ALERTS)
    others = (
        repository.offline_nodes(connection),
        repository.orphans(connection),
        repository.current_time(connection),
    )
    if not alerts:
        return _View(commands, ages, {}, *others)
    by_subject = {_subject(name): age for name, age in repository.node_ages(connection, None).items()}
    about = {key: key[3].partition(" ")[0] for key in alerts}  # no name has spaces
    return _View(commands, ages, {key: by_subject.get(about[key]) for key in alerts}, *others)


def _is_over(kind: str, age: NodeAge | None, listening: float) -> bool:
    """Return whether an alert that nothing calls for any more has ended.

    That of a lost node ends when the node is back or gone for good, and that of an exceeded limit, which the node
    itself ends otherwise, when it is gone.
    """
    if kind == TASK_STUCK or age is None:
        return True
    is_back = kind == NODE_LOST and age.seconds < OFFLINE_SECONDS
    return is_back or age.is_gone or min(age.seconds, listening) >= FORGOTTEN_SECONDS


def _subject(name: str) -> str:
    """Return the subject of an alert: the name, or a shorter text that is as unique."""
    if len(name) <= MAX_SUBJECT_CHARACTERS:
        return name
    return f"{name[:27]}…{hashlib.sha256(name.encode()).hexdigest()[:32]}"
