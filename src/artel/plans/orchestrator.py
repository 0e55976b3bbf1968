"""A turn without an agent: planned, priced, approved where that is needed, carried out, and answered once."""

import asyncio
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from math import ceil
from typing import Any, cast

from artel.agent_loop.context import MAX_HISTORY_MESSAGES
from artel.approvals.approval import Approval, ApprovalStatus
from artel.brain.brain import Brain, Usage
from artel.brain.retries import PaidBrain
from artel.brain.tokens import count_in_background
from artel.budgets.guard import TurnBudgetGuard
from artel.budgets.money import dollars
from artel.budgets.spending import Spending
from artel.connector_gateway.repository import find_connector
from artel.contract import chat
from artel.contract.http import Agent
from artel.db.retries import with_outage_retry
from artel.errors import AgentNameTaken, ArtelError, BudgetExceeded, LimitReached
from artel.ids import uuid7
from artel.logs import get_logger
from artel.plans import transactions
from artel.plans.node_agents import NodeAgent, node_agents, priced, status_of, usable_nodes
from artel.plans.plan import PlanInvalid, TaskGraph, Workflow, WorkflowStatus, WorkflowTask
from artel.plans.plan_run import PlanRun, store_end
from artel.plans.planner import (
    AgentBrief,
    Plan,
    PlannedBy,
    Planner,
    PlannerInput,
    one_task,
    read_tasks,
    spare_busy_agents,
)
from artel.plans.pricing import AgentStatistics, PlanEstimate, Pricing, agent_statistics, before, needs_approval
from artel.plans.proposal import PricedPlan
from artel.plans.transactions import MonthTooShort, PlanContext
from artel.registry.node import RegisteredNode
from artel.runs.attached_files import conversation_message, estimated_tokens, files_of
from artel.spaces.worker_space import SpaceClosed, WorkerSpace
from artel.turns.end import TurnOutcome
from artel.turns.transactions import TurnOver
from artel.turns.turn import PLAN_EXPIRED, Turn, TurnStatus
from artel.turns.waiters import Ended

MAX_REVISIONS = 10
ABOUT_CHARACTERS = 200
NO_AGENTS = "This project has no agents. Create one, and send the message again."
REJECTED = "You did not want this plan, so nothing was done."
MICROS_OF_A_CENT = 10_000
TOO_OFTEN = f"Planned {MAX_REVISIONS + 1} times, and nothing was done. Send a message that says what you want instead."
NOT_DECIDED = "Nobody decided about the plan in time, so nothing was done. It can be asked for again."

log = get_logger(__name__)


class Orchestrator:
    """Runs the turns that no agent was named for."""

    async def run(self, space: WorkerSpace, turn: Turn) -> Ended | None:
        """Run a turn; return None if it waits for the user, or another process ended it or continues it."""
        if not space.accepts_tasks:
            raise SpaceClosed
        try:
            micros = space.services.user_monthly_micros
            context = await space.database.run(transactions.begin, turn, MAX_HISTORY_MESSAGES, micros)
            return await _OrchestratedTurn(space, turn, context, space.services.planner_model).run()
        except TurnOver:
            return None


