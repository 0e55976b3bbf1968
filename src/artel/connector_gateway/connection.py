"""The open connection to one connector: sends calls and validates everything that comes back."""

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from artel.auth.principal import Principal
from artel.connector_gateway.frames import LARGE_CHARACTERS, Misbehaved, read_message
from artel.contract.connector import (
    ANSWERED,
    DECIDED,
    Call,
    CallAnswer,
    Decided,
    Hello,
    refusal,
    request,
)
from artel.per_user_locks import PerUserLock, PerUserSemaphore

MAX_AT_ONCE = 8
MAX_UNSOLICITED = 100  # unsolicited messages in a row before the connection is closed
UNSOLICITED_CHARACTERS = 2_000_000  # of unsolicited messages per UNSOLICITED_SECONDS
UNSOLICITED_SECONDS = 10.0
MAX_ABANDONED = 100  # abandoned calls whose answer may still arrive
LATE_SECONDS = 30.0  # how long the answer to an abandoned call may still arrive
RAISED_CHARACTERS = 512_000  # a larger answer needs one of the user's slots for raised limits
_NOT_UNDERSTOOD = "The connector's answer was not understood. Check that it is up to date."

A = TypeVar("A", bound=CallAnswer)


class ConnectorLost(Exception):
    """The connection broke; a call that was sent may or may not have been done."""

    def __init__(self, *, was_sent: bool = True) -> None:
        super().__init__("the connection broke")
        self.was_sent = was_sent


class NotSent(Exception):
    """The call was not sent, because its deadline passed or its caller has gone."""


