"""The run of a task on a node: commands until there is an answer, tools in the worker space, failover to other nodes.

Each command is stored before it is sent, and its id follows from task, step and attempt. So a host that crashes and its
successor send the same command, which the node carries out once.
"""

import asyncio
import json
import re
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pydantic import JsonValue
from sqlalchemy import Connection

from artel.agent_loop.parking import Parked
from artel.auth.principal import Principal
from artel.brain import prices
from artel.brain.brain import Message, Request, Usage
from artel.brain.errors import ModelNotAllowed
from artel.brain.retries import INPUT_EXTRA, INPUT_MARGIN
from artel.brain.tokens import count_tokens
from artel.brain.window import fit_to_model
from artel.bus.topology import word
from artel.contract.envelope import (
    Command,
    CommandContext,
    CommandLimits,
    Envelope,
    Error,
    Metrics,
    Requirements,
    Result,
)
from artel.contract.node_messages import (
    ANSWER,
    CONTINUE,
    AnswerParams,
    ContinueParams,
    Progress,
    SpaceMessage,
    SpaceTool,
)
from artel.contract.parked_run import ParkedNodeRun, ParkedRun
from artel.db.lease import LeaseLost
from artel.db.retries import with_outage_retry
from artel.db.tx import Tx
from artel.errors import AgentFailed, AgentUnavailable, ArtelError, ServerBusy, TaskStopped
from artel.logs import get_logger
from artel.projects.transactions import project_settings
from artel.registry.commands import OPEN, CommandStatus, NewCommand, NodeCommand, NodeCommandRepository
from artel.registry.node import RegisteredNode
from artel.registry.node_client import MAX_RESTARTS, NodeLost
from artel.runs.node_answers import charged, failure_of, text_of, tool_calls_of
from artel.runs.node_tools import NodeTools
from artel.runs.user_files import RunFiles
from artel.text import storable
from artel.tools.consent import NeedsUser
from artel.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from artel.runs.agent_run import AgentRun

COMMAND_IDS = uuid.UUID("6f0d6a52-5f0e-4a0a-9d3b-3a1f0c6d2b11")
FAILOVER_SECONDS = 10.0  # that another node gets to appear
LOOK_SECONDS = 1.0
DEFAULT_RETRIES = 3
RESERVED_CALLS = 8  # model calls that a command's reservation is meant for
PHASE_CHARACTERS = 100
NODE_PROBLEMS = {
    "lost": "is lost",
    "stuck": "made no progress",
    "restarted": f"was restarted {MAX_RESTARTS} times during the task",
}
MAX_TOKENS = 10**9

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Step:
    """A command for any node that can carry it out; `stored` if it was sent before."""

    number: int
    action: str
    params: dict[str, JsonValue]
    stored: NewCommand | None = None
    node: RegisteredNode | None = None

    @property
    def has_approval(self) -> bool:
        """Whether it lets a node make a call that the user has approved."""
        results = self.params.get("results") if self.action == CONTINUE else None
        return isinstance(results, list) and any(isinstance(each, dict) and each.get("approval") for each in results)


