"""The run of a plan: as parallel as its graph and the agents' slots allow, and within the approved budget."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from artel.agent_loop.context import Said
from artel.agent_loop.parking import Parked
from artel.agent_memory.repository import NewMemory
from artel.approvals.approval import Approval, ApprovalStatus
from artel.approvals.transactions import tool_request
from artel.brain.demo.review import introduction
from artel.brain.retries import PaidBrain
from artel.brain.tokens import count_tokens
from artel.budgets.guard import BUDGET, NEEDS_MICROS, TurnBudgetGuard
from artel.budgets.repository import Budget
from artel.budgets.spending import Spending
from artel.contract import chat
from artel.contract.events import EventData, TaskFailed, TaskStarted
from artel.contract.http import Agent
from artel.db.attempts import patiently
from artel.errors import AgentNotFound, AgentQueueFull
from artel.ids import uuid7
from artel.logs import get_logger
from artel.plans import transactions
from artel.plans.merge import merged, plain, why_nothing
from artel.plans.plan import TaskStatus, Workflow, WorkflowTask
from artel.plans.proposal import budget_approval
from artel.plans.task_run import PlanEventWriter, PlanTaskListener, TaskBoard, room_for_task, task_resumed, task_text
from artel.plans.transactions import DEPENDENCY_FAILED, PlanContext, TaskEnd
from artel.projects.transactions import project_settings
from artel.retry import Backoff
from artel.runs.agent_run import run_agent
from artel.runs.approval_factory import decision_of, required, tool_approval
from artel.runs.task import ExecutionResult, Start, Task, Waiting
from artel.spaces.worker_space import SpaceClosed, WorkerSpace
from artel.text import storable
from artel.tools.consent import Decision
from artel.tools.policy import Policy, PolicySettings
from artel.turns.end import Outcome, end_turn, note_usage
from artel.turns.transactions import AgentAtWork, TurnOver
from artel.turns.turn import Turn, TurnStatus
from artel.turns.waiters import Ended

LOOK_SECONDS = 1.0
RETRIES = 2
BACKOFF = Backoff(2.0)
# Failures that may be temporary; any other one would happen again.
RETRYABLE = frozenset({"timeout", "model_rate_limited"})
NO_MORE_MONEY = "You did not want to spend more."

log = get_logger(__name__)


class _Stopped(Exception):
    """The run was stopped before a task had its slot."""

    is_agents_fault = False


async def store_end(space: WorkerSpace, turn: Turn, outcome: Outcome) -> Ended | None:
    """End a turn and its workflow; return None if another process ended the turn first."""
    try:
        return await patiently(lambda: space.database.run(end_turn, turn, outcome), "answer")
    except TurnOver:
        return None


class PlanRun:
    """Runs the tasks of a plan that are not done yet, merges their results and ends the turn."""

    def __init__(
        self, space: WorkerSpace, turn: Turn, context: PlanContext, history: Sequence[Said], planner_model: str
    ) -> None:
        """Take a plan that may be run; `history` is the conversation before the request."""
        self._space = space
        self._services = space.services
        self._turn = turn
        self._workflow = context.workflow
        self._limits = context.limits
        self._month = context.month
        self._agents = {agent.name: agent for agent in context.agents}
        self._history = history
        self._planner_model = planner_model
        self._spending = Spending.resume(turn, context.workflow, planner_model)
        self._board = TaskBoard(context.tasks, self._spending)
        self._running: set[asyncio.Task[None]] = set()
        decision = context.decision
        is_open = decision is not None and decision.kind == "budget" and decision.status is ApprovalStatus.PENDING
        self._budget_approval_id: str | None = decision.id if decision and is_open else None
        self._deadlines: dict[str, float] = {}  # of started tasks that don't wait for the user
        self._is_closing = False  # the space: the next one starts the other tasks
        parked = next((task.parked for task in context.tasks if task.parked), None)
        self._message_id: str = (parked and parked.message_id) or uuid7()
        self._events = PlanEventWriter(space, turn, context.workflow.id)
        self._budget_guard: TurnBudgetGuard | None = None  # None: the demo brain, which is free
        self._began = time.monotonic()

    async def run(self, *, stops: bool = False) -> Ended | None:
        """Run the plan; return how the turn ended, or None if it waits for the user or another space continues it."""
        if not self._services.is_demo:
            database, budget = self._services.database.of(self._space.principal), await self._budget()
            self._budget_guard = TurnBudgetGuard(database, self._turn, self._month, self._spending.pay, budget.id)
        self._events.open()
        try:
            if stops:
                await self._stop()
            if not await self._run_tasks():
                return None
            if self._space.is_ending and not self._board.is_single:  # merging takes long: the next space does it
                await self._requeue()
                return None
            return await self._end()
        except asyncio.CancelledError:
            await self._note_usage()
            raise
        finally:
            for work in self._running:
                work.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            await self._events.written()
            self._services.hub.end(self._turn.session_id, self._message_id)

    # Scheduling

    async def _run_tasks(self) -> bool:
        """Run the tasks as they become ready; return False if the turn was parked or requeued before all ended."""
        self._board.go_on()
        while True:
            if not self._is_closing:
                await self._resume_waiting()
                for task in self._board.take_ready():
                    self._start(task, None)
            if self._running:
                await self._wait_for_task()
            elif self._is_closing:
                await self._requeue()
                return False
            elif not self._board.waiting:
                return True
            elif await self._park():
                return False

    def _start(self, task: WorkflowTask, waiting: Waiting | None) -> None:
        self._running.add(asyncio.get_running_loop().create_task(self._run_task(task, waiting)))

    async def _wait_for_task(self) -> None:
        """Wait until a task has ended, or it is time to look for decisions of the user."""
        seconds = LOOK_SECONDS if self._board.waiting else None
        done, self._running = await asyncio.wait(self._running, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for work in done:
            work.result()  # an error ends the run: tasks that fail raise nothing
        self._board.go_on()

    async def _resume_waiting(self) -> None:
        """Resume the tasks that the user has decided about, or that there is budget for again."""
        waiting = {approval_id: task for task in self._board.waiting if (approval_id := _approval_id(task))}
        if waiting or self._budget_approval_id:
            decided = await self._services.database.read(transactions.decided, self._space.principal, self._turn.id)
            for approval_id in waiting.keys() & decided.keys():
                approval = decided[approval_id]
                self._resume(waiting[approval_id], {approval.arguments_hash: decision_of(approval)})
            if self._budget_approval_id in decided:
                await self._apply_budget_decision(decided[self._budget_approval_id])
        if not self._budget_approval_id and self._board.waiting_for_budget:
            for task in self._board.affordable(await self._budget()):
                self._resume(task, {})

    async def _apply_budget_decision(self, approval: Approval) -> None:
        """Raise the plan's budget, or stop, as the user decided while other tasks ran."""
        self._budget_approval_id = None
        if approval.status is not ApprovalStatus.APPROVED:
            await self._stop()
            return
        started: Workflow | None = await self._space.database.run(
            transactions.start_approved, self._turn, self._workflow, approval
        )
        self._workflow = started or self._workflow

    def _resume(self, task: WorkflowTask, decisions: Mapping[str, Decision]) -> None:
        self._board.put(replace(task, status=TaskStatus.RUNNING))
        self._start(task, Waiting.of(task.parked, decisions) if task.parked else None)

    async def _park(self) -> bool:
        """Park the turn, since all tasks wait for the user; return False if they have just decided."""
        await self._events.written()
        approval_ids = [approval_id for task in self._board.waiting if (approval_id := _approval_id(task))]
        budget = None
        if self._budget_approval_id:
            approval_ids.append(self._budget_approval_id)
        elif self._board.waiting_for_budget:
            left = [task for task in self._board.all if not task.status.is_terminal]
            seconds = self._limits.approval_seconds
            budget = budget_approval(self._turn, self._workflow, left, self._spending.micros, seconds)
        step = self._spending.store_in(self._turn), self._workflow, approval_ids, budget, self._spending.spent
        if not await patiently(lambda: self._space.database.run(transactions.park_run, *step), "run"):
            return False
        if budget is not None:
            self._services.project_events.add(self._space.principal, self._space.project_id, required(budget))
        return True

    async def _requeue(self) -> None:
        """Let the next worker space continue the turn."""
        await self._events.written()
        step = self._spending.store_in(self._turn), self._workflow, self._spending.spent
        await patiently(lambda: self._space.database.run(transactions.requeue, *step), "run")

    async def _stop(self) -> None:
        """Cancel the tasks that don't run: the user does not want to spend more."""
        for task in self._board.stop("budget_exceeded", NO_MORE_MONEY):
            events = [TaskFailed(task_id=task.id, code="budget_exceeded", error=NO_MORE_MONEY)]
            await self._store(transactions.end_task, TaskEnd(task, events, self._spending.spent))

    # One task

    async def _run_task(self, task: WorkflowTask, waiting: Waiting | None) -> None:
        """Run a task, with retries of failures that may be temporary, before one deadline."""
        message_id = self._message_id if self._board.is_single else None
        listener = PlanTaskListener(self._events, task.id, task.agent_id or 0, message_id)
        try:
            while result := await self._attempt(task, waiting, listener):
                attempts = self._board[task.id].attempts
                pause = BACKOFF.seconds(max(0, attempts - 1))
                is_full = result.error_code == AgentQueueFull.code  # not a failure: there will be room
                is_late = time.monotonic() + pause >= self._deadlines.get(task.id, math.inf)
                is_last = is_late or (attempts > RETRIES and not is_full)
                if result.success or is_last or not (is_full or result.error_code in RETRYABLE):
                    await self._end_task(task.id, result)
                    return
                log.warning("task_retried", task_id=task.id, error=result.error, pause_seconds=pause)
                self._board.count(task.id, result.usage)
                listener.restart()
                await asyncio.sleep(pause)
                waiting = waiting if is_full else None  # a task that was not started still has to be resumed
        finally:
            listener.end()

    async def _attempt(
        self, task: WorkflowTask, waiting: Waiting | None, listener: PlanTaskListener
    ) -> ExecutionResult | None:
        """Let the agent do the task; return None if it waits for the user now, or was not started."""
        agent = self._agents.get(task.agent)
        text = await asyncio.to_thread(self._prompt, task, agent)  # counting the tokens of long texts takes long

        async def start(current: Agent, at_work: AgentAtWork) -> Start:
            await self._start_task(task.id, current, at_work, waiting)
            listener.open()
            return Start(current, [*self._history, Said("user", text, count_tokens(text))], self._budget_guard)

        work = Task(
            f"{self._turn.id}:{task.id}",
            text,
            start,
            listener,
            session_id=self._turn.session_id,
            turn_id=self._turn.id,
            waiting=waiting,
            deadline=self._deadlines.get(task.id, math.inf),
        )
        try:
            return await run_agent(self._space, await self._space.agent(agent.id if agent else 0), work)
        except AgentNotFound as gone:
            return ExecutionResult.failed(gone.detail, gone.code, work.tally.usage)
        except SpaceClosed:  # its row says that it was not started
            self._is_closing = True
        except _Stopped:
            pass
        except Parked as parked:
            self._board.count(task.id, work.tally.usage)
            await self._park_task(task.id, agent, parked)
        return None

    def _prompt(self, task: WorkflowTask, agent: Agent | None) -> str:
        return task_text(
            task,
            self._workflow.request,
            self._workflow.instruction,
            [self._board[task_id] for task_id in task.depends_on],
            room_for_task(agent, self._services.settings.max_context_tokens) if agent else 0,
            agent.model if agent else None,
            is_single=self._board.is_single,
        )

    async def _start_task(self, task_id: str, agent: Agent, at_work: AgentAtWork, waiting: Waiting | None) -> None:
        """Store that a task has its slot and runs; its time starts, or continues."""
        if not self._space.accepts_tasks:
            raise SpaceClosed
        is_first = self._board[task_id].started_at is None
        task = self._board.begin(task_id, goes_on=waiting is not None)
        if task is None:
            raise _Stopped
        left = self._services.settings.task_timeout_seconds - (waiting.seconds if waiting else 0.0)
        self._deadlines.setdefault(task_id, time.monotonic() + left)
        events: list[EventData] = [at_work.change]
        if is_first:
            events.insert(0, TaskStarted(task_id=task_id, agent_id=agent.id))
        elif waiting is not None:
            events.insert(0, task_resumed(task))
        await self._store(transactions.start_task, task, events)

    async def _end_task(self, task_id: str, result: ExecutionResult) -> None:
        seconds = self._seconds_worked(task_id) if task_id in self._deadlines else None  # None: its agent was deleted
        await self._events.written()
        task, aborted, events = self._board.end(task_id, result, seconds)
        agent = self._agents.get(task.agent)
        memories: list[NewMemory] = []
        if agent is not None:
            events.append(self._status_after(agent))
            if agent.memory and result.success and not self._board.is_single:
                content = f"Task: {task.description}\nResult: {task.result}"
                memories.append(self._memory(content, "task", f"{self._workflow.id}:{task.id}"[:64]))
        await self._store(transactions.end_task, TaskEnd(task, events, self._spending.spent, aborted, memories))
        if result.success:
            self._board.done(task_id)  # its dependants start when it is stored, not before

    async def _park_task(self, task_id: str, agent: Agent | None, parked: Parked) -> None:
        """Store a task that waits for the user; its time stops, and its agent's slot is free."""
        seconds = self._seconds_worked(task_id)
        del self._deadlines[task_id]
        await self._events.written()
        task = self._board[task_id]
        update: dict[str, Any] = {"seconds": seconds, "message_id": self._message_id}
        events: list[EventData] = []
        approval = None
        if parked.question.tool == BUDGET:
            update["needs_micros"] = parked.question.arguments[NEEDS_MICROS]
        else:
            ids = {"workflow_id": task.workflow_id, "task_id": task.id}
            question = replace(parked.question, details=parked.question.details.model_copy(update=ids))
            place = self._space.principal, self._space.project_id
            settings = await self._services.database.read(project_settings, *place)
            expires_in = Policy(PolicySettings.of(settings)).seconds(question.risk)
            approval = tool_approval(self._turn, task.agent_id, question, expires_in)
            update["approval_id"] = approval.id
            events.append(tool_request(approval, task.id))
        if agent is not None:
            events.append(self._status_after(agent))
        task = replace(task, status=TaskStatus.WAITING, parked=parked.run.model_copy(update=update))
        try:
            await self._store(transactions.park_task, task, approval, events, self._spending.spent)
        except TurnOver:
            if approval is not None:
                self._services.relay.stop_asking(self._space.principal, approval)
            raise
        self._board.put(task)
        if approval is not None:
            self._services.project_events.add(self._space.principal, self._space.project_id, required(approval))

    # The end

    async def _end(self) -> Ended | None:
        """End the turn with the merged answer; return None if another process ended the turn first."""
        tasks = self._board.all
        done = [task for task in tasks if task.status is TaskStatus.COMPLETED]
        if not done:
            is_timeout = all(task.status in (TaskStatus.TIMEOUT, TaskStatus.ABORTED) for task in tasks)
            codes = (task.error_code for task in tasks if task.error_code != DEPENDENCY_FAILED)
            status = TurnStatus.TIMEOUT if is_timeout else TurnStatus.FAILED
            return await self._end_turn(status, why_nothing(tasks), next(codes, None) or "agent_failed")
        status = TurnStatus.COMPLETED if len(done) == len(tasks) else TurnStatus.PARTIAL
        text = done[0].result or "" if self._board.is_single else await self._merged()
        return await self._end_turn(status, text, None)

    async def _merged(self) -> str:
        tasks, request = self._board.all, self._workflow.request
        if self._budget_guard is None:
            done = [task.result or "" for task in tasks if task.status is TaskStatus.COMPLETED]
            return "\n\n".join(part for part in (introduction(request, done), plain(tasks)) if part)
        listener = PlanTaskListener(self._events, self._turn.id, 0, self._message_id)
        listener.open()
        listener.phase("merging")
        brain = PaidBrain(self._services.brain, self._budget_guard)
        text, usage = await merged(
            brain, self._planner_model, self._services.settings.fallback_model, request, tasks, listener
        )
        self._spending.add(usage)
        return text

    async def _end_turn(self, status: TurnStatus, text: str, code: str | None) -> Ended | None:
        await self._events.written()
        text = storable(text)
        usage, tasks = self._spending.usage, self._board.all
        agents = {} if code else self._agents
        done = dict.fromkeys(task.agent for task in tasks if task.status is TaskStatus.COMPLETED)
        content = f"User: {self._workflow.request}\nAnswer: {text}"
        agent = agents.get(tasks[0].agent) if self._board.is_single else None
        outcome = Outcome(
            status,
            self._message_id,
            text,
            count_tokens(text),
            chat.Usage.of(usage) if usage.calls else None,
            time.monotonic() - self._began,
            error_code=code,
            partial=self._services.hub.partial_answer(self._turn.session_id, self._turn.id) if code else "",
            shares=self._spending.shares,
            agent=AgentAtWork(agent.id, agent.name, "", "") if agent else None,
            memories={
                agent.id: [self._memory(content, "conversation", self._turn.id)]
                for agent in (agents[name] for name in done if name in agents)
                if agent.memory
            },
            spent=self._spending.spent,
        )
        return await store_end(self._space, self._turn, outcome)

    # Helpers

    def _memory(self, content: str, kind: str, task_id: str) -> NewMemory:
        source = {"source": "workflow", "workflow_id": self._workflow.id, "session_id": self._workflow.session_id}
        return NewMemory(content, kind, success=True, task_id=task_id, metadata=source)

    def _status_after(self, agent: Agent) -> EventData:
        status = self._space.bus.status(agent.id).value
        return AgentAtWork(agent.id, agent.name, "processing", status).change

    async def _budget(self) -> Budget:
        return await self._services.database.read(transactions.budget_of, self._space.principal, self._workflow)

    async def _note_usage(self) -> None:
        """Store the usage of a turn that another process has ended."""
        if self._spending.usage.calls:
            used = chat.Usage.of(self._spending.usage), self._spending.shares
            database = self._services.database.of(self._space.principal)
            await database.run(note_usage, self._turn.session_id, self._turn.id, *used)

    def _seconds_worked(self, task_id: str) -> float:
        """Return how long a running task has taken in all attempts, without the time that it waited for the user."""
        return self._services.settings.task_timeout_seconds - (self._deadlines[task_id] - time.monotonic())

    async def _store(self, step: Callable[..., None], *args: Any) -> None:
        await patiently(lambda: self._space.database.run(step, self._turn, *args), "task")


def _approval_id(task: WorkflowTask) -> str | None:
    return task.parked.approval_id if task.parked else None
