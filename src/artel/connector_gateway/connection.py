"""The open line to one connector: calls go out, answers come back, and nothing that it says is taken on trust."""

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from pydantic import BaseModel, ValidationError

from artel.auth.principal import Principal
from artel.connector_gateway.frames import LARGE_CHARACTERS, Misbehaved, UserPlaces, UserTurns, read_message
from artel.contract.connector import (
    ANSWERED,
    ANSWERS,
    DECIDED,
    AnswerLimit,
    Call,
    Decided,
    Hello,
    Result,
    refusal,
    request,
)
from artel.logs import get_logger

MAX_AT_ONCE = 8
MAX_UNASKED = 100  # messages in a row that nobody waits for, before the line is closed
UNASKED_CHARACTERS = 2_000_000  # of all that nobody waits for, in so many seconds
UNASKED_SECONDS = 10.0
MAX_GIVEN_UP = 100  # calls whose answer may still come
LATE_SECONDS = 30.0  # for which the answer to a call that was given up may still come
RAISED_CHARACTERS = 512_000  # who may answer more takes one of the user's few places for that

log = get_logger(__name__)


class LineLost(Exception):
    """The line broke; what was sent may have been done or not."""

    def __init__(self, *, was_sent: bool = True) -> None:
        super().__init__("the line broke")
        self.was_sent = was_sent


class NotSent(Exception):
    """The call's time was over before it could be sent, or nobody waits for it any more: nothing was done."""


