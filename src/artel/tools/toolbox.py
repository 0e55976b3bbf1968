"""The tools of one agent; errors of calls are returned to the model, which may try another way."""

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol

from artel.brain.brain import ToolCall, ToolSchema
from artel.brain.structured import load_jsonschema, refuse_constant
from artel.contract.approval_details import ToolDetails
from artel.contract.chat import ToolCallResult
from artel.contract.json_schema import schema_validator
from artel.errors import ArtelError
from artel.logs import get_logger
from artel.text import is_encodable
from artel.tools.consent import Consent, Decision, NeedsApproval, NeedsUser, Question
from artel.tools.policy import Level, NotCalled, Policy, Risk, arguments_hash
from artel.tools.shown_result import shown_result
from artel.tools.tool import Tool, ToolResult

SHOWN_CHARACTERS = 500
MAX_ARGUMENTS = 20
# Arguments that may be long or private: recorded as size and hash.
_CONTENTS = frozenset({"content", "old", "new", "body"})

Status = Literal["refused", "asked", "sent", "done", "unchanged", "failed", "unknown", "cancelled"]

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One tool call and its status."""

    tool: str
    arguments: Mapping[str, Any]
    level: Level
    status: Status
    error: str | None = None
    approval_id: str | None = None
    result: ToolCallResult | None = None


class Audit(Protocol):
    """Stores audit records."""

    async def record(self, call: AuditRecord) -> None:
        """Store the record of a call."""


class ArgumentsInvalid(ValueError):
    """The arguments are not a JSON object, or do not match the tool's schema."""


@dataclass(slots=True)
class _Attempt:
    """The state of one call; `is_recorded` once a tool was called that records itself."""

    arguments: dict[str, Any] = field(default_factory=dict)
    approval_id: str | None = None
    is_recorded: bool = False


