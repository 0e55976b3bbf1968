"""Rows of budgets, and of what calls have reserved of them.

A call to a model reserves the most that it can cost before it is made, in one statement that does nothing when there is
not enough left. So however many calls are made at once, never more is spent than the limit.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, Update, bindparam, case
from sqlalchemy.sql.dml import ReturningDelete

from artel.auth.principal import Principal
from artel.budgets.user_month import UserMonth, require_left, spend
from artel.db.prepared import Rows
from artel.db.tables import budgets, reservations
from artel.db.tenant import TenantRepository, prepared
from artel.errors import BudgetExceeded


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent, was spent, and is reserved by calls that are being made; in millionths of a dollar."""

    id: str
    project_id: int
    kind: str
    scope: str
    limit_micros: int
    spent_micros: int
    reserved_micros: int

    @property
    def left_micros(self) -> int:
        """What is neither spent nor reserved."""
        return self.limit_micros - self.spent_micros - self.reserved_micros


class BudgetRepository(TenantRepository):
    """Budgets of one user's projects."""

    table = budgets

    def find(self, project_id: int, kind: str, scope: str) -> Budget | None:
        """Return the budget of a plan, or of a project's month."""
        row = self.connection.execute(self._select().where(*_named(project_id, kind, scope))).one_or_none()
        return _budget(row) if row else None

    def get(self, budget_id: str) -> Budget | None:
        """Return a budget."""
        row = self.connection.execute(self._select().where(budgets.c.id == budget_id)).one_or_none()
        return _budget(row) if row else None

    def lock(self, budget_id: str) -> Budget:
        """Return a budget that exists, and which nobody else changes until the commit."""
        asked = self._select().where(budgets.c.id == budget_id).with_for_update()
        return _budget(self.connection.execute(asked).one())

    def of_plans(self, project_id: int, workflow_ids: Collection[str]) -> list[Budget]:
        """Return the budgets of some plans."""
        asked = self._select().where(*_of_plans(project_id, workflow_ids))
        return [_budget(row) for row in self.connection.execute(asked)]

    def remove_of_plans(self, project_id: int, workflow_ids: Collection[str]) -> None:
        """Remove the budgets of some plans, and what is reserved of them."""
        self.connection.execute(self._delete().where(*_of_plans(project_id, workflow_ids)))

    def add(self, budget: Budget) -> None:
        """Open a budget, unless it is open."""
        values = {name: getattr(budget, name) for name in Budget.__slots__}
        self._add_unless_there(values | {"created_at": datetime.now(UTC)})

    def set_limit(self, budget_id: str, limit_micros: int) -> None:
        """Let more be spent, or less; what was spent stays spent."""
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
        """Take an amount out of what is left; say whether there was as much."""
        return bool(self._run(self._reserve, budget=budget_id, amount=amount).rowcount)

    def in_order(self, budget_ids: Collection[str]) -> list[str]:
        """Return budgets as they are reserved of, a plan's before its project's: so nobody waits for each other."""
        if len(budget_ids) <= 1:
            return list(budget_ids)
        asked = self._select(budgets.c.id).where(budgets.c.id.in_(list(budget_ids)))
        ordered = asked.order_by(case((budgets.c.kind == "plan", 0), else_=1), budgets.c.id)
        return list(self.connection.execute(ordered).scalars())

    def settle(self, budget_id: str, reserved: int, spent: int) -> None:
        """Put back what was reserved, and count what was spent of it."""
        self._run(self._settle, budget=budget_id, back=reserved, cost=spent)


