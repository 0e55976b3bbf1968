"""Decisions of the user, made through the API or at the connector."""

import asyncio
from datetime import UTC, datetime
from functools import partial

from artel.approvals import states
from artel.approvals import transactions as approvals
from artel.approvals.approval import Approval
from artel.auth.principal import Principal
from artel.brain import prices
from artel.connector_gateway.folder_calls import FolderCalls, fields_of_user
from artel.contract.approvals import ApprovalChanges, ApprovalState, NewDecision, PlanPrice
from artel.contract.connector import CallAnswer, Decided, ExtendCall
from artel.contract.http import Page, PageRequest
from artel.errors import ArtelError, PlanNotPossible
from artel.ids import uuid7
from artel.logs import get_logger
from artel.plans.commands import ask_plan_again, decide_plan, price_changed
from artel.plans.node_agents import usable_nodes
from artel.projects.transactions import project_settings
from artel.spaces.services import SpaceServices

MAX_PENDING_DECISIONS = 100
ONLY_WITH_A_PLAN = (
    "Task changes, an instruction and a limit are possible only when you approve a plan. Leave them out. "
    "To reject a plan and ask for another, use the feedback."
)

log = get_logger(__name__)


class ApprovalService:
    """Lists approvals, takes decisions and resumes the runs that wait for them."""

    def __init__(self, services: SpaceServices) -> None:
        self._services = services
        self._database = services.database
        self._folder_calls = FolderCalls(services.database, services.relay)
        self._storing: set[asyncio.Task[None]] = set()

    async def list(
        self, user: Principal, status: str | None, session_id: str | None, paging: PageRequest
    ) -> Page[ApprovalState]:
        """Return a page of approvals, newest first."""
        return await self._database.read(states.page_of_states, user, status, session_id, paging)

    async def show(self, user: Principal, approval_id: str) -> ApprovalState:
        return await self._database.read(states.approval_state, user, approval_id)

    async def extend(self, user: Principal, approval_id: str, seconds: int) -> ApprovalState:
        """Give the user more time to decide, also at the connector if that asks too."""
        approval = await self._database.read(approvals.get_approval, user, approval_id)
        now = datetime.now(UTC)
        approvals.require_pending(approval, now)
        if approval.ask_id is not None:
            left = (approvals.extended_until(approval, seconds, now) - now).total_seconds()
            await self._extend_at_connector(user, approval, left)
        return await self._state(user, await self._database.of(user).run(approvals.extend, approval_id, seconds))

    async def _extend_at_connector(self, user: Principal, approval: Approval, seconds: float) -> None:
        """Extend the connector's own question; raise if only that takes the answer, and it can't be extended."""
        call = ExtendCall(**fields_of_user(user), ask_id=approval.ask_id or "", seconds=seconds)
        try:
            await self._folder_calls.call(user, approval.project_id, "workspace/extend", call, CallAnswer)
        except ArtelError as failure:
            if approval.tool_details.where == "terminal":
                raise
            log.info("question_not_extended", approval_id=approval.id, reason=failure.detail)

    async def price(self, user: Principal, approval_id: str, changes: ApprovalChanges) -> PlanPrice:
        """Return a plan with the user's changes and its price, without storing anything."""
        approval = await self._database.read(approvals.get_approval, user, approval_id)
        await prices.load()
        settings = await self._database.read(project_settings, user, approval.project_id)
        nodes = await usable_nodes(self._services, settings.nodes_allowed)
        most = self._services.settings.max_context_tokens
        price = partial(price_changed, nodes=nodes, is_demo=self._services.is_demo, max_context_tokens=most)
        return await self._database.read(price, user, approval_id, changes.tasks, self._services.planner_model)

    async def confirm(self, user: Principal, approval_id: str, new: NewDecision) -> ApprovalState:
        """Store the user's decision, resume the run, and stop the connector's own question."""
        approval = await self._database.read(approvals.get_approval, user, approval_id)
        starts_plan = approval.kind == "plan" and new.decision == "approve"
        has_more = new.changes.tasks or new.instruction.strip() or new.changes.limit_usd is not None
        if not starts_plan and has_more:
            raise PlanNotPossible(ONLY_WITH_A_PLAN)
        if approval.kind == "tool":
            decided = await self._database.of(user).run(
                approvals.decide, approval_id, new.decision, new.feedback, new.changes.holds
            )
        else:
            decided = await self._database.of(user).run(
                decide_plan, approval_id, new.decision, new.feedback, new.instruction, new.changes
            )
        if ask_id := decided.ask_id:
            decision = Decided(ask_id=ask_id, decision=new.decision, feedback=new.feedback)
            await self._services.relay.notify_answered(user, decided.project_id, decision)
        return await self._state(user, decided)

    async def ask_again(self, user: Principal, approval_id: str) -> ApprovalState:
        """Reopen an expired approval."""
        expired = await self._database.read(approvals.get_approval, user, approval_id)
        if expired.kind == "tool":
            approval = await self._database.of(user).run(approvals.ask_again, approval_id, uuid7(), uuid7())
        else:
            await prices.load()
            settings = await self._database.read(project_settings, user, expired.project_id)
            nodes = await usable_nodes(self._services, settings.nodes_allowed)
            most = self._services.settings.max_context_tokens
            again = partial(ask_plan_again, nodes=nodes, is_demo=self._services.is_demo, max_context_tokens=most)
            approval = await self._database.of(user).run(again, approval_id, uuid7(), self._services.planner_model)
        return await self._state(user, approval)

    def decided_at_connector(self, user: Principal, project_id: int, decided: Decided) -> None:
        """Store a decision that the user made at the connector, in the background."""
        if len(self._storing) >= MAX_PENDING_DECISIONS:
            log.warning("decision_dropped", project_id=project_id)
            return
        task = asyncio.get_running_loop().create_task(self._store(user, project_id, decided))
        self._storing.add(task)
        task.add_done_callback(self._storing.discard)

    async def _store(self, user: Principal, project_id: int, decided: Decided) -> None:
        try:
            await self._database.of(user).run(
                approvals.decide_at_connector, project_id, decided.ask_id, decided.decision, decided.feedback
            )
        except ArtelError as failure:  # already decided elsewhere, or no run waits for it
            log.info("decision_not_taken", project_id=project_id, reason=failure.detail)

    async def _state(self, user: Principal, approval: Approval) -> ApprovalState:
        return (await self._database.read(states.approval_states, user, [approval]))[0]
