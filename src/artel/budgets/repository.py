"""Rows of budgets and reservations.

Before a model call, its maximum cost is reserved by one conditional UPDATE that changes nothing if too little is left.
So concurrent calls can never spend more than the limit.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, Update, bindparam, case, func
from sqlalchemy.sql.dml import ReturningDelete

from artel.auth.principal import Principal
from artel.budgets.money import dollars
from artel.db.prepared import Rows
from artel.db.tables import budgets, reservations, usage, user_budgets
from artel.db.tenant import TenantRepository, prepared
from artel.errors import BudgetExceeded


@dataclass(frozen=True, slots=True)
class UserMonth:
    """A user's limit for one month, in micros."""

    scope: str
    limit_micros: int


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
        row = self.connection.execute(self._select().where(*_named(project_id, kind, scope))).one_or_none()
        return _budget(row) if row else None

    def get(self, budget_id: str) -> Budget | None:
        """Return a budget, if it exists."""
        row = self.connection.execute(self._select().where(budgets.c.id == budget_id)).one_or_none()
        return _budget(row) if row else None

    def lock(self, budget_id: str) -> Budget:
        """Lock an existing budget until the commit and return it."""
        statement = self._select().where(budgets.c.id == budget_id).with_for_update()
        return _budget(self.connection.execute(statement).one())

    def of_plans(self, project_id: int, workflow_ids: Collection[str]) -> list[Budget]:
        """Return the budgets of these workflows."""
        statement = self._select().where(*_of_plans(project_id, workflow_ids))
        return [_budget(row) for row in self.connection.execute(statement)]

    def remove_of_plans(self, project_id: int, workflow_ids: Collection[str]) -> None:
        """Remove the budgets of these workflows and their reservations."""
        self.connection.execute(self._delete().where(*_of_plans(project_id, workflow_ids)))

    def add(self, budget: Budget) -> None:
        """Add a budget unless it exists."""
        values = {name: getattr(budget, name) for name in Budget.__slots__}
        self._insert_unless_exists(values | {"created_at": datetime.now(UTC)})

    def set_limit(self, budget_id: str, limit_micros: int) -> None:
        """Change the limit; what was spent stays spent."""
        self.connection.execute(self._update({"limit_micros": limit_micros}).where(budgets.c.id == budget_id))

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
        """Replace a reservation with what was spent."""
        self._run(self._settle, budget=budget_id, back=reserved, cost=spent)


