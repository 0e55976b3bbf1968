"""The shared agent cache in Redis."""

import json
from collections.abc import Awaitable
from typing import Any, TypeVar, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from artel.contract.http import Agent
from artel.logs import get_logger
from artel.spaces.agent_cache import TTL_SECONDS, SharedCache

TIMEOUT_SECONDS = 1.0
SCAN_COUNT = 1_000

T = TypeVar("T")

log = get_logger(__name__)


class RedisCache(SharedCache):
    """Keys `{prefix}:agent:{id}`, each with the version of the space's agents at which it was read.

    An entry of an older version counts as missing, so that one who read before a change and wrote after it does no
    harm; so does one of another installation, whose users and projects have the same numbers. Where Redis can't be
    reached the database is asked.
    """

    def __init__(self, url: str, installation: str) -> None:
        self._installation = installation
        self._redis: Redis = Redis.from_url(
            url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS, decode_responses=True
        )
        self.reachable = True

    async def get(self, prefix: str, agent_id: int) -> Agent | None:
        entries = cast("Awaitable[list[str | None]]", self._redis.mget(_key(prefix, agent_id), _version_key(prefix)))
        nothing: list[str | None] = [None, None]
        text, version = await self._try(entries, nothing)
        if text is None:
            return None
        try:
            entry: dict[str, Any] = json.loads(text)
            is_ours = entry["installation"] == self._installation and entry["version"] == int(version or 0)
            return Agent.model_validate(entry["agent"]) if is_ours else None
        except (ValueError, KeyError, TypeError):  # written by another version of Artel, or by another program
            return None

    async def version(self, prefix: str) -> int:
        return int(await self._try(self._redis.get(_version_key(prefix)), -1) or 0)

    async def put(self, prefix: str, agent: Agent, version: int) -> None:
        if version >= 0:
            entry = {"installation": self._installation, "version": version, "agent": agent.model_dump(mode="json")}
            await self._try(self._redis.set(_key(prefix, agent.id), json.dumps(entry), ex=TTL_SECONDS), None)

    async def invalidate(self, prefix: str, agent_id: int) -> None:
        async with self._redis.pipeline(transaction=True) as both:
            both.incr(_version_key(prefix))
            both.delete(_key(prefix, agent_id))
            await self._try(both.execute(), None)

    async def clear(self, prefix: str) -> None:
        await self._try(self._redis.incr(_version_key(prefix)), None)
        await self._try(self._delete_all(f"{prefix}:agent:*"), None)

    async def close(self) -> None:
        await self._redis.aclose()

    async def _delete_all(self, pattern: str) -> None:
        async for key in self._redis.scan_iter(match=pattern, count=SCAN_COUNT):
            await self._redis.delete(key)

    async def _try(self, call: Awaitable[T], otherwise: T) -> T:
        try:
            answer = await call
        except (RedisError, OSError) as failure:
            if self.reachable:
                log.warning("redis_unreachable", error=str(failure))
            self.reachable = False
            return otherwise
        self.reachable = True
        return answer


def _key(prefix: str, agent_id: int) -> str:
    return f"{prefix}:agent:{agent_id}"


def _version_key(prefix: str) -> str:
    return f"{prefix}:agents_version"
