"""Builds and closes the server's services."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from sqlalchemy import Connection

from artel.agent_memory.service import Memories
from artel.agents.service import AgentService
from artel.approvals.service import ApprovalService
from artel.auth.jwks import KeySet
from artel.auth.login import Login
from artel.auth.passwords import Passwords
from artel.auth.principal import Principal
from artel.auth.secret import load_or_make_secret
from artel.auth.service import AccountService
from artel.auth.tokens import Tokens
from artel.brain.router import BrainRouter, ModelRules
from artel.budgets.money import micros
from artel.bus.bus import Bus
from artel.connector_gateway.connections import ConnectorConnections
from artel.connector_gateway.relay import Relay
from artel.contract.events import StoredEvent
from artel.data_folder import DataFolder
from artel.db import schema
from artel.db.engine import Database
from artel.db.tenant import Tenant
from artel.events.event_pulse import EventPulse
from artel.events.hints import (
    MemoriesChanged,
    ProjectChanged,
    QuestionOver,
    SessionChanged,
    TurnParked,
    TurnStopped,
    WorkWaiting,
)
from artel.events.hub import EventHub, Readers
from artel.events.project_log import read_project_events
from artel.events.session_log import read_events
from artel.events.signals import Signals
from artel.ids import uuid7
from artel.logs import get_logger
from artel.plans.orchestrator import Orchestrator
from artel.plans.service import WorkflowService
from artel.projects.service import ProjectService
from artel.projects.transactions import ProjectRules
from artel.runs.host import Host, Job
from artel.sessions.service import SessionService
from artel.settings import Settings
from artel.spaces import leases
from artel.spaces.agent_cache import SharedCache
from artel.spaces.chat_figures import ChatFigures
from artel.spaces.project_events import ProjectEventWriter
from artel.spaces.services import AlertLimits, FamilyLimits, SpaceServices, TimeLimits
from artel.spaces.space_rpc import SpaceRpc
from artel.spaces.spaces import Spaces
from artel.task_workspaces.service import TaskWorkspaces
from artel.task_workspaces.storage_quota import StorageQuota
from artel.task_workspaces.task_workspace import Quota
from artel.turns.service import ChatService
from artel.turns.transactions import TurnAccepted
from artel.turns.waiters import Ended, TurnWaiters
from artel.vector_index.providers import MemorySettings, make_embedder, make_store

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Container:
    """The services of a running server."""

    settings: Settings
    folder: DataFolder
    database: Database
    passwords: Passwords
    tokens: Tokens
    login: Login
    project_rules: ProjectRules
    memories: Memories
    workspaces: TaskWorkspaces
    storage: StorageQuota
    brain: BrainRouter
    bus: Bus
    hub: EventHub
    project_hub: EventHub
    pulses: tuple[EventPulse, ...]
    signals: Signals
    turn_waiters: TurnWaiters
    space_rpc: SpaceRpc
    connector_connections: ConnectorConnections
    relay: Relay
    host: Host | None
    spaces: Spaces | None
    registry: CollectorRegistry
    opened: AsyncExitStack
    chat: ChatService
    sessions: SessionService
    approvals: ApprovalService
    workflows: WorkflowService
    agents: AgentService
    projects: ProjectService
    accounts: AccountService

    @classmethod
    async def open(cls, settings: Settings) -> "Container":
        """Build and start all services; close those already opened if one fails."""
        opened = AsyncExitStack()
        try:
            folder = DataFolder.open(settings.data_dir, lock_beside=settings.sqlite_file)
            opened.callback(folder.close)
            database = await opened.enter_async_context(usable_database(settings))
            memories = await opened.enter_async_context(usable_memories(settings, database))
            bus = await _open_bus(settings)
            opened.push_async_callback(bus.close)
            cache = await _shared_cache(settings, database)
            container = cls._build(settings, folder, database, memories, bus, cache, opened)
            if not settings.is_embedded:
                for pulse in container.pulses:
                    opened.push_async_callback(pulse.close)
                    pulse.start()
                container.relay.start()
            if container.host is not None:
                opened.push_async_callback(container.stop)
                await container.host.start(container.space_rpc)
            memories.start(container.is_busy)
        except BaseException:
            await opened.aclose()
            raise
        return container

    @classmethod
    def _build(
        cls,
        settings: Settings,
        folder: DataFolder,
        database: Database,
        memories: Memories,
        bus: Bus,
        cache: SharedCache,
        opened: AsyncExitStack,
    ) -> "Container":
        passwords, tokens = Passwords(), make_tokens(settings)
        registry = CollectorRegistry()
        readers = Readers(settings.max_streams_per_user)
        hub = EventHub(_reader(database, read_events), readers)
        project_hub = EventHub(_reader(database, read_project_events), readers)
        # Without a bus other processes get no signals and poll the database.
        alone = settings.is_embedded or settings.bus_url is None
        signals = Signals(hub, project_hub, None if alone else bus)
        turn_waiters = TurnWaiters()
        brain = BrainRouter(os.environ, model_rules(settings))
        project_events, process_id = ProjectEventWriter(database), uuid7()
        connector_connections = ConnectorConnections(
            database, process_id, project_events.add, settings.max_connectors_per_user
        )
        relay = Relay(database, signals, connector_connections, process_id)
        signals.on("work", relay.work)
        workspaces = task_workspaces(settings)
        storage = StorageQuota(database, workspaces, settings.user_storage_bytes)
        space_services = SpaceServices(
            database=database,
            brain=brain,
            memories=memories,
            shared_cache=cache,
            hub=hub,
            signals=signals,
            turn_waiters=turn_waiters,
            project_events=project_events,
            relay=relay,
            figures=ChatFigures(registry),
            workspaces=workspaces,
            storage=storage,
            limits=TimeLimits(
                without_progress=settings.progress_timeout_seconds,
                task=settings.task_timeout_seconds,
                idle_space=settings.space_idle_seconds,
                drain=settings.drain_seconds,
                lease=settings.host_lease_seconds,
                beyond_repair=settings.space_reset_after_seconds,
            ),
            alerts=AlertLimits(
                error_rate=settings.alert_error_rate,
                queued_tasks=settings.alert_queued_tasks,
                uptime=settings.space_max_uptime_hours * 3600,
            ),
            cached_agents=settings.agent_cache_size,
            fallback_model=settings.fallback_model,
            max_context_tokens=settings.max_context_tokens,
            user_monthly_micros=None
            if settings.user_monthly_budget_usd is None
            else micros(settings.user_monthly_budget_usd),
            is_demo=not brain.configured,
            families=FamilyLimits(
                depth=settings.max_family_depth,
                children=settings.max_children_per_agent,
                agents=settings.max_agents_per_project,
            ),
        )
        spaces, host = None, None
        if settings.role != "api":
            host_id = None if settings.is_embedded else uuid7()
            spaces = Spaces(space_services, host_id)
            host = Host(space_services, spaces, Orchestrator(settings.planner_model), host_id)
            signals.on("work", host.work)
            signals.on("cancelled", host.cancelled)
            signals.on("agents", host.agents_changed)
        signals.on("session", turn_waiters.session_changed)
        send_hints(space_services, host)
        for close in (cache.close, brain.close, hub.close, project_hub.close, project_events.close, relay.close):
            opened.push_async_callback(close)
        rules = ProjectRules(
            max_projects=settings.max_projects_per_user,
            max_agents=settings.max_agents_per_project,
            planner_model=settings.planner_model,
        )
        space_rpc = SpaceRpc(database, signals, space_services, spaces)
        chat = ChatService(space_services, host, spaces)
        return cls(
            settings=settings,
            folder=folder,
            database=database,
            passwords=passwords,
            tokens=tokens,
            login=Login(database, passwords, tokens),
            project_rules=rules,
            memories=memories,
            workspaces=workspaces,
            storage=storage,
            brain=brain,
            bus=bus,
            hub=hub,
            project_hub=project_hub,
            pulses=(
                EventPulse(hub, lambda ids: database.read(leases.last_events, ids)),
                EventPulse(project_hub, lambda ids: database.read(leases.last_project_events, ids)),
            ),
            signals=signals,
            turn_waiters=turn_waiters,
            space_rpc=space_rpc,
            connector_connections=connector_connections,
            relay=relay,
            host=host,
            spaces=spaces,
            registry=registry,
            opened=opened,
            chat=chat,
            sessions=SessionService(space_services, settings.search_seconds),
            approvals=ApprovalService(space_services, settings.planner_model),
            workflows=WorkflowService(database, chat),
            agents=AgentService(space_services, brain, space_rpc),
            projects=ProjectService(space_services, rules, space_rpc, spaces, connector_connections),
            accounts=AccountService(database, storage),
        )

    def is_busy(self) -> bool:
        """Return whether turns run in this process, so that background work should wait."""
        return self.host is not None and self.host.busy

    def begin_shutdown(self) -> None:
        """End all event streams and start no more turns."""
        for hub in (self.hub, self.project_hub):
            hub.end_readers()
        if self.host is not None:
            self.host.stop()
        else:
            self.turn_waiters.let_go()

    async def stop(self) -> None:
        """Wait for running turns and close the worker spaces."""
        await self.space_rpc.close()
        if self.host is not None:
            await self.host.close()

    async def close(self) -> None:
        """Close all services in reverse order."""
        self.passwords.close()
        self.signals.close()
        await self.opened.aclose()


def send_hints(services: SpaceServices, host: Host | None) -> None:
    """Connect the hints of committed transactions with those who wait for them."""
    on_commit, signals = services.database.on_commit, services.signals
    on_commit(SessionChanged, lambda hint: signals.session_changed(hint.session_id))
    on_commit(ProjectChanged, lambda hint: signals.project_changed(hint.project_id))
    on_commit(TurnStopped, lambda hint: signals.cancelled(hint.turn_id))
    on_commit(QuestionOver, lambda hint: services.relay.stop_asking(Principal(hint.user_id), [hint]))
    on_commit(MemoriesChanged, lambda _: services.memories.wake())
    on_commit(TurnParked, lambda hint: services.turn_waiters.parked(hint.turn_id))
    on_commit(Ended, services.turn_waiters.tell)
    on_commit(WorkWaiting, lambda hint: signals.work(hint.project_id))
    on_commit(TurnAccepted, lambda hint: signals.work(hint.turn.project_id))
    if host is not None:
        on_commit(WorkWaiting, lambda hint: host.work(hint.project_id))
        on_commit(TurnAccepted, lambda hint: host.take(Job(hint.principal, hint.turn, hint.text)))


def _reader(
    database: Database, read: Callable[[Connection, Tenant, str, int, int], Sequence[StoredEvent]]
) -> Callable[[Tenant, str, int, int], Awaitable[list[StoredEvent]]]:
    async def page(tenant: Tenant, key: str, after: int, limit: int) -> list[StoredEvent]:
        return list(await database.read(read, tenant, key, after, limit))

    return page


async def _open_bus(settings: Settings) -> Bus:
    if settings.bus_url is None:
        from artel.bus.local import LocalBus
        from artel.bus.local_broker import LocalBroker

        return LocalBus(LocalBroker())
    from artel.bus.rabbit import RabbitBus  # lazy: slow to import, and most servers have no RabbitMQ

    return await RabbitBus.connect(settings.bus_url.get_secret_value())


async def _shared_cache(settings: Settings, database: Database) -> SharedCache:
    if settings.redis_url is None:
        return SharedCache()
    from artel.spaces.redis_cache import RedisCache

    return RedisCache(settings.redis_url.get_secret_value(), await database.read(schema.installation_key))


def open_database(settings: Settings) -> Database:
    """Return the configured database, unconnected."""
    return Database(
        settings.sqlalchemy_url,
        connections=settings.database_connections,
        synchronous=settings.sqlite_synchronous,
    )


@asynccontextmanager
async def usable_database(settings: Settings) -> AsyncIterator[Database]:
    """Open the configured database; upgrade the schema of SQLite, check that of PostgreSQL."""
    database = open_database(settings)
    try:
        if settings.is_embedded:
            await asyncio.to_thread(schema.upgrade, database.engine)
        else:
            await database.read(schema.require_usable)
        yield database
    finally:
        await database.close()


def task_workspaces(settings: Settings) -> TaskWorkspaces:
    """Return the agents' task workspaces; creates nothing on disk."""
    quota = Quota(settings.workspace_max_bytes, settings.workspace_max_files)
    return TaskWorkspaces(settings.workspaces_dir or settings.data_dir, quota)


