"""Calls to connectors, on SQLite and PostgreSQL: the time they carry, and what is said of those that never left."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from artel.auth.accounts import create_account
from artel.auth.principal import Principal
from artel.connector_gateway.connection import MAX_AT_ONCE, ConnectorConnection
from artel.connector_gateway.connections import ConnectorConnections
from artel.connector_gateway.frames import LARGE_CHARACTERS, Misbehaved
from artel.connector_gateway.relay import Relay
from artel.contract.connector import PROTOCOL, Hello, Result, WriteCall
from artel.contract.http import NewProject
from artel.db import schema
from artel.db.engine import Database
from artel.events.hub import EventHub
from artel.events.signals import Signals
from artel.ids import uuid7
from artel.projects.service import create_project
from tests.contract.test_turns import RULES

pytestmark = pytest.mark.anyio


@dataclass
class Process:
    """A server process, as far as it has to do with connectors."""

    database: Database
    user: Principal
    project_id: int
    id: str = field(default_factory=uuid7)
    heard: list[dict[str, Any]] = field(default_factory=list)  # by the connector at the other end of its line
    hears: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        async def nothing(*_: Any) -> list[Any]:
            return []

        signals = Signals(EventHub(nothing), EventHub(nothing), None)
        self.lines = ConnectorConnections(self.database, self.id, lambda *_: None)
        self.relay = Relay(self.database, signals, self.lines, self.id)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[ConnectorConnection]:
        """Hold the line of the project."""

        async def send(text: str) -> None:
            self.heard.append(json.loads(text))
            self.hears.set()

        hello = Hello(
            protocol=PROTOCOL,
            connector_id="connector-of-a-test",
            user_id=self.user.user_id,
            project_id=self.project_id,
            workspace_name="work",
        )
        line = ConnectorConnection(
            uuid7(), self.user, hello, send, lambda *_: None, self.lines.large, self.lines.raised
        )
        await self.lines.open(line, lambda _: None)
        try:
            yield line
        finally:
            await self.lines.close(line)

    def write(self, path: str, seconds: float) -> "asyncio.Task[Result]":
        """Ask for a write."""
        call = WriteCall(call_id=uuid7(), user_id=self.user.user_id, timeout_ms=1, path=path, content="x")
        return asyncio.ensure_future(self.relay.call(self.user, self.project_id, "workspace/write", call, seconds))

    async def until_heard(self, count: int) -> None:
        async with asyncio.timeout(15):
            while len(self.heard) < count:
                self.hears.clear()
                await self.hears.wait()

    async def answer(self, line: ConnectorConnection, message: dict[str, Any]) -> None:
        await line.heard(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"success": True}}))


@pytest.fixture
async def processes(upgraded_database: Callable[[], str]) -> AsyncIterator[Callable[[], Process]]:
    database = Database(upgraded_database().replace("postgresql:", "postgresql+psycopg:"), connections=8)
    await asyncio.to_thread(schema.upgrade, database.engine)
    user = (await database.run(create_account, "ada@example.org", None)).principal
    project = await database.run(create_project, user, NewProject(name="Files"), RULES)
    yield lambda: Process(database, user, project.id)
    await database.close()


async def test_a_call_that_waited_for_the_line_carries_the_time_that_is_left(
    processes: Callable[[], Process],
) -> None:
    here = processes()
    async with here.connected() as line:
        calls = [here.write(str(number), 60) for number in range(MAX_AT_ONCE)]
        await here.until_heard(MAX_AT_ONCE)
        asked = time.monotonic()
        ninth = here.write("ninth", 60)
        await asyncio.wait({ninth}, timeout=0.5)
        waited = time.monotonic() - asked
        assert len(here.heard) == MAX_AT_ONCE  # it is not sent while the others are

        await here.answer(line, here.heard[0])
        await here.until_heard(MAX_AT_ONCE + 1)
        for message in here.heard[1:]:
            await here.answer(line, message)
        results = await asyncio.gather(*calls, ninth)

    assert all(result.success for result in results)
    assert here.heard[-1]["params"]["path"] == "ninth"
    assert 0 < here.heard[-1]["params"]["timeout_ms"] <= (60 - waited) * 1000 + 50


async def test_a_write_that_never_left_is_not_unknown(processes: Callable[[], Process]) -> None:
    here = processes()
    async with here.connected():
        calls = [here.write(str(number), 3) for number in range(MAX_AT_ONCE)]
        await here.until_heard(MAX_AT_ONCE)

        late = await here.write("late", 0.2)

        assert (late.success, late.code) == (False, "timed_out")
        assert "Nothing was sent" in (late.error or "")
        assert {result.code for result in await asyncio.gather(*calls)} == {"unknown"}  # those were sent

    assert "late" not in {message["params"]["path"] for message in here.heard}


async def test_an_answer_that_comes_late_may_be_large_and_what_nobody_asked_for_may_not(
    processes: Callable[[], Process],
) -> None:
    here = processes()
    async with here.connected() as line:
        assert (await here.write("slow", 0.1)).code == "unknown"
        late = {"jsonrpc": "2.0", "id": here.heard[0]["id"], "result": {"success": True, "x": "x" * LARGE_CHARACTERS}}

        assert await line.heard(json.dumps(late)) is None

        waiting = here.write("quick", 30)
        await here.until_heard(2)
        with pytest.raises(Misbehaved):
            await line.heard(json.dumps(late))  # once more
        await here.answer(line, here.heard[1])
        assert (await waiting).success


async def test_a_call_through_another_process_carries_the_time_that_is_left(
    processes: Callable[[], Process],
) -> None:
    holder, asker = processes(), processes()
    async with holder.connected() as line:
        asked = time.monotonic()
        call = asker.write("a", 60)
        await asyncio.wait({call}, timeout=0.5)  # nobody has looked yet
        holder.relay.start()
        await holder.until_heard(1)
        waited = time.monotonic() - asked
        await holder.answer(line, holder.heard[0])
        assert (await call).success
        await holder.relay.close()

    assert waited > 0.5
    assert 0 < holder.heard[0]["params"]["timeout_ms"] <= (60 - 0.5) * 1000


async def test_what_another_process_did_not_send_in_time_is_never_sent(processes: Callable[[], Process]) -> None:
    holder, asker = processes(), processes()
    async with holder.connected() as line:
        late = await asker.write("late", 0.2)
        assert (late.code, "Nothing was sent" in (late.error or "")) == ("timed_out", True)

        holder.relay.start()
        in_time = asker.write("in time", 30)
        await holder.until_heard(1)
        await holder.answer(line, holder.heard[0])
        assert (await in_time).success

        too_late = asker.write("unanswered", 2)
        await holder.until_heard(2)
        assert (await too_late).code == "unknown"  # it was sent
        await holder.relay.close()

    assert [message["params"]["path"] for message in holder.heard] == ["in time", "unanswered"]


async def test_a_write_whose_line_breaks_before_it_is_sent_finds_nobody(processes: Callable[[], Process]) -> None:
    here = processes()
    async with here.connected():
        calls = [here.write(str(number), 1) for number in range(MAX_AT_ONCE)]
        await here.until_heard(MAX_AT_ONCE)
        waiting = here.write("waiting", 30)
        await asyncio.wait({waiting}, timeout=0.1)

    assert (await waiting).code == "offline"
    assert {result.code for result in await asyncio.gather(*calls)} == {"unknown"}
