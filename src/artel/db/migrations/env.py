"""Alembic environment: runs inside the transaction of `artel.db.schema.upgrade`."""

from alembic import context

from artel.db.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
context.run_migrations()
