"""Builds and closes the server's services."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from artel.agent_memory.service import Memories
from artel.agents.service import AgentService
from artel.approvals.service import ApprovalService
from artel.attachments.service import AttachmentService
from artel.auth.jwks import KeySet
from artel.auth.login import Login
from artel.auth.passwords import Passwords
from artel.auth.principal import Principal
from artel.auth.secret import load_or_make_secret
from artel.auth.service import AccountService
from artel.auth.tokens import Tokens
from artel.brain.router import BrainRouter, ModelChoice
from artel.bus.bus import Bus
from artel.bus.local import LocalBroker, LocalBus
from artel.connector_gateway.connections import ConnectorConnections
from artel.connector_gateway.folder_control import FolderControl
from artel.connector_gateway.relay import Relay
from artel.data_folder import DataFolder
from artel.db import schema
from artel.db.engine import Database, open_database
from artel.db.hints import (
    AgentListChanged,
    AgentsChanged,
    ApprovalRequested,
    CallWaiting,
    MemoriesChanged,
    ProjectChanged,
    ProjectDeleted,
    QuestionOver,
    ServerSettingsChanged,
    SessionHasEvents,
    SessionListChanged,
    TitleWanted,
    TurnParked,
    TurnStopped,
    WorkWaiting,
)
from artel.events.hub import EventHub, Readers
from artel.events.project_log import ProjectEventWriter, read_project_events
from artel.events.session_log import read_events
from artel.events.signals import Signals
from artel.ids import uuid7
from artel.model_providers.catalogue import ModelCatalogue
from artel.model_providers.service import ModelProviders, model_rules
from artel.per_user_locks import PerUserSemaphore
from artel.plans.orchestrator import Orchestrator
from artel.plans.service import WorkflowService
from artel.poller import Poller
from artel.projects.service import ProjectService
from artel.projects.transactions import ProjectRules
from artel.registry.node_client import NodeClient
from artel.registry.service import NodeRegistry
from artel.runs.host import Host
from artel.sessions.export import SessionExport
from artel.sessions.message_indexer import MessageIndexer
from artel.sessions.service import SessionService
from artel.sessions.titles import Titles
from artel.settings import Settings
from artel.spaces.agent_cache import SharedCache
from artel.spaces.figures import ChatFigures
from artel.spaces.leases import last_events, last_project_events
from artel.spaces.services import SpaceServices
from artel.spaces.space_rpc import SpaceRpc
from artel.spaces.spaces import Spaces
from artel.system_state import SystemReporter
from artel.task_workspaces.service import TaskWorkspaces
from artel.task_workspaces.storage_quota import StorageQuota
from artel.task_workspaces.task_workspace import Quota
from artel.tools.web import WebTools
from artel.turns.activity import ActivityService
from artel.turns.sent_messages import QueuedTextChanged
from artel.turns.service import ChatService
from artel.turns.transactions import QueuedTurn
from artel.turns.waiters import Ended, TurnWaiters
from artel.vector_index.providers import make_embedder, make_store

if TYPE_CHECKING:
    from artel.events.postgres_hints import PostgresHints

PULSE_SECONDS = 1.0
MAX_DOWNLOADS = 4  # of a user at the same time: each holds a file of up to 10 MB in memory


class Container:
    """The services of a running server."""

    def __init__(
        self,
        settings: Settings,
        folder: DataFolder,
        database: Database,
        memories: Memories,
        bus: Bus,
        cache: SharedCache,
        opened: AsyncExitStack,
    ) -> None:
        self.settings, self.folder, self.database, self.memories = settings, folder, database, memories
        self._opened, self.bus = opened, bus
        secret = server_secret(settings)
        self.passwords, self.tokens = Passwords(), make_tokens(settings, secret)
        self.login = Login(database, self.passwords, self.tokens, settings.registration_open)
        self.registry, self.turn_waiters = CollectorRegistry(), TurnWaiters()
        self.brain = make_brain(settings)
        self.model_providers = ModelProviders(settings, database, self.brain, self.login, secret)
        self.model_catalogue = ModelCatalogue(self.brain, self.model_providers.fetch)
        readers = Readers(settings.max_streams_per_user)
        self.hub = EventHub(lambda *page: database.read(read_events, *page), readers)
        self.project_hub = EventHub(lambda *page: database.read(read_project_events, *page), readers)
        self.postgres_hints = _postgres_hints(settings, secret)
        hints = None if settings.is_embedded else self.postgres_hints or bus
        self.signals = Signals(self.hub, self.project_hub, hints)
        project_events, process_id = ProjectEventWriter(database), uuid7()
        self.connector_connections = ConnectorConnections(
            database, process_id, project_events.add, settings.max_connectors_per_user
        )
        self.relay = Relay(database, self.connector_connections, process_id)
        self.folder_control = FolderControl(database, self.relay, project_events.add)
        self.signals.on("work", self.relay.work)
        self.workspaces, self.downloads = task_workspaces(settings), PerUserSemaphore(MAX_DOWNLOADS)
        self.storage = StorageQuota(database, self.workspaces, settings.user_storage_bytes)
        web = WebTools(settings.web_rules, settings.searxng_url)
        for service in (cache, self.brain, self.hub, self.project_hub, project_events, self.relay, web):
            opened.push_async_callback(service.close)
        figures = ChatFigures(self.registry)
        self.nodes = make_registry(settings, database, bus, figures)
        self.node_client = NodeClient(bus, database, self.nodes, fails_over=settings.node_failover)
        self.node_names: list[str] = []  # of the nodes inside this process
        self._add_services(
            SpaceServices(
                settings=settings,
                database=database,
                brain=self.brain,
                memories=memories,
                shared_cache=cache,
                hub=self.hub,
                signals=self.signals,
                turn_waiters=self.turn_waiters,
                project_events=project_events,
                relay=self.relay,
                figures=figures,
                workspaces=self.workspaces,
                storage=self.storage,
                web=web,
                nodes=self.node_client,
            )
        )

    @classmethod
    async def open(cls, settings: Settings) -> "Container":
        """Build and start all services; close those already opened if one fails."""
        settings = _with_node_key(settings)
        opened = AsyncExitStack()
        try:
            folder = DataFolder.open(settings.data_dir, lock_beside=settings.sqlite_file)
            opened.callback(folder.close)
            database = await opened.enter_async_context(usable_database(settings))
            memories = await opened.enter_async_context(usable_memories(settings, database))
            broker = LocalBroker()
            bus: Bus = LocalBus(broker)
            if settings.bus_url is not None:
                from artel.bus.rabbit import RabbitBus  # lazy: slow to import, and most servers have no RabbitMQ

                bus = await RabbitBus.connect(settings.bus_url.get_secret_value())
            opened.push_async_callback(bus.close)
            cache = SharedCache()
            if settings.redis_url is not None:
                from artel.spaces.redis_cache import RedisCache

                installation = await database.read(schema.installation_key)
                cache = RedisCache(settings.redis_url.get_secret_value(), installation)
            container = cls(settings, folder, database, memories, bus, cache, opened)
            await container.model_providers.load()
            if not settings.is_embedded:
                container.follow_others()
            if container.host is not None:
                opened.push_async_callback(container.nodes.close)
                await container.nodes.start()
                opened.push_async_callback(container.node_client.close)
                await container.node_client.start()
                if settings.nodes_dir is not None:
                    await container.start_nodes(settings.nodes_dir, broker)
                opened.push_async_callback(container.attachments.cleaning.close)
                container.attachments.cleaning.start()
                container.attachments.cleaning.wake()  # servers that are often restarted do it too
                message_indexer = MessageIndexer(database)
                opened.push_async_callback(message_indexer.close)
                message_indexer.start()
                opened.push_async_callback(container.stop)
                await container.host.start(container.space_rpc)
            memories.start(container.is_busy)
        except BaseException:
            await opened.aclose()
            raise
        return container

    def follow_others(self) -> None:
        """Look for what other processes change: at once when they signal it, and regularly."""
        database, opened = self.database, self._opened
        settings = Poller("settings", self.model_providers.refresh, PULSE_SECONDS, "settings_not_read")
        self.signals.on("settings", settings.wake)
        polls = (
            lambda: self.hub.poll(lambda ids: database.read(last_events, ids)),
            lambda: self.project_hub.poll(lambda ids: database.read(last_project_events, ids)),
        )
        events = (Poller("events", poll, PULSE_SECONDS, "events_not_looked_for") for poll in polls)
        for poller in (settings, *events):
            opened.push_async_callback(poller.close)
            poller.start()
            self.signals.on("missed", poller.wake)
        self.relay.start()
        self.signals.on("missed", lambda: self.relay.work(0))
        if self.postgres_hints is not None:
            opened.push_async_callback(self.postgres_hints.close)
            self.postgres_hints.start()

    async def start_nodes(self, folder: Path, broker: LocalBroker) -> None:
        """Start the agents of a folder as nodes in this process."""
        from artel.nodes.connection import LocalConnection, NodeConnection, RabbitConnection
        from artel.nodes.embedded import EmbeddedNodes  # lazy: most servers run no nodes

        url = self.settings.bus_url

        def connect(name: str) -> NodeConnection:
            return LocalConnection(broker, name) if url is None else RabbitConnection(url.get_secret_value(), name)

        embedded = await EmbeddedNodes.start(folder, connect, self.settings)
        self._opened.push_async_callback(embedded.close)
        self.node_names = [node.name for node in embedded.nodes]

    def _add_services(self, services: SpaceServices) -> None:
        """Add the host, unless this process serves the API only, and what endpoints call."""
        settings = self.settings
        self.host: Host | None = None
        self.spaces: Spaces | None = None
        if settings.role != "api":
            host_id = None if settings.is_embedded else uuid7()
            self.spaces = Spaces(services, host_id)
            self.host = Host(services, self.spaces, Orchestrator().run, host_id)
            self.signals.on("work", self.host.work)
            self.signals.on("cancelled", self.host.cancelled)
            self.signals.on("agents", self.host.agents_changed)
            self.signals.on("missed", self.host.signals_missed)
        self.signals.on("session", self.turn_waiters.session_changed)
        send_hints(services, self.host)
        titles = Titles(services, self.is_busy)
        self._opened.push_async_callback(titles.close)
        services.database.on_commit(TitleWanted, titles.wanted)
        self.space_rpc = SpaceRpc(self.database, self.spaces)
        self.chat = ChatService(services, self.host, self.spaces)
        self.attachments = AttachmentService(self.database, self.storage)
        self.sessions = SessionService(services, settings.search_seconds)
        self.activity = ActivityService(self.database)
        self.system = SystemReporter(settings, self.database, self.memories, self.nodes, self.brain)
        self.approvals = ApprovalService(services)
        self.workflows = WorkflowService(self.database, self.chat)
        self.export = SessionExport(self.database, self.workflows)
        self.agents = AgentService(services, self.space_rpc)
        self.projects = ProjectService(services, self.space_rpc, self.spaces, self.connector_connections, self.bus)
        self.accounts = AccountService(self.database, self.storage, self.passwords, self.projects)

    @property
    def project_rules(self) -> ProjectRules:
        """The operator's limits and defaults for projects."""
        return self.projects.rules

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
            self.turn_waiters.stop_waiting()

    async def stop(self) -> None:
        """Wait for running turns and close the worker spaces."""
        await self.space_rpc.close()
        if self.host is not None:
            await self.host.close()

    async def close(self) -> None:
        """Close all services in reverse order."""
        self.passwords.close()
        self.signals.close()
        await self._opened.aclose()


