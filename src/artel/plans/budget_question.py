"""What the user is asked while a plan is carried out: whether a tool may be called, and whether it may cost more."""

from collections.abc import Sequence

from artel.approvals.approval import Approval
from artel.budgets.money import dollars
from artel.contract.approval_details import BudgetDetails
from artel.contract.events import ToolRequest
from artel.plans.proposal import plan_approval
from artel.plans.workflow import Workflow, WorkflowTask
from artel.turns.turn import Turn

LEAST_MORE_MICROS = 1_000  # asking for less than that would mean asking again at once


def budget_approval(
    turn: Turn, workflow: Workflow, left: Sequence[WorkflowTask], spent_micros: int, seconds: int
) -> Approval:
    """Return what the user is asked when a plan is about to go over: for what is left, once more its estimate.

    That is enough at least for the calls that wait for it, whatever the estimate was.
    """
    more = sum((task.estimate or {}).get("high_micros") or 0 for task in left)
    needs = sum(task.parked.needs_micros or 0 for task in left if task.parked)
    agreed = workflow.limit_micros or 0
    limit = max(agreed, spent_micros) + max(more, needs, agreed // 2, LEAST_MORE_MICROS)
    details = BudgetDetails(
        reason="The plan is about to cost more than was agreed.",
        agreed_cost=dollars(agreed),
        spent=dollars(spent_micros),
        estimated_cost=dollars(limit),
        estimated_cost_high=dollars(limit),
        estimated_duration=round(sum((task.estimate or {}).get("seconds") or 0.0 for task in left), 1),
    )
    tasks = [
        {"id": task.id, "agent": task.agent, "description": task.description, "depends_on": task.depends_on}
        for task in left
    ]
    return plan_approval(turn, workflow, tasks, limit, details, seconds, kind="budget")


def tool_request(approval: Approval, task: WorkflowTask) -> ToolRequest:
    """Return the event that asks in the session."""
    return ToolRequest(
        approval_id=approval.id,
        task_id=task.id,
        agent_id=task.agent_id or 0,
        tool=approval.tool,
        arguments=approval.arguments,
        risk=approval.risk,
        details=approval.details.shown(),
        expires_at=approval.expires_at,
    )
