"""The agent cache: how long it keeps an agent, and what makes room."""

from typing import Any

import pytest

from artel.contract.http import Agent
from artel.spaces.agent_cache import AgentCache, SharedCache

pytestmark = pytest.mark.anyio


def agent(agent_id: int) -> Agent:
    fields: dict[str, Any] = {"id": agent_id, "name": f"agent_{agent_id}"}
    return Agent.model_construct(**fields)


@pytest.mark.req("UWS-04.1", "UWS-04.2")
async def test_an_agent_is_loaded_again_after_five_minutes_and_not_before() -> None:
    now, loaded = 1000.0, list[int]()

    async def load(agent_id: int) -> Agent:
        loaded.append(agent_id)
        return agent(agent_id)

    cache = AgentCache("user1_project1", load, SharedCache(), now=lambda: now)
    first = await cache.get(7)
    now += 299.9
    assert await cache.get(7) is first
    assert loaded == [7]

    now += 0.2

    assert await cache.get(7) is not first
    assert loaded == [7, 7]


@pytest.mark.req("UWS-10.3")
async def test_full_cache_evicts_the_least_recently_used_agent_and_reports_overflow() -> None:
    now, loaded = 1000.0, list[int]()

    async def load(agent_id: int) -> Agent:
        loaded.append(agent_id)
        return agent(agent_id)

    cache = AgentCache("user1_project1", load, SharedCache(), now=lambda: now, max_size=2)
    for agent_id in (1, 2, 1):
        await cache.get(agent_id)
    assert not cache.overflows

    await cache.get(3)

    assert (len(cache), cache.overflows) == (2, True)
    await cache.get(1)
    assert loaded == [1, 2, 3]
    now += 301
    assert not cache.overflows