def _postgres_hints(settings: Settings, secret: str) -> "PostgresHints | None":
    """Return what signals other processes if there is no RabbitMQ; None if it does, or there are none."""
    if settings.is_embedded or settings.bus_url is not None:
        return None
    from artel.events.postgres_hints import PostgresHints  # lazy: imports psycopg, which SQLite does not need

    return PostgresHints(settings.psycopg_url, secret)


def send_hints(services: SpaceServices, host: Host | None) -> None:
    """Connect the hints of committed transactions with those who wait for them."""
    on_commit, signals = services.database.on_commit, services.signals
    on_commit(SessionHasEvents, lambda hint: signals.session_changed(hint.session_id))
    changed = services.project_events.session_changed
    on_commit(SessionListChanged, lambda hint: changed(Principal(hint.user_id), hint.project_id, hint.session_id))
    on_commit(ProjectChanged, lambda hint: signals.project_changed(hint.project_id))
    on_commit(ProjectDeleted, lambda hint: signals.project_deleted(Principal(hint.user_id), hint.project_id))
    on_commit(TurnStopped, lambda hint: signals.cancelled(hint.turn_id))
    project_event = services.project_events.add
    on_commit(ApprovalRequested, lambda hint: project_event(Principal(hint.user_id), hint.project_id, hint.event))
    on_commit(QuestionOver, lambda hint: services.relay.stop_asking(Principal(hint.user_id), hint))
    on_commit(MemoriesChanged, lambda _: services.memories.indexer.wake())
    on_commit(TurnParked, lambda hint: services.turn_waiters.parked(hint.turn_id))
    on_commit(Ended, services.turn_waiters.tell)
    on_commit(AgentsChanged, lambda hint: signals.agents_changed(hint.project_id, hint.agent_ids))
    on_commit(AgentListChanged, services.project_events.agent_list_changed)
    on_commit(WorkWaiting, lambda hint: signals.work(hint.project_id))
    on_commit(CallWaiting, lambda hint: signals.work(hint.project_id))
    on_commit(QueuedTurn, lambda hint: signals.work(hint.turn.project_id))
    on_commit(ServerSettingsChanged, lambda _: signals.settings_changed())
    if host is not None:
        on_commit(WorkWaiting, lambda hint: host.work(hint.project_id))
        on_commit(QueuedTurn, host.take)
        on_commit(QueuedTextChanged, lambda hint: host.text_changed(hint.turn_id, hint.text))


