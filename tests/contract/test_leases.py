"""Who may run a worker space, on PostgreSQL: one host at a time, and nothing is written by one that has lost it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest
from sqlalchemy import text

from artel.agent_memory import agent_changes
from artel.agents import transactions as agents
from artel.auth.accounts import create_account
from artel.auth.principal import Principal
from artel.contract.http import AgentChanges, NewAgent, NewProject, NewSession
from artel.db import schema
from artel.db.engine import Database
from artel.db.lease import LeaseLost
from artel.ids import uuid7
from artel.projects.transactions import ProjectRules, create_project
from artel.sessions.transactions import create_session
from artel.spaces import leases
from artel.spaces.leases import Acquired, SpaceElsewhere
from artel.turns.end import TurnOutcome, end_turn
from artel.turns.transactions import AgentAtWork, NewTurn, accept_message, note_events, start_turn
from artel.turns.turn import Turn, TurnStatus

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("backend", ["postgres"], indirect=True, scope="session")]

RULES = ProjectRules(max_projects=10, max_agents=10, planner_model="gpt-4o")
LONG, OVER = 60.0, -1.0


@dataclass
class Hosts:
    """A project, and two hosts that want to run it."""

    database: Database
    user: Principal
    project_id: int
    agent_id: int

    async def live(self, host: str, seconds: float = LONG) -> None:
        await self.database.run(leases.renew_host, host, seconds)

    async def acquire(self, host: str) -> Acquired:
        return await self.database.run(leases.acquire_space, host, self.user.user_id, self.project_id)

    async def turn(self) -> Turn:
        new_session = NewSession(project_id=self.project_id)
        session = await self.database.of(self.user).run(create_session, uuid7(), new_session, RULES)
        new = NewTurn(uuid7(), uuid7(), "Hello", 1, str(self.agent_id))
        return await self.database.of(self.user).run(accept_message, session.session_id, new, lambda *_: None)

    async def count(self, table: str) -> int:
        count: int = await self.database.read(lambda c: c.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())  # noqa: S608
        return count


@pytest.fixture
async def hosts(upgraded_database: Callable[[], str]) -> AsyncIterator[Hosts]:
    database = Database(upgraded_database().replace("postgresql:", "postgresql+psycopg:"), connections=8)
    await asyncio.to_thread(schema.upgrade, database.engine)
    user = (await database.run(create_account, "ada@example.org", None)).principal
    project = await database.of(user).run(create_project, NewProject(name="Chat"), RULES)
    yield Hosts(database, user, project.id, project.agents[0].id)
    await database.close()


async def test_a_space_has_one_host_until_its_lease_is_over(hosts: Hosts) -> None:
    await hosts.live("first")
    await hosts.live("second")
    taken = await hosts.acquire("first")

    assert (taken.lease.epoch, taken.had_owner) == (1, False)
    assert await hosts.acquire("first") == taken
    with pytest.raises(SpaceElsewhere):
        await hosts.acquire("second")

    await hosts.live("first", OVER)
    over = await hosts.acquire("second")

    assert (over.lease.epoch, over.had_owner) == (2, True)
    await hosts.live("first")
    with pytest.raises(SpaceElsewhere):
        await hosts.acquire("first")


async def test_a_host_that_has_lost_its_space_writes_nothing(hosts: Hosts) -> None:
    await hosts.live("first")
    stale = (await hosts.acquire("first")).lease
    turn, waiting = await hosts.turn(), await hosts.turn()
    agent = AgentAtWork(hosts.agent_id, "agent_coder", "idle", "processing")
    await hosts.database.of(hosts.user, stale).run(start_turn, turn, agent, 10)
    await hosts.live("first", OVER)
    await hosts.live("second")
    await hosts.acquire("second")
    events = await hosts.count("events")
    outcome = TurnOutcome(TurnStatus.COMPLETED, uuid7(), "Late", 1, None, agent=agent)

    with pytest.raises(LeaseLost):
        await hosts.database.of(hosts.user, stale).run(start_turn, waiting, agent, 10)
    with pytest.raises(LeaseLost):
        await hosts.database.of(hosts.user, stale).run(note_events, turn, [agent.change])
    with pytest.raises(LeaseLost):
        await hosts.database.of(hosts.user, stale).run(end_turn, turn, outcome)
    await hosts.database.run(leases.release_space, stale)  # has no effect either

    assert await hosts.count("events") == events
    assert await hosts.count("messages") == 2
    assert (await hosts.acquire("second")).lease.epoch == 2


async def test_a_host_that_ends_leaves_its_spaces_to_others_at_once(hosts: Hosts) -> None:
    await hosts.live("first")
    await hosts.live("second")
    await hosts.acquire("first")

    await hosts.database.run(leases.remove_host, "first")

    assert (await hosts.acquire("second")).lease.epoch == 2


async def test_work_is_seen_by_the_host_that_may_do_it(hosts: Hosts) -> None:
    await hosts.live("first")
    await hosts.live("second")
    turn = await hosts.turn()

    async def found(host: str) -> list[str]:
        return await hosts.database.read(leases.find_work, host)

    assert await found("first") == await found("second") == [turn.session_id]
    await hosts.acquire("first")
    assert (await found("first"), await found("second")) == ([turn.session_id], [])
    await hosts.live("first", OVER)
    assert await found("second") == [turn.session_id]


async def test_every_change_of_an_agent_raises_the_version_that_a_turn_begins_with(hosts: Hosts) -> None:
    await hosts.live("first")
    before = (await hosts.acquire("first")).config_version
    user, project_id = hosts.user, hosts.project_id

    async def version() -> int:
        return (await hosts.acquire("first")).config_version

    new = NewAgent(name="agent_reviewer", role="reviewer", model="gpt-4", system_prompt="Review.")
    agent = await hosts.database.of(user).run(agents.create_agent, project_id, new, 10)
    assert await version() == before + 1
    await hosts.database.of(user).run(
        agent_changes.update_agent, project_id, agent.id, AgentChanges(system_prompt="Be kind.")
    )
    assert await version() == before + 2
    await hosts.database.of(user).run(
        agent_changes.update_agent, project_id, agent.id, AgentChanges(name="agent_critic")
    )
    assert await version() == before + 3
    await hosts.database.of(user).run(agent_changes.delete_agent, project_id, agent.id)
    assert await version() == before + 4

    turn = await hosts.turn()
    lease = (await hosts.acquire("first")).lease
    started = await hosts.database.of(hosts.user, lease).run(start_turn, turn, None, 10)
    assert started.config_version == before + 4