class NodeRun:
    """One run of one task of an agent with `runtime: node`."""

    def __init__(self, run: "AgentRun", toolbox: Toolbox, files: RunFiles) -> None:
        self._run = run
        self._space = run.space
        self._services = run.space.services
        self._agent = run.agent
        self._task = run.task
        self._toolbox = toolbox
        self._tools = NodeTools(run, toolbox, files)
        self._most_usd = run.space.services.settings.node_task_cost_usd  # that a command may cost
        self._parked = ParkedNodeRun()  # what the run would be parked with now
        self._attempt = 0
        self._failovers = 0
        self._max_retries = DEFAULT_RETRIES
        self._failed: set[str] = set()  # nodes that could not do it
        self._answered_by = ""  # the node that answered last
        self._node_types: dict[str, str] = {}  # of the nodes that were chosen, by name
        self._model, self._max_tokens = run.agent.model, run.agent.max_tokens  # of the node that was chosen
        self._refused: ModelNotAllowed | None = None  # why a node that could do it may not

    async def answer(self, messages: tuple[Message, ...]) -> str:
        """Return the node's answer to the last message; failures are `ArtelError`s, and Parked and TimedOut."""
        try:
            step = await self._next_step(messages)
            while True:
                output = await self._run_step(step)
                tool_request = tool_calls_of(output)
                if tool_request is None:
                    text = text_of(output)
                    self._run.timeout.token(text)
                    return text
                parked = ParkedNodeRun(
                    node=self._answered_by,
                    node_type=self._node_types.get(self._answered_by, ""),
                    step=step.number,
                    state=tool_request.state,
                    calls=tool_request.calls,
                    tool_calls=self._parked.tool_calls,
                )
                step = await self._after_tool_calls(parked)
        except NeedsUser as needs:
            raise Parked(needs, ParkedRun(node=self._parked)) from None

    # Steps

    async def _next_step(self, messages: tuple[Message, ...]) -> _Step:
        """Return what is to be done first: a new command, or the one that a parked run or another host came to."""
        stored = await self._services.database.read(commands_of_task, self._space.principal, self._task.id)
        self._attempt = max((command.attempt for command in stored), default=-1) + 1
        waiting = self._task.waiting.node if self._task.waiting else None
        parked_step = waiting.step if waiting and waiting.state else -1
        last = stored[-1] if stored else None
        if last is not None and last.step > parked_step and is_resumable(last):
            log.info("node_command_resumed", command_id=last.id, node=last.node_name, status=last.status)
            self._attempt = last.attempt
            step = _Step(last.step, last.command.action, last.command.params, last)
            self._parked = await self._parked_before(step, last.node_name)
            for command in stored[:-1]:
                self._count_earlier(command, counts=command.step > parked_step)
            return step
        if waiting and waiting.state:
            return await self._after_tool_calls(waiting)
        node = await self._choose()
        return _Step(0, ANSWER, await self._answer_params(messages, node), node=node)

    async def _parked_before(self, step: _Step, name: str) -> ParkedNodeRun:
        """Return what a run is parked with if it must wait before a command is sent again, which was sent to a node."""
        node = await self._services.nodes.registry.find(name)
        parked = ParkedNodeRun(node=name, node_type=node.node_type if node else "")
        self._node_types[name] = parked.node_type
        if step.action != CONTINUE:
            return parked
        params = ContinueParams.model_validate(step.params)
        known = {"step": step.number - 1, "state": params.state, "results": params.results}
        return parked.model_copy(update=known)

    async def _answer_params(self, messages: tuple[Message, ...], node: RegisteredNode) -> dict[str, JsonValue]:
        """Return the parameters of `answer`: the task, and what the agent is told besides, within the context limit."""
        request = Request(
            node.passport.spec.model or self._agent.model,
            messages,
            self._agent.temperature,
            node.passport.spec.max_tokens or self._agent.max_tokens,
            self._run.deadline,
            self._toolbox.schemas,
            max_context_tokens=self._services.settings.max_context_tokens,
        )
        *before, task = (await fit_to_model(request)).messages
        tools = [
            SpaceTool(name=t.name, description=t.description, parameters=dict(t.parameters)) for t in request.tools
        ]
        params = AnswerParams(
            text=task.content,
            capability=wanted_capability(self._agent.capabilities, task.content),
            messages=tuple(
                SpaceMessage(role=message.role, content=message.content, part=message.part)
                for message in before
                if message.role != "tool" and message.content
            ),
            tools=tuple(tools),
        )
        return params.model_dump(mode="json", exclude_none=True)

    async def _after_tool_calls(self, tool_request: ParkedNodeRun) -> _Step:
        """Make the calls that a node asked for, and return the command that gives it the results."""
        self._parked = tool_request
        while self._parked.calls:
            call, *rest = self._parked.calls
            if not self._parked.is_announced:
                self._tools.announce(call)
                self._parked = self._parked.model_copy(update={"is_announced": True})
            result = await self._tools.result_of(call, self._parked.node, self._parked.tool_calls)
            done = {"calls": tuple(rest), "results": (*self._parked.results, result), "is_announced": False}
            done["tool_calls"] = self._parked.tool_calls + 1
            self._parked = self._parked.model_copy(update=done)
        params = ContinueParams(state=self._parked.state, results=self._parked.results)
        return _Step(tool_request.step + 1, CONTINUE, params.model_dump(mode="json", exclude_none=True))

    # Commands

    async def _run_step(self, step: _Step) -> JsonValue:
        """Carry out a step, on other nodes if one fails, and return its output."""
        while True:
            command = step.stored or await self._store(step)
            try:
                data = await self._reply(command)
            except NodeLost as lost:
                await self._abandon(command, "lost", lost.reason)
                if lost.reason == "over":
                    raise TaskStopped("The task was stopped.") from None
                is_back_soon = lost.reason == "lost"
                what = NODE_PROBLEMS[lost.reason]
                problem: Exception = self._no_node(f"The node {command.node_name} {what}, and no other one")
            else:
                if isinstance(data, Result):
                    self._answered_by = command.node_name
                    return data.output
                problem = failure_of(data.error, command.node_name)
                if not data.error.retryable:
                    raise problem
                is_back_soon = False
            step = await self._fail_over(step, command, problem, is_back_soon=is_back_soon)

    async def _store(self, step: _Step) -> NewCommand:
        """Choose a node, reserve what the command may cost, and store it."""
        node = step.node or await self._choose(step)
        self._model = node.passport.spec.model or self._agent.model
        self._max_tokens = node.passport.spec.max_tokens or self._agent.max_tokens
        principal, project_id = self._space.principal, self._space.project_id
        ids = principal.user_id, project_id, self._task.id, step.number, self._attempt
        command_id = str(uuid.uuid5(COMMAND_IDS, json.dumps(ids)))
        limit = await self._reserve(command_id, step)
        seconds = self._seconds_left()
        command = Command(
            action=step.action,
            params=step.params,
            target_node=node.name,
            requirements=Requirements(capabilities=tuple(self._agent.capabilities)),
            context=CommandContext(
                process_id=self._task.turn_id,
                task_id=self._task.id,
                step=f"{self._task.id}/{step.number}",
                limits=CommandLimits(cost_usd=limit, timeout_ms=int(seconds * 1000)),
                user_id=principal.user_id,
                project_id=project_id,
            ),
            timeout_seconds=seconds,
            idempotency_key=command_id,
        )
        new = NewCommand(
            id=command_id,
            project_id=project_id,
            turn_id=self._task.turn_id,
            task_id=self._task.id,
            step=step.number,
            attempt=self._attempt,
            node_name=node.name,
            node_uid=node.uid,
            node_epoch=node.epoch,
            command=command,
        )
        storing = asyncio.ensure_future(with_outage_retry(lambda: self._space.database.run(_add_command, new), "run"))
        try:
            await asyncio.shield(storing)
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(self._close_unsent(new, storing)))
            raise
        return new

    async def _close_unsent(self, new: NewCommand, storing: "asyncio.Future[None]") -> None:
        """Give up a command before it is sent; if it is stored and the server stops, the next one sends it."""
        await asyncio.wait({storing})
        if not storing.cancelled() and storing.exception() is None:
            await self._abandon(new, "cancelled", "cancelled", cost=0.0)
            return
        with suppress(ArtelError, LeaseLost):  # the end of the turn settles it
            await self._settle(new.id, 0.0)

    async def _reply(self, stored: NewCommand) -> Result | Error:
        """Return the node's answer; raise NodeLost. A task that is cancelled or late is stopped on the node."""
        if isinstance(stored, NodeCommand) and stored.answer is not None:  # another host got it
            reply = stored.answer
        else:
            ask = self._services.nodes.ask
            try:
                # The node's monitor watches its progress meanwhile.
                with self._run.timeout.waiting():
                    reply = await ask(self._space.principal, stored, self._run.deadline, self._note_progress)
            except NodeLost:
                raise
            except ServerBusy:
                # A command of another host was sent, and the node may work on it.
                await self._abandon(stored, "cancelled", "busy", None if isinstance(stored, NodeCommand) else 0.0)
                raise
            except BaseException:
                await asyncio.shield(asyncio.ensure_future(self._abandon(stored, "cancelled", "cancelled")))
                raise
            await with_outage_retry(lambda: self._space.database.run(_note_answer, stored.id, reply), "run")
        data = reply.data
        if not isinstance(data, Result | Error):
            raise AgentFailed(f"The node {stored.node_name} sent something else than an answer.")
        self._count_usage(data.metrics)
        await self._settle(stored.id, data.metrics.cost_usd)
        return data

    async def _abandon(self, stored: NewCommand, status: CommandStatus, reason: str, cost: float | None = None) -> None:
        """Give up a command and stop the node's task; while the server stops, or is cut off, leave both to the next."""
        if status == "cancelled" and (self._space.is_cut_off or not self._space.accepts_tasks):
            return
        try:
            is_closed = await self._space.database.run(_close, stored.id, status)
        except LeaseLost:  # another host goes on with it
            return
        except ArtelError as failure:  # the turn is not over either: it goes on when the database is back
            log.warning("node_command_not_closed", command_id=stored.id, reason=failure.detail)
            return
        if is_closed:
            log.warning("node_command_given_up", command_id=stored.id, node=stored.node_name, reason=reason)
        await self._services.nodes.stop(stored.node_name, stored.id, reason)
        await self._settle(stored.id, cost)

    async def _fail_over(self, step: _Step, failed: NewCommand, problem: Exception, *, is_back_soon: bool) -> _Step:
        """Return the step for another node; raise `problem` if there is none.

        The same node may be used again, and is waited for, if it `is_back_soon`.
        """
        self._failovers += 1
        self._attempt += 1
        if step.has_approval:
            problem = self._interruption(failed.node_name)
        if not is_back_soon:
            self._failed.add(failed.node_name)
        until = min(time.monotonic() + (FAILOVER_SECONDS if is_back_soon else 0), self._run.deadline)
        while self._failovers <= self._max_retries:
            node = await self._find(step)
            if node is not None:
                log.warning("node_failover", task_id=self._task.id, failed=failed.node_name, node=node.name)
                return replace(step, stored=None, node=node)
            if time.monotonic() >= until:
                break
            await asyncio.sleep(LOOK_SECONDS)
        raise problem

    def _note_progress(self, progress: Progress) -> None:
        if progress.phase:
            self._run.timeout.phase(progress.phase[:PHASE_CHARACTERS])

    # Nodes

    async def _choose(self, step: _Step | None = None) -> RegisteredNode:
        """Return a node for a step; wait a while for one that is paused, or was there a moment ago."""
        began, away = time.monotonic(), list[RegisteredNode]()
        node, is_over = await self._find(step), False
        with self._run.timeout.waiting():
            while node is None and not is_over:
                away = await self._unavailable_nodes(step)
                is_over = time.monotonic() - began >= self._waiting_seconds(away, began)
                await asyncio.sleep(0 if is_over else LOOK_SECONDS)
                node = await self._find(step)  # also at the end: it may be back since it was looked for
        if node is None and step is not None and step.has_approval:
            raise self._interruption(self._parked.node)
        if node is None:
            raise self._refused or self._no_node("No node that this project may use", away)
        return node

    async def _unavailable_nodes(self, step: _Step | None) -> list[RegisteredNode]:
        """Return the nodes that could carry out a step if they took tasks now."""
        find = partial(self._services.nodes.registry.unavailable, allowed=await self._allowed(), without=self._failed)
        if step is not None and step.has_approval:
            return await find(name=self._parked.node)
        if step is not None and step.action == CONTINUE:
            find = partial(find, node_type=self._parked.node_type or None)
        found = await find(self._agent.capabilities)
        return [node for node in found if self._agent.capabilities or word(node.name) == word(self._agent.name)]

    def _waiting_seconds(self, away: list[RegisteredNode], began: float) -> float:
        """Return for how many seconds to wait: for a paused node half of the time that there was for the task."""
        if any(node.is_paused for node in away):
            return (self._run.deadline - began) / 2
        return FAILOVER_SECONDS if away else 0.0

    async def _allowed(self) -> tuple[str, ...]:
        scope = self._space.principal, self._space.project_id
        return (await self._services.database.read(project_settings, *scope)).nodes_allowed

    async def _find(self, step: _Step | None) -> RegisteredNode | None:
        """Return the best node for the agent whose model has a price that budgets know; None if there is none."""
        self._refused = None
        allowed, capabilities = await self._allowed(), self._agent.capabilities
        choose = partial(
            self._services.nodes.registry.choose, allowed=allowed, without=self._failed, accepts=self._is_priced
        )
        node = None
        if step is not None and step.action == CONTINUE:  # the node that asked, or one like it
            choose = partial(choose, node_type=self._parked.node_type or None)
            node = await choose(capabilities, name=self._parked.node) if self._parked.node else None
        if step is not None and step.has_approval:
            pass  # it is of a call on that node alone, which may have been made
        elif node is None and capabilities:
            node = await choose(capabilities)
        elif node is None:
            name = await self._named(allowed)
            node = await choose(name=name) if name else None
        if node is not None:
            self._node_types[node.name] = node.node_type
            self._max_retries = int(node.passport.spec.resources.limits.get("max_retries", DEFAULT_RETRIES))
        return node

    def _is_priced(self, node: RegisteredNode) -> bool:
        model = node.passport.spec.model
        try:
            self._services.brain.require_price(model)
        except ModelNotAllowed as refused:
            self._refused = refused if model else _without_model(node.name)
            return False
        return True

    async def _named(self, allowed: tuple[str, ...]) -> str | None:
        """Return the name of the node that is named like the agent, with dots or underscores."""
        nodes = await self._services.nodes.registry.alive(allowed)
        return next((node.name for node in nodes if word(node.name) == word(self._agent.name)), None)

    def _interruption(self, node: str) -> AgentFailed:
        return AgentFailed(
            f"The node {node} is gone, or was interrupted after you had approved a call of its tool. Whether the call "
            "was made is unknown, so no other node makes it again. Look what it has done, and ask again."
        )

    def _no_node(self, beginning: str, away: Sequence[RegisteredNode] = ()) -> AgentUnavailable:
        wanted = ", ".join(self._agent.capabilities) or f"the name {self._agent.name}"
        paused = ", ".join(node.name for node in away if node.is_paused)
        reason = f" (paused: {paused})" if paused else ""
        return AgentUnavailable(
            f"{beginning} is ready for {wanted}{reason}. Start one with `artel node run FILE`, or allow it in the "
            "project's setting nodes_allowed; `artel node list` shows the nodes.",
            retry_after=5,
        )

    # Cost

    async def _reserve(self, command_id: str, step: _Step) -> float:
        """Reserve what a command may cost and return its limit; models that are free or have no price need none."""
        most, guard, model = self._most_usd, self._run.budget_guard, self._model
        if guard is None:
            return most
        if model == prices.DEMO:  # that is what the node says: no budget refuses it, and what it costs is charged
            await guard.expect(command_id, most)
            return most
        if not prices.cost(model, 1, 1):
            return await guard.expect(command_id, most)  # a fallback model of the node may cost something
        tokens = await asyncio.to_thread(count_tokens, json.dumps(step.params), model)
        one_call = prices.cost(model, int(tokens * INPUT_MARGIN) + INPUT_EXTRA, self._max_tokens) or 0.0
        return await guard.reserve_at_most(command_id, min(most, RESERVED_CALLS * one_call), min(most, one_call))

    async def _settle(self, command_id: str, cost: float | None) -> None:
        if self._run.budget_guard is not None:
            await self._run.budget_guard.settle(command_id, charged(cost, self._most_usd))

    def _count_usage(self, metrics: Metrics) -> None:
        """Add what a node has used to the usage of the task."""
        is_used = metrics.llm_calls or metrics.input_tokens or metrics.cost_usd != 0  # also if its cost is unknown
        cost = charged(metrics.cost_usd, self._most_usd)
        if is_used:
            tokens = min(metrics.input_tokens, MAX_TOKENS), min(metrics.output_tokens, MAX_TOKENS)
            model, calls = storable(metrics.model)[:200] or self._model, min(max(1, metrics.llm_calls), MAX_TOKENS)
            self._task.tally.add(Usage(model, *tokens, cost, calls))

    def _count_earlier(self, command: NodeCommand, *, counts: bool) -> None:
        """Count the tool calls of an earlier command of the run, and what it used if that `counts`."""
        if command.answer is None:
            return
        data = command.answer.data
        if isinstance(data, Result) and (tool_request := tool_calls_of(data.output)):
            made = self._parked.tool_calls + len(tool_request.calls)
            self._parked = self._parked.model_copy(update={"tool_calls": made})
        if counts and isinstance(data, Result | Error):
            self._count_usage(data.metrics)

    def _seconds_left(self) -> float:
        return max(0.001, self._run.deadline - time.monotonic())


