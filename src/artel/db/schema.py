"""Which schema the database has, and how it gets the one that this version needs."""

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from artel.errors import SchemaOutdated

HEAD = "0001"
MIGRATIONS = Path(__file__).parent / "migrations"


def current_revision(connection: Connection) -> str | None:
    """Answer the revision that the database is at, or None for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return revision


def require_head(connection: Connection) -> None:
    """Raise unless the database has the schema of this version."""
    revision = current_revision(connection)
    if revision != HEAD:
        raise SchemaOutdated(
            f"The database is at schema {revision or 'none'}, this version of Artel needs {HEAD}. "
            "Run: artel db upgrade (with the newest version that ever used this database)"
        )


def upgrade(engine: Engine) -> tuple[str | None, str]:
    """Bring the database to the schema of this version, in one transaction; answer the revision before and after."""
    with engine.connect() as connection, connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('artel.migrations'))"))
        before = current_revision(connection)
        if before != HEAD:
            _run_migrations(connection, before)
        return before, HEAD


def _run_migrations(connection: Connection, before: str | None) -> None:
    # Imported only when there is something to do: it takes a third of a second.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if before is not None and before not in known:
        raise SchemaOutdated(
            f"The database is at schema {before}, which a newer version of Artel made. Install that one."
        )
    command.upgrade(config, "head")
