"""Calls to a project's connector, through whichever server process holds its connection.

A call that was sent when the connection broke is sent again with the same id, to the same connector, once that is back:
the connector's journal makes calls idempotent.
"""

import asyncio
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

from pydantic import ValidationError

from artel.approvals.approval import Approval
from artel.auth.principal import Principal
from artel.connector_gateway.connection import ConnectorLost, NotSent, rejection_for_orphaned_question
from artel.connector_gateway.connections import ConnectorConnections
from artel.connector_gateway.relay_calls import NewRelayCall, RelayCall, RelayCallRepository, find_calls
from artel.connector_gateway.repository import OnlineConnector, find_connector
from artel.contract.connector import (
    ANSWERED,
    ANSWERS,
    CALLS,
    DISCONNECT,
    MUTATING_METHODS,
    Call,
    CallAnswer,
    CallFields,
    Decided,
)
from artel.contract.process_calls import RelayAnswer
from artel.db.engine import Database
from artel.db.hints import QuestionOver
from artel.errors import ArtelError, DatabaseUnavailable
from artel.ids import uuid7
from artel.logs import get_logger
from artel.poller import Poller
from artel.remote_calls import NoAnswer, RemoteCalls
from artel.turns.transactions import TurnOver

RETRY_SECONDS = 0.05
RECONNECT_SECONDS = 0.2
SERVE_SECONDS = 1.0
NOTIFICATION_SECONDS = 60.0
NOTIFY_SECONDS = 2.0
DISCONNECT_SECONDS = 10.0
_OFFLINE = (
    "The user's files can't be reached: no connector is online for this project. Ask the user to run `artel connect`."
)
_NOT_SENT = (
    "The user's machine was too busy to take the call in time. Nothing was sent, so nothing was changed. Try again."
)

A = TypeVar("A", bound=CallAnswer)

log = get_logger(__name__)


