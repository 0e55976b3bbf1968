"""Version number of a project's agents: a host in another process reloads them when it has changed."""

from artel.db.tables import spaces
from artel.db.tenant import TenantRepository


class AgentVersionRepository(TenantRepository):
    """Agent versions of one user's projects; a project whose worker space never ran has none."""

    table = spaces

    def raise_version(self, project_id: int) -> None:
        """Make the host of the space reload its agents before the next turn.

        Lock order: call this before locking an agent's row, because hosts lock the space first.
        """
        newer = {"config_version": spaces.c.config_version + 1}
        self.connection.execute(self._update(newer).where(spaces.c.project_id == project_id))
