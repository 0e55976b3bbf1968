"""The tools of one agent; errors of calls are returned to the model, which may try another way."""

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from artel.brain.brain import ToolCall, ToolSchema
from artel.brain.structured import load_jsonschema
from artel.contract.approvals import ToolDetails
from artel.errors import ArtelError
from artel.logs import get_logger
from artel.text import is_encodable
from artel.tools.consent import Consent, Decision, NeedsApproval, Question
from artel.tools.policy import Forbidden, Level, Policy, Risk, arguments_hash, has_many_entries
from artel.tools.tool import AskingTool, Tool, ToolResult

SHOWN_CHARACTERS = 500
MAX_ARGUMENTS = 20
# Arguments that may be long or private: recorded as size and hash.
_CONTENTS = frozenset({"content", "old", "new"})

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


class Audit(Protocol):
    """Stores audit records."""

    async def record(self, call: AuditRecord) -> None:
        """Store the record of a call."""


class ArgumentsInvalid(ValueError):
    """The arguments are not a JSON object, or do not match the tool's schema."""


class NotCalled(Exception):
    """The tool was not called; the message is for the model."""


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

        Raise only NeedsApproval if the user must be asked first, and CancelledError.
        """
        started_at = time.monotonic()
        result = await self._result(call, deadline)
        log.info(
            "tool_called",
            tool=call.name[:SHOWN_CHARACTERS],
            success=result.success,
            duration_ms=round((time.monotonic() - started_at) * 1000, 1),
            error=result.error and result.error[:SHOWN_CHARACTERS],
        )
        return result

    async def _result(self, call: ToolCall, deadline: float) -> ToolResult:
        attempt = _Attempt()
        status: Status = "failed"
        try:
            async with asyncio.timeout(deadline - time.monotonic()) as limit:
                result = await self._checked_call(call, deadline, attempt)
            status = "done" if result.success else "failed"
        except NeedsApproval:
            await self._record(call.name, attempt, "asked")
            raise
        except NotCalled as problem:
            result, status = ToolResult.failure(str(problem)), "refused"
        except ArtelError as problem:
            result = ToolResult.failure(problem.detail)
        except (Exception, asyncio.CancelledError) as problem:
            if isinstance(problem, asyncio.CancelledError) and _is_cancelled():
                await self._record_cancelled(call.name, attempt)
                raise
            if isinstance(problem, TimeoutError) and limit.expired():
                result = ToolResult.failure(f"{call.name} was stopped: it was not done in time.")
            else:
                log.warning("tool_failed", tool=call.name, exc_info=True)
                result = ToolResult.failure(f"{call.name} failed because of an error inside it. Try another way.")
        await self._record(call.name, attempt, status, result.error)  # also after the deadline
        return result

    async def _checked_call(self, call: ToolCall, deadline: float, attempt: "_Attempt") -> ToolResult:
        is_resumed = self._take_resumed(call)
        tool = self._tools.get(call.name)
        if tool is None:
            raise NotCalled(self._refusal(call.name))
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
        try:
            self._policy.check(tool.name, level_of(tool), arguments, _parameters(tool))
        except Forbidden as refused:
            raise NotCalled(str(refused)) from None
        result = await self._call_tool(tool, attempt, await self._approval(tool, attempt, self._policy))
        return await _filtered(self._policy, tool, result)

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

    async def _approval(self, tool: Tool, attempt: "_Attempt", policy: Policy) -> Decision | None:
        """Return the user's approval, None if none is needed; raise NeedsApproval or NotCalled if it is missing."""
        risk: Risk
        arguments = attempt.arguments
        decision = self._consent.take(tool.name, arguments)
        if decision is None:
            question = tool.question(arguments) if isinstance(tool, AskingTool) else None
            if question is None and policy.requires_approval(tool.name, level_of(tool)):
                risk = "high" if level_of(tool) is Level.CRITICAL else "normal"
                reason = "This project asks before each call."
                question = Question(tool.name, arguments, risk, ToolDetails(reason=reason))
            if question is not None:
                more = await tool.approval_details(arguments) if isinstance(tool, AskingTool) else {}
                risk = "high" if "warning" in more else question.risk
                raise NeedsApproval(replace(question, risk=risk, details=question.details.model_copy(update=more)))
            return None
        attempt.approval_id = decision.approval_id
        if decision.outcome == "rejected":
            feedback = f" They said: {decision.feedback}" if decision.feedback else ""
            raise NotCalled(f"{tool.name} was not called: the user rejected it.{feedback}")
        if decision.outcome == "expired":
            raise NotCalled(f"{tool.name} was not called: the user did not answer in time.")
        return decision

    async def _call_tool(self, tool: Tool, attempt: "_Attempt", approval: Decision | None) -> ToolResult:
        attempt.approval_id = approval.approval_id if approval else None
        if isinstance(tool, AskingTool) and tool.records_itself:
            attempt.is_recorded = True
            return await tool.call(attempt.arguments, approval)
        if approval is not None and not await self._consent.use(approval):
            raise NotCalled(f"{tool.name} was not called: the approval was used before.")
        if isinstance(tool, AskingTool):
            return await tool.call(attempt.arguments, approval)
        return await tool.call(attempt.arguments)

    async def _record(self, name: str, attempt: "_Attempt", status: Status, error: str | None = None) -> None:
        if attempt.is_recorded or self._audit is None:
            return
        tool = self._tools.get(name)
        level = level_of(tool) if tool else Level.SAFE
        await self._audit.record(AuditRecord(name[:100], attempt.arguments, level, status, error, attempt.approval_id))

    async def _record_cancelled(self, name: str, attempt: "_Attempt") -> None:
        try:
            await self._record(name, attempt, "cancelled", f"{name[:100]} was stopped before it was done.")
        except ArtelError as failure:  # the cancellation must go on
            log.warning("cancelled_call_not_noted", tool=name[:100], reason=failure.detail)

    def _refusal(self, name: str) -> str:
        tools = f"Your tools: {', '.join(self._tools)}." if self._tools else "You have no tools."
        if name in self._forbidden:
            return f"You may not use {name}. {tools}"
        return f"There is no tool {name[:SHOWN_CHARACTERS]!r}. {tools}"

    async def _validate(self, tool: Tool, arguments: dict[str, Any]) -> None:
        jsonschema = await load_jsonschema()
        validator = self._validators.get(tool.name)
        if validator is None:
            validator = self._validators[tool.name] = jsonschema.Draft202012Validator(tool.schema.parameters)
        error = jsonschema.exceptions.best_match(validator.iter_errors(arguments))
        if error is not None:
            path = ".".join(str(step) for step in error.absolute_path) or "the arguments"
            raise ArgumentsInvalid(f"{path}: {error.message[:SHOWN_CHARACTERS]}")


