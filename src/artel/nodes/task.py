"""One task of a node: parameters, prompt, loop, output. It ends with an output, or with tool calls for the space."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, JsonValue, SecretStr, ValidationError

from artel import kill_points
from artel.agent_loop import prompts
from artel.agent_loop.loop import Run, ask, load_graphs, run_loop
from artel.agent_loop.parking import Parked, State, dump_state, load_state
from artel.agent_loop.task import MOST_TOOL_CALLS, AgentSpec, LoopSettings, Tally
from artel.brain.brain import Brain, BudgetGuard, Message, Part, Schema, ToolCall
from artel.brain.errors import ModelAnswerInvalid
from artel.brain.retries import ModelRetries
from artel.brain.structured import SchemaMismatch
from artel.contract.agent_file import AgentFile, Capability
from artel.contract.node_messages import (
    ANSWER,
    CONTINUE,
    AnswerOutput,
    AnswerParams,
    CallApproval,
    ContinueParams,
    NodeToolCall,
    NodeToolResult,
    SpaceTool,
    ToolCallsOutput,
)
from artel.errors import ArtelError, Kind
from artel.logs import get_logger
from artel.nodes.capability import (
    ParamsInvalid,
    Violation,
    checked_params,
    parsed_output,
    readable,
    task_text,
    text_property,
)
from artel.nodes.fence import Fence, FencedBrain
from artel.nodes.idempotency import AnswerStore
from artel.nodes.saved_task import PendingCall, SavedTask, StateInvalid
from artel.nodes.status import NodeStatus
from artel.nodes.task_scope import TaskScope
from artel.nodes.task_toolbox import task_toolbox
from artel.nodes.toolbox import SharedTools
from artel.retry import Backoff
from artel.text import shorten
from artel.tools.consent import Consent, Decision
from artel.tools.node_approvals import KEY_MISSING, ApprovedCall
from artel.tools.policy import NotCalled, arguments_hash
from artel.tools.tool import MAX_RESULT_CHARACTERS, ToolResult
from artel.tools.toolbox import ArgumentsInvalid, parsed_arguments

MAX_BACKOFF_SECONDS = 30.0
MAX_PROBLEM_CHARACTERS = 500

P = TypeVar("P", bound=BaseModel)

_PARTS = frozenset(get_args(Part))
_POINTS: dict[str, kill_points.NodeMomentName] = {
    "understand": "node.understand",
    "plan": "node.plan",
    "execute": "node.execute",
    "tool_call": "node.tool_call",
    "critique": "node.critique",
    "finish": "node.finish",
}
_OUTPUT = (
    "When you are done, your whole answer is one JSON document, without a code fence, that matches this JSON Schema. "
    "Texts inside it may be as long as the task needs."
)
_WRITE_OUTPUT = (
    "Below, as quoted data, is the answer that you wrote, and why it does not match the JSON Schema that the output "
    "must have. Write the same answer as a document that matches the schema. Invent nothing."
)
_WRITE_PARAMS = (
    "Before anything is done: write the parameters of `{name}` ({description}) for the user's last message, as a "
    "document that matches the schema. Leave out what the message says nothing about. Do not do the task yet."
)

log = get_logger(__name__)


class ActionUnknown(ArtelError, kind=Kind.INVALID, code="action_unknown"):
    """The agent has no such capability."""


class ApprovalImpossible(ArtelError, kind=Kind.CONFLICT, code="approval_impossible"):
    """A tool call needs a person, and the sender can't ask one."""


class ApprovalInvalid(ArtelError, kind=Kind.FORBIDDEN, code="approval_invalid"):
    """A call is said to be approved, but not by a server that has the node's key, or it was another call."""


class OutputInvalid(ArtelError, kind=Kind.FAILED, code="output_invalid"):
    """The model's output breaks the output schema, also after the repair."""


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """What a command asks for, within its limits."""

    scope: TaskScope
    action: str
    params: Mapping[str, JsonValue]
    context: dict[str, JsonValue] | None
    seconds: float  # until the sender's deadline
    required: tuple[str, ...] = ()  # capabilities
    budget_guard: BudgetGuard | None = None
    max_retries: int = 3
    backoff_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class TaskServices:
    """What all tasks of a node share."""

    file: Callable[[], AgentFile]
    brain: Brain
    tools: SharedTools
    status: NodeStatus
    fence: Fence
    store: AnswerStore
    node_key: SecretStr | None = None
    most_tool_calls: int = MOST_TOOL_CALLS


