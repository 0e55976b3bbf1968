"""The tools that one agent has. Whatever goes wrong with a call is told to the model, which may try another way."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from artel.brain.brain import ToolCall, ToolSchema
from artel.brain.structured import load_jsonschema
from artel.errors import ArtelError
from artel.logs import get_logger
from artel.tools.audit import Audit, Audited, NoAudit, Status
from artel.tools.consent import Consent, Decision, NeedsApproval, Question
from artel.tools.policy import Forbidden, Level, Policy, Risk, arguments_hash, has_many_entries
from artel.tools.tool import AskingTool, Tool, ToolResult

SHOWN_CHARACTERS = 500

log = get_logger(__name__)


class ArgumentsInvalid(ValueError):
    """The arguments are no JSON object, or not the one that the tool takes."""


class NotCalled(Exception):
    """The tool was not called at all; the text says why, to the model."""


@dataclass(slots=True)
class _Attempt:
    """What is known of a call so far. A tool that notes itself does so whatever comes of it, once it is called."""

    arguments: dict[str, Any] = field(default_factory=dict)
    approval_id: str | None = None
    is_noted: bool = False


class Toolbox:
    """Calls the tools that are both there and allowed, as the policy and the user have it, and no others."""

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        allowed: Collection[str] = (),
        policy: Policy | Callable[[], Awaitable[Policy]] | None = None,
        consent: Consent | None = None,
        audit: Audit | None = None,
        goes_on: ToolCall | None = None,
    ) -> None:
        """Take the tools; a policy that must be looked up is, with the first call.

        `goes_on` is a call that was let through before, and waited with somebody who works for the caller. It is let
        through once more without being checked and asked about again, if it is the same call.
        """
        self._goes_on = goes_on
        self._policy = policy or Policy()
        self._consent = consent or Consent()
        self._audit = audit or NoAudit()
        there = {tool.name: tool for tool in tools}
        self._tools = {name: tool for name, tool in there.items() if name in allowed}
        self._forbidden = there.keys() - self._tools.keys()
        self._validators: dict[str, Any] = {}
        self.schemas: tuple[ToolSchema, ...] = tuple(tool.schema for tool in self._tools.values())

    async def call(self, call: ToolCall, deadline: float) -> ToolResult:
        """Make the call before `deadline` (seconds of `time.monotonic()`).

        Only a cancellation is ever raised, and NeedsApproval when a person must be asked first.
        """
        begun = time.monotonic()
        result = await self._result(call, deadline)
        log.info(
            "tool_called",
            tool=call.name[:SHOWN_CHARACTERS],
            success=result.success,
            duration_ms=round((time.monotonic() - begun) * 1000, 1),
            error=result.error and result.error[:SHOWN_CHARACTERS],
        )
        return result

    async def _result(self, call: ToolCall, deadline: float) -> ToolResult:
        attempt = _Attempt()
        status: Status = "failed"
        try:
            async with asyncio.timeout(deadline - time.monotonic()) as limit:
                result = await self._called(call, deadline, attempt)
            status = "done" if result.success else "failed"
        except NeedsApproval:
            await self._note(call.name, attempt, "asked")
            raise
        except NotCalled as problem:
            result, status = ToolResult.failure(str(problem)), "refused"
        except ArtelError as problem:
            result = ToolResult.failure(problem.detail)
        except (Exception, asyncio.CancelledError) as problem:
            if isinstance(problem, asyncio.CancelledError) and _is_cancelled():
                await self._note_cancelled(call.name, attempt)
                raise
            if isinstance(problem, TimeoutError) and limit.expired():
                result = ToolResult.failure(f"{call.name} was stopped: it was not done in time.")
            else:
                log.warning("tool_failed", tool=call.name, exc_info=True)
                result = ToolResult.failure(f"{call.name} failed because of an error inside it. Try another way.")
        await self._note(call.name, attempt, status, result.error)  # after the deadline too: one note, whatever came
        return result

    async def _called(self, call: ToolCall, deadline: float, attempt: "_Attempt") -> ToolResult:
        goes_on = self._take_goes_on(call)
        tool = self._tools.get(call.name)
        if tool is None:
            raise NotCalled(self._refusal(call.name))
        if deadline <= time.monotonic():
            raise NotCalled(f"{call.name} was not called: there is no time left.")
        try:
            arguments = parsed_arguments(call.arguments)
            await self._check(tool, arguments)
        except ArgumentsInvalid as problem:
            raise NotCalled(
                f"{call.name} was not called: {problem}. Correct the arguments and call it again."
            ) from None
        attempt.arguments = arguments
        if not isinstance(self._policy, Policy):
            self._policy = await self._policy()
        if goes_on:
            return await self._done(tool, attempt, None)
        try:
            self._policy.check(tool.name, level_of(tool), arguments, _named(tool))
        except Forbidden as refused:
            raise NotCalled(str(refused)) from None
        result = await self._done(tool, attempt, await self._approval(tool, attempt, self._policy))
        return await _shown(self._policy, tool, result)

    def _take_goes_on(self, call: ToolCall) -> bool:
        """Return whether this is the call that was let through before; whatever comes of it, no other will be.

        An id alone proves nothing: the model's server chooses it.
        """
        before = self._goes_on
        if before is None or call.id != before.id:
            return False
        self._goes_on = None
        try:
            same = _hash_of(call) == _hash_of(before)
        except ArgumentsInvalid:
            return False
        return same

    async def _approval(self, tool: Tool, attempt: "_Attempt", policy: Policy) -> Decision | None:
        """Return the user's approval of a call, None if none is needed; raise if there is none but should be."""
        risk: Risk
        arguments = attempt.arguments
        decision = self._consent.take(tool.name, arguments)
        if decision is None:
            question = tool.question(arguments) if isinstance(tool, AskingTool) else None
            if question is None and policy.requires_approval(tool.name, level_of(tool)):
                risk = "high" if level_of(tool) is Level.CRITICAL else "normal"
                question = Question(tool.name, arguments, risk, {"reason": "This project asks before each call."})
            if question is not None:
                seen = await tool.seen(arguments) if isinstance(tool, AskingTool) else {}
                risk = "high" if "warning" in seen else question.risk
                raise NeedsApproval(replace(question, risk=risk, details={**question.details, **seen}))
            return None
        attempt.approval_id = decision.approval_id
        if decision.outcome == "rejected":
            why = f" They said: {decision.feedback}" if decision.feedback else ""
            raise NotCalled(f"{tool.name} was not called: the user does not want it.{why}")
        if decision.outcome == "expired":
            raise NotCalled(f"{tool.name} was not called: the user did not answer in time.")
        return decision

    async def _done(self, tool: Tool, attempt: "_Attempt", approval: Decision | None) -> ToolResult:
        attempt.approval_id = approval.approval_id if approval else None
        if isinstance(tool, AskingTool) and tool.notes_itself:
            attempt.is_noted = True
            return await tool.call(attempt.arguments, approval)
        if approval is not None and not await self._consent.use(approval):
            raise NotCalled(f"{tool.name} was not called: the approval was used before.")
        if isinstance(tool, AskingTool):
            return await tool.call(attempt.arguments, approval)
        return await tool.call(attempt.arguments)

    async def _note(self, tool: str, attempt: "_Attempt", status: Status, error: str | None = None) -> None:
        if attempt.is_noted:
            return
        known = self._tools.get(tool)
        level = level_of(known) if known else Level.SAFE
        noted = Audited(tool[:100], attempt.arguments, level, status, error, attempt.approval_id)
        await self._audit.note(noted)

    async def _note_cancelled(self, tool: str, attempt: "_Attempt") -> None:
        try:
            await self._note(tool, attempt, "cancelled", f"{tool[:100]} was stopped before it was done.")
        except ArtelError as failure:  # it is cancelled all the same
            log.warning("cancelled_call_not_noted", tool=tool[:100], reason=failure.detail)

    def _refusal(self, name: str) -> str:
        yours = f"Your tools: {', '.join(self._tools)}." if self._tools else "You have no tools."
        if name in self._forbidden:
            return f"You may not use {name}. {yours}"
        return f"There is no tool {name[:SHOWN_CHARACTERS]!r}. {yours}"

    async def _check(self, tool: Tool, arguments: dict[str, Any]) -> None:
        jsonschema = await load_jsonschema()
        validator = self._validators.get(tool.name)
        if validator is None:
            validator = self._validators[tool.name] = jsonschema.Draft202012Validator(tool.schema.parameters)
        wrong = jsonschema.exceptions.best_match(validator.iter_errors(arguments))
        if wrong is not None:
            place = ".".join(str(step) for step in wrong.absolute_path) or "the arguments"
            raise ArgumentsInvalid(f"{place}: {wrong.message[:SHOWN_CHARACTERS]}")


