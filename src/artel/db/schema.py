"""The revision of the database schema and its upgrade.

Revisions are numbers of four digits. For rolling upgrades the database may be ahead of a server:
`installation.compatible_since` is the oldest schema whose servers still work with it.
"""

from pathlib import Path

from sqlalchemy import Connection, Engine, insert, inspect, select, text
from sqlalchemy.exc import DBAPIError

from artel.db import (  # noqa: F401 - add their tables to the metadata
    attachment_tables,
    node_tables,
    search_tables,
    server_tables,
    tool_call_tables,
)
from artel.db.retries import unavailable
from artel.db.tables import installation, metadata
from artel.errors import SchemaOutdated
from artel.ids import uuid7

HEAD = "0030"
FIRST = "0001"  # the oldest revision whose servers work with this schema
MIGRATIONS = Path(__file__).parent / "migrations"


def current_revision(connection: Connection) -> str | None:
    """Return the revision of the database, or None if it is empty."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return revision


def require_usable(connection: Connection) -> str:
    """Return the revision of the database; raise SchemaOutdated if this version can't use it."""
    revision = current_revision(connection)
    if revision is None or revision < HEAD:
        raise SchemaOutdated(
            f"The database is at schema {revision or 'none'}, this version of Artel needs {HEAD}. Run: artel db upgrade"
        )
    refuse_if_too_new(connection, revision)
    return revision


def refuse_if_too_new(connection: Connection, revision: str) -> None:
    """Raise SchemaOutdated if the database is too new for this version."""
    if revision <= HEAD:
        return
    compatible_since: str = connection.execute(select(installation.c.compatible_since)).scalar_one()
    if compatible_since > HEAD:
        raise SchemaOutdated(
            f"The database is at schema {revision} and needs an Artel for schema {compatible_since} or later; "
            f"this one is for {HEAD}. Install a newer version."
        )


def installation_key(connection: Connection) -> str:
    """Return the unique key of this installation, which separates it from others on the same Redis."""
    key: str = connection.execute(select(installation.c.key)).scalar_one()
    return key


def upgrade(engine: Engine) -> tuple[str | None, str]:
    """Upgrade the schema to this version in one transaction; return the revisions before and after."""
    try:
        with engine.connect() as connection, connection.begin():
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('artel.migrations'))"))
                connection.execute(text("SET LOCAL statement_timeout = 0"))  # an index of a large table takes minutes
            before = current_revision(connection)
            if before is None:  # create the current schema, without importing Alembic
                metadata.create_all(connection)
                connection.execute(insert(installation).values(id=1, compatible_since=FIRST, key=uuid7()))
                connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
                connection.execute(text("INSERT INTO alembic_version (version_num) VALUES (:head)"), {"head": HEAD})
                return None, HEAD
            if before < HEAD:
                run_migrations(connection)
                return before, HEAD
            refuse_if_too_new(connection, before)
            return before, before
    except DBAPIError as failure:
        raise unavailable(failure) from failure


def run_migrations(connection: Connection) -> None:
    """Run all pending migrations."""
    # Imported only when needed: it takes a third of a second.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
