"""The calls of the server: parses JSON-RPC frames, carries the calls out on threads, and serializes the answers."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from artel import kill_points
from artel.connector.audit_log import AuditLog
from artel.connector.errors import CallRefused, Deadline, TooLate
from artel.connector.journal import failed, fingerprint
from artel.connector.screen import Report
from artel.contract.connector import (
    ANSWERED,
    ANSWERS,
    CALLS,
    MAX_FRAME_BYTES,
    MUTATING_METHODS,
    Call,
    CallResult,
    Decided,
    RedoCall,
    RevokeCall,
    SettingsCall,
    UndoCall,
    answer,
    refusal,
)
from artel.paths.errors import PathError

AT_ONCE = 8
MAX_WAITING = 64
# Not shown in the terminal.
QUIET_METHODS = frozenset({"workspace/extend", "workspace/grants", "workspace/complete", "workspace/compare"})
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL, BUSY = -32700, -32600, -32601, -32602, -32603, -32000

Message = dict[str, Any]


class BadFrame(Exception):
    """A frame that can't be carried out; it is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, request_id: str | int | None = None) -> None:
        super().__init__(message)
        self.response: Message = refusal(request_id, code, message)


class Calls:
    """Carries out calls for one user: a bounded number at once, a bounded number queued; the rest is refused."""

    def __init__(
        self,
        user_id: int,
        methods: dict[str, Callable[[Any, Deadline], CallResult]],
        audit: AuditLog,
        show: Callable[[Report], None],
        settle: Callable[[str], None],
    ) -> None:
        self._user_id = user_id
        self._methods = methods
        self._audit = audit
        self._show = show
        self._settle = settle
        self._epoch = 0
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="call")
        self._running: dict[str, tuple[str, asyncio.Future[CallResult]]] = {}

    def close(self) -> None:
        """Finish running calls and drop queued ones."""
        self._threads.shutdown(cancel_futures=True)

    async def handle(self, frame: str | bytes) -> str | None:
        """Handle a frame and return the response frame; None for a notification."""
        call_id: str | None = None
        try:
            message = _parse_message(frame)
            if "method" not in message or "id" not in message:
                if message.get("method") == ANSWERED:  # all other notifications are ignored
                    with suppress(ValidationError):
                        self._settle(Decided.model_validate(message.get("params")).ask_id)
                return None
            method, call = _parse_call(message)
            call_id = call.call_id
            result = await self._result(method, call)
            kill_points.reached("call.answer")
            return _frame(method, answer(call_id, result), call_id)
        except BadFrame as bad:
            rejected = bad
        except Exception as error:  # noqa: BLE001 - a failed call must not end the connection
            rejected = BadFrame(INTERNAL, f"The connector failed ({type(error).__name__})", call_id)
        self._audit.add(outcome="bad_frame", error=str(rejected)[:200])
        return json.dumps(rejected.response)

    async def _result(self, method: str, call: Call) -> CallResult:
        """Return the result of a call; one that is sent again while it runs is not started again."""
        expected = fingerprint(call)
        actual, running = self._running.get(call.call_id, (expected, None))
        if actual != expected:
            raise BadFrame(INVALID_PARAMS, "Another call with this id is running", call.call_id)
        if running is None:
            if len(self._running) >= AT_ONCE + MAX_WAITING:
                raise BadFrame(BUSY, "Too many calls at once. Try again later.", call.call_id)
            running = asyncio.ensure_future(self._run(method, call))
            self._running[call.call_id] = expected, running
            running.add_done_callback(lambda _: self._running.pop(call.call_id, None))
        return await asyncio.shield(running)

    async def _run(self, method: str, call: Call) -> CallResult:
        """Carry out a call on a thread, log and show it, and return its result."""
        started_at, deadline = time.monotonic(), Deadline(call.timeout_ms / 1000)
        work = self._threads.submit(self._carry_out, method, call, deadline)
        done, _ = await asyncio.wait([asyncio.wrap_future(work)], timeout=deadline.left)
        if done:
            result = work.result()
        elif work.cancel() or method not in MUTATING_METHODS:
            result = _refused(TooLate())
        else:
            result = _refused(CallRefused("unknown", "The call is still running. Retry with the same id."))
        succeeded = "unchanged" if (result.model_extra or {}).get("unchanged") else "ok"
        outcome = succeeded if result.success else result.code or "failed"
        report = Report(method.removeprefix("workspace/"), _name(call, result), call.agent, outcome, result.error)
        self._audit.add(
            call_id=call.call_id,
            method=method,
            name=report.name[:1100],
            agent=call.agent,
            turn_id=call.turn_id,
            user_id=call.user_id,
            approval_id=call.approval.id if call.approval else None,
            outcome=report.outcome,
            error=result.error,
            milliseconds=round((time.monotonic() - started_at) * 1000, 1),
        )
        if method not in QUIET_METHODS:
            self._show(report)
        return result

    def _carry_out(self, method: str, call: Call, deadline: Deadline) -> CallResult:
        try:
            deadline.require()
            self._check(call)
            return self._methods[method](call, deadline)
        except CallRefused as refused:
            return _refused(refused)
        except PathError as error:
            return failed(error)
        except OSError as error:  # of the connector's own files: journal, undo store
            return CallResult(success=False, error=f"The connector failed: {error.strerror}", code="failed")

    def _check(self, call: Call) -> None:
        """Raise CallRefused for a call of another user, or with an outdated fencing token (`epoch`)."""
        if call.user_id != self._user_id:
            raise CallRefused("wrong_user", f"User {call.user_id} is not authorized to access this path")
        with self._lock:
            if call.epoch < self._epoch:
                raise CallRefused("old_epoch", "The worker space has moved to another host")
            self._epoch = call.epoch


