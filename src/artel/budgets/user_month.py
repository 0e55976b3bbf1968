"""Monthly limit of a user over all projects, set by an administrator."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, func

from artel.auth.principal import Principal
from artel.budgets.money import dollars
from artel.db.tables import reservations, usage, user_budgets
from artel.db.tenant import TenantRepository
from artel.errors import BudgetExceeded

NO_LIMIT = 2**62  # limit of a project's month when only its owner has a limit


@dataclass(frozen=True, slots=True)
class UserMonth:
    """A user's limit for one month, in micros."""

    scope: str
    limit_micros: int


def effective_limit(own: int | None, default: int | None) -> int | None:
    """Return a user's limit: the administrator's value (-1: no limit), else the server's default."""
    limit = default if own is None else own
    return None if limit is None or limit < 0 else limit


def this_month() -> str:
    """Return the current month as budget scope, such as 2026-11."""
    return f"{datetime.now(UTC):%Y-%m}"


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


def catch_up(connection: Connection, principal: Principal) -> None:
    """Add what the user spent this month before there was a limit."""
    UserBudgetRepository(connection, principal).catch_up(this_month())


def spent_by(connection: Connection, principal: Principal) -> int:
    """Return what a user with a limit has spent this month."""
    return UserBudgetRepository(connection, principal).spent(this_month())


def settle_project(connection: Connection, principal: Principal, project_id: int) -> None:
    """Count the reservations of a project as spent before it is deleted."""
    spend(connection, principal, _UserReservations(connection, principal).by_scope(project_id))