def wanted_capability(capabilities: list[str], text: str) -> str | None:
    """Return the capability that a task names first, else the agent's first one; None if there are none.

    Later words of the task may be those of other tasks, whose results it quotes.
    """
    words = (word.rstrip(".-") for word in re.findall(r"[\w.-]+", text.lower()))  # a full stop ends a sentence
    return next((word for word in words if word in capabilities), capabilities[0] if capabilities else None)


def is_resumable(command: NodeCommand) -> bool:
    """Whether another host can go on with a task: its node works on it, or has done it.

    If the node has asked for tools, some of them may have been called.
    """
    if command.status in OPEN:
        return True
    if command.status != "answered" or command.answer is None:
        return False
    data = command.answer.data
    return isinstance(data, Result) and tool_calls_of(data.output) is None


def commands_of_task(connection: Connection, principal: Principal, task_id: str) -> list[NodeCommand]:
    """Return the commands of a task, oldest first."""
    return NodeCommandRepository(connection, principal).of_task(task_id)


def _add_command(tx: Tx, new: NewCommand) -> None:
    repository = NodeCommandRepository(tx)
    if repository.get(new.id) is None:  # else an earlier attempt did it, whose result was lost
        repository.add(new)


def _note_answer(tx: Tx, command_id: str, answer: Envelope) -> None:
    NodeCommandRepository(tx).answered(command_id, answer)


def _close(tx: Tx, command_id: str, status: CommandStatus) -> bool:
    return NodeCommandRepository(tx).move(command_id, OPEN, status)


def _without_model(node: str) -> ModelNotAllowed:
    return ModelNotAllowed(
        f"The node {node} does not say which model it uses, so no budget can limit it. Let it announce `model` in the "
        "spec of its passport, or ask an administrator to allow any model (setting models_unpriced)."
    )
