"""The right to run a project's turns: who holds it, and the check that every transaction of a host begins with."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, bindparam

from artel.db.tables import spaces
from artel.db.tenant import Tenant, TenantRepository, prepared


class LeaseLost(Exception):
    """Another host runs the worker space now: nothing may be written for it here."""

    is_agents_fault = False


@dataclass(frozen=True, slots=True)
class Lease:
    """A host's hold on a worker space; an embedded server needs none."""

    project_id: int
    owner: str
    epoch: int


class LeaseRepository(TenantRepository):
    """Who runs the worker spaces of one user's projects."""

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
        """Keep others from taking the space over until the commit; return the version of the project's agents."""
        held = {"project": lease.project_id, "holder": lease.owner, "held_epoch": lease.epoch}
        version: int | None = self._run(self._shared, **held).scalar_one_or_none()
        if version is None:
            raise LeaseLost
        return version

    def epoch(self, project_id: int) -> int:
        """Return how often the space was taken over; 0 if nobody ever had to."""
        asked = self._select(spaces.c.epoch).where(spaces.c.project_id == project_id)
        return self.connection.execute(asked).scalar_one_or_none() or 0


def current_epoch(connection: Connection, tenant: Tenant, project_id: int) -> int:
    """Return the epoch that whoever runs the project's worker space has."""
    return LeaseRepository(connection, tenant).epoch(project_id)


def require_lease(connection: Connection, tenant: Tenant, project_id: int, lease: Lease | None) -> int:
    """Raise LeaseLost unless the lease still holds; return the version of the project's agents."""
    if lease is None:
        return 0
    if lease.project_id != project_id:
        raise LeaseLost
    return LeaseRepository(connection, tenant).share(lease)
