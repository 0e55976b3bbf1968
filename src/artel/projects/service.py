"""Creation and deletion of projects, with everything outside the database that belongs to them."""

import asyncio
from dataclasses import dataclass
from functools import partial

from artel.agents.repository import stored_bytes
from artel.agents.starter_pack import root_agent, starter_pack
from artel.auth.deletion import DeletedAccount
from artel.auth.principal import Principal
from artel.bus.bus import Bus
from artel.connector_gateway.connections import ConnectorConnections
from artel.contract.http import NewProject, ProjectWithAgents
from artel.contract.spaces import SpaceState
from artel.errors import ProjectNotFound, SpaceUnavailable
from artel.logs import get_logger
from artel.projects.deletion import delete_project
from artel.projects.node_notifications import tell_nodes
from artel.projects.transactions import ProjectRules, create_project
from artel.spaces.leases import owner_of_project
from artel.spaces.operations import Initiator, audited_reset
from artel.spaces.services import SpaceServices
from artel.spaces.space_rpc import SpaceRpc
from artel.spaces.spaces import Spaces

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ProjectService:
    """Creates and deletes projects and resets their spaces; `spaces` is None in a process that runs none."""

    services: SpaceServices
    space_rpc: SpaceRpc
    spaces: Spaces | None
    connections: ConnectorConnections
    bus: Bus

    @property
    def rules(self) -> ProjectRules:
        """The operator's limits and defaults for projects, with the models that are chosen now."""
        settings, brain = self.services.settings, self.services.brain
        return ProjectRules(
            max_projects=settings.max_projects_per_user,
            max_agents=settings.max_agents_per_project,
            planner_model=brain.planner_model,
            default_model=brain.default_model,
        )

    async def create(self, user: Principal, new: NewProject) -> ProjectWithAgents:
        """Create a project with the starter pack, and start its worker space."""
        rules = self.rules
        agents = root_agent(rules.planner_model), *starter_pack(rules.default_model)
        async with self.services.storage.reserved(user, sum(map(stored_bytes, agents))):
            project = await self.services.database.of(user).run(create_project, new, rules)
        try:
            await self.space_rpc.do(user, project.id, "ensure")
        except SpaceUnavailable as failure:  # the first message will start the space
            log.warning("space_not_begun", project_id=project.id, reason=failure.detail)
        return project

    async def delete(self, user: Principal, project_id: int) -> None:
        """Delete a project with its agents; the files in the user's folder are not touched."""
        services = self.services
        deleted_agents = await services.database.of(user).run(delete_project, project_id)
        if self.spaces is not None:
            await self.spaces.discard(project_id)
        self.connections.project_deleted(project_id)
        await asyncio.to_thread(services.workspaces.remove, deleted_agents)
        services.storage.forget(user.user_id)  # measured again, because the project's size is unknown
        await tell_nodes(self.bus, user.user_id, [project_id])

    async def account_deleted(self, deleted: DeletedAccount) -> None:
        """Remove what is left of a deleted account outside the database."""
        for project_id in deleted.project_ids:
            if self.spaces is not None:
                await self.spaces.discard(project_id)
            self.connections.project_deleted(project_id)
        await asyncio.to_thread(self.services.workspaces.remove, deleted.agent_ids)
        await tell_nodes(self.bus, deleted.user_id, deleted.project_ids)

    async def reset_space(self, user: Principal, project_id: int) -> SpaceState:
        """Stop all tasks of the user's project at once and restart its worker space."""
        await self._reset(user, project_id, "user", user)
        return await self.space_rpc.ask(user, project_id, "state", SpaceState)

    async def reset_space_as_administrator(self, administrator: Principal, project_id: int) -> None:
        """Reset the worker space of any user's project."""
        owner_id = await self.services.database.read(owner_of_project, project_id)
        if owner_id is None:
            raise ProjectNotFound("Project not found")
        await self._reset(Principal(owner_id), project_id, "administrator", administrator)

    async def _reset(self, owner: Principal, project_id: int, initiator: Initiator, by: Principal) -> None:
        reset = partial(self.space_rpc.do, owner, project_id, "reset")
        await audited_reset(self.services.database, owner, project_id, initiator, reset, by.user_id)
