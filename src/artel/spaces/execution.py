"""One task of one agent: its slot on the bus, what it is told, its loop, its limits."""

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from artel.agent_loop.context import Remembered, Said, build_context
from artel.agent_loop.loop import load_graphs, run_loop
from artel.agent_loop.parking import Parked, load_state
from artel.agent_loop.phases import State
from artel.agent_loop.task import AgentSpec, Listener, LoopResult, Tally
from artel.agent_memory.context_store import Recalled
from artel.approvals.service import use
from artel.auth.principal import Principal
from artel.brain.brain import Brain, ToolCall, Usage
from artel.brain.errors import ModelTimedOut
from artel.contract.events import EventData
from artel.contract.http import Agent
from artel.errors import (
    AgentInError,
    AgentNotFound,
    AgentNotRegistered,
    AgentQueueFull,
    ArtelError,
    BudgetExceeded,
    DatabaseUnavailable,
    TaskStopped,
    ToolFailed,
)
from artel.ids import uuid7
from artel.logs import get_logger
from artel.projects.service import project_settings
from artel.spaces.agent_bus import AgentBus
from artel.spaces.agent_figures import ERROR_SECONDS, AgentStatus
from artel.spaces.agents_md import Guidance
from artel.spaces.memory_tools import source_of
from artel.spaces.run_files import Caller, RunFiles, RunNotes
from artel.spaces.services import SpaceServices
from artel.tools.consent import Consent, Decision, NeedsApproval
from artel.tools.files import READING, file_tools
from artel.tools.policy import Pace, Policy, PolicySettings
from artel.tools.tool import Tool
from artel.tools.toolbox import Toolbox
from artel.turns.lease import Lease
from artel.turns.transactions import AgentAtWork

RECALLED = 5
TIMEOUT = "timeout"
_READING = {tool.name for tool in READING}

log = get_logger(__name__)


class ErrorType(StrEnum):
    """How a task failed (UWS-22.3): too late, in its own work, never begun, stopped by somebody, out of money."""

    TIMEOUT = "timeout"
    EXECUTION = "execution"
    UNAVAILABLE = "unavailable"
    STOPPED = "stopped"
    BUDGET = "budget"


_ERROR_TYPES = {
    TIMEOUT: ErrorType.TIMEOUT,
    AgentInError.code: ErrorType.UNAVAILABLE,
    AgentNotFound.code: ErrorType.UNAVAILABLE,
    AgentNotRegistered.code: ErrorType.UNAVAILABLE,
    AgentQueueFull.code: ErrorType.UNAVAILABLE,
    TaskStopped.code: ErrorType.STOPPED,
    BudgetExceeded.code: ErrorType.BUDGET,
}


def error_type(code: str) -> ErrorType:
    """Return the coarse kind of a failure with this code; whatever is not known is a failure of the work itself."""
    return _ERROR_TYPES.get(code, ErrorType.EXECUTION)


class TaskListener(Listener, Protocol):
    """Hears what a task does, and what was remembered for it."""

    def recalled(self, found: Sequence[Recalled]) -> None:
        """The agent's memory was searched."""

    def note(self, event: EventData) -> None:
        """Something else happens that belongs into the session's events."""


