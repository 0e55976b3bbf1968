"""Which schema the database has, and how it gets the one that this version needs.

Revisions are numbers of four digits. A database may be ahead of a server, so that servers can be upgraded one after
another: the database itself says how old a version may be that still works with it.
"""

from pathlib import Path

from sqlalchemy import Connection, Engine, insert, inspect, select, text
from sqlalchemy.exc import DBAPIError

from artel.db.attempts import unavailable
from artel.db.tables import installation, metadata
from artel.errors import SchemaOutdated
from artel.ids import uuid7

HEAD = "0015"
FIRST = "0001"  # the oldest revision whose servers can work with a database of this one
MIGRATIONS = Path(__file__).parent / "migrations"


def current_revision(connection: Connection) -> str | None:
    """Return the revision that the database is at, or None for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return revision


def require_usable(connection: Connection) -> str:
    """Return the database's revision; raise unless this version can work with it."""
    revision = current_revision(connection)
    if revision is None or revision < HEAD:
        raise SchemaOutdated(
            f"The database is at schema {revision or 'none'}, this version of Artel needs {HEAD}. Run: artel db upgrade"
        )
    refuse_if_too_new(connection, revision)
    return revision


def refuse_if_too_new(connection: Connection, revision: str) -> None:
    """Raise when the database has moved on too far for this version."""
    if revision <= HEAD:
        return
    compatible_since: str = connection.execute(select(installation.c.compatible_since)).scalar_one()
    if compatible_since > HEAD:
        raise SchemaOutdated(
            f"The database is at schema {revision} and needs an Artel for schema {compatible_since} or later; "
            f"this one is for {HEAD}. Install a newer version."
        )


def installation_key(connection: Connection) -> str:
    """Return what tells this installation apart from others that share a Redis with it."""
    key: str = connection.execute(select(installation.c.key)).scalar_one()
    return key


def upgrade(engine: Engine) -> tuple[str | None, str]:
    """Bring the database to the schema of this version, in one transaction; return the revision before and after."""
    try:
        with engine.connect() as connection, connection.begin():
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('artel.migrations'))"))
            before = current_revision(connection)
            if before is None:
                _create(connection)
                return None, HEAD
            if before < HEAD:
                run_migrations(connection)
                return before, HEAD
            refuse_if_too_new(connection, before)
            return before, before
    except DBAPIError as failure:
        raise unavailable(failure) from failure


def _create(connection: Connection) -> None:
    """Make today's schema in an empty database: what all migrations would make, without importing Alembic for it."""
    metadata.create_all(connection)
    connection.execute(insert(installation).values(id=1, compatible_since=FIRST, key=uuid7()))
    connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(text("INSERT INTO alembic_version (version_num) VALUES (:head)"), {"head": HEAD})


def run_migrations(connection: Connection) -> None:
    """Bring the database from whatever revision it has to this version's, a step at a time."""
    # Imported only when there is something to do: it takes a third of a second.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
