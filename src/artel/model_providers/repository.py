"""Rows of providers and settings. They belong to the server, so nothing here is scoped to a user."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from artel.auth.audit_log import Action, record
from artel.db.dialect import insert_into
from artel.db.hints import ServerSettingsChanged
from artel.db.server_tables import model_providers, server_settings
from artel.db.tables import installation
from artel.db.tx import Tx
from artel.errors import LimitReached, ProviderExists, ProviderNotFound

MAX_PROVIDERS = 50
# What the audit log calls the columns that administrators change.
_AUDITED = {"name": "name", "base_url": "base_url", "encrypted_key": "api_key"}


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """A provider as it is stored."""

    id: int
    kind: str
    name: str
    prefix: str
    base_url: str | None
    encrypted_key: str | None = field(repr=False)
    key_hint: str | None
    status: str
    error: str | None
    tested_at: datetime | None
    latency_ms: int | None
    models: Sequence[str]


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """What administrators have stored, and its version, which each change raises."""

    version: int
    providers: Sequence[ProviderRow]
    settings: Mapping[str, Any]


def settings_version(connection: Connection) -> int:
    """Return a number that each change raises."""
    return int(connection.execute(select(installation.c.settings_version)).scalar_one())


def read_stored(connection: Connection) -> StoredSettings:
    """Return everything that administrators have stored."""
    version = settings_version(connection)
    providers = [_provider(row) for row in connection.execute(select(model_providers).order_by(model_providers.c.id))]
    settings = {row.name: row.value for row in connection.execute(select(server_settings))}
    return StoredSettings(version, providers, settings)


def get_provider(connection: Connection, provider_id: int) -> ProviderRow:
    """Return a provider, or raise ProviderNotFound."""
    row = connection.execute(select(model_providers).where(model_providers.c.id == provider_id)).one_or_none()
    if row is None:
        raise ProviderNotFound(f"There is no provider {provider_id}. GET /admin/providers lists them.")
    return _provider(row)


def add_provider(tx: Tx, values: Mapping[str, Any]) -> ProviderRow:
    """Add a provider; raise ProviderExists if another one has its prefix."""
    _note_change(tx)
    if tx.connection.execute(select(func.count()).select_from(model_providers)).scalar_one() >= MAX_PROVIDERS:
        raise LimitReached(f"A server can have at most {MAX_PROVIDERS} providers. Remove one first.")
    now = datetime.now(UTC)
    new = {"status": "untested", "models": [], "created_at": now, "updated_at": now, **values}
    try:
        row = tx.connection.execute(insert(model_providers).values(new).returning(*model_providers.c)).one()
    except IntegrityError:
        raise ProviderExists(
            f"A provider whose models begin with {values['prefix']}/ exists already. Change that one; for another "
            "server add an OpenAI-compatible server with another name."
        ) from None
    record(tx.connection, Action.PROVIDER_ADDED, tx.principal, target=values["name"])
    return _provider(row)


def change_provider(tx: Tx, provider_id: int, before: ProviderRow, values: Mapping[str, Any]) -> ProviderRow:
    """Change a provider that is as it was read; raise ProviderExists if it was changed meanwhile."""
    _note_change(tx)
    current = get_provider(tx.connection, provider_id)
    if (current.base_url, current.encrypted_key) != (before.base_url, before.encrypted_key):
        raise ProviderExists("The provider was changed by another request. Try again.")
    if values:
        changed = update(model_providers).where(model_providers.c.id == provider_id)
        tx.connection.execute(changed.values(updated_at=datetime.now(UTC), **values))
        fields = ", ".join(_AUDITED[name] for name in sorted(values.keys() & _AUDITED.keys()))
        record(tx.connection, Action.PROVIDER_CHANGED, tx.principal, target=current.name, detail=fields)
    return get_provider(tx.connection, provider_id)


def note_test(tx: Tx, tested: ProviderRow, values: Mapping[str, Any]) -> ProviderRow:
    """Store the result of a test, unless address or key were changed meanwhile."""
    _note_change(tx)
    current = get_provider(tx.connection, tested.id)
    if (current.base_url, current.encrypted_key) == (tested.base_url, tested.encrypted_key):
        changed = update(model_providers).where(model_providers.c.id == tested.id)
        tx.connection.execute(changed.values(tested_at=datetime.now(UTC), **values))
    return get_provider(tx.connection, tested.id)


def remove_provider(tx: Tx, provider_id: int, settings: Sequence[str]) -> None:
    """Remove a provider with its key, and the settings that name one of its models."""
    _note_change(tx)
    removed = get_provider(tx.connection, provider_id)
    record(tx.connection, Action.PROVIDER_DELETED, tx.principal, target=removed.name)
    tx.connection.execute(delete(model_providers).where(model_providers.c.id == provider_id))
    tx.connection.execute(delete(server_settings).where(server_settings.c.name.in_(settings)))


def set_settings(tx: Tx, values: Mapping[str, Any]) -> None:
    """Store settings; None removes one."""
    _note_change(tx)
    record(tx.connection, Action.SETTINGS_CHANGED, tx.principal, detail=", ".join(sorted(values)))
    for name, value in values.items():
        if value is None:
            tx.connection.execute(delete(server_settings).where(server_settings.c.name == name))
            continue
        new = {"value": value, "updated_at": datetime.now(UTC)}
        added = insert_into(tx.connection, server_settings).values(name=name, **new)
        tx.connection.execute(added.on_conflict_do_update(index_elements=["name"], set_=new))


def _note_change(tx: Tx) -> None:
    """Raise the version, which also serialises changes, and announce the change after the commit."""
    raised = installation.c.settings_version + 1
    tx.connection.execute(update(installation).values(settings_version=raised))
    tx.after_commit(ServerSettingsChanged())


def _provider(row: Row[Any]) -> ProviderRow:
    return ProviderRow(**{name: getattr(row, name) for name in ProviderRow.__dataclass_fields__})
