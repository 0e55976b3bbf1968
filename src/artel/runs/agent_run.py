"""One task of one agent: slot, start, context, tools, loop, result. Direct turns, plan tasks and children run it."""

import asyncio
import json
import time
from collections.abc import Awaitable
from functools import partial
from typing import Any

from artel.agent_loop.context import Remembered, build_context
from artel.agent_loop.loop import Run, load_graphs, run_loop
from artel.agent_loop.parking import Parked, State
from artel.agent_loop.task import AgentSpec, LoopSettings
from artel.agent_memory.service import Recalled
from artel.brain.brain import Message, ToolCall
from artel.brain.errors import ModelTimedOut
from artel.brain.tokens import run_counting
from artel.budgets.guard import TurnBudgetGuard
from artel.contract.chat import ContextItem
from artel.contract.http import Agent
from artel.contract.parked_run import ParkedRun, SingleCall
from artel.errors import ArtelError, DatabaseUnavailable, ToolFailed
from artel.logs import get_logger
from artel.runs.attached_files import with_attached_files, with_images
from artel.runs.node_run import NodeRun
from artel.runs.progress_timeout import ProgressTimeout, TimedOut
from artel.runs.task import TIMEOUT, ErrorType, ExecutionResult, Task, error_type
from artel.runs.toolbox import source_of, toolbox_of
from artel.runs.user_files import RunFiles
from artel.spaces.figures import AgentStatus, in_error
from artel.spaces.worker_space import WorkerSpace
from artel.tools.consent import NeedsUser
from artel.tools.files import READ_TOOLS
from artel.tools.toolbox import Toolbox
from artel.turns.transactions import AgentAtWork

RECALLED = 5
_READING = {tool.name for tool in READ_TOOLS}

log = get_logger(__name__)


async def run_agent(space: WorkerSpace, agent: Agent, task: Task) -> ExecutionResult:
    """Run a task in a slot of an agent of `space.agent` and return what became of it (UWS-22)."""
    return await AgentRun(space, agent, task).run()


