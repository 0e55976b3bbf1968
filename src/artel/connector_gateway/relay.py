"""Calls to a project's connector, through whichever server process holds its connection.

A call that was sent when the connection broke is sent again with the same id, to the same connector, once that is back:
the connector's journal makes calls idempotent.
"""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol

from pydantic import ValidationError

from artel.auth.principal import Principal
from artel.connector_gateway import relay_calls
from artel.connector_gateway.connection import ConnectionLost, NotSent, rejection_for_orphaned_question
from artel.connector_gateway.connections import ConnectorConnections
from artel.connector_gateway.relay_calls import RelayCall
from artel.connector_gateway.repository import OnlineConnector, find_connector
from artel.contract.connector import ANSWERED, ANSWERS, CALLS, Call, Decided, Result
from artel.db.engine import Database
from artel.errors import ArtelError, DatabaseUnavailable
from artel.events.signals import Signals
from artel.ids import uuid7
from artel.logs import get_logger

POLL_SECONDS = 0.05
POLLS_PER_CHECK = 20
RECONNECT_SECONDS = 0.2
SERVE_SECONDS = 1.0
CLEANUP_SECONDS = 60.0
NOTIFY_SECONDS = 2.0
# After a lost answer to one of these it is unknown whether something was changed.
MUTATING_METHODS = frozenset(
    {"workspace/write", "workspace/edit", "workspace/delete", "workspace/run", "workspace/undo"}
)

log = get_logger(__name__)


class Question(Protocol):
    """A question to the user that the connector may be asking too."""

    @property
    def project_id(self) -> int:
        """The project that the connector serves."""

    @property
    def ask_id(self) -> str | None:
        """The connector's id for the question, if the connector asks."""