class _OrchestratedTurn:
    """One run of a turn, from the current status of its workflow."""

    def __init__(self, space: WorkerSpace, turn: Turn, context: PlanContext, planner_model: str) -> None:
        self._space = space
        self._services = space.services
        self._turn = turn
        self._context = context
        self._workflow = context.workflow
        self._planner_model = planner_model
        messages = [conversation_message(message) for message in context.messages]
        self._history = before(messages, context.workflow.request)
        self._files = files_of(messages, context.workflow.request)
        self._spending = Spending.resume(turn, context.workflow, planner_model)
        self._began = time.monotonic()
        self._statistics: Mapping[str, AgentStatistics] | None = None
        self._nodes: list[RegisteredNode] | None = None
        self._offered: Mapping[str, NodeAgent] = {}  # agents that the project gets if a plan uses them, by name
        self._paid: list[int] = []  # micros of each call of the planner, if the project has a budget

    async def run(self) -> Ended | None:
        status, decision = self._workflow.status, self._context.decision
        stops = False
        if decision is None or status not in (WorkflowStatus.PLANNING, WorkflowStatus.AWAITING_APPROVAL):
            if status is WorkflowStatus.PLANNING:
                return await self._plan()
        elif decision.status is ApprovalStatus.APPROVED:
            return await self._start_approved(decision)
        elif decision.status in (ApprovalStatus.REJECTED, ApprovalStatus.EXPIRED):
            if decision.kind != "plan":  # no more budget: the results so far are the answer
                stops = True
            elif decision.status is ApprovalStatus.EXPIRED:
                return await self._end(TurnStatus.TIMEOUT, NOT_DECIDED, PLAN_EXPIRED)
            elif decision.feedback:
                return await self._revise(decision.feedback)
            else:
                return await self._end(TurnStatus.REJECTED, REJECTED, "plan_rejected")
        return await self._run_plan(stops=stops)  # also if the decision is pending: the user decided about a tool

    # Planning

    async def _plan(self, feedback: str = "") -> Ended | None:
        """Make a plan, or take the one that the same request got before, and propose it."""
        if not self._context.agents and not await self._usable_nodes():
            return await self._end(TurnStatus.FAILED, NO_AGENTS, "no_agents")
        planner_input = await self._planner_input(feedback)
        plan = None if feedback else await self._known_plan(planner_input)
        if plan is None:
            brain: Brain = self._services.brain
            if self._context.month is not None:  # calls of the demo brain reserve nothing
                database = self._services.database.of(self._space.principal)
                guard = TurnBudgetGuard(database, self._turn, self._context.month, self._paid.append)
                brain = PaidBrain(brain, guard)
            planner = Planner(brain, self._planner_model, self._services.settings.fallback_model)
            try:
                plan = await self._plan_or_requeue(planner.plan(planner_input))
            except BudgetExceeded as exceeded:
                usage = Usage(self._planner_model, cost_usd=dollars(sum(self._paid)), calls=1)
                return await self._end_unplanned(exceeded, usage)
            if plan is None:
                return None
            log.info("planned", by=plan.planned_by, tasks=len(plan.graph), problems=plan.problems)
        graph = spare_busy_agents(plan.graph, planner_input)
        # Other agents may be busy the next time.
        is_cacheable = plan.planned_by == "model" and not feedback and graph is plan.graph
        key = planner_input.key if is_cacheable else None
        self._spending.add(plan.usage)
        self._turn = self._spending.store_in(self._turn)
        return await self._propose(await self._priced(replace(plan, graph=graph), key, is_revision=bool(feedback)))

    async def _planner_input(self, feedback: str) -> PlannerInput:
        statistics, nodes = await self._agent_statistics(), await self._usable_nodes()
        has_images = any(file.is_image for file in self._files)
        briefs = [
            AgentBrief(
                agent.name,
                agent.role,
                " ".join(agent.system_prompt.split())[:ABOUT_CHARACTERS],
                tuple(agent.capabilities),
                status_of(agent, nodes, self._space.bus.status(agent.id).value),
                statistics[agent.name].tasks,
                statistics[agent.name].success_rate,
                statistics[agent.name].average_cost_usd,
                tuple(agent.tools),
                has_images and agent.runtime != "node" and self._services.brain.takes_images(agent.model),
            )
            for agent in self._context.agents
        ]
        room = self._services.settings.max_agents_per_project - len(briefs)
        self._offered = node_agents(nodes, self._context.agents, room)
        briefs += [offered.brief for offered in self._offered.values()]
        old = TaskGraph.of(self._context.tasks) if feedback else None
        scope = self._space.principal, self._space.project_id
        has_folder = await self._services.database.read(find_connector, *scope) is not None
        names = tuple(file.name for file in self._files)
        return PlannerInput(self._workflow.request, briefs, self._history, old, feedback, has_folder, names)

    async def _usable_nodes(self) -> list[RegisteredNode]:
        if self._nodes is None:
            self._nodes = await usable_nodes(self._services, self._context.settings.nodes_allowed)
        return self._nodes

    async def _agent_statistics(self) -> Mapping[str, AgentStatistics]:
        if self._statistics is None:
            scope = self._space.principal, self._space.project_id, self._context.agents
            is_demo = self._services.is_demo
            self._statistics = await self._services.database.read(agent_statistics, *scope, is_demo=is_demo)
        return self._statistics

    async def _known_plan(self, planner_input: PlannerInput) -> Plan | None:
        """Return the plan for the only agent, or the one that the same request got before, if it can still be run."""
        if len(planner_input.agents) == 1:
            return Plan(one_task(planner_input), "only_agent", Usage(self._planner_model))
        if self._context.plan_mode == "never":
            return Plan(one_task(planner_input), "one_agent", Usage(self._planner_model))
        key = self._space.principal, self._space.project_id, planner_input.key
        stored = await self._services.database.read(transactions.cached_plan, *key)
        if stored is None:
            return None
        try:
            graph = TaskGraph.checked(read_tasks(stored), [agent.name for agent in planner_input.agents])
        except (PlanInvalid, KeyError, TypeError):
            return None
        return Plan(graph, "cache", Usage(self._planner_model))

    async def _plan_or_requeue(self, plans: Coroutine[Any, Any, Plan]) -> Plan | None:
        """Return the plan; if the space ends before there is one, requeue the turn for the next space."""

        async def requeue() -> None:
            spent = self._workflow.spent_micros + sum(self._paid), self._workflow.price_unknown
            step = self._turn, self._workflow, spent
            await with_outage_retry(lambda: self._space.database.run(transactions.requeue, *step), "run")

        loop = asyncio.get_running_loop()
        planning, left = loop.create_task(plans), loop.create_task(self._space.is_left())
        try:
            await asyncio.wait({planning, left}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if self._space.is_ending:  # the server stops; else the user has ended the turn
                with suppress(TurnOver):
                    await requeue()
            raise
        finally:
            is_planned = planning.done()
            for task in (planning, left):
                task.cancel()
            await asyncio.gather(planning, left, return_exceptions=True)
        if is_planned:
            return planning.result()
        await requeue()
        return None

    async def _priced(self, plan: Plan, key: str | None = None, *, is_revision: bool = True) -> PricedPlan:
        agents, settings, workflow = self._context.agents, self._context.settings, self._workflow
        is_demo, nodes = self._services.is_demo, await self._usable_nodes()
        offered = [node.as_stored(workflow.project_id) for node in self._offered.values()]
        team = [priced(agent, nodes) for agent in [*agents, *offered]]
        statistics = {**dict.fromkeys(self._offered, AgentStatistics()), **await self._agent_statistics()}
        attached = estimated_tokens(self._files, team, self._services.settings.max_context_tokens)
        pricing = Pricing(team, statistics, self._planner_model, is_demo, attached)
        estimate = await asyncio.to_thread(pricing.price, plan.graph, self._history, workflow.request)
        expected = estimate.expected_micros
        if len(plan.graph) == 1:
            expected = await asyncio.to_thread(pricing.cost_of_request, plan.graph, workflow.request)
        spent, _ = transactions.spent_with(workflow, plan.usage)
        costs, is_unknown = (expected, self._context.unapproved_micros), bool(estimate.unknown_models)
        mode = self._context.plan_mode
        asks = is_revision or mode == "ask"
        if mode == "auto":
            asks |= needs_approval(settings.plans, len(plan.graph), *costs, price_unknown=is_unknown)
        changes = plan.graph.changes_from(TaskGraph.of(self._context.tasks)) if is_revision else ()
        ids = {agent.name: agent.id for agent in agents}
        # The cost of planning is part of the estimate.
        seconds = settings.policy.approval_seconds
        used = {task.agent for task in plan.graph.tasks.values()}
        new = {name: node.new for name, node in self._offered.items() if name in used}
        return PricedPlan(plan, estimate.plus(spent), ids, seconds, asks, key, changes, new)

    async def _propose(self, proposal: PricedPlan) -> Ended | None:
        """Store a plan; run it, or wait for the user's approval."""
        try:
            self._workflow, tasks, added = await self._store(proposal)
        except (BudgetExceeded, LimitReached, AgentNameTaken) as problem:
            return await self._end_unplanned(problem, proposal.plan.usage)
        self._context = replace(self._context, tasks=tasks, agents=[*self._context.agents, *added])
        if added:
            self._offered, self._statistics = {}, None
        if self._workflow.status is WorkflowStatus.AWAITING_APPROVAL:
            return None
        return await self._run_plan()

    async def _store(self, proposal: PricedPlan) -> tuple[Workflow, list[WorkflowTask], list[Agent]]:
        """Store a plan with the agents that it needs for nodes."""
        space, step = self._space, (self._turn, self._workflow, proposal)
        if not proposal.new_agents:
            return *await space.database.run(transactions.store_plan, *step), []
        database, most = self._services.database.of(space.principal), self._services.settings.max_agents_per_project
        return await database.run(transactions.store_plan_with_agents, *step, most, space.lease)

    # After a decision

    async def _start_approved(self, decision: Approval) -> Ended | None:
        graph, changed = TaskGraph.of(self._context.tasks), None
        if decision.kind == "plan":
            missing = {task.agent for task in self._context.tasks} - {agent.name for agent in self._context.agents}
            if missing:
                gone = ", ".join(sorted(missing))
                return await self._revise(f"These agents are not there any more: {gone}. Give their tasks to others.")
            if self._workflow.planned_by == "user":  # the user changed it with the approval: check its price
                proposal = await self._priced(Plan(graph, "user", Usage(self._planner_model)))
                if reasons := _why_more_expensive(proposal.estimate, decision, self._workflow.limit_micros):
                    await self._plan_again()
                    return await self._propose(replace(proposal, changes=reasons))
                changed = proposal.estimate
        step = self._turn, self._workflow, decision, changed
        try:
            started = await self._space.database.run(transactions.start_approved, *step)
        except MonthTooShort:
            await self._plan_again()
            plan = Plan(graph, cast("PlannedBy", self._workflow.planned_by), Usage(self._planner_model))
            return await self._propose(await self._priced(plan))
        if started is None:
            return None
        self._workflow = started
        if changed is not None:
            tasks = [replace(task, estimate=changed.tasks[task.id].stored) for task in self._context.tasks]
            self._context = replace(self._context, tasks=tasks)
        return await self._run_plan()

    async def _revise(self, feedback: str) -> Ended | None:
        if self._context.revisions > MAX_REVISIONS:
            return await self._end(TurnStatus.REJECTED, TOO_OFTEN, "plan_rejected")
        await self._plan_again()
        return await self._plan(feedback)

    async def _plan_again(self) -> None:
        self._workflow = await self._space.database.run(transactions.plan_again, self._turn, self._workflow)

    # Running and ending

    async def _run_plan(self, *, stops: bool = False) -> Ended | None:
        context = replace(self._context, workflow=self._workflow)
        run = PlanRun(self._space, self._turn, context, self._history, self._planner_model, self._files)
        return await run.run(stops=stops)

    async def _end_unplanned(self, problem: ArtelError, usage: Usage) -> Ended | None:
        """Record the cost of planning, and fail: no plan was stored."""
        database = self._services.database.of(self._space.principal)
        spent = transactions.spent_with(self._workflow, usage)
        await database.run(transactions.note_spent, self._workflow.id, spent)
        return await self._end(TurnStatus.FAILED, problem.detail, problem.code)

    async def _end(self, status: TurnStatus, text: str, code: str) -> Ended | None:
        outcome = TurnOutcome(
            status,
            uuid7(),
            text,
            await count_in_background(text),
            chat.UsageShown.of(self._spending.usage) if self._spending.usage.calls else None,
            time.monotonic() - self._began,
            error_code=code,
            shares=self._spending.shares,
        )
        return await store_end(self._space, self._turn, outcome)


def _why_more_expensive(estimate: PlanEstimate, decision: Approval, limit_micros: int | None) -> list[str]:
    """Return why a plan that the user changed needs another approval; empty if it needs none.

    It needs none up to the limit that the user named, nor for less than a cent: prices are shown in cents, rounded up.
    """
    agreed, wanted = decision.plan_arguments.limit_micros, estimate.high_micros
    unknown = sorted(set(estimate.unknown_models) - set(decision.plan_details.unknown_prices))
    reasons = [f"with your changes: the price of {model} is not known" for model in unknown]
    if limit_micros is None and ceil(wanted / MICROS_OF_A_CENT) > ceil(agreed / MICROS_OF_A_CENT):
        reasons.append(f"with your changes: up to ${dollars(wanted):.4f} instead of ${dollars(agreed):.4f}")
    return reasons
