"""What the user is shown and asked about a plan: its tasks, its price, and later whether it may cost more."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from artel.approvals.approval import Approval
from artel.budgets.money import dollars, dollars_or_none
from artel.budgets.month import Shortage
from artel.contract.approval_details import BudgetDetails, PlanDetails, PricedDetails
from artel.contract.approvals import PlanArguments
from artel.contract.events import AgreedTask, PlanRequest, PlanTask, TaskPlanCreated
from artel.contract.http import NewAgent
from artel.plans.plan import TaskGraph, Workflow, WorkflowTask
from artel.plans.planner import Plan
from artel.plans.pricing import PlanEstimate
from artel.runs.approval_factory import tool_approval
from artel.tools.consent import Question
from artel.turns.turn import Turn

LEAST_MORE_MICROS = 1_000  # with less, the user would be asked again at once


@dataclass(frozen=True, slots=True)
class PricedPlan:
    """A plan with its price, ready to be stored; `asks`: it needs approval, whatever is left of the month."""

    plan: Plan
    estimate: PlanEstimate
    agents: Mapping[str, int]
    seconds: int
    asks: bool
    cache_key: str | None = None
    changes: Sequence[str] = ()
    new_agents: Mapping[str, NewAgent] = field(default_factory=dict)  # for nodes that the plan uses


def plan_request(approval: Approval) -> PlanRequest:
    """Return the event that asks the user to approve a plan or its budget."""
    details = approval.details if isinstance(approval.details, PricedDetails) else PricedDetails()
    arguments = approval.plan_arguments
    return PlanRequest(
        approval_id=approval.id,
        workflow_id=arguments.workflow_id,
        plan={"tasks": arguments.tasks},
        estimated_cost=details.estimated_cost,
        estimated_duration=details.estimated_duration,
        details=details,
        expires_at=approval.expires_at,
    )


def plan_approval(
    turn: Turn,
    workflow: Workflow,
    graph: TaskGraph,
    estimate: PlanEstimate,
    short: Shortage | None,
    changes: Sequence[str],
    seconds: int,
) -> Approval:
    """Return the approval of a plan: its price, and what is left of the month if that is less than it."""
    details = PlanDetails(
        **estimate.in_dollars(),
        unknown_prices=tuple(estimate.unknown_models),
        graph=graph.mermaid(),
        changed=tuple(changes),
        **(asdict(short) if short else {}),
    )
    tasks: list[AgreedTask] = [AgreedTask(**task) for task in shown_tasks(graph, estimate)]
    return priced_approval("plan", turn, workflow, tasks, estimate.high_micros, details, seconds)


def priced_approval(
    kind: str,
    turn: Turn,
    workflow: Workflow,
    tasks: list[AgreedTask],
    limit_micros: int,
    details: PricedDetails,
    seconds: int,
) -> Approval:
    """Return the approval of exactly these tasks, for at most this cost."""
    arguments = PlanArguments(workflow_id=workflow.id, plan_id=workflow.plan_id, tasks=tasks, limit_micros=limit_micros)
    return replace(tool_approval(turn, None, Question(kind, arguments.dump(), details=details), seconds), kind=kind)


def plan_created(workflow: Workflow, proposal: PricedPlan) -> TaskPlanCreated:
    """Return the event that shows a plan."""
    return TaskPlanCreated(
        plan_id=workflow.plan_id or "",
        workflow_id=workflow.id,
        tasks=shown_tasks(proposal.plan.graph, proposal.estimate),
        planned_by=proposal.plan.planned_by,
        **proposal.estimate.in_dollars(),
    )


def shown_tasks(graph: TaskGraph, estimate: PlanEstimate) -> list[PlanTask]:
    """Return the tasks as users see them before they run."""
    return [
        PlanTask(
            id=task.id,
            agent=task.agent,
            description=task.description,
            depends_on=list(task.depends_on),
            estimated_cost=dollars_or_none(estimate.tasks[task.id].expected_micros),
        )
        for task in graph.tasks.values()
    ]


def task_rows(workflow: Workflow, proposal: PricedPlan) -> list[WorkflowTask]:
    """Return the tasks of a plan as rows."""
    return [
        WorkflowTask(
            workflow_id=workflow.id,
            project_id=workflow.project_id,
            number=number,
            agent_id=proposal.agents[task.agent],
            estimate=proposal.estimate.tasks[task.id].stored,
            **task.to_json(),
        )
        for number, task in enumerate(proposal.plan.graph.tasks.values(), 1)
    ]


def budget_approval(
    turn: Turn, workflow: Workflow, left: Sequence[WorkflowTask], spent_micros: int, seconds: int
) -> Approval:
    """Return the approval of more budget for the tasks that are left: their estimate, or at least what they need."""
    estimates = [task.estimate for task in left if task.estimate]
    more = sum(estimate.high_micros or 0 for estimate in estimates)
    needs = sum(task.parked.needs_micros or 0 for task in left if task.parked)
    agreed = workflow.limit_micros or 0
    limit = max(agreed, spent_micros) + max(more, needs, agreed // 2, LEAST_MORE_MICROS)
    details = BudgetDetails(
        reason="The plan is about to cost more than was agreed.",
        agreed_cost=dollars(agreed),
        spent=dollars(spent_micros),
        estimated_cost=dollars(limit),
        estimated_cost_high=dollars(limit),
        estimated_duration=round(sum(estimate.seconds for estimate in estimates), 1),
    )
    tasks: list[AgreedTask] = [
        {"id": task.id, "agent": task.agent, "description": task.description, "depends_on": list(task.depends_on)}
        for task in left
    ]
    return priced_approval("budget", turn, workflow, tasks, limit, details, seconds)