class ReservationRepository(TenantRepository):
    """What one user's calls to models have reserved."""

    table = reservations

    @prepared
    def _of_turn(cls) -> Select[Any]:  # noqa: N805
        return cls._prepare_select(reservations.c.id).where(reservations.c.turn_id == bindparam("turn")).limit(1)

    def has_any(self, turn_id: str) -> bool:
        """Return whether calls of a turn have reserved something; hardly any turn has, when it is over."""
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
        """Note what a call has reserved, of each budget that it draws on; the last also of the user's month."""
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
                row | {"budget_id": budget_id, "user_month": user_month if place == last else None}
                for place, budget_id in enumerate(budget_ids)
            ]
        )

    @prepared
    def _take(cls) -> ReturningDelete[Any]:  # noqa: N805
        gone = cls._prepare_delete().where(reservations.c.id == bindparam("call"))
        return gone.returning(reservations.c.budget_id, reservations.c.micros, reservations.c.user_month)

    @prepared
    def _take_of_turn(cls) -> ReturningDelete[Any]:  # noqa: N805
        gone = cls._prepare_delete().where(reservations.c.turn_id == bindparam("turn"))
        return gone.returning(reservations.c.budget_id, reservations.c.micros, reservations.c.user_month)

    def take(self, call_id: str) -> "Taken":
        """Remove what a call has reserved, and return how much of which budgets it was."""
        return _taken(self._run(self._take, call=call_id))

    def take_of_turn(self, turn_id: str) -> "Taken":
        """Remove what all calls of a turn have reserved, and return how much of which budgets it was."""
        return _taken(self._run(self._take_of_turn, turn=turn_id))


@dataclass(frozen=True, slots=True)
class Taken:
    """What was reserved, by budget and by month of the user."""

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
    """Reserve what a call may cost, of every budget that it draws on; raise BudgetExceeded if one has not enough.

    Lock order: a plan's budget, its project's, its user's.
    """
    rows = BudgetRepository(connection, principal)
    for budget_id in budget_ids:
        if not rows.reserve(budget_id, amount):
            raise BudgetExceeded(_words(rows.get(budget_id), amount), budget_id=budget_id)
    if user_month is not None:
        require_left(connection, principal, user_month, amount)
    scope = user_month.scope if user_month else None
    ReservationRepository(connection, principal).add(call_id, budget_ids, project_id, turn_id, amount, scope)


def settle(connection: Connection, principal: Principal, call_id: str, spent: int | None) -> None:
    """Count what a call has cost; None: nobody knows, so all that it had reserved. Doing it again does nothing."""
    _settle(connection, principal, ReservationRepository(connection, principal).take(call_id), spent)


def settle_turn(connection: Connection, principal: Principal, turn_id: str) -> None:
    """Take for spent what calls of a turn had reserved that is over: they died, and nobody knows what they cost."""
    rows = ReservationRepository(connection, principal)
    if rows.has_any(turn_id):
        _settle(connection, principal, rows.take_of_turn(turn_id), None)


def _settle(connection: Connection, principal: Principal, taken: Taken, spent: int | None) -> None:
    rows = BudgetRepository(connection, principal)
    for budget_id in rows.in_order(taken.budgets):
        reserved = taken.budgets[budget_id]
        rows.settle(budget_id, reserved, reserved if spent is None else spent)
    spend(connection, principal, {scope: most if spent is None else spent for scope, most in taken.user_months.items()})


def _taken(rows: Rows) -> Taken:
    taken = Taken({}, {})
    for row in rows:
        taken.budgets[row.budget_id] = taken.budgets.get(row.budget_id, 0) + row.micros
        if row.user_month is not None:
            taken.user_months[row.user_month] = taken.user_months.get(row.user_month, 0) + row.micros
    return taken


def _named(project_id: int, kind: str, scope: str) -> tuple[ColumnElement[bool], ...]:
    return budgets.c.project_id == project_id, budgets.c.kind == kind, budgets.c.scope == scope


def _of_plans(project_id: int, workflow_ids: Collection[str]) -> tuple[ColumnElement[bool], ...]:
    return budgets.c.project_id == project_id, budgets.c.kind == "plan", budgets.c.scope.in_(list(workflow_ids))


def _budget(row: Row[Any]) -> Budget:
    return Budget(**{name: getattr(row, name) for name in Budget.__slots__})


def _words(budget: Budget | None, amount: int) -> str:
    if budget is None:
        return "The budget is gone."
    whose = "the plan" if budget.kind == "plan" else f"the project in {budget.scope}"
    return (
        f"The next call may cost ${amount / 1e6:.4f}, and of the ${budget.limit_micros / 1e6:.2f} for {whose} "
        f"only ${max(0, budget.left_micros) / 1e6:.4f} are left."
    )
