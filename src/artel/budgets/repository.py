"""Rows of budgets and reservations.

Before a model call, its maximum cost is reserved by one conditional UPDATE that changes nothing if too little is left.
So concurrent calls can never spend more than the limit.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, Update, bindparam, case
from sqlalchemy.sql.dml import ReturningDelete

from artel import kill_points
from artel.budgets.money import dollars
from artel.budgets.usage import UsageRepository
from artel.db.rows import Later, Rows
from artel.db.tables import budgets, reservations, user_budgets
from artel.db.tenant import TenantRepository, prepared
from artel.db.tx import Tx
from artel.errors import AccountBudgetExceeded, BudgetExceeded


@dataclass(frozen=True, slots=True)
class UserMonth:
    """A user's limit for one month, in micros."""

    scope: str
    limit_micros: int


@dataclass(frozen=True, slots=True)
class Reservation:
    """The maximum cost of a model call, in micros, and the budgets that it draws on."""

    call_id: str
    budget_ids: Sequence[str]
    project_id: int
    turn_id: str
    micros: int
    user_month: UserMonth | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget: its limit, what is spent, and what running calls have reserved, in micros."""

    id: str
    project_id: int
    kind: str
    scope: str
    limit_micros: int
    spent_micros: int
    reserved_micros: int

    @property
    def left_micros(self) -> int:
        """Amount that is neither spent nor reserved."""
        return self.limit_micros - self.spent_micros - self.reserved_micros


class BudgetRepository(TenantRepository):
    """Budgets of one user's projects."""

    table = budgets

    def find(self, project_id: int, kind: str, scope: str) -> Budget | None:
        """Return the budget of a plan or of a project's month, if it exists."""
        row = self._find_one(budgets.c.project_id == project_id, budgets.c.kind == kind, budgets.c.scope == scope)
        return _budget(row) if row else None

    def get(self, budget_id: str) -> Budget | None:
        row = self._find_one(budgets.c.id == budget_id)
        return _budget(row) if row else None

    def lock(self, budget_id: str) -> Budget:
        """Lock an existing budget until the commit and return it."""
        statement = self._select().where(budgets.c.id == budget_id).with_for_update()
        return _budget(self.connection.execute(statement).one())

    def of_plans(self, project_id: int, workflow_ids: Collection[str]) -> list[Budget]:
        return [_budget(row) for row in self._find(*_of_plans(project_id, workflow_ids))]

    def remove_of_plans(self, project_id: int, workflow_ids: Collection[str]) -> None:
        """Remove the budgets of these workflows and their reservations."""
        self._remove(*_of_plans(project_id, workflow_ids))

    def add(self, budget: Budget) -> None:
        """Add a budget unless it exists."""
        values = {name: getattr(budget, name) for name in Budget.__slots__}
        self._insert_unless_exists(values | {"created_at": datetime.now(UTC)})

    def set_limit(self, budget_id: str, limit_micros: int) -> None:
        """Change the limit; what was spent stays spent."""
        self._change({"limit_micros": limit_micros}, budgets.c.id == budget_id)

    @prepared
    def _reserve(cls) -> Update:  # noqa: N805
        amount = bindparam("amount", type_=budgets.c.reserved_micros.type)
        taken = budgets.c.spent_micros + budgets.c.reserved_micros + amount
        changed = cls._prepare_update(reserved_micros=budgets.c.reserved_micros + amount)
        return changed.where(budgets.c.id == bindparam("budget"), taken <= budgets.c.limit_micros)

    @prepared
    def _settle(cls) -> Update:  # noqa: N805
        back = bindparam("back", type_=budgets.c.reserved_micros.type)
        cost = bindparam("cost", type_=budgets.c.spent_micros.type)
        return cls._prepare_update(
            reserved_micros=budgets.c.reserved_micros - back, spent_micros=budgets.c.spent_micros + cost
        ).where(budgets.c.id == bindparam("budget"))

    def reserve(self, budget_id: str, amount: int) -> bool:
        """Reserve an amount; return False if less is left."""
        return bool(self._run(self._reserve, budget=budget_id, amount=amount).rowcount)

    def in_lock_order(self, budget_ids: Collection[str]) -> list[str]:
        """Return budgets in lock order (plan, then project) to avoid deadlocks."""
        if len(budget_ids) <= 1:
            return list(budget_ids)
        statement = self._select(budgets.c.id).where(budgets.c.id.in_(list(budget_ids)))
        ordered = statement.order_by(case((budgets.c.kind == "plan", 0), else_=1), budgets.c.id)
        return list(self.connection.execute(ordered).scalars())

    def settle(self, budget_id: str, reserved: int, spent: int) -> None:
        self._run(self._settle, budget=budget_id, back=reserved, cost=spent)


