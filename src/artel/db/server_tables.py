"""Tables of the server itself: what administrators change while it runs. They have no owner."""

from sqlalchemy import JSON, Column, Integer, String, Table, Text, UniqueConstraint

from artel.db.columns import Id, Moment
from artel.db.tables import metadata

# Providers of models. Names of models that begin with `prefix` belong to a provider.
model_providers = Table(
    "model_providers",
    metadata,
    Column("id", Id, primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("name", String(60), nullable=False),
    Column("prefix", String(63), nullable=False),
    Column("base_url", String(500)),  # NULL: the provider's own address
    Column("encrypted_key", Text),
    Column("key_hint", String(4)),
    Column("status", String(10), nullable=False),  # of the last test
    Column("error", Text),
    Column("tested_at", Moment),
    Column("latency_ms", Integer),
    Column("models", JSON, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    UniqueConstraint("prefix"),
    sqlite_autoincrement=True,
)

# Settings that administrators have changed. Those of the environment win.
server_settings = Table(
    "server_settings",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", JSON, nullable=False),
    Column("updated_at", Moment, nullable=False),
)