class TaskListener:
    """Notes each step of the loop in the node's status, so that progress is what really happens."""

    def __init__(self, status: NodeStatus, task_id: str) -> None:
        self._status = status
        self._task_id = task_id
        self.written: list[str] = []  # of the call in progress

    def token(self, text: str) -> None:
        self._status.moved(self._task_id)
        self.written.append(text)

    def restart(self) -> None:
        self.written.clear()

    def phase(self, name: str) -> None:
        self._status.moved(self._task_id, name)
        self.written.clear()
        kill_points.reached(_POINTS[name])

    def tool_called(self, call: ToolCall) -> None:  # noqa: ARG002
        self._status.moved(self._task_id)

    def tool_result(self, call: ToolCall, result: ToolResult) -> None:  # noqa: ARG002
        self._status.moved(self._task_id)
        kill_points.reached("node.tool_result")


class CommandTask:
    """One task, from the parameters of its command to its output."""

    def __init__(self, services: TaskServices, request: TaskRequest) -> None:
        self._services = services
        self._file = services.file()
        self._request = request
        self.scope = request.scope  # of the tools; after the task waited, that of the command that began it
        self._listener = TaskListener(services.status, request.scope.task_id)
        self._capability: Capability | None = None
        self._is_answer = request.action == ANSWER
        self._space_tools: tuple[SpaceTool, ...] = ()
        self._consent: Consent | None = None
        self._can_ask = False  # whether the sender can ask a person
        self._seconds_before = 0.0
        self._calls_before = 0
        most = min(request.max_retries, self._file.limits.max_retries)
        backoff = Backoff(min(request.backoff_seconds, MAX_BACKOFF_SECONDS), MAX_BACKOFF_SECONDS)
        self._retries = ModelRetries(backoff, most, partial(log.warning, "task_retried"))
        self._began = time.monotonic()
        self._deadline = self._began + min(request.seconds, self._file.limits.max_execution_time_seconds)
        self._state: State | None = None
        self.is_parked = False  # whether it ended with calls for the worker space, and goes on later
        self.tally = Tally(self._file.brain.model_name)

    @property
    def tool_calls(self) -> int:
        """How many tools this command has called."""
        return self._state.tool_calls - self._calls_before if self._state else 0

    async def run(self) -> JsonValue:
        """Return the output; raise an ArtelError, or TimeoutError at the deadline."""
        if self._loop_settings().needs_graph:
            await load_graphs()  # its import does not count: it is loaded once
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + self._deadline - time.monotonic()):
                self._state = await self._prepare()
                kill_points.reached("node.checked")
                try:
                    await self._retries.run(partial(self._go_on, self._state), self._deadline)
                except Parked:
                    self.is_parked = True
                    return await self._tool_calls(self._state)
                kill_points.reached("node.output")
                return await self._output(self._state)
        finally:
            self.tally.settle("".join(self._listener.written))

    async def _prepare(self) -> State:
        """Return the state to begin, or to go on with; raise what is wrong with the parameters."""
        request = self._request
        for name in request.required:
            if name not in (ANSWER, CONTINUE):  # which every node can do
                self._find_capability(name)
        if request.action == CONTINUE:
            return self._continued(_parsed(ContinueParams, request))
        if self._is_answer:
            return await self._answering(_parsed(AnswerParams, request))
        capability = self._use_capability(request.action)
        params = await checked_params(capability, request.params)
        return self._new_state(task_text(capability, params), params, ())

    async def _answering(self, params: AnswerParams) -> State:
        """Return the state for a free text, as a task of the wanted capability if there is one."""
        self._space_tools, self._can_ask = params.tools, bool(params.tools)
        before = tuple(
            Message(message.role, message.content, part=message.part if message.part in _PARTS else "")  # type: ignore[arg-type]
            for message in params.messages
        )
        if params.capability is None:
            return self._new_state(params.text, {"text": params.text}, before)
        capability = self._use_capability(params.capability)
        derived = await self._derived_params(capability, params.text)
        return self._new_state(task_text(capability, derived), derived, before)

    async def _derived_params(self, capability: Capability, text: str) -> dict[str, JsonValue]:
        """Return the parameters of a capability that a text asks for."""
        name = text_property(capability.input_schema)
        if name is not None:
            return await checked_params(capability, {name: text})
        state = State((Message("system", self._file.brain.system_prompt), Message("user", text)))
        instruction = _WRITE_PARAMS.format(name=capability.name, description=capability.description or capability.name)
        schema = Schema("params", capability.input_schema)
        question = partial(ask, state, self._run(), (Message("system", instruction),), schema)
        completion = await self._retries.run(question, self._deadline)
        params = completion.parsed
        return await checked_params(capability, params if isinstance(params, dict) else {})

    def _continued(self, params: ContinueParams) -> State:
        """Return the state of a task that waited, with the results of its calls."""
        file, scope = self._file, self._request.scope
        saved = SavedTask.from_text(params.state, agent_type=file.type, tenant=scope.tenant)
        if saved.capability:
            self._use_capability(saved.capability)
        self._is_answer = saved.action == ANSWER
        self._space_tools, self._can_ask = saved.tools, True
        self._seconds_before = saved.seconds
        self._deadline = min(self._deadline, self._began + file.limits.max_execution_time_seconds - saved.seconds)
        state = load_state(saved.state)
        self._calls_before = state.tool_calls
        results = {result.id: result for result in params.results}
        if missing := [call.id for call in saved.pending if call.id not in results]:
            raise StateInvalid(f"The results of {', '.join(missing)} are missing.")
        decisions: dict[str, Decision] = {}
        approvals: dict[str, CallApproval] = {}  # by the ids of the calls
        for pending in saved.pending:
            if not state.calls:
                raise StateInvalid("The state has fewer calls than it waits for. Send it as the node sent it.")
            result = results[pending.id]
            if pending.approval_hash is None:
                _add_result(state, result)
            elif pending.approval_hash == _hash_of(state.calls[0]):
                outcome = "approved" if result.approved else "rejected"
                if result.approved:
                    approvals[pending.id] = self._checked_approval(result, state.calls[0].name, pending.approval_hash)
                decisions[pending.approval_hash] = Decision(pending.id, outcome, result.feedback)  # type: ignore[arg-type]
            else:
                raise StateInvalid(f"The arguments of {pending.id} are not those that were to be approved.")
        self._consent = Consent(decisions, lambda call_id: self._use(approvals[call_id]))
        self.scope = replace(scope, task_id=saved.task_id or scope.task_id)
        return state

    def _checked_approval(self, result: NodeToolResult, tool: str, approved_hash: str) -> CallApproval:
        """Return the approval of a call; raise ApprovalInvalid unless a server with the node's key has signed it."""
        key, request, approval = self._services.node_key, self._request, result.approval
        if key is None or approval is None:
            raise ApprovalInvalid(f"{tool} was not called: its approval is not signed. {KEY_MISSING}")
        task_id = str((request.context or {}).get("task_id", ""))
        tenant = request.scope.user_id, request.scope.project_id
        call = ApprovedCall(*tenant, task_id, result.id, tool, approved_hash, self._file.name)
        if not call.is_approved(key, approval):
            raise ApprovalInvalid(
                f"{tool} was not called: its approval has expired, is of another call, task or node, or is signed with "
                "another key. Set ARTEL_NODE_KEY, the same on the server and its nodes, and ask the person again."
            )
        return approval

    async def _use(self, approval: CallApproval) -> bool:
        """Note before a call that its approval is used; raise NotCalled if it was before."""
        if not await self._services.store.use_approval(approval.signature, approval.expires):
            raise NotCalled(
                "The approved call was begun before, and the node was interrupted: its outcome is unknown. It was not "
                "made again. Say so in your answer, or find out what it has done."
            )
        return True

    def _use_capability(self, name: str) -> Capability:
        """Make this a task of a capability, and announce it as one; raise ActionUnknown."""
        self._capability = self._find_capability(name)
        self._services.status.moved(self._request.scope.task_id, action=name)
        return self._capability

    def _find_capability(self, name: str) -> Capability:
        for capability in self._file.capabilities:
            if capability.name == name:
                return capability
        names = ", ".join(capability.name for capability in self._file.capabilities)
        raise ActionUnknown(f"{self._file.name} can't do {shorten(name, 100)!r}. Its actions: {names}, {ANSWER}.")

    def _new_state(self, text: str, params: dict[str, JsonValue], before: Sequence[Message]) -> State:
        head = [Message("system", self._file.brain.system_prompt)]
        if self._capability and self._capability.output_schema is not None:
            head.append(prompts.quoted(_OUTPUT, self._capability.output_schema, part=""))
        return State(
            (*head, *before, Message("user", text)),
            action=self._capability.name if self._capability else self._request.action,
            params=params,
            context=self._request.context,
        )

    def _loop_settings(self, state: State | None = None) -> LoopSettings:
        """Return the phases that are left: those before `execute` are not repeated when a task goes on."""
        loop, done = self._file.agent_loop, set(state.phases if state else ())
        return LoopSettings(
            understand=loop.enable_understanding and not done & {"plan", "execute"},
            plan=loop.enable_planning and "execute" not in done,
            critique=loop.enable_self_critique,
            max_iterations=loop.max_iterations,
            max_tool_calls=loop.max_tool_calls,
            most_tool_calls=self._services.most_tool_calls,
        )

    def _run(self, state: State | None = None) -> Run:
        """Return the collaborators of the loop."""
        brain = self._file.brain
        spec = AgentSpec(
            self._file.name,
            brain.model_name,
            brain.temperature,
            brain.max_tokens,
            brain.fallback_name,
            self._loop_settings(state),
            self._file.memory.short_term.max_context_tokens,
        )
        services = self._services
        toolbox = task_toolbox(services.tools, self.scope, self._space_tools, self._consent, services.fence)
        return Run(
            spec,
            FencedBrain(services.brain, services.fence),
            toolbox,
            self._listener,
            self._deadline,
            self.tally,
            None if services.status.is_demo else self._request.budget_guard,
        )

    async def _go_on(self, state: State) -> None:
        """Run the loop, from where it failed if it did."""
        await run_loop(self._run(state), state)

    async def _tool_calls(self, state: State) -> JsonValue:
        """Return the calls that the worker space is asked for, with the state to go on with."""
        names = {tool.name for tool in self._space_tools}
        head = state.calls[0]
        calls: list[NodeToolCall] = []
        pending: list[PendingCall] = []
        if head.name in names:
            left = self._loop_settings().tool_calls - state.tool_calls
            for call in state.calls[:left]:
                if call.name not in names:
                    break
                call_id = self._call_id(state, len(calls))
                calls.append(NodeToolCall(id=call_id, name=call.name, arguments=call.arguments))
                pending.append(PendingCall(id=call_id))
        elif self._can_ask and self._services.node_key is None:
            raise ApprovalImpossible(f"{head.name} needs the approval of a person. {KEY_MISSING}")
        elif self._can_ask:
            call_id = self._call_id(state, 0)
            calls.append(NodeToolCall(id=call_id, name=head.name, arguments=head.arguments, kind="approval"))
            pending.append(PendingCall(id=call_id, approval_hash=_hash_of(head)))
        else:
            raise ApprovalImpossible(
                f"{head.name} needs the approval of a person, and the sender of this command can't ask one. Send the "
                "task to a worker space, or switch requires_approval off in the agent's file if the tool allows that."
            )
        saved = SavedTask(
            agent_type=self._file.type,
            tenant=self._request.scope.tenant,
            action=ANSWER if self._is_answer else state.action,
            capability=self._capability.name if self._capability else None,
            task_id=self.scope.task_id,
            tools=self._space_tools,
            pending=tuple(pending),
            seconds=round(self._seconds_before + time.monotonic() - self._began, 3),
            state=dump_state(state),
        )
        return ToolCallsOutput(calls=tuple(calls), state=saved.to_text()).model_dump(mode="json")

    def _call_id(self, state: State, number: int) -> str:
        return f"call_{state.tool_calls + number + 1}"  # not the model's, which may name two calls alike

    async def _output(self, state: State) -> JsonValue:
        """Return the output in the form that the sender asked for."""
        schema = self._capability.output_schema if self._capability else None
        if schema is None:
            state.result = {"text": state.draft}
            return AnswerOutput(text=state.draft).model_dump(mode="json") if self._is_answer else state.result
        try:
            state.result = await parsed_output(state.draft, schema)
        except SchemaMismatch as problem:
            state.result = await self._repaired(state, schema, str(problem))
        if self._is_answer:
            return AnswerOutput(text=readable(state.result), output=state.result).model_dump(mode="json")
        return state.result

    async def _repaired(self, state: State, schema: Mapping[str, Any], problem: str) -> JsonValue:
        """Ask the model once to write its draft as the output; raise OutputInvalid if it can't."""
        quoted = {"draft": state.draft, "problem": shorten(problem, MAX_PROBLEM_CHARACTERS)}
        instruction = prompts.quoted(_WRITE_OUTPUT, quoted)
        wanted = Schema("output", schema)
        question = partial(ask, state, self._run(state), (instruction,), wanted, repair_invalid=False)
        try:
            completion = await self._retries.run(question, self._deadline)
        except ModelAnswerInvalid as failure:
            raise OutputInvalid(
                f"The output of {state.action} does not match its schema, also not after one repair: {failure.detail}"
            ) from failure
        return completion.parsed


def _parsed(model: type[P], request: TaskRequest) -> P:
    """Return the parameters of `answer` or `continue`; raise ParamsInvalid."""
    try:
        return model.model_validate(dict(request.params))
    except ValidationError as problem:
        violations = [
            Violation(".".join(str(step) for step in error["loc"]) or "params", error["msg"])
            for error in problem.errors(include_input=False)[:10]
        ]
        raise ParamsInvalid(request.action, violations) from None


def _add_result(state: State, result: NodeToolResult) -> None:
    """Add what the worker space answered to the first call that waits."""
    call, *rest = state.calls
    text = shorten(result.text, MAX_RESULT_CHARACTERS)
    state.exchange += (Message("tool", text, tool_call_id=call.id),)
    state.tool_results += ({"id": call.id, "tool": call.name[:100], "success": result.success, "error": None},)
    state.tool_calls += 1
    state.calls, state.is_announced = tuple(rest), False


def _hash_of(call: ToolCall) -> str | None:
    try:
        return arguments_hash(call.name, parsed_arguments(call.arguments))
    except ArgumentsInvalid:
        return None
