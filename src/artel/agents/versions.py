"""The version of a project's agents, by which a host in another process sees that it has to load them again."""

from artel.db.tables import spaces
from artel.db.tenant import TenantRepository


class AgentVersionRepository(TenantRepository):
    """Versions of the agents of one user's projects; a project whose worker space was never run has none."""

    table = spaces

    def raise_version(self, project_id: int) -> None:
        """Let whoever runs the space load its agents again before the next turn.

        To be called before an agent's row is locked: hosts lock the space first, and then what it refers to.
        """
        newer = {"config_version": spaces.c.config_version + 1}
        self.connection.execute(self._update(newer).where(spaces.c.project_id == project_id))
