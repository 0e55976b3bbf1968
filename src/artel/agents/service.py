"""Changes of agents, in the database and in the worker space that runs them."""

import asyncio

from artel.agent_memory import agent_changes
from artel.agents import transactions as agents
from artel.agents.agent_yaml import parse_agent
from artel.agents.repository import stored_bytes
from artel.auth.principal import Principal
from artel.contract.http import Agent, AgentChanges, NewAgent
from artel.contract.spaces import AgentStatusAnswer
from artel.errors import ServerBusy, SpaceUnavailable
from artel.logs import get_logger
from artel.per_user_locks import PerUserLock
from artel.plans.node_agents import is_on_node, node_for, usable_nodes
from artel.projects.transactions import project_settings
from artel.spaces.services import SpaceServices
from artel.spaces.space_rpc import SpaceRpc

MAX_IMPORTS = 4  # per user, running and queued

log = get_logger(__name__)


class AgentService:
    """Creates, changes and deletes agents."""

    def __init__(self, services: SpaceServices, space_rpc: SpaceRpc) -> None:
        self._services = services
        self._space_rpc = space_rpc
        self._imports = PerUserLock(1)  # reading YAML takes up to a second of CPU

    async def create(self, user: Principal, project_id: int, new: NewAgent) -> Agent:
        """Add an agent to the project, by default with the model of new agents."""
        if "model" not in new.model_fields_set:
            new = new.model_copy(update={"model": self._services.brain.default_model})
        self._require_allowed(new.model, new.fallback.model)
        max_agents = self._services.settings.max_agents_per_project
        async with self._services.storage.reserved(user, stored_bytes(new)):
            agent = await self._services.database.of(user).run(agents.create_agent, project_id, new, max_agents)
        await self._notify_space(user, project_id, "register", agent.id)
        return agent

    async def import_yaml(self, user: Principal, project_id: int, data: bytes, name: str | None) -> Agent:
        """Add the agent of a YAML file to the project, under its own name or another."""
        if self._imports.count(user.user_id) >= MAX_IMPORTS:
            raise ServerBusy("You already import several agents. Try again in a moment.", retry_after=1)
        async with self._imports.lock(user.user_id):
            new = await asyncio.to_thread(parse_agent, data)
        return await self.create(user, project_id, new if name is None else new.model_copy(update={"name": name}))

    async def update(self, user: Principal, project_id: int, agent_id: int, new: AgentChanges) -> Agent:
        """Change an agent."""
        self._require_allowed(new.model, new.fallback.model if new.fallback else None)
        old = await self._services.database.read(agents.get_agent, user, project_id, agent_id)
        changed = old.model_copy(update=new.model_dump(exclude_unset=True, include={"role", "system_prompt"}))
        async with self._services.storage.reserved(user, stored_bytes(changed) - stored_bytes(old)):
            agent = await self._services.database.of(user).run(agent_changes.update_agent, project_id, agent_id, new)
        await self._notify_space(user, project_id, "invalidate", agent_id)
        return agent

    async def delete(self, user: Principal, project_id: int, agent_id: int, *, archive: bool) -> None:
        """Delete an agent and its descendants with their task workspaces and memory; `archive` keeps the memory."""
        services = self._services
        family = await services.database.read(agents.family_of, user, project_id, agent_id)
        size = await services.database.read(agents.stored_bytes_of, user, family)
        await self._notify_space(user, project_id, "deregister", *family)
        deleted = await services.database.of(user).run(
            agent_changes.delete_agent, project_id, agent_id, archive=archive
        )
        services.storage.give_back(user, size)
        await self._notify_space(user, project_id, "remove", *deleted)
        await asyncio.to_thread(services.workspaces.remove, deleted)

    async def status(self, user: Principal, project_id: int, agent_id: int) -> AgentStatusAnswer:
        """Return what an agent does now, and whether it lacks a node."""
        status = await self._space_rpc.ask(user, project_id, "status", AgentStatusAnswer, agent_id)
        agent = await self._services.database.read(agents.get_agent, user, project_id, agent_id)
        if not is_on_node(agent):
            return status
        settings = await self._services.database.read(project_settings, user, project_id)
        nodes = await usable_nodes(self._services, settings.nodes_allowed)
        return status.model_copy(update={"node_lost": node_for(agent, nodes) is None})

    def _require_allowed(self, *models: str | None) -> None:
        """Raise ModelNotAllowed if agents may not use one of the models; None is a model that is not set."""
        for model in models:
            if model is not None:
                self._services.brain.require_allowed(model)

    async def _notify_space(self, user: Principal, project_id: int, operation: str, *agent_ids: int) -> None:
        """Notify the worker space of a change; if no process runs it, it will read the change from the database."""

        async def notify(agent_id: int) -> None:
            try:
                await self._space_rpc.do(user, project_id, operation, agent_id)
            except SpaceUnavailable as failure:
                log.warning("space_not_told", operation=operation, reason=failure.detail)

        await asyncio.gather(*map(notify, agent_ids))
