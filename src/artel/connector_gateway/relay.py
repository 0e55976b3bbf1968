"""Calls to the connector of a project, whichever process holds its line, before one deadline.

A call is sent once. When the line breaks under it, it is asked again by its id, of the same connector, as soon as that
is back: the connector's journal sees to it that nothing is done twice.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol

from pydantic import ValidationError

from artel.auth.principal import Principal
from artel.connector_gateway import relay_calls
from artel.connector_gateway.connection import LineLost, NotSent, asks_for_nobody
from artel.connector_gateway.connections import ConnectorConnections
from artel.connector_gateway.relay_calls import RelayCall
from artel.connector_gateway.repository import Serving, who_serves
from artel.contract.connector import ANSWERED, ANSWERS, CALLS, Call, Decided, Result
from artel.db.engine import Database
from artel.errors import ArtelError, DatabaseUnavailable
from artel.events.signals import Signals
from artel.ids import uuid7
from artel.logs import get_logger

LOOK_SECONDS = 0.05
LOOKS_PER_CHECK = 20
BACK_SECONDS = 0.2
PULSE_SECONDS = 1.0
FORGET_SECONDS = 60.0
TELL_SECONDS = 2.0
# Where a lost answer leaves open whether something was done.
CHANGING_METHODS = frozenset(
    {"workspace/write", "workspace/edit", "workspace/delete", "workspace/run", "workspace/undo"}
)

log = get_logger(__name__)


class Asked(Protocol):
    """Something that the user is asked, perhaps by the connector too."""

    @property
    def project_id(self) -> int:
        """Whose connector it is."""

    @property
    def details(self) -> Mapping[str, Any]:
        """What is asked; `ask_id` is the name under which the connector asks."""


class Relay:
    """Asks connectors, and answers for the lines of this process what others ask."""

    def __init__(self, database: Database, signals: Signals, lines: ConnectorConnections, process_id: str) -> None:
        self._database = database
        self._signals = signals
        self._lines = lines
        self._process_id = process_id
        self._awake = asyncio.Event()
        self._pulse: asyncio.Task[None] | None = None
        self._answering: dict[str, asyncio.Task[None]] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._forgot = 0.0

    async def call(
        self,
        principal: Principal,
        project_id: int,
        method: str,
        call: Call,
        seconds: float,
        known: Serving | None = None,
    ) -> Result:
        """Return what the connector answers; offline, too late and lost are answers too.

        `known` is who serves the project, if that was just looked up.
        """
        deadline = time.monotonic() + seconds
        sent_to: str | None = None
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return _too_late(method, was_sent=sent_to is not None)
            serving = known or await self._serving(principal, project_id, was_sent=sent_to is not None)
            known = None
            if serving is None or sent_to not in (None, serving.connector_id):
                if sent_to is None:
                    return Result(success=False, code="offline", error=_OFFLINE)
                await self._wait_for_return(min(left, BACK_SECONDS))
                continue
            try:
                return await self._sent(principal, serving, method, call, deadline)
            except LineLost as lost:
                sent_to = serving.connector_id if lost.was_sent else sent_to
                await asyncio.sleep(LOOK_SECONDS)
            except NotSent:
                return _too_late(method, was_sent=sent_to is not None)
            except TimeoutError:
                return _too_late(method, was_sent=True)

    async def tell_answered(self, principal: Principal, project_id: int, decided: Decided) -> None:
        """Let a connector stop asking what was answered elsewhere, or what nobody waits for any more."""
        line = self._lines.of(principal, project_id)
        try:
            async with asyncio.timeout(TELL_SECONDS):
                if line is not None:
                    await line.tell(ANSWERED, decided)
                else:
                    await self._tell_other(principal, project_id, decided)
        except Exception as failure:  # noqa: BLE001 - the line is about to end, whatever it is
            log.info("answer_not_told", project_id=project_id, reason=repr(failure))

    def stop_asking(self, principal: Principal, asked: Iterable[Asked]) -> None:
        """Let connectors stop asking what nobody waits for any more, and don't wait for them."""
        for approval in asked:
            if ask_id := approval.details.get("ask_id"):
                told = Decided(ask_id=ask_id, decision="reject")
                telling = self.tell_answered(principal, approval.project_id, told)
                task = asyncio.get_running_loop().create_task(telling)
                self._telling.add(task)
                task.add_done_callback(self._telling.discard)

    def start(self) -> None:
        """Begin to answer what other processes ask."""
        self._pulse = asyncio.get_running_loop().create_task(self._beat(), name="relay")

    async def close(self) -> None:
        """Return no more."""
        for task in (self._pulse, *self._answering.values(), *self._telling):
            if task is not None:
                task.cancel()

    # Signals: something may be asked of a line of this process.

    def work(self, project_id: int) -> None:  # noqa: ARG002 - which project it is does not matter: look at all
        """Look for calls."""
        self._awake.set()

    def session_changed(self, session_id: str) -> None:
        """Not ours."""

    def cancelled(self, turn_id: str) -> None:
        """Not ours: what a connector has been asked, it does."""

    def agents_changed(self, project_id: int, agent_id: int) -> None:
        """Not ours."""

    async def _serving(self, principal: Principal, project_id: int, *, was_sent: bool) -> Serving | None:
        try:
            return await self._database.read(who_serves, principal, project_id)
        except DatabaseUnavailable:
            if was_sent:  # then nothing can be said yet about what came of it
                return None
            raise

    async def _sent(self, principal: Principal, serving: Serving, method: str, call: Call, deadline: float) -> Result:
        line = self._lines.of(principal, serving.project_id)
        if line is not None and line.line_id == serving.line_id:
            return await line.call(method, call, deadline)
        if serving.process_id == self._process_id:
            raise LineLost(was_sent=False)  # it broke in this moment
        return await self._ask_other(principal, serving, method, call, deadline)

    async def _ask_other(
        self, principal: Principal, serving: Serving, method: str, call: Call, deadline: float
    ) -> Result:
        left = deadline - time.monotonic()
        until = datetime.now(UTC) + timedelta(seconds=left)
        params = call.model_copy(update={"timeout_ms": max(1, int(left * 1000))}).model_dump(mode="json")
        asked = RelayCall(call.call_id, principal.user_id, serving.project_id, method, params, until)
        await self._database.run(relay_calls.ask, principal, serving.process_id, asked)
        self._signals.work(serving.project_id)
        try:
            async with asyncio.timeout(left):
                answer = await self._answer_of_other(principal, serving, call.call_id)
        except (TimeoutError, LineLost) as failure:
            if not await self._withdrawn(principal, call.call_id):
                raise
            raise NotSent if isinstance(failure, TimeoutError) else LineLost(was_sent=False) from None
        finally:
            with suppress(ArtelError):  # it is forgotten later
                await asyncio.shield(self._database.run(relay_calls.forget_call, principal, call.call_id))
        if "lost" in answer:
            raise LineLost(was_sent=answer["lost"])
        return ANSWERS[method].model.model_validate(answer["result"])

    async def _tell_other(self, principal: Principal, project_id: int, decided: Decided) -> None:
        """Let the process that holds the line tell the connector."""
        serving = await self._database.read(who_serves, principal, project_id)
        if serving is None or serving.process_id == self._process_id:
            return
        until = datetime.now(UTC) + timedelta(seconds=FORGET_SECONDS)
        told = RelayCall(uuid7(), principal.user_id, project_id, ANSWERED, decided.model_dump(mode="json"), until)
        await self._database.run(relay_calls.ask, principal, serving.process_id, told)
        self._signals.work(project_id)

    async def _withdrawn(self, principal: Principal, call_id: str) -> bool:
        """Take a call back; say whether it is sure that it was not sent, and never will be."""
        try:
            return await self._database.run(relay_calls.withdraw_call, principal, call_id)
        except ArtelError:
            return False

    async def _answer_of_other(self, principal: Principal, serving: Serving, call_id: str) -> dict[str, Any]:
        """Look for the answer of the process that holds the line; raise LineLost when that has it no more."""
        looks = 0
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            answer = await self._database.read(relay_calls.take_answer, principal, call_id)
            if answer is not None:
                return answer
            looks += 1
            if looks % LOOKS_PER_CHECK == 0:
                now = await self._database.read(who_serves, principal, serving.project_id)
                if now is None or now.line_id != serving.line_id:
                    raise LineLost  # whoever held the line is gone

    async def _wait_for_return(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._lines.next_change()
        except TimeoutError:
            return

    # What others ask

    async def _beat(self) -> None:
        while True:
            try:
                async with asyncio.timeout(PULSE_SECONDS):
                    await self._awake.wait()
            except TimeoutError:
                pass
            self._awake.clear()
            try:
                await self._look()
            except ArtelError as failure:
                log.warning("relay_failed", reason=failure.detail)
            except Exception:
                log.exception("relay_crashed")

    async def _look(self) -> None:
        if self._lines.any:
            for call in await self._database.read(relay_calls.find_calls, self._process_id):
                if call.id not in self._answering:
                    task = asyncio.get_running_loop().create_task(self._answer(call))
                    self._answering[call.id] = task
                    task.add_done_callback(partial(self._answered, call.id))
        if time.monotonic() - self._forgot > FORGET_SECONDS:
            self._forgot = time.monotonic()
            await self._database.run(relay_calls.forget_old_calls)

    def _answered(self, call_id: str, _task: asyncio.Task[None]) -> None:
        self._answering.pop(call_id, None)

    async def _answer(self, call: RelayCall) -> None:
        principal = Principal(call.user_id)
        try:
            if call.method == ANSWERED:
                await self._pass_on(principal, call)
                return
            answer = await self._answer_of_line(principal, call)
            is_wanted = await self._database.run(relay_calls.answer_call, principal, call.id, answer)
        except (NotSent, TimeoutError):
            return  # whoever asks does not wait any longer
        except ArtelError as failure:
            log.warning("relay_answer_lost", call_id=call.id, reason=failure.detail)
            return
        if not is_wanted and (told := asks_for_nobody(answer.get("result"))):
            await self.tell_answered(principal, call.project_id, told)

    async def _answer_of_line(self, principal: Principal, call: RelayCall) -> dict[str, Any]:
        line = self._lines.of(principal, call.project_id)
        if line is None:
            return {"lost": False}
        try:
            asked = CALLS[call.method].model_validate(call.params)
            take = partial(self._database.run, relay_calls.take_call, principal, call.id)
            result = await line.call(call.method, asked, _deadline(call, asked), take)
        except LineLost as lost:
            return {"lost": lost.was_sent}
        except (KeyError, ValidationError):  # of another version
            return {"lost": False}
        return {"result": result.model_dump(mode="json", exclude_unset=True)}

    async def _pass_on(self, principal: Principal, call: RelayCall) -> None:
        """Tell a connector whose line is here what another process has to say to it."""
        is_ours = await self._database.run(relay_calls.take_call, principal, call.id)
        if is_ours and self._lines.of(principal, call.project_id) is not None:
            await self.tell_answered(principal, call.project_id, Decided.model_validate(call.params))
        await self._database.run(relay_calls.forget_call, principal, call.id)


_OFFLINE = (
    "The user's files can't be reached: no connector is online for this project. Ask the user to run `artel connect`."
)


_NOT_SENT = (
    "The user's machine had too much to do to be asked in time. Nothing was sent, so nothing was changed. Try again."
)


def _deadline(call: RelayCall, asked: Call) -> float:
    """Return until when somebody waits for a call of another process, in seconds of `time.monotonic()`."""
    left = (call.expires_at - datetime.now(UTC)).total_seconds()
    return time.monotonic() + min(left, asked.timeout_ms / 1000)


def _too_late(method: str, *, was_sent: bool) -> Result:
    if not was_sent:
        return Result(success=False, code="timed_out", error=_NOT_SENT)
    if method in CHANGING_METHODS:
        return Result(
            success=False,
            code="unknown",
            error="The user's machine did not answer in time. Whether it was done is not known: look before you retry.",
        )
    return Result(success=False, code="timed_out", error="The user's machine did not answer in time. Try again.")