def _with_node_key(settings: Settings) -> Settings:
    """Return the settings with a key for the nodes of this process, if there are any and none is set."""
    if settings.nodes_dir is None or settings.node_key is not None:
        return settings
    return settings.model_copy(update={"node_key": SecretStr(secrets.token_hex(32))})


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


@asynccontextmanager
async def usable_memories(settings: Settings, database: Database) -> AsyncIterator[Memories]:
    """Open the agents' memory; index and embedding model are loaded on first use."""
    embedder = make_embedder(settings)
    memories = Memories(database, make_store(settings, embedder), embedder)
    try:
        yield memories
    finally:
        await memories.close()


def make_registry(settings: Settings, database: Database, bus: Bus, figures: ChatFigures) -> NodeRegistry:
    """Return the registry of the nodes on this bus."""
    return NodeRegistry(
        database,
        bus,
        protocol="local" if settings.bus_url is None else "amqp",
        stuck_seconds=settings.node_stuck_seconds,
        idle_seconds=settings.node_idle_seconds,
        alerted=figures.alerted,
    )


def make_brain(settings: Settings) -> BrainRouter:
    """Return the brain of these settings; models without a known price are allowed only by a rule."""
    planner = settings.planner_model if "planner_model" in settings.model_fields_set else None
    choice = ModelChoice(settings.default_model, planner)
    return BrainRouter(os.environ, model_rules(settings, settings.models_unpriced or ()), choice)


def server_secret(settings: Settings) -> str:
    """Return the secret that signs tokens, and from which the key of stored keys is derived."""
    return settings.jwt_secret.get_secret_value() if settings.jwt_secret else load_or_make_secret(settings.data_dir)


def make_tokens(settings: Settings, secret: str) -> Tokens:
    """Return the token service of these settings."""
    keys = KeySet(settings.jwks_url.get_secret_value()) if settings.jwks_url else None
    return Tokens(secret, settings.token_lifetime_seconds, keys, settings.issuer or "", settings.audience or "")