class ConnectorConnection:
    """One connector that is online here."""

    late_seconds = LATE_SECONDS

    def __init__(
        self,
        line_id: str,
        principal: Principal,
        hello: Hello,
        send: Callable[[str], Awaitable[None]],
        decided: Callable[[Principal, int, Decided], None],
        large: UserTurns,
        raised: UserPlaces,
        allow: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`allow` is told how many characters the next message may have."""
        self.line_id = line_id
        self.principal = principal
        self.hello = hello
        self._send = send
        self._decided = decided
        self._large = large
        self._raised = raised
        self._allow = allow
        self._raising = asyncio.Lock()
        self._is_raised = False  # whether it has taken one of the user's places
        self._large_calls = 0
        self._waiting: dict[str, tuple[AnswerLimit, asyncio.Future[Result]]] = {}
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)
        self._given_up: deque[tuple[str, AnswerLimit, float]] = deque(maxlen=MAX_GIVEN_UP)
        self._unasked = 0
        self._unasked_since, self._unasked_characters = time.monotonic(), 0
        self._is_open = True
        self._allow(self._most_characters)

    async def call(
        self,
        method: str,
        call: Call,
        deadline: float,
        may_leave: Callable[[], Awaitable[bool]] | None = None,
    ) -> Result:
        """Return what the connector answers before `deadline` (seconds of `time.monotonic()`).

        Raise NotSent if it was not sent by then, TimeoutError if it was and no answer came, LineLost when the line
        breaks. `may_leave` is asked at the last moment.
        """
        async with self._room_for(ANSWERS[method], deadline):
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    await self._slots.acquire()
            except TimeoutError:
                raise NotSent from None
            try:
                if not self._is_open:
                    raise LineLost(was_sent=False)
                if may_leave is not None and not await may_leave():
                    raise NotSent
                return await self._exchanged(method, call, deadline)
            finally:
                self._slots.release()

    @asynccontextmanager
    async def _room_for(self, limit: AnswerLimit, deadline: float) -> AsyncIterator[None]:
        """Take one of the user's places for very large answers, if the line has none; raise NotSent if none gets free.

        It is kept until no such answer can come any more.
        """
        is_large = limit.characters > RAISED_CHARACTERS
        self._large_calls += is_large
        try:
            if is_large:
                try:
                    async with asyncio.timeout(deadline - time.monotonic()), self._raising:
                        if not self._is_raised:
                            await self._raised.take(self.principal.user_id)
                            self._is_raised = True
                except TimeoutError:
                    raise NotSent from None
            yield
        finally:
            self._large_calls -= is_large
            self._set_limit()

    def _set_limit(self) -> None:
        """Let the next message be as large as an answer that may still come, and no larger."""
        now = time.monotonic()
        while self._given_up and self._given_up[0][2] <= now:
            self._given_up.popleft()
        self._allow(self._most_characters)
        if self._is_raised and not self._large_calls and self._most_characters <= RAISED_CHARACTERS:
            self._is_raised = False
            self._raised.give_back(self.principal.user_id)

    async def _exchanged(self, method: str, call: Call, deadline: float) -> Result:
        """Send a call with the time that is left for it now, and wait for the answer."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise NotSent
        timed = call.model_copy(update={"timeout_ms": max(1, int(left * 1000))})
        answered: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        limit = ANSWERS[method]
        self._waiting[call.call_id] = limit, answered
        self._set_limit()
        try:
            async with asyncio.timeout(left):
                try:
                    await self._send(json.dumps(request(method, timed, call.call_id), ensure_ascii=False))
                except Exception:  # noqa: BLE001 - whatever the socket says, the line is gone
                    raise LineLost from None
                return await answered
        finally:
            self._waiting.pop(call.call_id, None)
            if not answered.done() or answered.cancelled():
                self._given_up.append((call.call_id, limit, time.monotonic() + self.late_seconds))
                asyncio.get_running_loop().call_later(self.late_seconds + 0.1, self._set_limit)
            self._set_limit()

    async def tell(self, method: str, told: BaseModel) -> None:
        """Tell the connector something that needs no answer."""
        if self._is_open:
            await self._send(json.dumps(_notification(method, told), ensure_ascii=False))

    async def heard(self, text: str) -> dict[str, Any] | None:
        """Take a message; return what is to be said to it, if anything. Raise Misbehaved if it is none."""
        if len(text) > self._most_characters:
            raise Misbehaved("it sent something larger than anybody has asked for")
        read = partial(self._read, text, max((limit.structure for limit in self._limits), default=LARGE_CHARACTERS))
        if len(text) > LARGE_CHARACTERS:
            async with self._large.turn(self.principal.user_id):
                message, result = await asyncio.to_thread(read)
        else:
            message, result = read()
        if "method" in message:
            self._count_unasked(len(text))
            return self._asked(message)
        return self._answered(message, result, len(text))

    @property
    def _limits(self) -> list[AnswerLimit]:
        """The limits of all answers that may still come."""
        return [*(limit for limit, _ in self._waiting.values()), *(limit for _, limit, _ in self._given_up)]

    @property
    def _most_characters(self) -> int:
        return max((limit.characters for limit in self._limits), default=LARGE_CHARACTERS)

    def _read(self, text: str, structure: int) -> tuple[dict[str, Any], Result]:
        """Read a message, and what it answers to a call, if that is waited for; also on a thread."""
        message = read_message(text, max(structure, LARGE_CHARACTERS))
        limit, _ = self._awaited(message)
        return message, _result(message, limit if limit and len(text) <= limit.characters else None)

    def _awaited(self, message: dict[str, Any]) -> tuple[AnswerLimit | None, asyncio.Future[Result] | None]:
        """Return what is known of the call that a message answers."""
        call_id = message.get("id")
        return self._waiting.get(call_id, (None, None)) if isinstance(call_id, str) else (None, None)

    def close(self) -> None:
        """Let those who wait know that no answer comes."""
        self._is_open = False
        self._given_up.clear()
        self._set_limit()
        for _, answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(LineLost())

    def _asked(self, message: dict[str, Any]) -> dict[str, Any] | None:
        if message["method"] == DECIDED:
            try:
                self._decided(self.principal, self.hello.project_id, Decided.model_validate(message.get("params")))
            except ValidationError:
                raise Misbehaved("it sent a decision that is none") from None
        elif "id" in message:
            return refusal(message["id"], -32601, "A connector may only send workspace/decided.")
        return None

    def _answered(self, message: dict[str, Any], result: Result, size: int) -> dict[str, Any] | None:
        call_id = message.get("id")
        _, answered = self._awaited(message)
        if answered is None or answered.done():  # too late, twice, or made up
            is_late = self._is_late(call_id) or (answered is not None and answered.cancelled())
            self._count_unasked(0 if is_late else size)
            told = asks_for_nobody(message.get("result"))
            return _notification(ANSWERED, told) if told else None
        self._unasked = 0
        answered.set_result(result)
        return None

    def _is_late(self, call_id: Any) -> bool:
        """Return whether a call was made that nobody waits for any more; its answer may come once."""
        for late in self._given_up:
            if late[0] == call_id:
                self._given_up.remove(late)
                self._set_limit()
                return True
        return False

    def _count_unasked(self, size: int) -> None:
        self._unasked += 1
        if time.monotonic() - self._unasked_since > UNASKED_SECONDS:
            self._unasked_since, self._unasked_characters = time.monotonic(), 0
        self._unasked_characters += size
        if self._unasked > MAX_UNASKED or self._unasked_characters > UNASKED_CHARACTERS or size > LARGE_CHARACTERS:
            raise Misbehaved("it says too much that nobody has asked for")


def asks_for_nobody(result: Any) -> Decided | None:
    """Return what to say to a result that nobody waits for, if it is that the user is asked: don't."""
    if not isinstance(result, dict) or result.get("code") != "asks" or not isinstance(result.get("ask_id"), str):
        return None
    return Decided(ask_id=result["ask_id"], decision="reject")


def _notification(method: str, told: BaseModel) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": told.model_dump(mode="json")}


def _result(message: dict[str, Any], limit: AnswerLimit | None) -> Result:
    """Return what came of a call; without a limit the message is not for any, or too large."""
    if "error" in message:
        error = message["error"]
        said = str(error.get("message", ""))[:500] if isinstance(error, dict) else ""
        return Result(success=False, code="failed", error=f"The connector could not do it: {said or 'no reason given'}")
    try:
        return limit.model.model_validate(message.get("result")) if limit else _NOT_UNDERSTOOD
    except ValidationError:
        return _NOT_UNDERSTOOD


_NOT_UNDERSTOOD = Result(
    success=False, code="failed", error="The connector answered something that is not understood. Is it up to date?"
)
