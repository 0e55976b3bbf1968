"""Tenant-scoped queries: the user is a constructor argument, so no query can be written without it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Protocol, overload

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Insert,
    LargeBinary,
    Row,
    Select,
    SelectBase,
    Table,
    Update,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.expression import UnaryExpression
from sqlalchemy.sql.operators import custom_op

from artel.db.dialect import insert_into
from artel.db.prepared import Statement
from artel.db.rows import Rows
from artel.db.tables import sessions, users
from artel.db.tx import Tx
from artel.errors import NotAuthenticated


class Tenant(Protocol):
    """The user that data belongs to."""

    @property
    def user_id(self) -> int: ...


OWNER = "owner_user_id"


class prepared:  # noqa: N801 - used as a decorator
    """A statement of a repository that is built once, because building takes longer than running it.

    The decorated function takes the repository's class and returns the statement, which must filter by owner.
    """

    def __init__(self, build: Callable[[Any], SelectBase | UpdateBase]) -> None:
        self._build = build
        self._statement: Statement | None = None

    def __get__(self, _instance: object, owner: type) -> Statement:
        if self._statement is None:
            statement = self._build(owner)
            if OWNER not in statement.compile().params:
                raise ValueError(f"a statement of {owner.__name__} does not filter by owner")
            self._statement = Statement(statement)
        return self._statement


class TenantRepository:
    """Rows of one table that belong to one user.

    Subclasses build every statement with the methods below; `scripts/check_tenant_scope.py` enforces it.
    """

    table: ClassVar[Table]

    @overload
    def __init__(self, tx: Tx, /) -> None: ...
    @overload
    def __init__(self, connection: Connection, tenant: Tenant, /) -> None: ...
    def __init__(self, scope: Tx | Connection, tenant: Tenant | None = None, /) -> None:
        self.connection, owner = (scope.connection, scope.principal) if isinstance(scope, Tx) else (scope, tenant)
        if owner is None:
            raise ValueError("rows have an owner")
        self.tenant: Tenant = owner

    @classmethod
    def _prepare_select(cls, *columns: ColumnElement[Any]) -> Select[Any]:
        return select(*(columns or cls.table.c)).select_from(cls.table).where(cls._owned())

    @classmethod
    def _of_owner(cls, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return a column of the owner's account for use in a prepared statement."""
        return select(column).where(users.c.id == bindparam(OWNER)).scalar_subquery()

    @classmethod
    def _project_of_session(cls) -> ColumnElement[int]:
        """Return the project of the owner's session `session` for use in a prepared statement."""
        is_session = sessions.c.user_id == bindparam(OWNER), sessions.c.id == bindparam("session")
        return select(sessions.c.project_id).where(*is_session).scalar_subquery()

    @classmethod
    def _prepare_update(cls, **values: Any) -> Update:
        if "user_id" in values:
            raise ValueError("rows never change their owner")
        return update(cls.table).where(cls._owned()).values(**values)

    @classmethod
    def _prepare_insert(cls, **values: Any) -> Insert:
        return insert(cls.table).values(user_id=bindparam(OWNER), **values).inline()

    @classmethod
    def _prepare_delete(cls) -> Delete:
        return delete(cls.table).where(cls._owned())

    def _run(self, statement: Statement, **parameters: Any) -> Rows:
        """Run a prepared statement for the owner."""
        parameters[OWNER] = self.tenant.user_id
        return statement.run(self.connection, parameters)

    def _transition(self, values: Mapping[str, Any], before: Iterable[str], **row: Any) -> bool:
        """Update the row with these columns if its status is in `before`; return whether it was updated."""
        if "user_id" in values:
            raise ValueError("rows never change their owner")
        statement = _update_statement(self.table, tuple(values), tuple(before), tuple(row))
        named = {f"new_{name}": value for name, value in values.items()} | {f"of_{name}": row[name] for name in row}
        return bool(self._run(statement, **named).rowcount)

    def _add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows, which all have the same columns, without returning them."""
        owned = [{**row, "user_id": self.tenant.user_id} for row in rows]
        if owned:
            _insert_into(self.table, tuple(owned[0])).run_many(self.connection, owned)

    def _select(self, *columns: ColumnElement[Any], by_key: bool = False) -> Select[Any]:
        """Select rows of the owner.

        With `by_key` the rows are found by another condition, such as ids, and the owner is only compared: otherwise
        SQLite may prefer an index that begins with the owner, and read all rows of the owner.
        """
        foreign = [column for column in columns if getattr(column, "table", self.table) is not self.table]
        if foreign:
            raise ValueError(f"{foreign} are not columns of {self.table.name}, and would be selected without an owner")
        mine = self._mine_by_key() if by_key else self._mine()
        return select(*(columns or self.table.c)).select_from(self.table).where(mine)

    def _ranked(self, rank: int) -> Select[Any]:
        """Select id, time and a constant rank, to order rows of a session together with those of other tables."""
        columns = self.table.c.id, self.table.c.created_at.label("at"), literal(rank).label("rank")
        return select(*columns).where(self._mine_by_key())

    def _update(self, values: Mapping[str, Any]) -> Update:
        if "user_id" in values:
            raise ValueError("rows never change their owner")
        return update(self.table).where(self._mine()).values(**values)

    def _delete(self) -> Delete:
        return delete(self.table).where(self._mine())

    def _insert(self, rows: Sequence[Mapping[str, Any]]) -> Sequence[Row[Any]]:
        statement = insert(self.table).returning(*self.table.c, sort_by_parameter_order=True)
        return self.connection.execute(statement, [{**row, "user_id": self.tenant.user_id} for row in rows]).all()

    def _insert_one(self, values: Mapping[str, Any]) -> None:
        """Insert a row whose values may be SQL expressions."""
        self.connection.execute(insert(self.table).values({**values, "user_id": self.tenant.user_id}))

    def _insert_unless_exists(self, values: Mapping[str, Any]) -> None:
        """Insert a row unless one with the same key exists."""
        added = insert_into(self.connection, self.table).values({**values, "user_id": self.tenant.user_id})
        self.connection.execute(added.on_conflict_do_nothing())

    def _find(
        self,
        *conditions: ColumnElement[bool],
        columns: Sequence[ColumnElement[Any]] = (),
        order_by: Sequence[ColumnElement[Any]] = (),
        limit: int | None = None,
        offset: int | None = None,
        by_key: bool = False,
    ) -> Sequence[Row[Any]]:
        """Return the rows that meet the conditions, with all columns or some; for `by_key` see `_select`."""
        selected = self._select(*columns, by_key=by_key)
        found = selected.where(*conditions).order_by(*order_by).limit(limit).offset(offset)
        return self.connection.execute(found).all()

    def _find_one(self, *conditions: ColumnElement[bool]) -> Row[Any] | None:
        return self.connection.execute(self._select().where(*conditions)).one_or_none()

    def _change(self, values: Mapping[str, Any], *conditions: ColumnElement[bool]) -> bool:
        """Update the rows that meet the conditions; return whether there are any."""
        return bool(self.connection.execute(self._update(values).where(*conditions)).rowcount)

    def _remove(self, *conditions: ColumnElement[bool]) -> bool:
        """Delete the rows that meet the conditions; return whether there were any."""
        return bool(self.connection.execute(self._delete().where(*conditions)).rowcount)

    def _count(self, *conditions: ColumnElement[bool], by_key: bool = False) -> int:
        selected = self._select(func.count(), by_key=by_key)
        return int(self.connection.execute(selected.where(*conditions)).scalar_one())

    def _bytes_of(self, column: ColumnElement[Any], *conditions: ColumnElement[bool]) -> int:
        """Return the total size of a text column in bytes."""
        is_sqlite = self.connection.dialect.name == "sqlite"
        size = func.length(cast(column, LargeBinary)) if is_sqlite else func.octet_length(column)
        total = self._select(func.coalesce(func.sum(size), 0)).where(*conditions)
        return int(self.connection.execute(total).scalar_one())

    def lock_owner(self) -> None:
        """Lock the user's account row until the commit, so that counting and adding rows don't race."""
        active = users.c.id == self.tenant.user_id, users.c.deleted_at.is_(None)
        if self.connection.execute(select(users.c.id).where(*active).with_for_update(key_share=True)).first() is None:
            raise NotAuthenticated("The account does not exist any more.")

    def _mine(self) -> ColumnElement[bool]:
        return self.table.c.user_id == self.tenant.user_id

    def _mine_by_key(self) -> ColumnElement[bool]:
        """Return the condition as an expression that no index has."""
        return UnaryExpression(self.table.c.user_id, operator=custom_op("+")) == self.tenant.user_id

    @classmethod
    def _owned(cls) -> ColumnElement[bool]:
        return cls.table.c.user_id == bindparam(OWNER)


@lru_cache(maxsize=100)
def _update_statement(
    table: Table, values: tuple[str, ...], before: tuple[str, ...], row: tuple[str, ...]
) -> Statement:
    new = {name: bindparam(f"new_{name}", type_=table.c[name].type) for name in values}
    same_row = [table.c[name] == bindparam(f"of_{name}") for name in row]
    status_before = or_(*(table.c.status == status for status in before))
    return Statement(update(table).where(table.c.user_id == bindparam(OWNER), *same_row, status_before).values(**new))


@lru_cache(maxsize=100)
def _insert_into(table: Table, columns: tuple[str, ...]) -> Statement:
    return Statement(insert(table), columns)