def model_rules(settings: Settings) -> ModelRules:
    """Return the rules for models; models without a known price are allowed only by a rule."""
    chosen = [model for model in (settings.planner_model, settings.fallback_model) if model]
    return ModelRules(settings.models_allowed, settings.models_unpriced or (), chosen)


def memory_settings(settings: Settings) -> MemorySettings:
    """Return the settings of the agents' memory."""
    url, key = settings.qdrant_url, settings.qdrant_api_key
    return MemorySettings(
        data_dir=settings.data_dir,
        provider=settings.memory_provider,
        url=url.get_secret_value() if url else None,
        api_key=key.get_secret_value() if key else None,
        layout=settings.qdrant_layout,
        embedding_model=settings.embedding_model,
        embedding_dimensions=settings.embedding_dimensions,
    )


@asynccontextmanager
async def usable_memories(settings: Settings, database: Database) -> AsyncIterator[Memories]:
    """Open the agents' memory; index and embedding model are loaded on first use."""
    chosen = memory_settings(settings)
    embedder = make_embedder(chosen)
    memories = Memories(database, make_store(chosen, embedder), embedder)
    try:
        yield memories
    finally:
        await memories.close()


def make_tokens(settings: Settings) -> Tokens:
    """Return the token service of these settings."""
    secret = settings.jwt_secret.get_secret_value() if settings.jwt_secret else load_or_make_secret(settings.data_dir)
    keys = KeySet(settings.jwks_url.get_secret_value()) if settings.jwks_url else None
    return Tokens(secret, settings.token_lifetime_seconds, keys, settings.issuer or "", settings.audience or "")
