"""The state of the server for administrators: what `artel doctor` knows, from the running process."""

import asyncio
import platform
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from artel import __version__
from artel.agent_memory.service import Memories
from artel.auth.accounts import count_accounts
from artel.brain.router import BrainRouter
from artel.contract.admin import DataFolderSize, ServerProcess, SystemPart, SystemState
from artel.data_folder import folder_size
from artel.db import schema
from artel.db.engine import Database
from artel.registry.service import NodeRegistry
from artel.server_checks import (
    CheckResult,
    check_data_folder,
    check_host_names,
    check_memory,
    check_models,
    check_services,
    check_token_secret,
)
from artel.settings import Settings
from artel.spaces.leases import list_hosts

FRESH_SECONDS = 5.0  # a report is used again for this long, because each one connects to every service


class SystemReporter:
    """Reports the state of the server, one report at a time."""

    def __init__(
        self, settings: Settings, database: Database, memories: Memories, nodes: NodeRegistry, brain: BrainRouter
    ) -> None:
        self._settings, self._database, self._memories = settings, database, memories
        self._nodes, self._brain = nodes, brain
        self._started_at = datetime.now(UTC)
        self._lock = asyncio.Lock()
        self._latest: tuple[float, SystemState] | None = None

    async def report(self) -> SystemState:
        """Return the state of the server, a few seconds old at most."""
        async with self._lock:
            if self._latest is None or time.monotonic() - self._latest[0] > FRESH_SECONDS:
                self._latest = time.monotonic(), await self._report()
            return self._latest[1]

    async def _report(self) -> SystemState:
        settings, database = self._settings, self._database
        services = await check_services(settings, database)
        checked = await asyncio.to_thread(lambda: list(self._check_files()))
        size = await asyncio.to_thread(folder_size, settings.data_dir)
        health = await self._memories.health(count_waiting=True)
        index = CheckResult("memory index", "ok" if health.index_ok else "failed", health.detail or "works")
        hosts = await database.read(list_hosts)
        return SystemState(
            version=__version__,
            python=platform.python_version(),
            role=settings.role,
            started_at=self._started_at,
            database="sqlite" if settings.is_embedded else "postgresql",
            schema_revision=await database.read(schema.current_revision),
            schema_needed=schema.HEAD,
            accounts=await database.read(count_accounts),
            nodes=len(await self._nodes.nodes()),
            memories_waiting=health.waiting,
            data_folder=DataFolderSize.of(size, path=str(settings.data_dir)),
            processes=[ServerProcess.of(host) for host in hosts],
            parts=[SystemPart.of(result) for result in (*services, *checked, index)],
        )

    def _check_files(self) -> Iterator[CheckResult]:
        settings = self._settings
        yield check_data_folder(settings)
        yield check_memory(settings)
        yield check_models(self._brain.describe())
        yield from check_host_names(settings)
        yield from check_token_secret(settings)