class AgentRun:
    """One run of one task."""

    def __init__(self, space: WorkerSpace, agent: Agent, task: Task) -> None:
        self.space = space
        self.agent = agent
        self.task = task
        self.budget_guard: TurnBudgetGuard | None = None
        self._services = space.services
        self._context: list[ContextItem] = []  # what was remembered for the task, for whoever reads the answer
        self._seconds_before = task.waiting.run.seconds if task.waiting else 0.0

    async def run(self) -> ExecutionResult:
        """Do the task as soon as the agent has a free slot."""
        began = time.monotonic()
        try:
            async with self.space.bus.slot(self.agent.id, self.task.id):
                messages = await self._start()
                answer = await self._answer(messages)
        except TimedOut as late:
            return self._failed(str(late), TIMEOUT, began)
        except ModelTimedOut as late:
            return self._failed(late.detail, TIMEOUT, began)
        except DatabaseUnavailable:  # not the agent's failure: the turn waits until the database is back
            raise
        except ArtelError as failure:
            return self._failed(failure.detail, failure.code, began)
        self.space.hung.pop(self.agent.id, None)
        return ExecutionResult(True, answer, self._context, self.task.tally.usage, time.monotonic() - began)

    def _failed(self, error: str, code: str, began: float) -> ExecutionResult:
        kind, usage, seconds = error_type(code), self.task.tally.usage, time.monotonic() - began
        ids = {"task_id": self.task.id, "agent_id": self.agent.id}
        log.warning("task_failed", **ids, error_type=kind.value, code=code, reason=error)
        if kind is ErrorType.TIMEOUT:
            self.space.hung[self.agent.id] = self.task.id
        return ExecutionResult(False, "", self._context, usage, seconds, error, kind, code)

    async def run_child(self, child: Agent, task: Task) -> ExecutionResult:
        """Run a task of a child of the agent; the time limit without progress is the child's meanwhile."""
        with self.timeout.waiting():
            return await run_agent(self.space, child, task)

    async def _start(self) -> tuple[Message, ...]:
        """Store that the task begins, and return what the agent is told: prompt, memories, conversation."""
        agent, task, bus, remembered = self.agent, self.task, self.space.bus, []
        if bus.status(agent.id) is AgentStatus.ERROR:
            raise in_error(agent.name)
        at_work = AgentAtWork(agent.id, agent.name, bus.status(agent.id, without=1).value, bus.status(agent.id).value)
        searches = agent.memory and task.is_unprompted
        version: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        searching = asyncio.ensure_future(self._recall(version)) if searches else None
        try:
            start = await task.start(agent, at_work)
            version.set_result(start.memory_version)
            recalled = await searching if searching else []
        except BaseException:
            if searching:
                searching.cancel()
            raise
        self.agent = start.agent
        self.budget_guard = start.budget_guard  # calls of the demo brain reserve nothing
        if task.waiting:
            self._context += task.waiting.run.context
        for found in recalled:
            memory, score = found.memory, found.score
            fields = {"memory_id": memory.id, "type": memory.type, "content": memory.content[:1000]}
            self._context.append(ContextItem(**fields, score=round(score, 4)))
            remembered.append(Remembered(memory.content, source_of(found), score))
        history = start.history
        if task.is_unprompted and any(message.files for message in history):
            history = await with_attached_files(self, self.agent, history)
        context = partial(build_context, self.agent.system_prompt, history, remembered)
        return await run_counting(context, *(memory.text for memory in remembered))

    async def _answer(self, messages: tuple[Message, ...]) -> str:
        """Run the loop, here or on a node, or the one call that was approved late, within the time limits."""
        task, settings, services = self.task, self._services.settings, self._services
        loop = LoopSettings(**dict(self.agent.loop), most_tool_calls=settings.max_tool_calls_per_task)
        if loop.needs_graph and not self._is_on_node:
            await load_graphs()  # its import does not count: it is loaded once
        began = time.monotonic()
        self.deadline = min(task.deadline, began + settings.task_timeout_seconds - self._seconds_before)
        self.timeout = ProgressTimeout(task.listener, settings.progress_timeout_seconds, self.deadline)
        files = RunFiles(self.space, self.agent, task, self.timeout.alive)
        try:
            async with self.timeout:
                toolbox = await toolbox_of(self, files)
                if task.waiting and task.waiting.single:
                    return await self._only_call(task.waiting.single, toolbox)
                resumed = task.waiting.state if task.waiting else None
                if resumed is not None:
                    resumed.messages = await with_images(self, resumed.messages)
                if task.is_unprompted and _READING & {schema.name for schema in toolbox.schemas}:
                    messages = (*messages[:1], *await self.space.guidance.messages(), *messages[1:])
                if self._is_on_node:
                    return await NodeRun(self, toolbox, files).answer(messages)
                spec = AgentSpec(
                    self.agent.name,
                    self.agent.model,
                    self.agent.temperature,
                    self.agent.max_tokens,
                    self.agent.fallback.or_default(settings.fallback_model),
                    loop,
                    settings.max_context_tokens,
                )
                run = Run(spec, services.brain, toolbox, self.timeout, self.deadline, task.tally, self.budget_guard)
                return (await run_loop(run, resumed or State(messages))).content
        except Parked as parked:
            resumed_with: dict[str, Any] = {"agent_id": self.agent.id, "context": tuple(self._context)}
            resumed_with |= {"hashes": files.hashes, "seconds": self._seconds_before + time.monotonic() - began}
            parked.run = parked.run.model_copy(update=resumed_with)
            raise
        finally:
            task.tally.settle("".join(self.timeout.written))

    @property
    def _is_on_node(self) -> bool:
        """Whether a node does the task; one that waited for a person goes on where it began."""
        waiting = self.task.waiting
        return waiting.node is not None if waiting else self.agent.runtime == "node"

    async def _only_call(self, call: ToolCall, toolbox: Toolbox) -> str:
        """Make one call that was approved late, without asking a model."""
        self.timeout.tool_called(call)
        try:
            result = await toolbox.call(call, self.deadline)
        except NeedsUser as needs:
            single = SingleCall(id=call.id, tool=call.name, arguments=json.loads(call.arguments))
            raise Parked(needs, ParkedRun(single=single)) from None
        self.timeout.tool_result(call, result)
        if not result.success:
            raise ToolFailed(result.error or f"{call.name} failed.")
        return f"{call.name} was done, as you approved."

    async def _recall(self, version: Awaitable[int | None]) -> list[Recalled]:
        """Search the agent's memory for the task; a failed search leaves the answer without memories.

        `version` is that of its memory when the task was started, None if that is not known.
        """
        space, agent = self.space, self.agent
        memory = self._services.memories.context_store(space.principal, space.project_id, agent.id, agent.name)
        try:
            found = await memory.search(self.task.text, RECALLED, version=version)
        except ArtelError as failure:  # the space is degraded then
            log.warning("memory_not_searched", agent_id=agent.id, reason=failure.detail)
            return []
        self.task.listener.recalled(found)
        return found