class Relay:
    """Calls connectors, and serves other processes' calls to the connections of this process."""

    def __init__(self, database: Database, connections: ConnectorConnections, process_id: str) -> None:
        self._database = database
        self._connections = connections
        self._process_id = process_id
        self._poller = Poller("relay", self._serve_calls, SERVE_SECONDS, "relay_failed", "relay_crashed")
        self._calls = RemoteCalls(database, RelayCallRepository, RelayAnswer)
        self._notifying: set[asyncio.Task[None]] = set()

    async def call(
        self,
        principal: Principal,
        project_id: int,
        method: str,
        call: Call,
        answer: type[A],
        connector: OnlineConnector | None = None,
    ) -> A:
        """Return the connector's answer; a failed result if it is offline, too late, or its answer was lost.

        The call has to be done within its timeout, counted from now.

        Pass `connector` if it was just looked up.
        """
        deadline = time.monotonic() + call.timeout_ms / 1000
        sent_to: str | None = None
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return _too_late(method, answer, was_sent=sent_to is not None)
            target = connector or await self._find_connector(principal, project_id, was_sent=sent_to is not None)
            connector = None
            if target is None or sent_to not in (None, target.connector_id):
                if sent_to is None:
                    return answer(success=False, code="offline", error=_OFFLINE)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._connections.wait_for_open(), min(left, RECONNECT_SECONDS))
                continue
            try:
                return await self._send(principal, target, method, call, answer, deadline)
            except ConnectorLost as lost:
                sent_to = target.connector_id if lost.was_sent else sent_to
                await asyncio.sleep(RETRY_SECONDS)
            except NotSent:
                return _too_late(method, answer, was_sent=sent_to is not None)
            except TimeoutError:
                return _too_late(method, answer, was_sent=True)

    async def disconnect(self, principal: Principal, connector: OnlineConnector) -> bool:
        """Close a connector's connection, in whichever process; return whether that was done."""
        if connector.process_id == self._process_id:
            return await self._connections.disconnect(principal, connector.project_id)
        try:
            answer = await self._calls.ask(principal, _new_call(uuid7(), connector, DISCONNECT), DISCONNECT_SECONDS)
        except NoAnswer:
            return False
        return bool(answer.disconnected)

    async def notify_answered(self, principal: Principal, project_id: int, decided: Decided) -> None:
        """Make the connector stop asking a question that was answered elsewhere or whose caller has gone."""
        connection = self._connections.of(principal, project_id)
        try:
            async with asyncio.timeout(NOTIFY_SECONDS):
                if connection is not None:
                    await connection.notify(ANSWERED, decided)
                    return
                connector = await self._database.read(find_connector, principal, project_id)
                if connector is not None and connector.process_id != self._process_id:
                    call = _new_call(uuid7(), connector, ANSWERED, decided)
                    await self._calls.send(principal, call, NOTIFICATION_SECONDS)
        except Exception as failure:  # noqa: BLE001 - best effort: the connector's question expires anyway
            log.info("answer_not_told", project_id=project_id, reason=repr(failure))

    @contextmanager
    def asking(self, principal: Principal, question: Approval | QuestionOver | None) -> Iterator[None]:
        """Make the connector stop asking the user if the question can't be stored."""
        try:
            yield
        except (TurnOver, DatabaseUnavailable):
            if question is not None:
                self.stop_asking(principal, question)
            raise

    def stop_asking(self, principal: Principal, question: Approval | QuestionOver) -> None:
        """Make the connector, if it asks the question too, stop asking in the background: the caller has gone."""
        if question.ask_id:
            rejection = Decided(ask_id=question.ask_id, decision="reject")
            notification = self.notify_answered(principal, question.project_id, rejection)
            task = asyncio.get_running_loop().create_task(notification)
            self._notifying.add(task)
            task.add_done_callback(self._notifying.discard)

    def start(self) -> None:
        """Start to serve other processes' calls."""
        self._poller.start()

    async def close(self) -> None:
        """Cancel all background tasks."""
        self._poller.stop()
        for task in self._notifying:
            task.cancel()
        await self._calls.close()

    def work(self, _project_id: int) -> None:
        """Look for calls that other processes stored for connections of this process, of all projects."""
        self._poller.wake()

    async def _find_connector(self, principal: Principal, project_id: int, *, was_sent: bool) -> OnlineConnector | None:
        try:
            return await self._database.read(find_connector, principal, project_id)
        except DatabaseUnavailable:
            if was_sent:  # the call's outcome is not known yet: retry
                return None
            raise

    async def _send(
        self,
        principal: Principal,
        connector: OnlineConnector,
        method: str,
        call: Call,
        answer: type[A],
        deadline: float,
    ) -> A:
        """Send a call on the connection, or store it for the process that holds it, and wait for the answer."""
        connection = self._connections.of(principal, connector.project_id)
        if connection is not None and connection.connection_id == connector.line_id:
            return await connection.call(method, call, answer, deadline)
        if connector.process_id == self._process_id:
            raise ConnectorLost(was_sent=False)  # it closed after the lookup
        left = deadline - time.monotonic()
        timed = call.model_copy(update={"timeout_ms": max(1, int(left * 1000))})

        async def is_connected() -> bool:
            now = await self._database.read(find_connector, principal, connector.project_id)
            return now is not None and now.line_id == connector.line_id

        try:
            relayed = _new_call(call.call_id, connector, method, timed)
            stored = await self._calls.ask(principal, relayed, left, is_connected)
        except NoAnswer as failure:
            if not failure.is_late:
                raise ConnectorLost(was_sent=failure.was_taken) from None
            raise TimeoutError if failure.was_taken else NotSent from None
        if stored.lost is not None:
            raise ConnectorLost(was_sent=stored.lost)
        return answer.model_validate(stored.result)

    # Calls of other processes

    async def _serve_calls(self) -> None:
        found = await self._database.read(find_calls, self._process_id) if self._connections.any else []
        await self._calls.serve({call.id: call for call in found}, self._serve_call)

    async def _serve_call(self, relayed: RelayCall) -> None:
        principal = Principal(relayed.user_id)
        try:
            if relayed.method == ANSWERED:
                is_ours = await self._calls.take(principal, relayed.id)
                if is_ours and self._connections.of(principal, relayed.project_id) is not None:
                    await self.notify_answered(principal, relayed.project_id, Decided.model_validate(relayed.params))
                await self._calls.delete(principal, relayed.id)
                return
            if relayed.method == DISCONNECT:
                is_ours = await self._calls.take(principal, relayed.id)
                is_done = is_ours and await self._connections.disconnect(principal, relayed.project_id)
                await self._calls.answer(principal, relayed.id, RelayAnswer(disconnected=is_done))
                return
            answer = await self._forward_call(principal, relayed)
            has_caller = await self._calls.answer(principal, relayed.id, answer)
        except (NotSent, TimeoutError):
            return  # the caller no longer waits
        except ArtelError as failure:
            log.warning("relay_answer_lost", call_id=relayed.id, reason=failure.detail)
            return
        if not has_caller and (rejection := rejection_for_orphaned_question(answer.result)):
            await self.notify_answered(principal, relayed.project_id, rejection)

    async def _forward_call(self, principal: Principal, relayed: RelayCall) -> RelayAnswer:
        connection = self._connections.of(principal, relayed.project_id)
        if connection is None:
            return RelayAnswer(lost=False)
        try:
            call = CALLS[relayed.method].model_validate(relayed.params)
            left = (relayed.expires_at - relayed.read_at).total_seconds()  # both by the database's clock
            deadline = time.monotonic() + min(left, call.timeout_ms / 1000)
            may_send = partial(self._calls.take, principal, relayed.id)
            result = await connection.call(relayed.method, call, ANSWERS[relayed.method], deadline, may_send)
        except ConnectorLost as lost:
            return RelayAnswer(lost=lost.was_sent)
        except (KeyError, ValidationError):  # the other process runs another version
            return RelayAnswer(lost=False)
        return RelayAnswer(result=result.model_dump(mode="json", exclude_unset=True))


def new_call_fields(principal: Principal, epoch: int, seconds: float) -> CallFields:
    """Return the fields of a new call that has to be done in time."""
    return {
        "call_id": secrets.token_hex(16),
        "user_id": principal.user_id,
        "epoch": epoch,
        "timeout_ms": int(seconds * 1000),
    }


def _new_call(
    call_id: str, connector: OnlineConnector, method: str, params: Call | Decided | None = None
) -> NewRelayCall:
    document = params.model_dump(mode="json") if params else {}
    return NewRelayCall(call_id, connector.project_id, connector.process_id, method, document)


def _too_late(method: str, answer: type[A], *, was_sent: bool) -> A:
    if not was_sent:
        return answer(success=False, code="timed_out", error=_NOT_SENT)
    if method in MUTATING_METHODS:
        return answer(
            success=False,
            code="unknown",
            error="The user's machine did not answer in time. It may have been done or not: check before you retry.",
        )
    return answer(success=False, code="timed_out", error="The user's machine did not answer in time. Try again.")
