"""Which worker of pytest-xdist runs which tests."""

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """Runs the tests of a file on one worker, for each database: they share a server, which takes a second to start.

    Files stay in the order of collection: first all on SQLite, then all on PostgreSQL, then the rest, so that a worker
    changes the database once. `--dist` has no effect.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        parameters = test.partition("[")[2]
        database = next((name for name in ("sqlite", "postgres") if name in parameters), "")
        return f"{file} {database}"