def level_of(tool: Tool) -> Level:
    """Return how much harm a tool can do; one that does not say is safe."""
    level = getattr(tool, "level", Level.SAFE)
    return level if isinstance(level, Level) else Level.CRITICAL


async def _shown(policy: Policy, tool: Tool, result: ToolResult) -> ToolResult:
    """Return a result without what the rules keep from agents."""
    if not result.success:
        return result
    if has_many_entries(result.data):
        return replace(result, data=await asyncio.to_thread(policy.shown, tool.name, result.data))
    return replace(result, data=policy.shown(tool.name, result.data))


def _named(tool: Tool) -> Collection[str]:
    properties = tool.schema.parameters.get("properties")
    return properties if isinstance(properties, dict) else ()


def parsed_arguments(text: str) -> dict[str, Any]:
    """Return the arguments that a model wrote, or raise `ArgumentsInvalid`; none at all are no arguments."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as problem:
        raise ArgumentsInvalid(f"its arguments are not JSON ({problem})") from None
    if not isinstance(value, Mapping):
        raise ArgumentsInvalid("its arguments must be one JSON object")
    if not _can_be_written(text, value):
        raise ArgumentsInvalid("its arguments have half a character in them (a lone surrogate)")
    return dict(value)


def _hash_of(call: ToolCall) -> str:
    return arguments_hash(call.name, parsed_arguments(call.arguments))


def _can_be_written(text: str, value: Any) -> bool:
    """Return whether arguments can be stored and sent: JSON can name halves of characters, which nobody can write."""
    try:
        text.encode()
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _is_cancelled() -> bool:
    """Return whether it is this task that is cancelled, and not something that a tool was waiting for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
