"""The run of a plan: as parallel as its graph and the agents' slots allow, and within the approved budget."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from artel.agent_loop.context import ConversationMessage
from artel.agent_loop.parking import Parked
from artel.agent_memory.repository import NewMemory
from artel.approvals.approval import Approval, ApprovalStatus
from artel.approvals.transactions import tool_request
from artel.brain.brain import AttachedFile
from artel.brain.demo.review import introduction
from artel.brain.retries import PaidBrain
from artel.brain.tokens import count_in_background
from artel.budgets.guard import TurnBudgetGuard
from artel.budgets.repository import Budget
from artel.budgets.spending import Spending
from artel.contract import chat
from artel.contract.events import EventData, TaskFailed, TaskStarted
from artel.contract.http import Agent
from artel.db.retries import with_outage_retry
from artel.errors import AgentNotFound, AgentQueueFull
from artel.ids import uuid7
from artel.logs import get_logger
from artel.plans import transactions
from artel.plans.merge import merged, plain, why_nothing
from artel.plans.plan import TaskStatus, WorkflowTask
from artel.plans.proposal import budget_approval
from artel.plans.task_run import PlanTaskListener, TaskBoard, task_text
from artel.plans.transactions import DEPENDENCY_FAILED, PlanContext
from artel.projects.transactions import project_settings
from artel.retry import Backoff
from artel.runs.agent_run import run_agent
from artel.runs.approval_factory import decision_of, tool_approval
from artel.runs.attached_files import room_for_task
from artel.runs.task import ExecutionResult, Start, Task, Waiting
from artel.runs.task_events import EventWriter
from artel.spaces.worker_space import SpaceClosed, WorkerSpace
from artel.text import storable
from artel.tools.consent import Decision, NeedsApproval, NeedsBudget
from artel.tools.policy import Policy
from artel.turns.end import TurnOutcome, end_turn, note_usage
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


async def store_end(space: WorkerSpace, turn: Turn, outcome: TurnOutcome) -> Ended | None:
    """End a turn and its workflow; return None if another process ended the turn first."""
    try:
        return await with_outage_retry(lambda: space.database.run(end_turn, turn, outcome), "answer")
    except TurnOver:
        return None


class PlanRun:
    """Runs the tasks of a plan that are not done yet, merges their results and ends the turn."""

    def __init__(
        self,
        space: WorkerSpace,
        turn: Turn,
        context: PlanContext,
        history: Sequence[ConversationMessage],
        planner_model: str,
        files: tuple[AttachedFile, ...] = (),
    ) -> None:
        """Take a plan that may be run; `history` is the conversation before the request, which has `files`."""
        self._space = space
        self._services = space.services
        self._turn = turn
        self._workflow = context.workflow
        self._approval_seconds = context.settings.policy.approval_seconds
        self._month = context.month
        self._agents = {agent.name: agent for agent in context.agents}
        self._history = history
        self._files = files
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
        self._remembered: Sequence[chat.ContextItem] | None = None  # for the answer, if there is one task
        self._events = EventWriter(space, turn)
        self._budget_guard: TurnBudgetGuard | None = None  # until it runs
        self._began = time.monotonic()

    async def run(self, *, stops: bool = False) -> Ended | None:
        """Run the plan; return how the turn ended, or None if it waits for the user or another space continues it."""
        database = self._services.database.of(self._space.principal)  # the space may be another host's by now
        budget_id = (await self._budget()).id
        self._budget_guard = TurnBudgetGuard(database, self._turn, self._month, self._spending.pay, budget_id)
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
        except asyncio.CancelledError:  # another process has ended the turn
            if self._spending.usage.calls:
                used = chat.UsageShown.of(self._spending.usage), self._spending.shares
                await database.run(note_usage, self._turn.session_id, self._turn.id, *used)
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
        while True:
            if not self._is_closing:
                await self._resume_waiting()
                await self._start_ready()
            if self._running:
                seconds = LOOK_SECONDS if self._board.waiting else None  # the user may decide about those that wait
                done, self._running = await asyncio.wait(
                    self._running, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
                )
                await asyncio.gather(*done)  # an error ends the run: tasks that fail raise nothing
            elif self._is_closing:
                await self._requeue()
                return False
            elif not self._board.waiting:
                return True
            elif await self._park():
                return False

    async def _start_ready(self) -> None:
        """Start the tasks that are ready; those that another host resumed, with what was decided."""
        ready = self._board.take_ready()
        decided = await self._decided() if any(task.approval_id for task in ready) else {}
        for task in ready:
            approval = decided.get(task.approval_id or "")
            self._start(task, {approval.arguments_hash: decision_of(approval)} if approval else {})

    async def _decided(self) -> dict[str, Approval]:
        return await self._services.database.read(transactions.decided, self._space.principal, self._turn.id)

    def _start(self, task: WorkflowTask, decisions: Mapping[str, Decision]) -> None:
        waiting = Waiting.of(task.parked, decisions) if task.parked else None
        self._running.add(asyncio.get_running_loop().create_task(self._run_task(task, waiting)))

    async def _resume_waiting(self) -> None:
        """Resume the tasks that the user has decided about, or that there is budget for again."""
        waiting = {task.approval_id: task for task in self._board.waiting if task.approval_id}
        if waiting or self._budget_approval_id:
            decided = await self._decided()
            for approval_id in waiting.keys() & decided.keys():
                approval = decided[approval_id]
                self._resume(waiting[approval_id], {approval.arguments_hash: decision_of(approval)})
            if self._budget_approval_id in decided:
                approval, self._budget_approval_id = decided[self._budget_approval_id], None
                step = self._turn, self._workflow, approval
                if approval.status is not ApprovalStatus.APPROVED:
                    await self._stop()
                elif started := await self._space.database.run(transactions.start_approved, *step):
                    self._workflow = started
        if not self._budget_approval_id and self._board.waiting_for_budget:
            for task in self._board.affordable(await self._budget()):
                self._resume(task, {})

    def _resume(self, task: WorkflowTask, decisions: Mapping[str, Decision]) -> None:
        self._board.change(task.id, status=TaskStatus.RUNNING)
        self._start(task, decisions)

    async def _park(self) -> bool:
        """Park the turn, since all tasks wait for the user; return False if they have just decided."""
        await self._events.written()
        approval_ids = [task.approval_id for task in self._board.waiting if task.approval_id]
        budget = None
        if self._budget_approval_id:
            approval_ids.append(self._budget_approval_id)
        elif self._board.waiting_for_budget:
            left = [task for task in self._board.all if not task.status.is_terminal]
            spent, seconds = self._spending.micros, self._approval_seconds
            budget = budget_approval(self._turn, self._workflow, left, spent, seconds)
        step = self._spending.store_in(self._turn), self._workflow, approval_ids, budget, self._spending.spent
        return await with_outage_retry(lambda: self._space.database.run(transactions.park_run, *step), "run")

    async def _requeue(self) -> None:
        """Let the next worker space continue the turn."""
        await self._events.written()
        step = self._spending.store_in(self._turn), self._workflow, self._spending.spent
        await with_outage_retry(lambda: self._space.database.run(transactions.requeue, *step), "run")

    async def _stop(self) -> None:
        """Cancel the tasks that don't run: the user does not want to spend more."""
        for task in self._board.stop("budget_exceeded", NO_MORE_MONEY):
            events = [TaskFailed(task_id=task.id, code="budget_exceeded", error=NO_MORE_MONEY)]
            await self._store(transactions.end_task, task, events, self._spending.spent)

    # One task

    async def _run_task(self, task: WorkflowTask, waiting: Waiting | None) -> None:
        """Run a task, with retries of failures that may be temporary, before one deadline."""
        message_id = self._message_id if self._board.is_single else None
        listener = self._listener(task.id, task.agent_id or 0, message_id)
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

        def prompt() -> str:
            room = room_for_task(agent, self._services.settings.max_context_tokens) if agent else 0
            room = room // 2 if self._files else room  # the rest is for the attached files
            needed = [self._board[task_id] for task_id in task.depends_on]
            request, instruction = self._workflow.request, self._workflow.instruction
            model = agent.model if agent else None
            return task_text(task, request, instruction, needed, room, model, is_single=self._board.is_single)

        text = await asyncio.to_thread(prompt)  # counting the tokens of long texts takes long
        work = Task(
            f"{self._turn.id}:{task.id}",
            text,
            partial(self._start_task, task.id, text, waiting, listener),
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

    async def _start_task(
        self,
        task_id: str,
        text: str,
        waiting: Waiting | None,
        listener: PlanTaskListener,
        agent: Agent,
        at_work: AgentAtWork,
    ) -> Start:
        """Store that a task has its slot and runs; its time starts, or continues."""
        if not self._space.accepts_tasks:
            raise SpaceClosed
        is_first = self._board[task_id].started_at is None
        task = self._board.begin(task_id, goes_on=waiting is not None)
        if task is None:
            raise _Stopped
        left = self._services.settings.task_timeout_seconds - (waiting.run.seconds if waiting else 0.0)
        self._deadlines.setdefault(task_id, time.monotonic() + left)
        events: list[EventData] = [at_work.change]
        if is_first:
            events.insert(0, TaskStarted(task_id=task_id, agent_id=agent.id))
        elif waiting is not None and task.started_at is not None:
            elapsed = (datetime.now(UTC) - task.started_at).total_seconds()
            events.insert(0, transactions.task_progress(self._workflow.id, task_id, "resumed", elapsed))
        await self._store(transactions.start_task, task, events)
        listener.open()
        message = ConversationMessage("user", text, await count_in_background(text), self._files)
        return Start(agent, [*self._history, message], self._budget_guard)

    async def _end_task(self, task_id: str, result: ExecutionResult) -> None:
        seconds = self._seconds_worked(task_id) if task_id in self._deadlines else None  # None: its agent was deleted
        self._remembered = result.context if self._board.is_single else None
        await self._events.written()
        task, aborted, events = self._board.end(task_id, result, seconds)
        agent = self._agents.get(task.agent)
        memories: list[NewMemory] = []
        if agent is not None:
            events.append(self._status_after(agent))
            if agent.memory and result.success and not self._board.is_single:
                content = f"Task: {task.description}\nResult: {task.result}"
                memories.append(self._memory(content, "task", f"{self._workflow.id}:{task.id}"[:64]))
        await self._store(transactions.end_task, task, events, self._spending.spent, aborted, memories)
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
        if isinstance(parked.needs, NeedsBudget):
            update["needs_micros"] = parked.needs.micros
        elif isinstance(parked.needs, NeedsApproval):
            ids = {"workflow_id": task.workflow_id, "task_id": task.id}
            question = replace(parked.needs.question, details=parked.needs.question.details.model_copy(update=ids))
            scope = self._space.principal, self._space.project_id
            settings = await self._services.database.read(project_settings, *scope)
            expires_in = Policy(settings.policy).seconds(question.risk)
            approval = tool_approval(self._turn, task.agent_id, question, expires_in)
            update["approval_id"] = approval.id
            events.append(tool_request(approval, task.id))
        if agent is not None:
            events.append(self._status_after(agent))
        task = replace(task, status=TaskStatus.WAITING, parked=parked.run.model_copy(update=update))
        with self._services.relay.asking(self._space.principal, approval):
            await self._store(transactions.park_task, task, approval, events, self._spending.spent)
        self._board.change(task_id, status=task.status, parked=task.parked)

    # The end

    async def _end(self) -> Ended | None:
        """End the turn with the merged answer; return None if another process ended the turn first."""
        tasks, code = self._board.all, None
        done = [task for task in tasks if task.status is TaskStatus.COMPLETED]
        if done:
            status = TurnStatus.COMPLETED if len(done) == len(tasks) else TurnStatus.PARTIAL
            text = done[0].result or "" if self._board.is_single else await self._merged(tasks)
        else:
            is_timeout = all(task.status in (TaskStatus.TIMEOUT, TaskStatus.ABORTED) for task in tasks)
            codes = (task.error_code for task in tasks if task.error_code != DEPENDENCY_FAILED)
            status, text = TurnStatus.TIMEOUT if is_timeout else TurnStatus.FAILED, why_nothing(tasks)
            code = next(codes, None) or "agent_failed"
        await self._events.written()
        text = storable(text)
        content = f"User: {self._workflow.request}\nAnswer: {text}"
        answered = [self._agents[name] for name in dict.fromkeys(task.agent for task in done) if name in self._agents]
        agent = answered[0] if answered and self._board.is_single else None
        outcome = TurnOutcome(
            status,
            self._message_id,
            text,
            await count_in_background(text),
            chat.UsageShown.of(self._spending.usage) if self._spending.usage.calls else None,
            time.monotonic() - self._began,
            error_code=code,
            context=self._remembered,
            partial=self._services.hub.partial_answer(self._turn.session_id, self._turn.id) if code else "",
            shares=self._spending.shares,
            agent=AgentAtWork(agent.id, agent.name, "", "") if agent else None,
            memories={
                agent.id: [self._memory(content, "conversation", self._turn.id)] for agent in answered if agent.memory
            },
            spent=self._spending.spent,
        )
        return await store_end(self._space, self._turn, outcome)

    async def _merged(self, tasks: Sequence[WorkflowTask]) -> str:
        request = self._workflow.request
        if self._services.is_demo or self._budget_guard is None:
            done = [task.result or "" for task in tasks if task.status is TaskStatus.COMPLETED]
            return "\n\n".join(part for part in (introduction(request, done), plain(tasks)) if part)
        listener = self._listener(self._turn.id, 0, self._message_id)
        listener.open()
        listener.phase("merging")
        brain = PaidBrain(self._services.brain, self._budget_guard)
        fallback = self._services.settings.fallback_model
        text, usage = await merged(brain, self._planner_model, fallback, request, tasks, listener)
        self._spending.add(usage)
        return text

    # Helpers

    def _listener(self, task_id: str, agent_id: int, message_id: str | None) -> PlanTaskListener:
        ids = self._workflow.id, task_id, agent_id, message_id
        return PlanTaskListener(self._space, self._turn, self._events, *ids)

    def _memory(self, content: str, kind: str, task_id: str) -> NewMemory:
        source = {"source": "workflow", "workflow_id": self._workflow.id, "session_id": self._workflow.session_id}
        return NewMemory(content, kind, success=True, task_id=task_id, metadata=source)

    def _status_after(self, agent: Agent) -> EventData:
        status = self._space.bus.status(agent.id).value
        return AgentAtWork(agent.id, agent.name, "processing", status).change

    async def _budget(self) -> Budget:
        return await self._services.database.read(transactions.budget_of, self._space.principal, self._workflow)

    def _seconds_worked(self, task_id: str) -> float:
        """Return how long a running task has taken in all attempts, without the time that it waited for the user."""
        return self._services.settings.task_timeout_seconds - (self._deadlines[task_id] - time.monotonic())

    async def _store(self, step: Callable[..., None], *args: Any) -> None:
        await with_outage_retry(lambda: self._space.database.run(step, self._turn, *args), "task")
