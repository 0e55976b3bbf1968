"""JSON-RPC: from frames to calls, and back to frames. Whatever comes is answered, and nothing of it does harm."""

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pydantic import ValidationError

from artel.connector.audit_log import AuditLog
from artel.connector.deadline import Deadline
from artel.connector.idempotency import what_is_asked
from artel.connector.screen import Report
from artel.connector.workspace import CHANGING, Workspace
from artel.contract.connector import (
    ANSWERED,
    ANSWERS,
    CALLS,
    MAX_FRAME_BYTES,
    Call,
    Decided,
    Result,
    UndoCall,
    answer,
    refusal,
)

AT_ONCE = 8
MAX_WAITING = 64
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL, BUSY = -32700, -32600, -32601, -32602, -32603, -32000

Message = dict[str, Any]


class BadFrame(Exception):
    """What came is no call that we can carry out; it is answered with an error of JSON-RPC."""

    def __init__(self, code: int, message: str, request_id: str | int | None = None) -> None:
        super().__init__(message)
        self.answer: Message = refusal(request_id, code, message)


class Calls:
    """Carries out a bounded number of calls at once, lets a bounded number wait, and refuses the rest."""

    def __init__(
        self,
        workspace: Workspace,
        audit: AuditLog,
        show: Callable[[Report], None],
        settle: Callable[[str], None],
    ) -> None:
        self._workspace = workspace
        self._audit = audit
        self._show = show
        self._settle = settle
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="call")
        self._running: dict[str, tuple[str, asyncio.Future[Result]]] = {}

    def close(self) -> None:
        """Finish what has begun, forget what waits."""
        self._threads.shutdown(cancel_futures=True)

    async def answered(self, frame: str | bytes) -> str | None:
        """Return a frame with a frame; None if there is nothing to say."""
        try:
            message = _message(frame)
            if "method" not in message or "id" not in message:
                self._notice(message)
                return None
            method, call = _call(message)
        except BadFrame as bad:
            return self._complaint(bad)
        try:
            return _frame(method, answer(call.call_id, await self._result(method, call)), call.call_id)
        except BadFrame as bad:
            return self._complaint(bad)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and the next call is answered
            return self._complaint(BadFrame(INTERNAL, f"The connector failed ({type(error).__name__})", call.call_id))

    def _complaint(self, bad: BadFrame) -> str:
        self._audit.note(outcome="bad_frame", error=str(bad)[:200])
        return json.dumps(bad.answer)

    def _notice(self, message: Message) -> None:
        """Take a message that wants no answer: the user has answered a question elsewhere. Others are nothing to us."""
        if message.get("method") == ANSWERED:
            try:
                self._settle(Decided.model_validate(message.get("params")).ask_id)
            except ValidationError:
                return

    async def _result(self, method: str, call: Call) -> Result:
        what = what_is_asked(call)
        same, running = self._running.get(call.call_id, (what, None))
        if same != what:
            raise BadFrame(INVALID_PARAMS, "Another call with this id is being carried out", call.call_id)
        if running is None:
            if len(self._running) >= AT_ONCE + MAX_WAITING:
                raise BadFrame(BUSY, "Too many calls at once. Try again later.", call.call_id)
            running = asyncio.ensure_future(self._carried_out(method, call))
            self._running[call.call_id] = what, running
            running.add_done_callback(lambda _: self._running.pop(call.call_id, None))
        return await asyncio.shield(running)

    async def _carried_out(self, method: str, call: Call) -> Result:
        begun, deadline = time.monotonic(), Deadline(call.timeout_ms / 1000)
        work = self._threads.submit(self._workspace.carry_out, method, call, deadline)
        done, _ = await asyncio.wait([asyncio.wrap_future(work)], timeout=deadline.left)
        if done:
            result = work.result()
        elif work.cancel() or method not in CHANGING:
            result = Result(success=False, code="too_late", error="There was not enough time. Nothing was changed.")
        else:
            result = Result(success=False, code="unknown", error="It takes too long. Ask again with the same id.")
        self._tell(method, call, result, time.monotonic() - begun)
        return result

    def _tell(self, method: str, call: Call, result: Result, seconds: float) -> None:
        report = Report(
            method.removeprefix("workspace/"),
            _name(call, result),
            call.agent,
            _outcome(result),
            result.error,
        )
        self._audit.note(
            call_id=call.call_id,
            method=method,
            name=report.name[:1100],
            agent=call.agent,
            turn_id=call.turn_id,
            user_id=call.user_id,
            approval_id=call.approval.id if call.approval else None,
            outcome=report.outcome,
            error=result.error,
            milliseconds=round(seconds * 1000, 1),
        )
        self._show(report)


def _message(frame: str | bytes) -> Message:
    if len(frame) > MAX_FRAME_BYTES:
        raise BadFrame(INVALID_REQUEST, f"The message has more than {MAX_FRAME_BYTES} bytes")
    try:
        message = json.loads(frame) if isinstance(frame, str) else None
    except (ValueError, RecursionError):
        raise BadFrame(PARSE_ERROR, "That is not JSON") from None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise BadFrame(INVALID_REQUEST, "That is no message of JSON-RPC 2.0")
    return message


def _call(message: Message) -> tuple[str, Call]:
    method, request_id = message["method"], message["id"]
    if not isinstance(request_id, str) or not isinstance(method, str):
        raise BadFrame(INVALID_REQUEST, "The id and the method of a call are strings")
    kind = CALLS.get(method)
    if kind is None:
        raise BadFrame(NO_METHOD, f"There is no method {method[:100]}", request_id)
    if _can_not_be_written(message):
        raise BadFrame(INVALID_PARAMS, "There is half a character (a lone surrogate), or it is too deep", request_id)
    try:
        call = kind.model_validate(message.get("params"))
    except ValidationError as invalid:
        first = invalid.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "params"
        raise BadFrame(INVALID_PARAMS, f"{place}: {first['msg']}", request_id) from None
    if call.call_id != request_id:
        raise BadFrame(INVALID_PARAMS, "call_id is not the id of the request", request_id)
    return method, call


def _can_not_be_written(message: Message) -> bool:
    """Return whether there is something that JSON can say, and nobody can write."""
    try:
        json.dumps(message, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return True
    return False


def _outcome(result: Result) -> str:
    if result.success:
        return "unchanged" if result.more.get("unchanged") else "ok"
    return result.code or "failed"


def _name(call: Call, result: Result) -> str:
    """Return what a call is about: the files that were undone, else what it asked for."""
    undone = (result.model_extra or {}).get("files") if isinstance(call, UndoCall) else None
    if undone:
        return ", ".join(str(file["path"]) for file in undone)
    for field in ("path", "name", "of_turn"):
        if value := getattr(call, field, None):
            return str(value)
    return ""


def _frame(method: str, message: Message, request_id: str | None) -> str:
    """Return a message as it is sent; one that the server would not take is replaced by a word about that."""
    text, most = json.dumps(message, ensure_ascii=False), ANSWERS[method].characters
    if len(text) > most // 4 and len(text.encode(errors="replace")) > most:
        large = Result(success=False, code="read_failed", error="The answer is too large. Ask for a part of it.")
        return json.dumps(answer(request_id, large))
    return text