class ReservationRepository(TenantRepository):
    """Reservations of one user's model calls."""

    table = reservations

    @prepared
    def _of_turn(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select(reservations.c.id).where(reservations.c.turn_id == bindparam("turn")).limit(1)

    def has_any(self, turn_id: str) -> Later[bool]:
        """Look whether a turn has reservations; a finished turn rarely has any."""
        rows = self._run(self._of_turn, turn=turn_id)
        return lambda: bool(rows.all())

    def add(self, reservation: Reservation) -> None:
        """Store a call's reservation in each of its budgets; the last row also counts against the user's month."""
        row = {
            "id": reservation.call_id,
            "project_id": reservation.project_id,
            "turn_id": reservation.turn_id,
            "micros": reservation.micros,
            "created_at": datetime.now(UTC),
        }
        rows = [row | {"budget_id": budget_id, "user_month": None} for budget_id in reservation.budget_ids]
        if reservation.user_month:
            rows[-1]["user_month"] = reservation.user_month.scope
        self._add(rows)

    def amount_of(self, call_id: str) -> int | None:
        """Return what a call has reserved in each of its budgets; None if nothing."""
        rows = self._find(reservations.c.id == call_id, limit=1)
        return rows[0].micros if rows else None

    def by_user_month(self, project_id: int | None = None) -> Counter[str]:
        """Return the amounts reserved in the user's months, of one project or all."""
        statement = self._select(reservations.c.user_month, reservations.c.micros)
        statement = statement.where(reservations.c.user_month.is_not(None))
        if project_id is not None:
            statement = statement.where(reservations.c.project_id == project_id)
        amounts = Counter[str]()
        for row in self.connection.execute(statement):
            amounts[row.user_month] += row.micros
        return amounts

    @prepared
    def _take(cls) -> ReturningDelete[Any]:  # noqa: N805
        return cls._prepare_delete().where(reservations.c.id == bindparam("call")).returning(*reservations.c)

    @prepared
    def _take_of_turn(cls) -> ReturningDelete[Any]:  # noqa: N805
        return cls._prepare_delete().where(reservations.c.turn_id == bindparam("turn")).returning(*reservations.c)

    def take(self, call_id: str) -> Rows:
        """Remove and return a call's reservations."""
        return self._run(self._take, call=call_id)

    def take_of_turn(self, turn_id: str) -> Rows:
        """Remove and return the reservations of all calls of a turn."""
        return self._run(self._take_of_turn, turn=turn_id)


class UserBudgetRepository(TenantRepository):
    """Amounts spent by one user, by month."""

    table = user_budgets

    def lock(self, scope: str) -> int:
        """Lock a month until the commit and return the amount spent in it."""
        row = self._select(user_budgets.c.spent_micros).where(user_budgets.c.scope == scope).with_for_update()
        spent: int | None = self.connection.execute(row).scalar_one_or_none()
        if spent is None:
            self._insert_unless_exists({"scope": scope, "spent_micros": self._cost_of_calls(scope)})
            spent = self.connection.execute(row).scalar_one()
        return spent

    def catch_up(self, scope: str) -> None:
        """Add what was spent while there was no limit."""
        missing = self._cost_of_calls(scope) - self.lock(scope)
        if missing > 0:
            self.spend({scope: missing})

    def _cost_of_calls(self, scope: str) -> int:
        return UsageRepository(self.connection, self.tenant).cost_of_month(scope)

    def spent(self, scope: str) -> int:
        """Return the amount spent in a month."""
        row = self._find_one(user_budgets.c.scope == scope)
        return row.spent_micros if row else 0

    def spend(self, costs: Mapping[str, int]) -> None:
        """Add the costs of calls, by month."""
        for scope, amount in costs.items():
            self._change({"spent_micros": user_budgets.c.spent_micros + amount}, user_budgets.c.scope == scope)


def reserve(tx: Tx, reservation: Reservation) -> None:
    """Reserve a call's maximum cost in each of its budgets; raise BudgetExceeded if one has too little left.

    Lock order: a plan's budget, its project's, its user's.
    """
    rows, amount, month = BudgetRepository(tx), reservation.micros, reservation.user_month
    for budget_id in reservation.budget_ids:
        if not rows.reserve(budget_id, amount):
            raise BudgetExceeded(_exceeded_text(rows.get(budget_id), amount), budget_id=budget_id)
    if month is not None:
        left = left_of_user(tx, month)
        if amount > left:
            raise AccountBudgetExceeded(
                f"Monthly budget of your account exceeded: the next call may cost ${dollars(amount):.4f}, and "
                f"${dollars(max(0, left)):.4f} of ${dollars(month.limit_micros):.2f} for {month.scope} is left. "
                "Ask an administrator to raise it, or wait for the next month."
            )
    ReservationRepository(tx).add(reservation)


def left_of_user(tx: Tx, month: UserMonth) -> int:
    """Lock a user's month until the commit and return what is neither spent nor reserved of it, in micros."""
    left = month.limit_micros - UserBudgetRepository(tx).lock(month.scope)
    left -= ReservationRepository(tx).by_user_month()[month.scope]
    return left


def _exceeded_text(budget: Budget | None, amount: int) -> str:
    if budget is None:
        return "The budget was deleted."
    name = "Plan budget" if budget.kind == "plan" else f"Monthly budget of the project for {budget.scope}"
    advice = "" if budget.kind == "plan" else " Raise it in the project's settings."
    return (
        f"{name} exceeded: the next call may cost ${dollars(amount):.4f}, and "
        f"${dollars(max(0, budget.left_micros)):.4f} of ${dollars(budget.limit_micros):.2f} is left.{advice}"
    )


@kill_points.transaction("money.settle")
def settle(tx: Tx, call_id: str, spent: int | None) -> None:
    """Replace a call's reservations with its cost; None (unknown) counts all that it reserved. Idempotent."""
    _settle(tx, ReservationRepository(tx).take(call_id), spent)


def settle_turn(tx: Tx, turn_id: str) -> None:
    """Count the reservations that a finished turn has left as spent: the cost of its lost calls is unknown."""
    settle_turn_later(tx, turn_id)()


def settle_turn_later(tx: Tx, turn_id: str) -> Later[None]:
    """Look for reservations of a turn that has ended; the result settles them as `settle_turn` does."""
    rows = ReservationRepository(tx)
    has_any = rows.has_any(turn_id)

    def settle_all() -> None:
        if has_any():
            _settle(tx, rows.take_of_turn(turn_id), None)

    return settle_all


def settle_project(tx: Tx, project_id: int) -> None:
    """Count the reservations of a project as spent before it is deleted."""
    UserBudgetRepository(tx).spend(ReservationRepository(tx).by_user_month(project_id))


def _settle(tx: Tx, removed: Rows, spent: int | None) -> None:
    by_budget, by_month = Counter[str](), Counter[str]()
    for row in removed:
        by_budget[row.budget_id] += row.micros
        if row.user_month is not None:
            by_month[row.user_month] += row.micros
    rows = BudgetRepository(tx)
    for budget_id in rows.in_lock_order(by_budget):
        reserved = by_budget[budget_id]
        rows.settle(budget_id, reserved, reserved if spent is None else spent)
    UserBudgetRepository(tx).spend(by_month if spent is None else dict.fromkeys(by_month, spent))


def _of_plans(project_id: int, workflow_ids: Collection[str]) -> tuple[ColumnElement[bool], ...]:
    return budgets.c.project_id == project_id, budgets.c.kind == "plan", budgets.c.scope.in_(list(workflow_ids))


def _budget(row: Row[Any]) -> Budget:
    return Budget(**{name: getattr(row, name) for name in Budget.__slots__})
