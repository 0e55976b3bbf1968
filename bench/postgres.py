"""A private PostgreSQL server for a benchmark."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.running import artel, clean_environment
from tests.services import ServiceRun


@contextmanager
def postgres_database() -> Iterator[str]:
    """Start a server, create a database with the current schema, and yield its URL."""
    services = ServiceRun.create()
    try:
        admin = services.postgres()
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute("CREATE DATABASE bench")
        url = admin.rsplit("/", 1)[0] + "/bench"
        with tempfile.TemporaryDirectory() as folder:
            upgraded = artel("db", "upgrade", env=clean_environment(Path(folder), ARTEL_DATABASE_URL=url))
            assert upgraded.returncode == 0, upgraded.stderr
        yield url
    finally:
        services.stop()