class Relay:
    """Calls connectors, and serves other processes' calls to the connections of this process."""

    def __init__(
        self, database: Database, signals: Signals, connections: ConnectorConnections, process_id: str
    ) -> None:
        self._database = database
        self._signals = signals
        self._connections = connections
        self._process_id = process_id
        self._wake = asyncio.Event()
        self._server: asyncio.Task[None] | None = None
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._notifying: set[asyncio.Task[None]] = set()
        self._cleaned_up_at = 0.0

    async def call(
        self,
        principal: Principal,
        project_id: int,
        method: str,
        call: Call,
        seconds: float,
        connector: OnlineConnector | None = None,
    ) -> Result:
        """Return the connector's answer; a failed result if it is offline, too late, or its answer was lost.

        Pass `connector` if it was just looked up.
        """
        deadline = time.monotonic() + seconds
        sent_to: str | None = None
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return _too_late(method, was_sent=sent_to is not None)
            target = connector or await self._find_connector(principal, project_id, was_sent=sent_to is not None)
            connector = None
            if target is None or sent_to not in (None, target.connector_id):
                if sent_to is None:
                    return Result(success=False, code="offline", error=_OFFLINE)
                await self._wait_for_reconnect(min(left, RECONNECT_SECONDS))
                continue
            try:
                return await self._send(principal, target, method, call, deadline)
            except ConnectionLost as lost:
                sent_to = target.connector_id if lost.was_sent else sent_to
                await asyncio.sleep(POLL_SECONDS)
            except NotSent:
                return _too_late(method, was_sent=sent_to is not None)
            except TimeoutError:
                return _too_late(method, was_sent=True)

    async def notify_answered(self, principal: Principal, project_id: int, decided: Decided) -> None:
        """Make the connector stop asking a question that was answered elsewhere or whose caller has gone."""
        connection = self._connections.of(principal, project_id)
        try:
            async with asyncio.timeout(NOTIFY_SECONDS):
                if connection is not None:
                    await connection.notify(ANSWERED, decided)
                else:
                    await self._notify_through_process(principal, project_id, decided)
        except Exception as failure:  # noqa: BLE001 - best effort: the connector's question expires anyway
            log.info("answer_not_told", project_id=project_id, reason=repr(failure))

    def stop_asking(self, principal: Principal, questions: Iterable[Question]) -> None:
        """Make connectors, in the background, stop asking questions whose caller has gone."""
        for question in questions:
            if ask_id := question.ask_id:
                rejection = Decided(ask_id=ask_id, decision="reject")
                notification = self.notify_answered(principal, question.project_id, rejection)
                task = asyncio.get_running_loop().create_task(notification)
                self._notifying.add(task)
                task.add_done_callback(self._notifying.discard)

    def start(self) -> None:
        """Start to serve other processes' calls."""
        self._server = asyncio.get_running_loop().create_task(self._serve(), name="relay")

    async def close(self) -> None:
        """Cancel all background tasks."""
        for task in (self._server, *self._serving.values(), *self._notifying):
            if task is not None:
                task.cancel()

    def work(self, _project_id: int) -> None:
        """Look for calls that other processes stored for connections of this process, of all projects."""
        self._wake.set()

    async def _find_connector(self, principal: Principal, project_id: int, *, was_sent: bool) -> OnlineConnector | None:
        try:
            return await self._database.read(find_connector, principal, project_id)
        except DatabaseUnavailable:
            if was_sent:  # the call's outcome is not known yet: retry
                return None
            raise

    async def _send(
        self, principal: Principal, connector: OnlineConnector, method: str, call: Call, deadline: float
    ) -> Result:
        connection = self._connections.of(principal, connector.project_id)
        if connection is not None and connection.connection_id == connector.line_id:
            return await connection.call(method, call, deadline)
        if connector.process_id == self._process_id:
            raise ConnectionLost(was_sent=False)  # it closed after the lookup
        return await self._send_through_process(principal, connector, method, call, deadline)

    async def _send_through_process(
        self, principal: Principal, connector: OnlineConnector, method: str, call: Call, deadline: float
    ) -> Result:
        """Store a call for the process that holds the connection, and poll for the answer."""
        left = deadline - time.monotonic()
        expires_at = datetime.now(UTC) + timedelta(seconds=left)
        params = call.model_copy(update={"timeout_ms": max(1, int(left * 1000))}).model_dump(mode="json")
        relayed = RelayCall(call.call_id, principal.user_id, connector.project_id, method, params, expires_at)
        await self._database.run(relay_calls.add_call, principal, connector.process_id, relayed)
        self._signals.work(connector.project_id)
        try:
            async with asyncio.timeout(left):
                answer = await self._poll_answer(principal, connector, call.call_id)
        except (TimeoutError, ConnectionLost) as failure:
            if not await self._withdraw(principal, call.call_id):
                raise
            raise NotSent if isinstance(failure, TimeoutError) else ConnectionLost(was_sent=False) from None
        finally:
            with suppress(ArtelError):  # the cleanup deletes it later
                await asyncio.shield(self._database.run(relay_calls.delete_call, principal, call.call_id))
        if "lost" in answer:
            raise ConnectionLost(was_sent=answer["lost"])
        return ANSWERS[method].model.model_validate(answer["result"])

    async def _notify_through_process(self, principal: Principal, project_id: int, decided: Decided) -> None:
        """Store a notification for the process that holds the connection."""
        connector = await self._database.read(find_connector, principal, project_id)
        if connector is None or connector.process_id == self._process_id:
            return
        expires_at = datetime.now(UTC) + timedelta(seconds=CLEANUP_SECONDS)
        params = decided.model_dump(mode="json")
        relayed = RelayCall(uuid7(), principal.user_id, project_id, ANSWERED, params, expires_at)
        await self._database.run(relay_calls.add_call, principal, connector.process_id, relayed)
        self._signals.work(project_id)

    async def _withdraw(self, principal: Principal, call_id: str) -> bool:
        """Withdraw a stored call; return whether it certainly was not and will not be sent."""
        try:
            return await self._database.run(relay_calls.withdraw_call, principal, call_id)
        except ArtelError:
            return False

    async def _poll_answer(self, principal: Principal, connector: OnlineConnector, call_id: str) -> dict[str, Any]:
        """Poll for the answer to a stored call; raise ConnectionLost if the connection is no longer registered."""
        polls = 0
        while True:
            await asyncio.sleep(POLL_SECONDS)
            answer = await self._database.read(relay_calls.find_answer, principal, call_id)
            if answer is not None:
                return answer
            polls += 1
            if polls % POLLS_PER_CHECK == 0:
                now = await self._database.read(find_connector, principal, connector.project_id)
                if now is None or now.line_id != connector.line_id:
                    raise ConnectionLost

    async def _wait_for_reconnect(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._connections.wait_for_open()
        except TimeoutError:
            return

    # Calls of other processes

    async def _serve(self) -> None:
        while True:
            try:
                async with asyncio.timeout(SERVE_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await self._serve_calls()
            except ArtelError as failure:
                log.warning("relay_failed", reason=failure.detail)
            except Exception:
                log.exception("relay_crashed")

    async def _serve_calls(self) -> None:
        if self._connections.any:
            for relayed in await self._database.read(relay_calls.find_calls, self._process_id):
                if relayed.id not in self._serving:
                    task = asyncio.get_running_loop().create_task(self._serve_call(relayed))
                    self._serving[relayed.id] = task
                    task.add_done_callback(partial(self._served, relayed.id))
        if time.monotonic() - self._cleaned_up_at > CLEANUP_SECONDS:
            self._cleaned_up_at = time.monotonic()
            await self._database.run(relay_calls.delete_old_calls)

    def _served(self, call_id: str, _task: asyncio.Task[None]) -> None:
        self._serving.pop(call_id, None)

    async def _serve_call(self, relayed: RelayCall) -> None:
        principal = Principal(relayed.user_id)
        try:
            if relayed.method == ANSWERED:
                await self._forward_notification(principal, relayed)
                return
            answer = await self._forward_call(principal, relayed)
            has_caller = await self._database.run(relay_calls.answer_call, principal, relayed.id, answer)
        except (NotSent, TimeoutError):
            return  # the caller no longer waits
        except ArtelError as failure:
            log.warning("relay_answer_lost", call_id=relayed.id, reason=failure.detail)
            return
        if not has_caller and (rejection := rejection_for_orphaned_question(answer.get("result"))):
            await self.notify_answered(principal, relayed.project_id, rejection)

    async def _forward_call(self, principal: Principal, relayed: RelayCall) -> dict[str, Any]:
        connection = self._connections.of(principal, relayed.project_id)
        if connection is None:
            return {"lost": False}
        try:
            call = CALLS[relayed.method].model_validate(relayed.params)
            may_send = partial(self._database.run, relay_calls.take_call, principal, relayed.id)
            result = await connection.call(relayed.method, call, _deadline(relayed, call), may_send)
        except ConnectionLost as lost:
            return {"lost": lost.was_sent}
        except (KeyError, ValidationError):  # the other process runs another version
            return {"lost": False}
        return {"result": result.model_dump(mode="json", exclude_unset=True)}

    async def _forward_notification(self, principal: Principal, relayed: RelayCall) -> None:
        is_ours = await self._database.run(relay_calls.take_call, principal, relayed.id)
        if is_ours and self._connections.of(principal, relayed.project_id) is not None:
            await self.notify_answered(principal, relayed.project_id, Decided.model_validate(relayed.params))
        await self._database.run(relay_calls.delete_call, principal, relayed.id)


_OFFLINE = (
    "The user's files can't be reached: no connector is online for this project. Ask the user to run `artel connect`."
)


_NOT_SENT = (
    "The user's machine was too busy to take the call in time. Nothing was sent, so nothing was changed. Try again."
)


def _deadline(relayed: RelayCall, call: Call) -> float:
    """Return the deadline of another process's call, in seconds of `time.monotonic()`."""
    left = (relayed.expires_at - datetime.now(UTC)).total_seconds()
    return time.monotonic() + min(left, call.timeout_ms / 1000)


def _too_late(method: str, *, was_sent: bool) -> Result:
    if not was_sent:
        return Result(success=False, code="timed_out", error=_NOT_SENT)
    if method in MUTATING_METHODS:
        return Result(
            success=False,
            code="unknown",
            error="The user's machine did not answer in time. It may have been done or not: check before you retry.",
        )
    return Result(success=False, code="timed_out", error="The user's machine did not answer in time. Try again.")
