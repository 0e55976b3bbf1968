"""The fencing check of worker spaces' leases, with which every transaction of a host begins."""

from typing import Any

from sqlalchemy import Select, bindparam

from artel.db.prepared import check_after_send
from artel.db.rows import Later
from artel.db.tables import spaces
from artel.db.tenant import TenantRepository, prepared
from artel.db.tx import Lease


class LeaseLost(Exception):
    """Another host took the worker space over: this one must not write for it any more."""

    is_agents_fault = False


class LeaseRepository(TenantRepository):
    """Leases of the worker spaces of one user's projects."""

    table = spaces

    @prepared
    def _shared(cls) -> Select[Any]:  # noqa: N805
        return (
            cls._prepare_select(spaces.c.config_version)
            .where(
                spaces.c.project_id == bindparam("project"),
                spaces.c.owner == bindparam("holder"),
                spaces.c.epoch == bindparam("held_epoch"),
            )
            .with_for_update(read=True)
        )

    def share(self, lease: Lease) -> Later[int]:
        """Lock the lease until the commit; the result returns the version of the agents.

        It raises LeaseLost if the lease is gone, and so does the first statement whose result is read.
        """
        held = {"project": lease.project_id, "holder": lease.owner, "held_epoch": lease.epoch}
        rows = self._run(self._shared, **held)

        def version() -> int:
            config_version: int | None = rows.scalar_one_or_none()
            if config_version is None:
                raise LeaseLost
            return config_version

        check_after_send(self.connection, version)
        return version

    def epoch(self, project_id: int) -> int:
        """Return the current epoch of a space; 0 if it never had a lease."""
        epoch = self._select(spaces.c.epoch).where(spaces.c.project_id == project_id)
        return self.connection.execute(epoch).scalar_one_or_none() or 0
