"""Leases of worker spaces, and the fencing check with which every transaction of a host begins."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, bindparam

from artel.db.tables import spaces
from artel.db.tenant import Tenant, TenantRepository, prepared


class LeaseLost(Exception):
    """Another host took the worker space over: this one must not write for it any more."""

    is_agents_fault = False


@dataclass(frozen=True, slots=True)
class Lease:
    """A host's lease of a worker space; `epoch` is the fencing token. An embedded server has none."""

    project_id: int
    owner: str
    epoch: int


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

    def share(self, lease: Lease) -> int:
        """Lock the lease until the commit and return the version of the agents; raise LeaseLost if it is gone."""
        held = {"project": lease.project_id, "holder": lease.owner, "held_epoch": lease.epoch}
        version: int | None = self._run(self._shared, **held).scalar_one_or_none()
        if version is None:
            raise LeaseLost
        return version

    def epoch(self, project_id: int) -> int:
        """Return the current epoch of a space; 0 if it never had a lease."""
        epoch = self._select(spaces.c.epoch).where(spaces.c.project_id == project_id)
        return self.connection.execute(epoch).scalar_one_or_none() or 0


def current_epoch(connection: Connection, tenant: Tenant, project_id: int) -> int:
    """Return the epoch of the project's worker space."""
    return LeaseRepository(connection, tenant).epoch(project_id)


def require_lease(connection: Connection, tenant: Tenant, project_id: int, lease: Lease | None) -> int:
    """Raise LeaseLost unless the lease still holds; return the version of the project's agents."""
    if lease is None:
        return 0
    if lease.project_id != project_id:
        raise LeaseLost
    return LeaseRepository(connection, tenant).share(lease)