class ConnectorConnection:
    """One connector that is connected to this process."""

    late_seconds = LATE_SECONDS

    def __init__(
        self,
        connection_id: str,
        principal: Principal,
        hello: Hello,
        send: Callable[[str], Awaitable[None]],
        on_decision: Callable[[Principal, int, Decided], None],
        large_messages: PerUserLock,
        raised_limits: PerUserSemaphore,
        set_max_characters: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`set_max_characters` is called with the largest size that the next message may have."""
        self.connection_id = connection_id
        self.principal = principal
        self.hello = hello
        self._send = send
        self._on_decision = on_decision
        self._large_messages = large_messages
        self._raised_limits = raised_limits
        self._set_max_characters = set_max_characters
        self._raising = asyncio.Lock()
        self._is_raised = False  # whether it holds one of the user's slots
        self._large_calls = 0
        self._waiting: dict[str, tuple[type[CallAnswer], asyncio.Future[Any]]] = {}
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)
        self._abandoned: deque[tuple[str, type[CallAnswer], float]] = deque(maxlen=MAX_ABANDONED)
        self._unsolicited = 0
        self._unsolicited_since, self._unsolicited_characters = time.monotonic(), 0
        self._is_open = True
        self._set_max_characters(self._max_characters)

    async def call(
        self,
        method: str,
        call: Call,
        answer: type[A],
        deadline: float,
        may_send: Callable[[], Awaitable[bool]] | None = None,
    ) -> A:
        """Return the connector's answer; `deadline` is in seconds of `time.monotonic()`.

        Raise NotSent if the call was not sent before the deadline or `may_send`, checked right before sending, returns
        False; TimeoutError if it was sent and not answered; ConnectorLost if the connection breaks.
        """
        async with self._raised_limit(answer, deadline):
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    await self._slots.acquire()
            except TimeoutError:
                raise NotSent from None
            try:
                if not self._is_open:
                    raise ConnectorLost(was_sent=False)
                if may_send is not None and not await may_send():
                    raise NotSent
                left = deadline - time.monotonic()
                if left <= 0:
                    raise NotSent
                timed = call.model_copy(update={"timeout_ms": max(1, int(left * 1000))})
                async with self._answer(call.call_id, answer) as future, asyncio.timeout(left):
                    try:
                        await self._send(json.dumps(request(method, timed, call.call_id), ensure_ascii=False))
                    except Exception:  # noqa: BLE001 - whatever the socket raises, the connection is gone
                        raise ConnectorLost from None
                    return await future
            finally:
                self._slots.release()

    @asynccontextmanager
    async def _raised_limit(self, limit: type[CallAnswer], deadline: float) -> AsyncIterator[None]:
        """Acquire one of the user's slots for very large answers, if needed; raise NotSent if none becomes free.

        The connection holds the slot until no such answer can arrive any more.
        """
        is_large = limit.characters > RAISED_CHARACTERS
        self._large_calls += is_large
        try:
            if is_large:
                try:
                    async with asyncio.timeout(deadline - time.monotonic()), self._raising:
                        if not self._is_raised:
                            await self._raised_limits.acquire(self.principal.user_id)
                            self._is_raised = True
                except TimeoutError:
                    raise NotSent from None
            yield
        finally:
            self._large_calls -= is_large
            self._set_limit()

    @asynccontextmanager
    async def _answer(self, call_id: str, limit: type[A]) -> AsyncIterator[asyncio.Future[A]]:
        """Expect the answer to a call; if it has not arrived at the end, it may still arrive late."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting[call_id] = limit, future
        self._set_limit()
        try:
            yield future
        finally:
            self._waiting.pop(call_id, None)
            if not future.done() or future.cancelled():
                self._abandoned.append((call_id, limit, time.monotonic() + self.late_seconds))
                asyncio.get_running_loop().call_later(self.late_seconds + 0.1, self._set_limit)
            self._set_limit()

    def _set_limit(self) -> None:
        """Limit the next message to the size of the largest answer that may still arrive."""
        now = time.monotonic()
        while self._abandoned and self._abandoned[0][2] <= now:
            self._abandoned.popleft()
        self._set_max_characters(self._max_characters)
        if self._is_raised and not self._large_calls and self._max_characters <= RAISED_CHARACTERS:
            self._is_raised = False
            self._raised_limits.release(self.principal.user_id)

    async def notify(self, method: str, params: BaseModel) -> None:
        """Send the connector a notification."""
        if self._is_open:
            await self._send(json.dumps(_notification(method, params), ensure_ascii=False))

    async def receive(self, text: str) -> dict[str, Any] | None:
        """Handle a message and return the reply, if any; raise Misbehaved if the message is invalid."""
        if len(text) > self._max_characters:
            raise Misbehaved("it sent a message that is larger than any pending answer may be")
        structure = max([LARGE_CHARACTERS, *(limit.structure for limit in self._limits)])
        if len(text) > LARGE_CHARACTERS:
            async with self._large_messages.lock(self.principal.user_id):
                message, result = await asyncio.to_thread(self._read, text, structure)
        else:
            message, result = self._read(text, structure)
        if "method" in message:
            self._count_unsolicited(len(text))
            return self._handle_request(message)
        future = self._pending(message)[1]
        if future is not None and result is not None and not future.done():
            self._unsolicited = 0
            future.set_result(result)
            return None
        # Too late, a duplicate, or made up.
        is_late = self._take_abandoned(message.get("id")) or (future is not None and future.cancelled())
        self._count_unsolicited(0 if is_late else len(text))
        rejection = rejection_for_orphaned_question(message.get("result"))
        return _notification(ANSWERED, rejection) if rejection else None

    @property
    def _limits(self) -> list[type[CallAnswer]]:
        """The limits of all answers that may still arrive."""
        return [*(limit for limit, _ in self._waiting.values()), *(limit for _, limit, _ in self._abandoned)]

    @property
    def _max_characters(self) -> int:
        return max([LARGE_CHARACTERS, *(limit.characters for limit in self._limits)])

    def _pending(self, message: dict[str, Any]) -> tuple[type[CallAnswer] | None, asyncio.Future[Any] | None]:
        """Return limit and future of the call that a message answers."""
        call_id = message.get("id")
        return self._waiting.get(call_id, (None, None)) if isinstance(call_id, str) else (None, None)

    def _read(self, text: str, structure: int) -> tuple[dict[str, Any], CallAnswer | None]:
        """Return a parsed message and the result in it, if it answers a pending call; thread-safe."""
        message = read_message(text, structure)
        limit, _ = self._pending(message)
        if limit is None:
            return message, None
        problem = _NOT_UNDERSTOOD
        if "error" in message:
            error = message["error"]
            reason = str(error.get("message", ""))[:500] if isinstance(error, dict) else ""
            problem = f"The connector failed: {reason or 'no reason given'}"
        elif len(text) <= limit.characters:
            with suppress(ValidationError):
                return message, limit.model_validate(message.get("result"))
        return message, limit(success=False, code="failed", error=problem)

    def close(self) -> None:
        """Fail all pending calls with ConnectorLost."""
        self._is_open = False
        self._abandoned.clear()
        self._set_limit()
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectorLost())

    def _handle_request(self, message: dict[str, Any]) -> dict[str, Any] | None:
        if message["method"] == DECIDED:
            try:
                self._on_decision(self.principal, self.hello.project_id, Decided.model_validate(message.get("params")))
            except ValidationError:
                raise Misbehaved("it sent an invalid decision") from None
        elif "id" in message:
            return refusal(message["id"], -32601, "A connector may only send workspace/decided.")
        return None

    def _take_abandoned(self, call_id: Any) -> bool:
        """Remove an abandoned call, so that only one late answer is accepted; return whether it was there."""
        for abandoned in self._abandoned:
            if abandoned[0] == call_id:
                self._abandoned.remove(abandoned)
                self._set_limit()
                return True
        return False

    def _count_unsolicited(self, size: int) -> None:
        self._unsolicited += 1
        if time.monotonic() - self._unsolicited_since > UNSOLICITED_SECONDS:
            self._unsolicited_since, self._unsolicited_characters = time.monotonic(), 0
        self._unsolicited_characters += size
        is_flood = self._unsolicited > MAX_UNSOLICITED or self._unsolicited_characters > UNSOLICITED_CHARACTERS
        if is_flood or size > LARGE_CHARACTERS:
            raise Misbehaved("it sent too many messages that answer no call")


def rejection_for_orphaned_question(result: Any) -> Decided | None:
    """Return a rejection if a result without a caller asks the user something, so that the connector stops asking."""
    if not isinstance(result, dict) or result.get("code") != "asks" or not isinstance(result.get("ask_id"), str):
        return None
    return Decided(ask_id=result["ask_id"], decision="reject")


def _notification(method: str, params: BaseModel) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params.model_dump(mode="json")}