def level_of(tool: Tool) -> Level:
    """Return the risk level of a tool; SAFE if it has none."""
    level = getattr(tool, "level", Level.SAFE)
    return level if isinstance(level, Level) else Level.CRITICAL


async def _filtered(policy: Policy, tool: Tool, result: ToolResult) -> ToolResult:
    """Return a result without entries whose path the rules deny."""
    if not result.success:
        return result
    if has_many_entries(result.data):
        return replace(result, data=await asyncio.to_thread(policy.filtered, tool.name, result.data))
    return replace(result, data=policy.filtered(tool.name, result.data))


def _parameters(tool: Tool) -> Collection[str]:
    properties = tool.schema.parameters.get("properties")
    return properties if isinstance(properties, dict) else ()


def parsed_arguments(text: str) -> dict[str, Any]:
    """Parse the arguments that a model wrote, {} for an empty text; raise ArgumentsInvalid if they are invalid."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
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


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _is_cancelled() -> bool:
    """Return whether this task is cancelled, and not one that the tool was waiting for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def without_contents(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as they are recorded: bounded, and with hashes instead of contents."""
    return {str(name)[:100]: _recorded(name, value) for name, value in list(arguments.items())[:MAX_ARGUMENTS]}


def _recorded(name: str, value: Any) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = value if isinstance(value, str) else str(value)
    if name in _CONTENTS:
        data = text.encode(errors="replace")
        return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return text[:SHOWN_CHARACTERS]