@dataclass(frozen=True, slots=True)
class Task:
    """Something for an agent to do. `begin` is called when it has its slot, and answers what was said until then."""

    id: str
    text: str
    begin: Callable[[Agent, AgentAtWork], Awaitable[tuple[Agent, Sequence[Said]]]]
    listener: TaskListener
    tally: Tally = field(default_factory=lambda: Tally(""))
    session_id: str = ""
    turn_id: str = ""
    waiting: "Waiting | None" = None
    deadline: float = math.inf  # in seconds of `time.monotonic()`, if somebody waits who has less time
    # Another brain than everybody's, if somebody counts what it costs; known once it has begun.
    brain: Callable[[], Brain | None] = lambda: None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A task that waited for a person: how far it had come, and what was decided."""

    state: State | None
    single: ToolCall | None
    decisions: Mapping[str, Decision]
    context: list[dict[str, Any]]
    hashes: dict[str, str]
    seconds: float  # that it has run before
    inner: Mapping[str, Any] | None = None  # a child of the agent's that waited

    @classmethod
    def of(cls, kept: Mapping[str, Any], decisions: Mapping[str, Decision]) -> "Waiting":
        """Read what was kept of a run."""
        single = kept.get("single")
        return cls(
            state=None if single else load_state(kept["state"]),
            single=ToolCall(single.get("id") or uuid7(), single["tool"], json.dumps(single["arguments"]))
            if single
            else None,
            decisions=decisions,
            context=kept.get("context", []),
            hashes=kept.get("hashes", {}),
            seconds=kept.get("seconds", 0.0),
            inner=kept.get("inner"),
        )


@dataclass(frozen=True, slots=True)
class TaskAtWork:
    """A task that runs, as its tools see it; in `waiting` the task is not late if nothing happens."""

    agent: Agent
    task: Task
    deadline: float
    waiting: Callable[[], AbstractContextManager[None]]


# Answers the tools of a worker space, and which of all tools the agent may use.
ToolsFor = Callable[[TaskAtWork], Awaitable[tuple[list[Tool], Collection[str]]]]


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """What became of a task (UWS-22): the response and what was remembered for it, or an error.

    `error_type` is the coarse kind of failure, `error_code` the exact one, which HTTP and events carry.
    """

    success: bool
    response: str
    context: list[dict[str, Any]]
    usage: Usage
    seconds: float
    error: str | None = None
    error_type: ErrorType | None = None
    error_code: str | None = None

    @classmethod
    def failed(cls, error: str, code: str, usage: Usage) -> "ExecutionResult":
        """Return the result of a task that failed before it had a slot on the bus."""
        return cls(False, "", [], usage, 0, error, error_type(code), code)


class TimedOut(Exception):
    """The task made no progress for too long, or took too long in all."""


class Execution:
    """Runs tasks of the agents of one worker space."""

    def __init__(
        self,
        principal: Principal,
        project_id: int,
        parts: SpaceServices,
        bus: AgentBus,
        tools_for: ToolsFor,
        search: Callable[[int, str, int], Awaitable[list[Recalled]]],
        lease: Lease | None = None,
    ) -> None:
        """Take the parts; `search` finds what an agent remembers."""
        self._principal = principal
        self._project_id = project_id
        self._parts = parts
        self._bus = bus
        self._epoch = lease.epoch if lease else 0
        self._pace = Pace(calls=parts.tool_calls, key=(principal.user_id, project_id))
        self._guidance = Guidance(parts, principal, project_id, self._epoch)
        self._tools_for = tools_for
        self._search = search

    async def run(self, agent: Agent, task: Task, priority: int = 0) -> ExecutionResult:
        """Do a task as soon as the agent has a free slot."""
        started = time.monotonic()
        context: list[dict[str, Any]] = []

        def failed(error: str, code: str) -> ExecutionResult:
            kind, spent = error_type(code), time.monotonic() - started
            log.warning(
                "task_failed", task_id=task.id, agent_id=agent.id, error_type=kind.value, code=code, reason=error
            )
            return ExecutionResult(False, "", context, task.tally.usage, spent, error, kind, code)

        try:
            async with self._bus.slot(agent.id, task.id, priority):
                answer = await self._work(agent, task, context)
        except TimedOut as late:
            return failed(str(late), TIMEOUT)
        except ModelTimedOut as late:
            return failed(late.detail, TIMEOUT)
        except DatabaseUnavailable:  # no failure of the agent's: the turn waits until the database is back
            raise
        except ArtelError as failure:
            return failed(failure.detail, failure.code)
        return ExecutionResult(True, answer.content, context, task.tally.usage, time.monotonic() - started)

    async def _work(self, agent: Agent, task: Task, context: list[dict[str, Any]]) -> LoopResult:
        if self._bus.status(agent.id) is AgentStatus.ERROR:
            raise in_error(agent.name)
        at_work = AgentAtWork(
            agent.id, agent.name, self._bus.status_without(agent.id).value, self._bus.status(agent.id).value
        )
        recalls = agent.memory and task.waiting is None
        recalling = asyncio.ensure_future(self._recall(agent, task)) if recalls else None
        try:
            agent, said = await task.begin(agent, at_work)
            recalled = await recalling if recalling else []
        except BaseException:
            if recalling:
                recalling.cancel()
            raise
        context += task.waiting.context if task.waiting else [_mentioned(one) for one in recalled]
        return await self._answer(agent, task, said, recalled, context)

    async def _answer(
        self,
        agent: Agent,
        task: Task,
        said: Sequence[Said],
        recalled: Sequence[Recalled],
        context: list[dict[str, Any]],
    ) -> LoopResult:
        remembered = [Remembered(one.memory.content, source_of(one), one.score) for one in recalled]
        messages = build_context(agent.system_prompt, said, remembered)
        spec = AgentSpec(
            agent.name,
            agent.model,
            agent.temperature,
            agent.max_tokens,
            self._parts.fallback_model,
            max_context_tokens=self._parts.max_context_tokens,
        )
        await load_graphs()  # the first task after the start is not late because of it
        before = task.waiting.seconds if task.waiting else 0.0
        began = time.monotonic()
        total = min(task.deadline, began + self._parts.limits.task - before)
        watch = _Watch(task.listener, self._parts.limits.without_progress, total)
        files = RunFiles(self._parts, self._caller(agent, task), watch.alive, self._policy)
        if task.waiting:
            files.hashes.update(task.waiting.hashes)
        try:
            async with asyncio.timeout(min(self._parts.limits.without_progress, total - began)) as watch.limit:
                toolbox = await self._toolbox(TaskAtWork(agent, task, total, watch.waiting), files)
                if task.waiting and task.waiting.single:
                    return await _only_call(task.waiting.single, toolbox, watch, total, task.tally)
                resumed = task.waiting.state if task.waiting else None
                if resumed is None and _READING & {schema.name for schema in toolbox.schemas}:
                    messages = (*messages[:1], *await self._guidance.messages(), *messages[1:])
                brain = task.brain() or self._parts.brain
                return await run_loop(spec, messages, brain, toolbox, watch, total, task.tally, resumed)
        except TimeoutError as late:
            if not watch.limit.expired():
                raise
            raise TimedOut(watch.complaint()) from late
        except Parked as parked:
            spent = before + time.monotonic() - began
            parked.kept |= {"agent_id": agent.id, "context": context, "hashes": files.hashes, "seconds": spent}
            raise
        finally:
            task.tally.settle("".join(watch.written))

    async def _recall(self, agent: Agent, task: Task) -> list[Recalled]:
        try:
            found = await self._search(agent.id, task.text, RECALLED)
        except ArtelError as failure:  # chat goes on without memory, and the space is degraded
            log.warning("memory_not_searched", agent_id=agent.id, reason=failure.detail)
            return []
        task.listener.recalled(found)
        return found

    def _caller(self, agent: Agent, task: Task) -> Caller:
        return Caller(
            self._principal, self._project_id, task.session_id, task.turn_id, agent.id, agent.name, epoch=self._epoch
        )

    async def _toolbox(self, at_work: TaskAtWork, files: RunFiles) -> Toolbox:
        agent, task = at_work.agent, at_work.task
        tools, allowed = await self._tools_for(at_work)
        tools += file_tools(files)
        if not any(tool.name in allowed for tool in tools):
            return Toolbox()
        return Toolbox(
            tools,
            allowed,
            files.policy,
            Consent(task.waiting.decisions if task.waiting else {}, self._use),
            RunNotes(self._parts, self._caller(agent, task)),
            _goes_on(task.waiting),
        )

    async def _policy(self) -> Policy:
        settings = await self._parts.database.read(project_settings, self._principal, self._project_id)
        return Policy(PolicySettings.of(settings), self._pace)

    async def _use(self, approval_id: str) -> bool:
        return await self._parts.database.run(use, self._principal, approval_id)


def _goes_on(waiting: Waiting | None) -> ToolCall | None:
    """Return the call that was let through before the run parked in it, if there was one."""
    if waiting is None or waiting.inner is None:
        return None
    if waiting.single is not None:
        return waiting.single
    return waiting.state.calls[0] if waiting.state and waiting.state.calls else None


async def _only_call(call: ToolCall, toolbox: Toolbox, watch: "_Watch", deadline: float, tally: Tally) -> LoopResult:
    """Make one call that was approved late, without asking a model."""
    watch.tool_called(call)
    try:
        result = await toolbox.call(call, deadline)
    except NeedsApproval as asked:
        parked = Parked(asked.question, {}, asked.inner)
        parked.kept["single"] = {"id": call.id, "tool": call.name, "arguments": json.loads(call.arguments)}
        raise parked from None
    watch.tool_result(call, result)
    if not result.success:
        raise ToolFailed(result.error or f"{call.name} failed.")
    return LoopResult(f"{call.name} was done, as you approved.", tally.usage, 0, 1, ("tool_call",))


class _Watch:
    """Passes on what the loop does, and moves the time limit with every progress."""

    limit: asyncio.Timeout

    def __init__(self, listener: TaskListener, without_progress: float, total: float) -> None:
        self._listener = listener
        self._without_progress = without_progress
        self._total = total
        self._until = 0.0
        self.written: list[str] = []

    def token(self, text: str) -> None:
        self._progress()
        self.written.append(text)
        self._listener.token(text)

    def restart(self) -> None:
        self.written.clear()
        self._listener.restart()

    def phase(self, name: str) -> None:
        self._listener.phase(name)

    def tool_called(self, call: Any) -> None:
        self._listener.tool_called(call)

    def tool_result(self, call: Any, result: Any) -> None:
        self._progress()
        self._listener.tool_result(call, result)

    def alive(self) -> None:
        """Something goes on that takes its time."""
        self._progress()

    def complaint(self) -> str:
        """Say which of the limits was passed."""
        if time.monotonic() >= self._total:
            return "The task took too long and was stopped. Ask for less at once."
        return (
            f"There was no progress for {self._without_progress:g} seconds, so the task was stopped. "
            "Try again, or try another model."
        )

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let only the limit for all of the task count: somebody else works, within limits of its own."""
        self._move(self._total)
        try:
            yield
        finally:
            if not self.limit.expired():
                self._progress()

    def _progress(self) -> None:
        now = time.monotonic()
        until = min(now + self._without_progress, self._total)
        # Moving it for every token would cost more.
        if abs(until - self._until) > min(1.0, self._without_progress / 10):
            self._move(until)

    def _move(self, until: float) -> None:
        self._until = until
        self.limit.reschedule(asyncio.get_running_loop().time() + until - time.monotonic())


def in_error(name: str) -> AgentInError:
    """Return the error for an agent that has failed too often in a row."""
    return AgentInError(
        f"{name} has failed several times in a row. Try again in {ERROR_SECONDS} seconds, or check its model.",
        retry_after=ERROR_SECONDS,
    )


def _mentioned(one: Recalled) -> dict[str, Any]:
    return {
        "memory_id": one.memory.id,
        "type": one.memory.type,
        "content": one.memory.content[:1000],
        "score": round(one.score, 4),
    }
