"""Monthly budgets of a project and of its user over all projects, and what running plans have committed of them."""

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.budgets.money import dollars, micros_or_none
from artel.budgets.repository import Budget, BudgetRepository, UserBudgetRepository, UserMonth
from artel.contract.project_settings import EffectiveSettings
from artel.db.tx import Tx
from artel.errors import BudgetExceeded
from artel.ids import uuid7
from artel.plans.plan import Workflow
from artel.plans.repository import WorkflowRepository
from artel.projects.transactions import project_settings

NO_LIMIT = 2**62  # limit of a project's month when only its owner has a limit


def effective_limit(own: int | None, default: int | None) -> int | None:
    """Return a user's limit: the administrator's value (-1: no limit), else the server's default."""
    limit = default if own is None else own
    return None if limit is None or limit < 0 else limit


def this_month() -> str:
    """Return the current month as budget scope, such as 2026-11."""
    return f"{datetime.now(UTC):%Y-%m}"


def catch_up(tx: Tx) -> None:
    """Add what the user spent this month before there was a limit."""
    UserBudgetRepository(tx).catch_up(this_month())


def spent_by(connection: Connection, principal: Principal) -> int:
    """Return what a user with a limit has spent this month."""
    return UserBudgetRepository(connection, principal).spent(this_month())


@dataclass(frozen=True, slots=True)
class Month:
    """The monthly budgets that a turn's calls draw on: the project's, and the user's limit if there is one."""

    budget_id: str
    user: UserMonth | None


def month_for(tx: Tx, project_id: int, settings: EffectiveSettings, user_micros: int | None) -> Month | None:
    """Return the monthly budgets for calls in a project; None if neither the project nor its user has a limit."""
    own = micros_or_none(settings.monthly_budget_usd)
    if own is None and user_micros is None:
        return None
    budget_id = ensure_month_budget(tx, project_id, NO_LIMIT if own is None else own)
    return Month(budget_id, None if user_micros is None else UserMonth(this_month(), user_micros))


def ensure_month_budget(tx: Tx, project_id: int, limit: int) -> str:
    """Return the id of the project's budget for this month; create it, or set its limit, if necessary."""
    rows = BudgetRepository(tx)
    scope = this_month()
    budget = rows.find(project_id, "month", scope)
    if budget is None:  # another transaction may create it concurrently: `add` ignores a duplicate
        rows.add(Budget(uuid7(), project_id, "month", scope, limit, 0, 0))
        budget = rows.find(project_id, "month", scope)
    if budget is None:
        raise BudgetExceeded("The project's monthly budget could not be created. Try again.")
    if budget.limit_micros != limit:
        rows.set_limit(budget.id, limit)
    return budget.id


def committed_micros(tx: Tx, project_id: int, excluded_workflow_id: str | None = None) -> int:
    """Return the amount in micros committed to the project's running plans, without the excluded workflow."""
    running = WorkflowRepository(tx).begun(project_id) - {excluded_workflow_id}
    budgets = BudgetRepository(tx).of_plans(project_id, running) if running else []
    return sum(max(0, budget.left_micros) for budget in budgets)


@dataclass(frozen=True, slots=True)
class Shortage:
    """A plan may cost more than is available of the monthly budget."""

    month_left: float  # in dollars: neither spent, nor reserved, nor committed to running plans
    reason: str


def shortage(tx: Tx, workflow: Workflow, needs_micros: int, *, must_have_some: bool = False) -> Shortage | None:
    """Return the shortage if the monthly budget may not cover a plan; None if it does, or has no limit.

    Raise BudgetExceeded if it `must_have_some` left, and everything is spent or reserved. The lock on the budget
    serializes plans that start concurrently, so that each sees the commitments of the others.
    """
    limit = micros_or_none(project_settings(tx.connection, tx.principal, workflow.project_id).monthly_budget_usd)
    if limit is None or needs_micros <= 0:
        return None
    month = BudgetRepository(tx).lock(ensure_month_budget(tx, workflow.project_id, limit))
    left = max(0, month.left_micros - committed_micros(tx, workflow.project_id, workflow.id))
    if needs_micros <= left:
        return None
    if must_have_some and month.left_micros <= 0:
        raise BudgetExceeded(
            f"Monthly budget exceeded: the plan may cost ${dollars(needs_micros):.4f}, and nothing is left. "
            "Raise the budget in the project's settings."
        )
    return Shortage(
        dollars(left),
        f"The plan may cost up to ${dollars(needs_micros):.4f}, but only ${dollars(left):.4f} of the project's monthly "
        "budget is available: it may end partly done.",
    )
