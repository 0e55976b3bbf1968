"""A plan being carried out: as parallel as its graph and the agents' slots allow, never for more than was agreed."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from artel.agent_loop.context import Said
from artel.agent_loop.parking import Parked
from artel.approvals.approval import Approval, ApprovalStatus
from artel.approvals.transactions import tool_request
from artel.brain.brain import Brain, BudgetGuard
from artel.brain.retries import PaidBrain
from artel.brain.tokens import count_tokens
from artel.budgets.guard import BUDGET, NEEDS_MICROS, PlanBudgetGuard
from artel.budgets.spending import Shares, Spending, Spent, used_before, with_used
from artel.contract.events import EventData, TaskFailed, TaskStarted
from artel.contract.http import Agent
from artel.db.attempts import patiently
from artel.errors import AgentNotFound, AgentQueueFull
from artel.ids import uuid7
from artel.logs import get_logger
from artel.plans import transactions as records
from artel.plans.merge import PlanEnd, memories_of
from artel.plans.plan import TaskStatus, Workflow, WorkflowTask
from artel.plans.proposal import budget_approval
from artel.plans.task_run import PlanListener, TaskBoard, TaskVoice, room_for_task, task_text, went_on
from artel.plans.transactions import Begun, TaskEnd
from artel.projects.transactions import project_settings
from artel.retry import Backoff
from artel.runs.agent_run import run_agent
from artel.runs.approval_factory import decision_of, required, tool_approval
from artel.runs.task import ExecutionResult, Start, Task, Waiting
from artel.spaces.worker_space import SpaceClosed, WorkerSpace
from artel.tools.consent import Decision, Question
from artel.tools.policy import Policy, PolicySettings
from artel.turns.end import note_usage
from artel.turns.transactions import AgentAtWork, TurnOver
from artel.turns.turn import Turn
from artel.turns.waiters import Ended

LOOK_SECONDS = 1.0
RETRIES = 2
BACKOFF = Backoff(1.0)
# What may well work a moment later; anything else would fail again.
RETRYABLE = frozenset({"timeout", "model_rate_limited"})
NO_MORE_MONEY = "You did not want to spend more."

log = get_logger(__name__)


class _Stopped(Exception):
    """A task is not to be begun any more."""

    is_agents_fault = False


class PlanRun:
    """One run of a plan, from wherever it stands."""

    def __init__(self, space: WorkerSpace, turn: Turn, begun: Begun, said: Sequence[Said], planner_model: str) -> None:
        """Take a plan that may begin; `said` is what was said before it was asked for."""
        self._space = space
        self._services = space.services
        self._turn = turn
        self._workflow = begun.workflow
        self._limits = begun.limits
        self._month = begun.month
        self._agents = {agent.name: agent for agent in begun.agents}
        self._said = said
        self._planner_model = planner_model
        self._board = TaskBoard(
            begun.tasks,
            Spending(
                used_before(turn, planner_model),
                begun.workflow.spent_micros,
                price_unknown=begun.workflow.price_unknown,
                shares=Shares.before(turn),
            ),
        )
        self._running: set[asyncio.Task[None]] = set()
        asked = begun.decision
        is_open = asked is not None and asked.kind == "budget" and asked.status is ApprovalStatus.PENDING
        self._asked_for_money: str | None = asked.id if asked and is_open else None
        self._deadlines: dict[str, float] = {}  # of tasks that have begun, and don't wait for the user
        self._is_closing = False  # the space: what is not begun goes on in the next one
        parked = next((task.parked for task in begun.tasks if task.parked), None)
        self._message_id: str = (parked and parked.message_id) or uuid7()
        self._listener = PlanListener(space, turn, begun.workflow.id)
        self._budget_guard: BudgetGuard | None = None
        self._brain: Brain = self._services.brain
        self._began = time.monotonic()

    async def go(self, *, stops: bool = False) -> Ended | None:
        """Do what can be done; return how it ended, or None if it waits for the user."""
        self._brain = await self._paid_brain()
        self._listener.open()
        try:
            if stops:
                await self._stop()
            if not await self._everything_is_done():
                return None
            if self._space.is_ending and not self._board.is_single:  # merging takes its time: the next space does it
                await self._goes_on_elsewhere()
                return None
            return await self._end().store()
        except asyncio.CancelledError:
            await self._note_usage()
            raise
        finally:
            await self._cancel_running()
            await self._listener.written()
            self._services.hub.end(self._turn.session_id, self._message_id)

    # What is next

    async def _everything_is_done(self) -> bool:
        """Carry the plan out; say whether it is, or the turn waits for the user."""
        self._board.go_on()
        while True:
            if not self._is_closing:
                await self._go_on_with_decided()
                for task in self._board.take_ready():
                    self._start(task, None)
            if self._running:
                await self._one_ends()
            elif self._is_closing:
                await self._goes_on_elsewhere()
                return False
            elif not self._board.waiting:
                return True
            elif await self._parks():
                return False

    def _start(self, task: WorkflowTask, waiting: Waiting | None) -> None:
        self._running.add(asyncio.get_running_loop().create_task(self._do(task, waiting)))

    async def _one_ends(self) -> None:
        """Wait until a task has ended, or it is time to look whether the user has decided something."""
        seconds = LOOK_SECONDS if self._board.waiting else None
        done, self._running = await asyncio.wait(self._running, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for work in done:
            work.result()  # whatever it raises ends the run: tasks that fail raise nothing
        self._board.go_on()

    async def _go_on_with_decided(self) -> None:
        """Let tasks go on about which the user has decided, or for which there is money again."""
        asked = {
            task.parked.approval_id: task for task in self._board.waiting if task.parked and task.parked.approval_id
        }
        if asked or self._asked_for_money:
            decided = await self._services.database.read(records.decided, self._space.principal, self._turn.id)
            for approval_id in asked.keys() & decided.keys():
                approval = decided[approval_id]
                self._go_on(asked[approval_id], {approval.arguments_hash: decision_of(approval)})
            if self._asked_for_money in decided:
                await self._has_decided_about_money(decided[self._asked_for_money])
        if not self._asked_for_money and self._board.waiting_for_budget:
            budget = await self._services.database.read(records.budget_of, self._space.principal, self._workflow)
            for task in self._board.affordable(budget):
                self._go_on(task, {})

    async def _has_decided_about_money(self, approval: Approval) -> None:
        """Take a decision that came while tasks ran that needed none."""
        self._asked_for_money = None
        if approval.status is not ApprovalStatus.APPROVED:
            await self._stop()
            return
        started: Workflow | None = await self._space.database.run(
            records.start_approved, self._turn, self._workflow, approval
        )
        self._workflow = started or self._workflow

    def _go_on(self, task: WorkflowTask, decisions: Mapping[str, Decision]) -> None:
        self._board.put(replace(task, status=TaskStatus.RUNNING))
        self._start(task, Waiting.of(task.parked, decisions) if task.parked else None)

    # One task

    async def _do(self, task: WorkflowTask, waiting: Waiting | None) -> None:
        """Have a task done, with a second and a third try where that may help, before one deadline."""
        voice = TaskVoice(
            self._listener, task.id, task.agent_id or 0, self._message_id if self._board.is_single else None
        )
        try:
            result = await self._result(task, waiting, voice)
            if result is not None:
                await self._end_task(task.id, result)
        finally:
            voice.end()

    async def _result(self, task: WorkflowTask, waiting: Waiting | None, voice: TaskVoice) -> ExecutionResult | None:
        while True:
            result = await self._attempt(task, waiting, voice)
            if result is None:
                return None
            deadline = self._deadlines.get(task.id, math.inf)
            attempts = self._board[task.id].attempts
            pause = BACKOFF.seconds(max(0, attempts - 1))
            is_full = result.error_code == AgentQueueFull.code  # that is nobody's failure: there will be room
            is_last = (attempts > RETRIES and not is_full) or time.monotonic() + pause >= deadline
            if result.success or is_last or not (is_full or result.error_code in RETRYABLE):
                return result
            log.warning("task_retried", task_id=task.id, error=result.error, pause_seconds=pause)
            self._board.count(task.id, result.usage)
            voice.restart()
            await asyncio.sleep(pause)
            waiting = None

    async def _attempt(self, task: WorkflowTask, waiting: Waiting | None, voice: TaskVoice) -> ExecutionResult | None:
        """Have the agent do the task; None if it waits for the user now, or is not begun any more."""
        agent = self._agents.get(task.agent)
        text = await self._text(task, agent)

        async def start(current: Agent, at_work: AgentAtWork) -> Start:
            await self._begin(task.id, current, at_work, waiting)
            voice.open()
            return Start(current, [*self._said, Said("user", text, count_tokens(text))], self._budget_guard)

        work = Task(
            f"{self._turn.id}:{task.id}",
            text,
            start,
            voice,
            session_id=self._turn.session_id,
            turn_id=self._turn.id,
            waiting=waiting,
            deadline=self._deadlines.get(task.id, math.inf),
        )
        try:
            return await run_agent(self._space, await self._space.agent(agent.id if agent else 0), work)
        except AgentNotFound as gone:
            return ExecutionResult.failed(gone.detail, gone.code, work.tally.usage)
        except SpaceClosed:  # it has not begun: its row says so
            self._is_closing = True
            return None
        except _Stopped:
            return None
        except Parked as parked:
            self._board.count(task.id, work.tally.usage)
            await self._park_task(task.id, agent, parked)
            return None

    async def _text(self, task: WorkflowTask, agent: Agent | None) -> str:
        needed = [self._board[one] for one in task.depends_on]
        asked = task, self._workflow.request, self._workflow.instruction, needed

        def text() -> str:
            if agent is None:
                return task_text(*asked, 0, is_single=self._board.is_single)
            room = room_for_task(agent, self._services.max_context_tokens)
            return task_text(*asked, room, agent.model, is_single=self._board.is_single)

        return await asyncio.to_thread(text)  # counting long texts takes its time

    async def _begin(self, task_id: str, agent: Agent, at_work: AgentAtWork, waiting: Waiting | None) -> None:
        """Note that a task has its slot: its time begins, or goes on."""
        if not self._space.accepts_tasks:
            raise SpaceClosed
        is_first = self._board[task_id].started_at is None
        task = self._board.begin(task_id, goes_on=waiting is not None)
        if task is None:
            raise _Stopped
        left = self._services.limits.task - (waiting.seconds if waiting else 0.0)
        self._deadlines.setdefault(task_id, time.monotonic() + left)
        told: list[EventData] = [at_work.change]
        if is_first:
            told.insert(0, TaskStarted(task_id=task_id, agent_id=agent.id))
        elif waiting is not None:
            told.insert(0, went_on(task))
        await self._store(records.start_task, task, told)

    async def _end_task(self, task_id: str, result: ExecutionResult) -> None:
        seconds = self._worked(task_id) if task_id in self._deadlines else None  # an agent that is gone begins nothing
        await self._listener.written()
        task, aborted, told = self._board.end(task_id, result, seconds)
        agent = self._agents.get(task.agent)
        if agent is not None:
            told.append(self._status_after(agent))
        memories = [] if self._board.is_single else memories_of(self._workflow, task, agent)
        await self._store(records.end_task, TaskEnd(task, told, self._spent, aborted, memories))
        if result.success:
            self._board.done(task_id)  # others begin when it is stored, not before

    def _status_after(self, agent: Agent) -> EventData:
        status = self._space.bus.status(agent.id).value
        return AgentAtWork(agent.id, agent.name, "processing", status).change

    # Waiting

    async def _park_task(self, task_id: str, agent: Agent | None, parked: Parked) -> None:
        seconds = self._worked(task_id)
        del self._deadlines[task_id]  # it has its time again when it goes on: nobody works while it waits
        await self._listener.written()
        task = self._board[task_id]
        update: dict[str, Any] = {"seconds": seconds, "message_id": self._message_id}
        told: list[EventData] = []
        approval = None
        if parked.question.tool == BUDGET:
            update["needs_micros"] = parked.question.arguments[NEEDS_MICROS]
        else:
            ids = {"workflow_id": task.workflow_id, "task_id": task.id}
            question = replace(parked.question, details=parked.question.details.model_copy(update=ids))
            approval = tool_approval(self._turn, task.agent_id, question, await self._seconds_for(question))
            update["approval_id"] = approval.id
            told.append(tool_request(approval, task.id))
        if agent is not None:
            told.append(self._status_after(agent))
        task = replace(task, status=TaskStatus.WAITING, parked=parked.run.model_copy(update=update))
        try:
            await self._store(records.park_task, task, approval, told, self._spent)
        except TurnOver:
            self._services.relay.stop_asking(self._space.principal, [approval] if approval else [])
            raise
        self._board.put(task)
        if approval is not None:
            self._services.project_events.add(self._space.principal, self._space.project_id, required(approval))

    async def _seconds_for(self, question: Question) -> int:
        place = self._space.principal, self._space.project_id
        settings = await self._services.database.read(project_settings, *place)
        return Policy(PolicySettings.of(settings)).seconds(question.risk)

    async def _parks(self) -> bool:
        """Let the turn wait, since nothing can be done without the user; False if they have just decided."""
        await self._listener.written()
        asked = [task.parked.approval_id for task in self._board.waiting if task.parked and task.parked.approval_id]
        budget = None
        if self._asked_for_money:
            asked.append(self._asked_for_money)
        elif self._board.waiting_for_budget:
            left = [task for task in self._board.all if not task.status.is_terminal]
            spent, seconds = self._board.spending.micros, self._limits.approval_seconds
            budget = budget_approval(self._turn, self._workflow, left, spent, seconds)
        turn = with_used(self._turn, self._board.spending.usage, self._board.spending.shares)
        if not await patiently(
            lambda: self._space.database.run(records.park_run, turn, self._workflow, asked, budget, self._spent), "run"
        ):
            return False
        if budget is not None:
            self._services.project_events.add(self._space.principal, self._space.project_id, required(budget))
        return True

    async def _goes_on_elsewhere(self) -> None:
        """Leave the rest to the next worker space, which begins where this one ends."""
        await self._listener.written()
        turn = with_used(self._turn, self._board.spending.usage, self._board.spending.shares)
        await patiently(lambda: self._space.database.run(records.requeue, turn, self._workflow, self._spent), "run")

    # The end

    async def _stop(self) -> None:
        """Begin no more: the user does not want to spend more. What runs may finish."""
        for task in self._board.stop("budget_exceeded", NO_MORE_MONEY):
            told = [TaskFailed(task_id=task.id, code="budget_exceeded", error=NO_MORE_MONEY)]
            await self._store(records.end_task, TaskEnd(task, told, self._spent))

    def _end(self) -> PlanEnd:
        return PlanEnd(
            self._space,
            self._turn,
            self._workflow,
            self._board,
            self._agents,
            self._brain,
            self._planner_model,
            self._listener,
            self._message_id,
            self._began,
        )

    # Help

    @property
    def _spent(self) -> Spent:
        return self._board.spending.spent

    async def _note_usage(self) -> None:
        """Store what was used in a turn that somebody else has ended."""
        spending = self._board.spending
        if spending.usage.calls:
            used = asdict(spending.usage), spending.shares.to_json()
            database = self._services.database.of(self._space.principal)
            await database.run(note_usage, self._turn.session_id, self._turn.id, *used)

    def _worked(self, task_id: str) -> float:
        """Return the seconds that a task which runs has taken, all its tries together, without waiting for the user."""
        return self._services.limits.task - (self._deadlines[task_id] - time.monotonic())

    async def _paid_brain(self) -> Brain:
        """Return a brain whose calls are paid out of the plan's budget, and its project's."""
        if self._services.is_demo:
            return self._services.brain
        principal, database = self._space.principal, self._services.database
        plan = await database.read(records.budget_of, principal, self._workflow)
        others = [self._month.budget_id] if self._month else []
        user_month = self._month.user if self._month else None
        place = database, principal, self._turn.project_id, self._turn.id
        self._budget_guard = PlanBudgetGuard(*place, plan.id, others, self._board.spending.pay, user_month)
        return PaidBrain(self._services.brain, self._budget_guard)

    async def _store(self, step: Callable[..., None], *what: Any) -> None:
        """Make one step in the database, and tell everybody."""
        await patiently(lambda: self._space.database.run(step, self._turn, *what), "task")

    async def _cancel_running(self) -> None:
        for work in self._running:
            work.cancel()
        if self._running:
            await asyncio.gather(*self._running, return_exceptions=True)
        self._running.clear()