class Toolbox:
    """Calls tools that exist and are allowed, subject to the policy and the user's approval."""

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        allowed: Collection[str] = (),
        policy: Policy | Callable[[], Awaitable[Policy]] | None = None,
        consent: Consent | None = None,
        audit: Audit | None = None,
        resumed_call: ToolCall | None = None,
    ) -> None:
        """A `policy` function is called with the first tool call.

        `resumed_call` was allowed before and then parked with a child agent: the same call is allowed once more
        without policy checks and approval.
        """
        self._resumed_call = resumed_call
        self._policy = policy or Policy()
        self._consent = consent or Consent()
        self._audit = audit
        existing = {tool.name: tool for tool in tools}
        self._tools = {name: tool for name, tool in existing.items() if name in allowed}
        self._forbidden = existing.keys() - self._tools.keys()
        self._validators: dict[str, Any] = {}
        self.schemas: tuple[ToolSchema, ...] = tuple(tool.schema for tool in self._tools.values())

    async def call(self, call: ToolCall, deadline: float) -> ToolResult:
        """Carry out a call before `deadline` (seconds of `time.monotonic()`) and return its result.

        Raise only NeedsUser if the user must be asked first, and CancelledError.
        """
        started_at = time.monotonic()
        attempt = _Attempt()
        status: Status = "failed"
        try:
            async with asyncio.timeout(deadline - started_at) as limit:
                result = await self._checked_call(call, deadline, attempt)
            status = "done" if result.success else "failed"
        except NeedsUser:
            await self._record(call.name, attempt, "asked")
            raise
        except NotCalled as problem:
            result, status = ToolResult.failure(str(problem)), "refused"
        except ArtelError as problem:
            result = ToolResult.failure(problem.detail)
        except (Exception, asyncio.CancelledError) as problem:
            task = asyncio.current_task()
            # This task is cancelled, and not one that the tool was waiting for.
            if isinstance(problem, asyncio.CancelledError) and task is not None and task.cancelling() > 0:
                await self._record_cancelled(call.name, attempt)
                raise
            if isinstance(problem, TimeoutError) and limit.expired():
                result = ToolResult.failure(f"{call.name} was stopped: it was not done in time.")
            else:
                log.warning("tool_failed", tool=call.name, exc_info=True)
                result = ToolResult.failure(f"{call.name} failed because of an error inside it. Try another way.")
        await self._record(call.name, attempt, status, result.error, result.data)  # also after the deadline
        log.info(
            "tool_called",
            tool=call.name[:SHOWN_CHARACTERS],
            success=result.success,
            duration_ms=round((time.monotonic() - started_at) * 1000, 1),
            error=result.error and result.error[:SHOWN_CHARACTERS],
        )
        return result

    async def _checked_call(self, call: ToolCall, deadline: float, attempt: _Attempt) -> ToolResult:
        is_resumed = self._take_resumed(call)
        tool = self._tools.get(call.name)
        if tool is None:
            tools = f"Your tools: {', '.join(self._tools)}." if self._tools else "You have no tools."
            if call.name in self._forbidden:
                raise NotCalled(f"You may not use {call.name}. {tools}")
            raise NotCalled(f"There is no tool {call.name[:SHOWN_CHARACTERS]!r}. {tools}")
        if deadline <= time.monotonic():
            raise NotCalled(f"{call.name} was not called: there is no time left.")
        try:
            arguments = parsed_arguments(call.arguments)
            await self._validate(tool, arguments)
        except ArgumentsInvalid as problem:
            raise NotCalled(
                f"{call.name} was not called: {problem}. Correct the arguments and call it again."
            ) from None
        attempt.arguments = arguments
        if not isinstance(self._policy, Policy):
            self._policy = await self._policy()
        if is_resumed:
            return await self._call_tool(tool, attempt, None)
        policy = self._policy
        properties = tool.schema.parameters.get("properties")
        policy.check(tool.name, tool.level, arguments, properties if isinstance(properties, dict) else ())
        result = await self._call_tool(tool, attempt, await self._approval(tool, attempt, policy))
        if not result.success:
            return result
        filtered = partial(policy.filtered, tool.name, result.data)
        is_slow = policy.filters_slowly(tool.name, result.data)
        return replace(result, data=await asyncio.to_thread(filtered) if is_slow else filtered())

    def _take_resumed(self, call: ToolCall) -> bool:
        """Return whether this is the resumed call; a call with its id uses it up in any case.

        The arguments are compared too, since the model's server chooses the id.
        """
        resumed = self._resumed_call
        if resumed is None or call.id != resumed.id:
            return False
        self._resumed_call = None
        try:
            return _hash_of(call) == _hash_of(resumed)
        except ArgumentsInvalid:
            return False

    async def _approval(self, tool: Tool, attempt: _Attempt, policy: Policy) -> Decision | None:
        """Return the user's approval, None if none is needed; raise NeedsApproval or NotCalled if it is missing."""
        arguments = attempt.arguments
        decision = self._consent.take(tool.name, arguments)
        if decision is None:
            question = tool.question(arguments)
            if question is None and policy.requires_approval(tool.name, tool.level):
                risk: Risk = "high" if tool.level is Level.CRITICAL else "normal"
                question = Question(tool.name, arguments, risk, ToolDetails(reason=policy.APPROVAL_REASON))
            if question is None:
                return None
            more = await tool.approval_details(arguments)
            risk = "high" if "warning" in more else question.risk
            raise NeedsApproval(replace(question, risk=risk, details=question.details.model_copy(update=more)))
        attempt.approval_id = decision.approval_id
        if decision.outcome == "rejected":
            feedback = f" They said: {decision.feedback}" if decision.feedback else ""
            raise NotCalled(f"{tool.name} was not called: the user rejected it.{feedback}")
        if decision.outcome == "expired":
            raise NotCalled(f"{tool.name} was not called: the user did not answer in time.")
        return decision

    async def _call_tool(self, tool: Tool, attempt: _Attempt, approval: Decision | None) -> ToolResult:
        attempt.is_recorded = tool.records_itself
        if approval is not None and not tool.records_itself and not await self._consent.use(approval):
            raise NotCalled(f"{tool.name} was not called: the approval was used before.")
        return await tool.call(attempt.arguments, approval)

    async def _record(
        self, name: str, attempt: _Attempt, status: Status, error: str | None = None, data: Any = None
    ) -> None:
        if attempt.is_recorded or self._audit is None:
            return
        level = self._tools[name].level if name in self._tools else Level.SAFE
        outcome = status, error, attempt.approval_id, shown_result(data)
        await self._audit.record(AuditRecord(name[:100], attempt.arguments, level, *outcome))

    async def _record_cancelled(self, name: str, attempt: _Attempt) -> None:
        try:
            await self._record(name, attempt, "cancelled", f"{name[:100]} was stopped before it was done.")
        except ArtelError as failure:  # the cancellation must go on
            log.warning("cancelled_call_not_noted", tool=name[:100], reason=failure.detail)

    async def _validate(self, tool: Tool, arguments: dict[str, Any]) -> None:
        if tool.is_checked_elsewhere:
            return
        jsonschema = await load_jsonschema()
        validator = self._validators.get(tool.name)
        if validator is None:
            validator = self._validators[tool.name] = schema_validator(tool.schema.parameters)
        error = jsonschema.exceptions.best_match(validator.iter_errors(arguments))
        if error is not None:
            path = ".".join(str(step) for step in error.absolute_path) or "the arguments"
            raise ArgumentsInvalid(f"{path}: {error.message[:SHOWN_CHARACTERS]}")


def parsed_arguments(text: str) -> dict[str, Any]:
    """Parse the arguments that a model wrote, {} for an empty text; raise ArgumentsInvalid if they are invalid."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as problem:
        raise ArgumentsInvalid(f"its arguments are not JSON ({problem})") from None
    if not isinstance(value, Mapping):
        raise ArgumentsInvalid("its arguments must be one JSON object")
    is_escaped = "\\u" in text  # then the values may contain lone surrogates, too
    if not is_encodable(text) or (is_escaped and not is_encodable(json.dumps(value, ensure_ascii=False))):
        raise ArgumentsInvalid("its arguments contain a lone surrogate")
    return dict(value)


def _hash_of(call: ToolCall) -> str:
    return arguments_hash(call.name, parsed_arguments(call.arguments))


def without_contents(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as they are recorded: bounded, and with hashes instead of contents."""
    recorded = {}
    for name, value in list(arguments.items())[:MAX_ARGUMENTS]:
        shown = value
        if not isinstance(value, bool | int | float | None):
            shown = str(value)[:SHOWN_CHARACTERS]
            if name in _CONTENTS:
                data = str(value).encode(errors="replace")
                shown = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        recorded[str(name)[:100]] = shown
    return recorded
