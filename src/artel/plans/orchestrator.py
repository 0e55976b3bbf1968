"""A turn without an agent: planned, priced, approved where that is needed, carried out, and answered once."""

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, cast

from artel.agent_loop.context import MAX_HISTORY_MESSAGES, Said
from artel.approvals.approval import Approval, ApprovalStatus
from artel.brain.brain import Brain, Usage
from artel.brain.retries import PaidBrain
from artel.brain.tokens import count_tokens
from artel.budgets.guard import ProjectBudgetGuard
from artel.budgets.money import dollars
from artel.budgets.spending import Spending
from artel.connector_gateway.repository import find_connector
from artel.db.attempts import patiently
from artel.errors import BudgetExceeded
from artel.ids import uuid7
from artel.logs import get_logger
from artel.plans import transactions as records
from artel.plans.plan import PlanInvalid, TaskGraph, Workflow, WorkflowStatus
from artel.plans.plan_run import PlanRun, store_end
from artel.plans.planner import AgentBrief, Plan, PlannedBy, Planner, PlannerInput, read_tasks, spare_busy_agents
from artel.plans.pricing import Habits, PlanEstimate, before, habits, price, told_tokens
from artel.plans.proposal import Proposal
from artel.plans.transactions import Begun, MonthTooShort
from artel.runs.approval_factory import required
from artel.spaces.worker_space import SpaceClosed, WorkerSpace
from artel.turns.end import Outcome
from artel.turns.transactions import TurnOver
from artel.turns.turn import Turn, TurnStatus
from artel.turns.waiters import Ended

MAX_REVISIONS = 10
ABOUT_CHARACTERS = 200
NO_AGENTS = "This project has no agents. Create one, and send the message again."
REJECTED = "You did not want this plan, so nothing was done."
TOO_OFTEN = f"Planned {MAX_REVISIONS + 1} times, and nothing was done. Send a message that says what you want instead."
NOT_DECIDED = "Nobody decided about the plan in time, so nothing was done. It can be asked for again."

log = get_logger(__name__)


class _PlannedElsewhere(Exception):
    """The worker space ends before there is a plan."""


class Orchestrator:
    """Runs the turns of its mode."""

    def __init__(self, planner_model: str) -> None:
        self._planner_model = planner_model

    async def run(self, space: WorkerSpace, turn: Turn, text: str) -> Ended | None:  # noqa: ARG002 - the workflow has it
        """Return a turn, or let it wait for the user; None if it waits, or somebody else has ended it."""
        if not space.accepts_tasks:
            raise SpaceClosed
        try:
            micros = space.services.user_monthly_micros
            begun = await space.database.run(records.begin, turn, MAX_HISTORY_MESSAGES, micros)
            return await _OrchestratedTurn(space, turn, begun, self._planner_model).run()
        except TurnOver:
            return None


