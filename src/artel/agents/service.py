"""Changes of agents, in the database and in the worker space that runs them."""

import asyncio

from artel.agent_memory import changes
from artel.agents import transactions as agents
from artel.auth.principal import Principal
from artel.contract.http import Agent, AgentChanges, NewAgent
from artel.errors import SpaceUnavailable
from artel.logs import get_logger
from artel.spaces.services import SpaceServices
from artel.spaces.space_rpc import SpaceRpc

log = get_logger(__name__)


class AgentService:
    """Creates, changes and deletes agents."""

    def __init__(self, services: SpaceServices, space_rpc: SpaceRpc) -> None:
        self._services = services
        self._space_rpc = space_rpc

    async def create(self, user: Principal, project_id: int, new: NewAgent) -> Agent:
        """Add an agent to the project."""
        self._services.brain.require_allowed(new.model)
        max_agents = self._services.settings.max_agents_per_project
        agent = await self._services.database.of(user).run(agents.create_agent, project_id, new, max_agents)
        await self._notify_space(user, project_id, "register", agent.id)
        return agent

    async def update(self, user: Principal, project_id: int, agent_id: int, new: AgentChanges) -> Agent:
        """Change an agent."""
        if "model" in new.model_fields_set:
            self._services.brain.require_allowed(new.model)
        agent = await self._services.database.of(user).run(changes.update_agent, project_id, agent_id, new)
        await self._notify_space(user, project_id, "invalidate", agent_id)
        return agent

    async def delete(self, user: Principal, project_id: int, agent_id: int, *, archive: bool) -> None:
        """Delete an agent and its descendants with their task workspaces and memory; `archive` keeps the memory."""
        services = self._services
        family = await services.database.read(agents.family_of, user, project_id, agent_id)
        await self._notify_space(user, project_id, "deregister", *family)
        deleted = await services.database.of(user).run(changes.delete_agent, project_id, agent_id, archive=archive)
        await self._notify_space(user, project_id, "remove", *deleted)
        await asyncio.to_thread(services.workspaces.remove, deleted)

    async def _notify_space(self, user: Principal, project_id: int, operation: str, *agent_ids: int) -> None:
        """Notify the worker space of a change; if no process runs it, it will read the change from the database."""

        async def notify(agent_id: int) -> None:
            try:
                await self._space_rpc.ask(user, project_id, operation, agent_id)
            except SpaceUnavailable as failure:
                log.warning("space_not_told", operation=operation, reason=failure.detail)

        await asyncio.gather(*map(notify, agent_ids))
