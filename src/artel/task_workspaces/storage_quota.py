"""Storage quota of users: messages with attachments, memories, texts of agents, results of tools, workspaces."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sqlalchemy import Connection

from artel.agent_memory.repository import MemoryRepository
from artel.agents.repository import AgentRepository
from artel.attachments.repository import AttachmentContentRepository
from artel.auth.accounts import account_by_id
from artel.auth.principal import Principal
from artel.db.engine import Database
from artel.errors import StorageFull
from artel.logs import get_logger
from artel.sessions.message_repository import MessageRepository
from artel.task_workspaces.service import TaskWorkspaces
from artel.turns.tool_calls import ToolCallContents

log = get_logger(__name__)

CACHE_SECONDS = 60.0  # until usage is measured again; additions are counted meanwhile
MAX_USERS = 10_000
MEASURE_SECONDS = 30.0  # timeout


@dataclass(slots=True)
class _Usage:
    limit: int | None
    used: int
    measured_at: float


class StorageQuota:
    """Enforces the storage quota of users.

    Usage is measured at most once a minute per user with a quota, and additions are counted meanwhile. Each process
    counts for itself, so that with several processes a user may exceed the quota by the additions of one minute.
    """

    def __init__(self, database: Database, workspaces: TaskWorkspaces, default_bytes: int | None) -> None:
        self._database = database
        self._workspaces = workspaces
        self._default = default_bytes
        self._users: OrderedDict[int, _Usage] = OrderedDict()
        self._measuring: dict[int, asyncio.Task[_Usage]] = {}

    @asynccontextmanager
    async def reserved(self, principal: Principal, size: int) -> AsyncIterator[None]:
        """Count bytes that the block stores, unless it fails; raise StorageFull before it if they exceed the quota.

        A block that stores less than it replaces has a negative size, and is never refused.
        """
        await self._take(principal, size)
        try:
            yield
        except Exception:
            self.give_back(principal, size)
            raise

    async def _take(self, principal: Principal, size: int) -> None:
        use = self._users.get(principal.user_id)
        if use is None or time.monotonic() - use.measured_at > CACHE_SECONDS:
            use = await self._measured(principal)
        if use.limit is None:
            return
        if size > 0 and use.used + size > use.limit:
            raise StorageFull(
                f"Your storage is full: {use.used:,} of {use.limit:,} bytes are used, and {size:,} more are needed. "
                "Delete conversations, memories, agents or projects that you don't need, or ask an administrator for "
                "more."
            )
        use.used = max(0, use.used + size)

    def forget(self, user_id: int) -> None:
        """Invalidate the cached usage, because the limit has changed or much was deleted."""
        self._users.pop(user_id, None)

    def give_back(self, principal: Principal, size: int) -> None:
        """Discount bytes that were not stored, or that were deleted."""
        use = self._users.get(principal.user_id)
        if use is not None:
            use.used = max(0, use.used - size)

    async def _measured(self, principal: Principal) -> _Usage:
        """Measure a user, once for concurrent callers."""
        measuring = self._measuring.get(principal.user_id)
        if measuring is None:
            measuring = asyncio.get_running_loop().create_task(self._measure(principal))
            self._measuring[principal.user_id] = measuring
            measuring.add_done_callback(lambda _: self._measuring.pop(principal.user_id, None))
        return await asyncio.shield(measuring)

    async def _measure(self, principal: Principal) -> _Usage:
        limit, used = await self._database.read(storage_limit, principal, self._default), 0
        if limit is not None:
            try:
                text, agents = await self._database.read_within(MEASURE_SECONDS, _stored, principal)
            except TimeoutError:  # too much data to measure: treat the quota as used up
                log.warning("storage_not_measured", user_id=principal.user_id)
                used = limit
            else:
                used = text + await asyncio.to_thread(self._workspaces.size_of, agents)
        use = self._users[principal.user_id] = _Usage(limit, used, time.monotonic())
        self._users.move_to_end(principal.user_id)
        while len(self._users) > MAX_USERS:
            self._users.popitem(last=False)
        return use


def storage_limit(connection: Connection, principal: Principal, default: int | None) -> int | None:
    """Return a user's quota in bytes, or None if unlimited."""
    account = account_by_id(connection, principal.user_id)
    own = account.storage_bytes if account else None
    limit = default if own is None else own
    return None if limit is None or limit < 0 else limit


def _stored(connection: Connection, principal: Principal) -> tuple[int, list[int]]:
    """Return the size of a user's texts and attachments in bytes, and the ids of agents whose files count too."""
    text = MessageRepository(connection, principal).stored_bytes()
    text += AttachmentContentRepository(connection, principal).stored_bytes()
    text += MemoryRepository(connection, principal).stored_bytes()
    text += ToolCallContents(connection, principal).stored_bytes()
    agents = AgentRepository(connection, principal)
    return text + agents.stored_bytes(), agents.ids()
