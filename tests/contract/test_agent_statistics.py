"""What agents usually do, on SQLite and PostgreSQL: of their own last tasks and turns, whatever others did since."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, insert

from artel.auth.accounts import create_account
from artel.auth.principal import Principal
from artel.contract.http import Agent, NewProject, NewSession
from artel.db import schema, tables
from artel.db.engine import Database
from artel.ids import uuid7
from artel.plans.pricing import AgentStatistics, agent_statistics
from artel.projects.transactions import create_project
from artel.sessions.transactions import create_session
from tests.actors.chat_user import RULES

pytestmark = pytest.mark.anyio


@dataclass
class Past:
    """A project whose agents did something."""

    database: Database
    user: Principal
    project_id: int
    session_id: str
    agents: list[Agent]
    turns: int = 0

    @property
    def _place(self) -> dict[str, object]:
        return {"user_id": self.user.user_id, "project_id": self.project_id}

    async def answers(
        self, agent: Agent, days_ago: float, tokens: int, status: str = "completed", model: str = "gpt-4o"
    ) -> None:
        """Let an agent have answered a turn."""
        self.turns += 1
        turn = {"id": uuid7(), "number": self.turns, "mode": "direct", "status": status, "request_hash": ""}
        turn |= self._done(agent, days_ago, tokens, model)
        await self._store(lambda c: c.execute(insert(tables.turns).values(turn)))

    async def does(
        self, agent: Agent, days_ago: float, tokens: int, status: str = "completed", seconds: float | None = None
    ) -> None:
        """Let an agent have done the task of a plan, which took so many seconds without waiting for anybody."""
        workflow = self._place | {"id": uuid7(), "session_id": self.session_id, "turn_id": uuid7(), "status": status}
        workflow |= {"request": "", "instruction": "", "spent_micros": 0, "price_unknown": False}
        workflow |= {"created_at": datetime.now(UTC)}
        done = self._done(agent, days_ago, tokens)
        del done["session_id"], done["created_at"]
        task = {"workflow_id": workflow["id"], "id": "1", "number": 1, "agent": agent.name, "status": status} | done
        task |= {"description": "", "depends_on": [], "attempts": 1, "seconds": seconds}

        def store(connection: Connection) -> None:
            connection.execute(insert(tables.workflows).values(workflow))
            connection.execute(insert(tables.tasks).values(task))

        await self._store(store)

    async def statistics(self, *, is_demo: bool = False) -> dict[str, AgentStatistics]:
        return await self.database.read(agent_statistics, self.user, self.project_id, self.agents, is_demo=is_demo)

    async def _store(self, step: Callable[[Connection], object]) -> None:
        await self.database.run(step)

    def _done(self, agent: Agent, days_ago: float, tokens: int, model: str = "gpt-4o") -> dict[str, object]:
        ended = datetime.now(UTC) - timedelta(days=days_ago)
        return self._place | {
            "session_id": self.session_id,
            "agent_id": agent.id,
            "usage": {"model": model, "calls": 1, "output_tokens": tokens, "cost_usd": 0.01},
            "created_at": ended,
            "started_at": ended - timedelta(seconds=4),
            "finished_at": ended,
        }


@pytest.fixture
async def past(upgraded_database: Callable[[], str]) -> AsyncIterator[Past]:
    database = Database(upgraded_database().replace("postgresql:", "postgresql+psycopg:"))
    await asyncio.to_thread(schema.upgrade, database.engine)
    user = (await database.run(create_account, "ada@example.org", None)).principal
    project = await database.of(user).run(create_project, NewProject(name="Past"), RULES)
    session = await database.of(user).run(create_session, uuid7(), NewSession(project_id=project.id), RULES)
    yield Past(database, user, project.id, session.session_id, list(project.team)[:2])
    await database.close()


async def test_an_agent_that_is_seldom_asked_keeps_its_history_beside_a_busy_one(past: Past) -> None:
    quiet, busy = past.agents
    await past.answers(quiet, 30, 123)
    await past.does(quiet, 31, 0, "failed")
    for number in range(50):
        await past.answers(busy, number / 24, 700)

    statistics = await past.statistics()

    assert statistics[quiet.name] == AgentStatistics(2, 123, 1.0, 4.0, 0.5, 0.01)
    assert (statistics[busy.name].tasks, statistics[busy.name].output_tokens) == (20, 700)


async def test_the_last_things_count_whether_they_were_tasks_or_turns(past: Past) -> None:
    agent, other = past.agents
    for number in range(20):
        await past.does(agent, 10 + number, 1_000)
        await past.answers(agent, number / 24, 100)

    statistics = await past.statistics()

    assert statistics[agent.name].output_tokens == 100
    assert statistics[other.name] == AgentStatistics()


async def test_what_was_done_very_long_ago_or_was_cancelled_says_nothing(past: Past) -> None:
    agent, _ = past.agents
    await past.answers(agent, 100, 5)
    await past.does(agent, 100, 5)
    await past.answers(agent, 1, 5, "cancelled")
    await past.does(agent, 1, 5, "cancelled")

    assert (await past.statistics())[agent.name] == AgentStatistics()


@pytest.mark.req("CHT-11.2")
async def test_the_demo_brain_counts_only_while_it_answers(past: Past) -> None:
    agent, other = past.agents
    for number in range(3):
        await past.answers(agent, 1 + number, 4_000, model="demo")
    await past.answers(agent, 5, 200)
    await past.answers(other, 1, 4_000, model="demo")

    statistics = await past.statistics()

    assert (statistics[agent.name].tasks, statistics[agent.name].output_tokens) == (1, 200)
    assert statistics[other.name] == AgentStatistics()
    assert (await past.statistics(is_demo=True))[agent.name].tasks == 4


async def test_the_time_in_which_a_person_thought_is_not_the_agents(past: Past) -> None:
    agent, older = past.agents
    await past.does(agent, 1, 100, seconds=0.5)
    await past.does(agent, 2, 100, seconds=1.5)
    await past.does(older, 1, 100)  # as it was stored before

    known = await past.statistics()

    assert (known[agent.name].seconds, known[older.name].seconds) == (1.0, 4.0)