class _OrchestratedTurn:
    """One run of one turn, from wherever its workflow stands."""

    def __init__(self, space: WorkerSpace, turn: Turn, begun: Begun, planner_model: str) -> None:
        self._space = space
        self._services = space.services
        self._turn = turn
        self._begun = begun
        self._workflow = begun.workflow
        self._planner_model = planner_model
        self._said = [Said("user" if m.role == "user" else "assistant", m.content, m.tokens) for m in begun.said]
        self._began = time.monotonic()
        self._known: Mapping[str, Habits] | None = None
        self._paid = 0  # for planning, in millionths, if the project has a budget

    async def run(self) -> Ended | None:
        workflow, decision = self._workflow, self._begun.decision
        is_open = workflow.status in (WorkflowStatus.PLANNING, WorkflowStatus.AWAITING_APPROVAL)
        if is_open and decision is not None:
            return await self._decided(decision)
        if workflow.status is WorkflowStatus.PLANNING:
            return await self._plan()
        return await self._carry_out(workflow)

    # Planning

    async def _plan(self, feedback: str = "") -> Ended | None:
        if not self._begun.agents:
            return await self._end(TurnStatus.FAILED, NO_AGENTS, "no_agents")
        try:
            plan, key = await self._planned(feedback)
        except BudgetExceeded as short:
            usage = Usage(self._planner_model, cost_usd=dollars(self._paid), calls=1)
            await self._services.database.of(self._space.principal).run(records.note_planned, self._workflow, usage)
            return await self._end(TurnStatus.FAILED, short.detail, short.code)
        except _PlannedElsewhere:
            return None
        spending = Spending.resume(self._turn, self._workflow, self._planner_model)
        spending.add(plan.usage)
        self._turn = spending.store_in(self._turn)
        proposal = await self._proposal(plan, key=key, is_revision=bool(feedback))
        return await self._propose(proposal)

    async def _planned(self, feedback: str) -> tuple[Plan, str | None]:
        planner_input = await self._planner_input(feedback)
        plan, key = await self._planned_for(planner_input, feedback)
        graph = spare_busy_agents(plan.graph, planner_input)
        if graph is plan.graph:
            return plan, key
        return replace(plan, graph=graph), None  # not kept for the next time, when others may be busy

    async def _planned_for(self, planner_input: PlannerInput, feedback: str) -> tuple[Plan, str | None]:
        key = planner_input.key
        if not feedback:
            known = await self._services.database.read(
                records.cached_plan, self._space.principal, self._space.project_id, key
            )
            if known is not None and (graph := _still_good(known, planner_input.agents)):
                return Plan(graph, "cache", Usage(self._planner_model)), None
        planner = Planner(self._paid_brain(), self._planner_model, self._services.fallback_model)
        plan = await self._while_space_is_there(planner.plan(planner_input))
        log.info("planned", by=plan.planned_by, tasks=len(plan.graph), problems=plan.problems)
        return plan, key if plan.planned_by == "model" and not feedback else None

    async def _while_space_is_there(self, plans: Coroutine[Any, Any, Plan]) -> Plan:
        """Wait for a plan; if the space ends before it is there, the next one makes it."""
        loop = asyncio.get_running_loop()
        planning, left = loop.create_task(plans), loop.create_task(self._space.is_left())
        try:
            await asyncio.wait({planning, left}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if self._space.is_ending:  # the server stops; else the user has ended the turn
                with suppress(TurnOver):
                    await self._goes_on_elsewhere()
            raise
        finally:
            is_planned = planning.done()
            for task in (planning, left):
                task.cancel()
            await asyncio.gather(planning, left, return_exceptions=True)
        if is_planned:
            return planning.result()
        await self._goes_on_elsewhere()
        raise _PlannedElsewhere

    async def _goes_on_elsewhere(self) -> None:
        spent = self._workflow.spent_micros + self._paid, self._workflow.price_unknown
        await patiently(lambda: self._space.database.run(records.requeue, self._turn, self._workflow, spent), "run")

    def _paid_brain(self) -> Brain:
        """Return a brain whose calls the project pays for, if it has a budget."""
        if self._begun.month is None or self._services.is_demo:
            return self._services.brain
        place = self._services.database, self._space.principal, self._turn.project_id, self._turn.id
        month = self._begun.month
        return PaidBrain(self._services.brain, ProjectBudgetGuard(*place, [month.budget_id], self._pay, month.user))

    def _pay(self, amount: int) -> None:
        self._paid += amount

    async def _planner_input(self, feedback: str) -> PlannerInput:
        agents = self._begun.agents
        known = await self._habits()
        briefs = [
            AgentBrief(
                agent.name,
                agent.role,
                " ".join(agent.system_prompt.split())[:ABOUT_CHARACTERS],
                tuple(agent.capabilities),
                self._space.bus.status(agent.id).value,
                known[agent.name].tasks,
                known[agent.name].success_rate,
                known[agent.name].average_cost_usd,
                tuple(agent.tools),
            )
            for agent in agents
        ]
        old = records.graph_of(self._begun.tasks) if feedback else None
        place = self._space.principal, self._space.project_id
        has_folder = await self._services.database.read(find_connector, *place) is not None
        return PlannerInput(self._workflow.request, briefs, self._before(), old, feedback, has_folder)

    async def _habits(self) -> Mapping[str, Habits]:
        """Return what the agents usually do; looked up once."""
        if self._known is None:
            place = self._space.principal, self._space.project_id, self._begun.agents
            self._known = await self._services.database.read(habits, *place, is_demo=self._services.is_demo)
        return self._known

    def _before(self) -> Sequence[Said]:
        """Return what was said before the request."""
        return before(self._said, self._workflow.request)

    async def _proposal(self, plan: Plan, *, key: str | None = None, is_revision: bool = False) -> Proposal:
        agents = self._begun.agents
        limits, workflow = self._begun.limits, self._workflow
        known = await self._habits()
        said_tokens = await asyncio.to_thread(told_tokens, self._said, workflow.request, plan.graph)
        is_demo = self._services.is_demo
        estimate = await asyncio.to_thread(
            price, plan.graph, agents, known, said_tokens, self._planner_model, is_demo=is_demo
        )
        spent, _ = records.spent_on(workflow, plan.usage.cost_usd, plan.usage.calls)
        expected = estimate.expected_micros
        if len(plan.graph) == 1:
            # What was said before is sent with every message, also with those that nobody asks about: whether this
            # one is asked about must not depend on how long the conversation is, nor on how often the agent called
            # tools for earlier requests.
            own_tokens = await asyncio.to_thread(told_tokens, (), workflow.request, plan.graph)
            usual = {name: agent_habits.of_one_call() for name, agent_habits in known.items()}
            own = await asyncio.to_thread(
                price, plan.graph, agents, usual, own_tokens, self._planner_model, is_demo=is_demo
            )
            expected = own.expected_micros
        estimate = estimate.plus(spent)  # what planning has cost is part of it
        unasked = await self._services.database.read(records.unasked, self._space.principal, workflow.session_id)
        asks = is_revision or limits.needs_approval(
            len(plan.graph), expected, unasked, price_unknown=bool(estimate.unknown_models)
        )
        changes = changed(records.graph_of(self._begun.tasks), plan.graph) if is_revision else ()
        ids = {agent.name: agent.id for agent in agents}
        return Proposal(plan, estimate, ids, limits.approval_seconds, asks, key, changes)

    async def _propose(self, proposal: Proposal) -> Ended | None:
        try:
            self._workflow, tasks, approval = await self._space.database.run(
                records.store_plan, self._turn, self._workflow, proposal
            )
        except BudgetExceeded as short:
            await self._services.database.of(self._space.principal).run(
                records.note_planned, self._workflow, proposal.plan.usage
            )
            return await self._end(TurnStatus.FAILED, short.detail, short.code)
        self._begun = replace(self._begun, tasks=tasks)
        if approval is not None:
            self._waits(approval)
            return None
        return await self._carry_out(self._workflow)

    def _waits(self, approval: Approval) -> None:
        self._services.project_events.add(self._space.principal, self._space.project_id, required(approval))

    # After a decision

    async def _decided(self, decision: Approval) -> Ended | None:
        match decision.status:
            case ApprovalStatus.APPROVED:
                return await self._approved(decision)
            case ApprovalStatus.REJECTED if decision.kind == "plan" and decision.feedback:
                return await self._revise(decision.feedback)
            case ApprovalStatus.REJECTED if decision.kind == "plan":
                return await self._end(TurnStatus.REJECTED, REJECTED, "plan_rejected")
            case ApprovalStatus.EXPIRED if decision.kind == "plan":
                return await self._end(TurnStatus.TIMEOUT, NOT_DECIDED, "approval_timeout")
            case ApprovalStatus.REJECTED | ApprovalStatus.EXPIRED:  # no more money: what is done is the answer
                return await self._carry_out(self._workflow, stops=True)
            case _:  # it is still asked: a decision about something else has come
                return await self._carry_out(self._workflow)

    async def _approved(self, decision: Approval) -> Ended | None:
        graph, changed = records.graph_of(self._begun.tasks), None
        if decision.kind == "plan":
            missing = {task.agent for task in self._begun.tasks} - {agent.name for agent in self._begun.agents}
            if missing:
                gone = ", ".join(sorted(missing))
                return await self._revise(f"These agents are not there any more: {gone}. Give their tasks to others.")
            if self._workflow.planned_by == "user":  # it was changed as it was approved: is it still within the price?
                plan = Plan(graph, "user", Usage(self._planner_model))
                proposal = await self._proposal(plan, is_revision=True)
                if dearer := _dearer(proposal.estimate, decision):
                    await self._plans_again()
                    return await self._propose(replace(proposal, changes=dearer))
                changed = proposal.estimate
        try:
            started = await self._space.database.run(
                records.start_approved, self._turn, self._workflow, decision, changed
            )
        except MonthTooShort:
            await self._plans_again()
            plan = Plan(graph, cast("PlannedBy", self._workflow.planned_by), Usage(self._planner_model))
            return await self._propose(await self._proposal(plan, is_revision=True))
        if started is None:
            return None
        if changed is not None:
            tasks = [replace(task, estimate=asdict(changed.tasks[task.id])) for task in self._begun.tasks]
            self._begun = replace(self._begun, tasks=tasks)
        return await self._carry_out(started)

    async def _revise(self, feedback: str) -> Ended | None:
        revisions = await self._services.database.read(records.revisions, self._space.principal, self._turn.id)
        if revisions > MAX_REVISIONS:
            return await self._end(TurnStatus.REJECTED, TOO_OFTEN, "plan_rejected")
        await self._plans_again()
        return await self._plan(feedback)

    async def _plans_again(self) -> None:
        """Tell that the plan is not the last word."""
        self._workflow = await self._space.database.run(records.plan_again, self._turn, self._workflow)

    # Doing

    async def _carry_out(self, workflow: Workflow, *, stops: bool = False) -> Ended | None:
        run = PlanRun(
            self._space, self._turn, replace(self._begun, workflow=workflow), self._before(), self._planner_model
        )
        return await run.run(stops=stops)

    async def _end(self, status: TurnStatus, text: str, code: str) -> Ended | None:
        spending = Spending.resume(self._turn, self._workflow, self._planner_model)
        outcome = Outcome(
            status,
            uuid7(),
            text,
            count_tokens(text),
            asdict(spending.usage) if spending.usage.calls else None,
            time.monotonic() - self._began,
            error_code=code,
            shares=spending.shares.to_json(),
        )
        return await store_end(self._space, self._turn, outcome)


def changed(old: TaskGraph, new: TaskGraph) -> list[str]:
    """Return how a new plan differs from the one it replaces, in words."""
    said = [f"{name}: left out" for name in old.tasks if name not in new.tasks]
    for task in new.tasks.values():
        before = old.tasks.get(task.id)
        if before is None:
            said.append(f"{task.id}: new, for {task.agent}")
        elif asdict(before) != asdict(task):
            parts = [
                name for name in ("agent", "description", "depends_on") if getattr(before, name) != getattr(task, name)
            ]
            said.append(f"{task.id}: other {', '.join(parts)}")
    return said


def _dearer(estimate: PlanEstimate, decision: Approval) -> list[str]:
    """Return why a plan that the user changed needs another approval."""
    agreed, wanted = int(decision.arguments["limit_micros"]), estimate.high_micros
    unknown = sorted(set(estimate.unknown_models) - set(decision.plan_details.unknown_prices))
    said = [f"with your changes: the price of {model} is not known" for model in unknown]
    if wanted > agreed:
        said.append(f"with your changes: up to ${dollars(wanted):.4f} instead of ${dollars(agreed):.4f}")
    return said


def _still_good(plan: dict[str, Any], agents: Sequence[AgentBrief]) -> TaskGraph | None:
    try:
        return TaskGraph.checked(read_tasks(plan), [agent.name for agent in agents])
    except (PlanInvalid, KeyError, TypeError):
        return None