class ReservationRepository(TenantRepository):
    """Reservations of one user's model calls."""

    table = reservations

    @prepared
    def _of_turn(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select(reservations.c.id).where(reservations.c.turn_id == bindparam("turn")).limit(1)

    def has_any(self, turn_id: str) -> bool:
        """Return whether a turn has reservations; a finished turn rarely has any."""
        return self._run(self._of_turn, turn=turn_id).one_or_none() is not None

    def add(
        self,
        call_id: str,
        budget_ids: Sequence[str],
        project_id: int,
        turn_id: str,
        amount: int,
        user_month: str | None = None,
    ) -> None:
        """Store a call's reservation in each of its budgets; the last row also counts against the user's month."""
        row = {
            "id": call_id,
            "project_id": project_id,
            "turn_id": turn_id,
            "micros": amount,
            "created_at": datetime.now(UTC),
        }
        last = len(budget_ids) - 1
        self._add(
            [
                row | {"budget_id": budget_id, "user_month": user_month if index == last else None}
                for index, budget_id in enumerate(budget_ids)
            ]
        )

    @prepared
    def _take(cls) -> ReturningDelete[Any]:  # noqa: N805
        deleted = cls._prepare_delete().where(reservations.c.id == bindparam("call"))
        return deleted.returning(reservations.c.budget_id, reservations.c.micros, reservations.c.user_month)

    @prepared
    def _take_of_turn(cls) -> ReturningDelete[Any]:  # noqa: N805
        deleted = cls._prepare_delete().where(reservations.c.turn_id == bindparam("turn"))
        return deleted.returning(reservations.c.budget_id, reservations.c.micros, reservations.c.user_month)

    def take(self, call_id: str) -> "RemovedReservations":
        """Remove a call's reservations and return their amounts."""
        return _sum_reservations(self._run(self._take, call=call_id))

    def take_of_turn(self, turn_id: str) -> "RemovedReservations":
        """Remove the reservations of all calls of a turn and return their amounts."""
        return _sum_reservations(self._run(self._take_of_turn, turn=turn_id))


@dataclass(frozen=True, slots=True)
class RemovedReservations:
    """Reserved amounts in micros, by budget and by the user's month."""

    budgets: dict[str, int]
    user_months: dict[str, int]


def reserve(
    connection: Connection,
    principal: Principal,
    call_id: str,
    budget_ids: Sequence[str],
    project_id: int,
    turn_id: str,
    amount: int,
    user_month: UserMonth | None = None,
) -> None:
    """Reserve a call's maximum cost in each of its budgets; raise BudgetExceeded if one has too little left.

    Lock order: a plan's budget, its project's, its user's.
    """
    rows = BudgetRepository(connection, principal)
    for budget_id in budget_ids:
        if not rows.reserve(budget_id, amount):
            raise BudgetExceeded(_exceeded_text(rows.get(budget_id), amount), budget_id=budget_id)
    if user_month is not None:
        require_left(connection, principal, user_month, amount)
    scope = user_month.scope if user_month else None
    ReservationRepository(connection, principal).add(call_id, budget_ids, project_id, turn_id, amount, scope)


def settle(connection: Connection, principal: Principal, call_id: str, spent: int | None) -> None:
    """Replace a call's reservations with its cost; None (unknown) counts all that it reserved. Idempotent."""
    _settle(connection, principal, ReservationRepository(connection, principal).take(call_id), spent)


def settle_turn(connection: Connection, principal: Principal, turn_id: str) -> None:
    """Count the reservations that a finished turn has left as spent: the cost of its lost calls is unknown."""
    rows = ReservationRepository(connection, principal)
    if rows.has_any(turn_id):
        _settle(connection, principal, rows.take_of_turn(turn_id), None)


def _settle(connection: Connection, principal: Principal, removed: RemovedReservations, spent: int | None) -> None:
    rows = BudgetRepository(connection, principal)
    for budget_id in rows.in_lock_order(removed.budgets):
        reserved = removed.budgets[budget_id]
        rows.settle(budget_id, reserved, reserved if spent is None else spent)
    spend(
        connection,
        principal,
        {scope: reserved if spent is None else spent for scope, reserved in removed.user_months.items()},
    )


def _sum_reservations(rows: Rows) -> RemovedReservations:
    sums = RemovedReservations({}, {})
    for row in rows:
        sums.budgets[row.budget_id] = sums.budgets.get(row.budget_id, 0) + row.micros
        if row.user_month is not None:
            sums.user_months[row.user_month] = sums.user_months.get(row.user_month, 0) + row.micros
    return sums


def _named(project_id: int, kind: str, scope: str) -> tuple[ColumnElement[bool], ...]:
    return budgets.c.project_id == project_id, budgets.c.kind == kind, budgets.c.scope == scope


def _of_plans(project_id: int, workflow_ids: Collection[str]) -> tuple[ColumnElement[bool], ...]:
    return budgets.c.project_id == project_id, budgets.c.kind == "plan", budgets.c.scope.in_(list(workflow_ids))


def _budget(row: Row[Any]) -> Budget:
    return Budget(**{name: getattr(row, name) for name in Budget.__slots__})


def _exceeded_text(budget: Budget | None, amount: int) -> str:
    if budget is None:
        return "The budget was deleted."
    name = "Plan budget" if budget.kind == "plan" else f"Monthly budget of the project for {budget.scope}"
    advice = "" if budget.kind == "plan" else " Raise it in the project's settings."
    return (
        f"{name} exceeded: the next call may cost ${amount / 1e6:.4f}, and ${max(0, budget.left_micros) / 1e6:.4f} "
        f"of ${budget.limit_micros / 1e6:.2f} is left.{advice}"
    )


class UserBudgetRepository(TenantRepository):
    """Amounts spent by one user, by month."""

    table = user_budgets

    def lock(self, scope: str) -> int:
        """Lock a month until the commit and return the amount spent in it."""
        row = self._select(user_budgets.c.spent_micros).where(user_budgets.c.scope == scope).with_for_update()
        spent: int | None = self.connection.execute(row).scalar_one_or_none()
        if spent is None:
            self._insert_unless_exists({"scope": scope, "spent_micros": self._used(scope)})
            spent = self.connection.execute(row).scalar_one()
        return spent

    def catch_up(self, scope: str) -> None:
        """Add what was spent while there was no limit."""
        missing = self._used(scope) - self.lock(scope)
        if missing > 0:
            self.spend(scope, missing)

    def _used(self, scope: str) -> int:
        return _Usage(self.connection, self.tenant).cost(scope)

    def spent(self, scope: str) -> int:
        """Return the amount spent in a month."""
        row = self._select(user_budgets.c.spent_micros).where(user_budgets.c.scope == scope)
        return self.connection.execute(row).scalar_one_or_none() or 0

    def spend(self, scope: str, amount: int) -> None:
        """Add the cost of a call."""
        changed = self._update({"spent_micros": user_budgets.c.spent_micros + amount})
        self.connection.execute(changed.where(user_budgets.c.scope == scope))


class _Usage(TenantRepository):
    table = usage

    def cost(self, scope: str) -> int:
        """Return the cost of a month's calls whose price is known."""
        days = usage.c.day >= f"{scope}-01", usage.c.day <= f"{scope}-31"
        total: int = self.connection.execute(
            self._select(func.coalesce(func.sum(usage.c.cost_micros), 0)).where(*days)
        ).scalar_one()
        return int(total)


class _UserReservations(TenantRepository):
    table = reservations

    def by_scope(self, project_id: int | None = None) -> dict[str, int]:
        """Return the reserved amounts by month, of one project or all."""
        drawn = self._select(reservations.c.user_month, reservations.c.micros)
        drawn = drawn.where(reservations.c.user_month.is_not(None))
        if project_id is not None:
            drawn = drawn.where(reservations.c.project_id == project_id)
        amounts: dict[str, int] = {}
        for row in self.connection.execute(drawn):
            amounts[row.user_month] = amounts.get(row.user_month, 0) + row.micros
        return amounts


def require_left(connection: Connection, principal: Principal, month: UserMonth, amount: int) -> None:
    """Raise BudgetExceeded if a call exceeds the user's monthly limit; locks the month until the commit."""
    spent = UserBudgetRepository(connection, principal).lock(month.scope)
    reserved = _UserReservations(connection, principal).by_scope().get(month.scope, 0)
    left = month.limit_micros - spent - reserved
    if amount > left:
        raise BudgetExceeded(
            f"Monthly budget exceeded: the next call may cost ${dollars(amount):.4f}, and ${dollars(max(0, left)):.4f} "
            f"of your ${dollars(month.limit_micros):.2f} for {month.scope} is left. Ask an administrator to raise it."
        )


def spend(connection: Connection, principal: Principal, costs: Mapping[str, int]) -> None:
    """Add the costs of calls, by month."""
    rows = UserBudgetRepository(connection, principal)
    for scope, amount in costs.items():
        rows.spend(scope, amount)


def settle_project(connection: Connection, principal: Principal, project_id: int) -> None:
    """Count the reservations of a project as spent before it is deleted."""
    spend(connection, principal, _UserReservations(connection, principal).by_scope(project_id))