def _refused(refused: CallRefused) -> CallResult:
    more = {name: value for name, value in refused.more.items() if value is not None}
    return CallResult(success=False, error=refused.message, code=refused.code, **more)


def _parse_message(frame: str | bytes) -> Message:
    if len(frame) > MAX_FRAME_BYTES:
        raise BadFrame(INVALID_REQUEST, f"The message has more than {MAX_FRAME_BYTES} bytes")
    try:
        message = json.loads(frame) if isinstance(frame, str) else None
    except (ValueError, RecursionError):
        raise BadFrame(PARSE_ERROR, "The message is not JSON") from None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise BadFrame(INVALID_REQUEST, "The message is not JSON-RPC 2.0")
    return message


def _parse_call(message: Message) -> tuple[str, Call]:
    method, request_id = message["method"], message["id"]
    if not isinstance(request_id, str) or not isinstance(method, str):
        raise BadFrame(INVALID_REQUEST, "The id and the method of a call must be strings")
    kind = CALLS.get(method)
    if kind is None:
        raise BadFrame(NO_METHOD, f"There is no method {method[:100]}", request_id)
    try:
        json.dumps(message, ensure_ascii=False).encode()
        call = kind.model_validate(message.get("params"))
    except (UnicodeEncodeError, RecursionError):
        problem = "The call contains a lone surrogate or is nested too deeply"
        raise BadFrame(INVALID_PARAMS, problem, request_id) from None
    except ValidationError as invalid:
        first = invalid.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "params"
        raise BadFrame(INVALID_PARAMS, f"{field}: {first['msg']}", request_id) from None
    if call.call_id != request_id:
        raise BadFrame(INVALID_PARAMS, "call_id is not the id of the request", request_id)
    return method, call


def _name(call: Call, result: CallResult) -> str:
    """Return the files that were undone or redone, or else the path or name in the call."""
    undone = (result.model_extra or {}).get("files") if isinstance(call, UndoCall | RedoCall) else None
    if undone:
        return ", ".join(str(file["path"]) for file in undone)
    if isinstance(call, SettingsCall):
        wanted = "read-only" if call.read_only else call.ask or "writable"
        return str((result.model_extra or {}).get("mode", wanted))
    if isinstance(call, RevokeCall):
        return str((result.model_extra or {}).get("grant", call.grant_id))
    for field in ("path", "name", "of_turn", "query", "ask_id"):
        if value := getattr(call, field, None):
            return str(value)
    return ""


def _frame(method: str, message: Message, request_id: str | None) -> str:
    """Serialize an answer; replace one that is over the server's limit by an error."""
    text, limit = json.dumps(message, ensure_ascii=False), ANSWERS[method].characters
    if len(text) > limit // 4 and len(text.encode(errors="replace")) > limit:
        large = CallResult(success=False, code="read_failed", error="The answer is too large. Ask for a part of it.")
        return json.dumps(answer(request_id, large))
    return text
