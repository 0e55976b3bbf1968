"""Calls to connectors, on SQLite and PostgreSQL: their remaining time, and results of calls that were never sent."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from artel import remote_calls
from artel.auth.accounts import create_account
from artel.auth.principal import Principal
from artel.connector_gateway import relay_calls
from artel.connector_gateway.connection import MAX_AT_ONCE, ConnectorConnection
from artel.connector_gateway.connections import ConnectorConnections
from artel.connector_gateway.frames import LARGE_CHARACTERS, Misbehaved
from artel.connector_gateway.relay import Relay, new_call_fields
from artel.connector_gateway.repository import find_connector
from artel.contract.connector import CLOSE_REFUSED, PROTOCOL, Hello, WriteAnswer, WriteCall
from artel.contract.http import NewProject
from artel.db import schema
from artel.db.engine import Database
from artel.db.hints import QuestionOver
from artel.errors import DatabaseUnavailable
from artel.ids import uuid7
from artel.projects.transactions import create_project
from artel.turns.transactions import TurnOver
from tests.actors.chat_user import RULES

pytestmark = [pytest.mark.anyio, pytest.mark.any_database]


@dataclass
class Process:
    """A server process with only its connector connections and relay."""

    database: Database
    user: Principal
    project_id: int
    id: str = field(default_factory=uuid7)
    sent: list[dict[str, Any]] = field(default_factory=list)  # to the connector
    sent_more: asyncio.Event = field(default_factory=asyncio.Event)
    closed: list[int] = field(default_factory=list)  # close codes

    def __post_init__(self) -> None:
        self.connections = ConnectorConnections(self.database, self.id, lambda *_: None)
        self.relay = Relay(self.database, self.connections, self.id)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[ConnectorConnection]:
        """Open and hold the project's connection."""

        async def send(text: str) -> None:
            self.sent.append(json.loads(text))
            self.sent_more.set()

        hello = Hello(
            protocol=PROTOCOL,
            connector_id="connector-of-a-test",
            user_id=self.user.user_id,
            project_id=self.project_id,
            workspace_name="work",
        )
        large_messages, raised_limits = self.connections.large_messages, self.connections.raised_limits
        connection = ConnectorConnection(
            uuid7(), self.user, hello, send, lambda *_: None, large_messages, raised_limits
        )
        await self.connections.open(connection, lambda reason: self.closed.append(reason.code))
        try:
            yield connection
        finally:
            await self.connections.close(connection)

    def write(self, path: str, seconds: float) -> "asyncio.Task[WriteAnswer]":
        """Start a call that writes a file."""
        call = WriteCall(**new_call_fields(self.user, 0, seconds), path=path, content="x")
        return asyncio.ensure_future(self.relay.call(self.user, self.project_id, "workspace/write", call, WriteAnswer))

    async def until_sent(self, count: int) -> None:
        async with asyncio.timeout(15):
            while len(self.sent) < count:
                self.sent_more.clear()
                await self.sent_more.wait()

    async def answer(self, connection: ConnectorConnection, message: dict[str, Any]) -> None:
        await connection.receive(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"success": True}}))


@pytest.fixture
async def processes(upgraded_database: Callable[[], str]) -> AsyncIterator[Callable[[], Process]]:
    database = Database(upgraded_database().replace("postgresql:", "postgresql+psycopg:"), connections=8)
    await asyncio.to_thread(schema.upgrade, database.engine)
    user = (await database.run(create_account, "ada@example.org", None)).principal
    project = await database.of(user).run(create_project, NewProject(name="Files"), RULES)
    yield lambda: Process(database, user, project.id)
    await database.close()


async def test_call_that_waited_for_a_slot_carries_its_remaining_time(
    processes: Callable[[], Process],
) -> None:
    here = processes()
    async with here.connected() as connection:
        calls = [here.write(str(number), 60) for number in range(MAX_AT_ONCE)]
        await here.until_sent(MAX_AT_ONCE)
        called_at = time.monotonic()
        ninth = here.write("ninth", 60)
        await asyncio.wait({ninth}, timeout=0.5)
        waited = time.monotonic() - called_at
        assert len(here.sent) == MAX_AT_ONCE  # the ninth waits for a slot

        await here.answer(connection, here.sent[0])
        await here.until_sent(MAX_AT_ONCE + 1)
        for message in here.sent[1:]:
            await here.answer(connection, message)
        results = await asyncio.gather(*calls, ninth)

    assert all(result.success for result in results)
    assert here.sent[-1]["params"]["path"] == "ninth"
    assert 0 < here.sent[-1]["params"]["timeout_ms"] <= (60 - waited) * 1000 + 50


async def test_result_of_an_unsent_write_is_timed_out_not_unknown(processes: Callable[[], Process]) -> None:
    here = processes()
    async with here.connected():
        calls = [here.write(str(number), 3) for number in range(MAX_AT_ONCE)]
        await here.until_sent(MAX_AT_ONCE)

        late = await here.write("late", 0.2)

        assert (late.success, late.code) == (False, "timed_out")
        assert "Nothing was sent" in (late.error or "")
        assert {result.code for result in await asyncio.gather(*calls)} == {"unknown"}  # those were sent

    assert "late" not in {message["params"]["path"] for message in here.sent}


async def test_late_answer_may_be_large_but_its_duplicate_may_not(
    processes: Callable[[], Process],
) -> None:
    here = processes()
    async with here.connected() as connection:
        for seconds in (0.1, 1, 10):  # a busy machine may not even send it in time
            if (await here.write("slow", seconds)).code == "unknown":
                break
        sent = len(here.sent)
        late = {"jsonrpc": "2.0", "id": here.sent[-1]["id"], "result": {"success": True, "x": "x" * LARGE_CHARACTERS}}

        assert await connection.receive(json.dumps(late)) is None

        waiting = here.write("quick", 30)
        await here.until_sent(sent + 1)
        with pytest.raises(Misbehaved):
            await connection.receive(json.dumps(late))  # once more
        await here.answer(connection, here.sent[-1])
        assert (await waiting).success


async def test_call_through_another_process_carries_its_remaining_time(
    processes: Callable[[], Process],
) -> None:
    holder, asker = processes(), processes()
    async with holder.connected() as connection:
        called_at = time.monotonic()
        call = asker.write("a", 60)
        await asyncio.wait({call}, timeout=0.5)  # the holder does not serve calls yet
        holder.relay.start()
        await holder.until_sent(1)
        waited = time.monotonic() - called_at
        await holder.answer(connection, holder.sent[0])
        assert (await call).success
        await holder.relay.close()

    assert waited > 0.5
    assert 0 < holder.sent[0]["params"]["timeout_ms"] <= (60 - 0.5) * 1000


@pytest.mark.req("DEC-01.1")
@pytest.mark.parametrize("failure", [TurnOver(), DatabaseUnavailable("down")], ids=["turn over", "database down"])
async def test_connector_stops_asking_when_the_question_can_not_be_stored(
    processes: Callable[[], Process], failure: Exception
) -> None:
    here = processes()
    question = QuestionOver(here.user.user_id, here.project_id, "q1")
    async with here.connected():
        with pytest.raises(type(failure)), here.relay.asking(here.user, question):
            raise failure

        await here.until_sent(1)
    assert (here.sent[0]["method"], here.sent[0]["params"]["ask_id"]) == ("workspace/answered", "q1")
    assert here.sent[0]["params"]["decision"] == "reject"
    await here.relay.close()


@pytest.mark.req("DEC-02.2")
async def test_connector_of_another_process_is_disconnected(processes: Callable[[], Process]) -> None:
    holder, asker = processes(), processes()
    async with holder.connected():
        connector = await asker.database.read(find_connector, asker.user, asker.project_id)
        assert connector is not None
        holder.relay.start()

        assert await asker.relay.disconnect(asker.user, connector)

        assert holder.closed == [CLOSE_REFUSED]  # this connector knows no other code
        assert await asker.database.read(find_connector, asker.user, asker.project_id) is None
        assert not await asker.relay.disconnect(asker.user, connector)
        await holder.relay.close()


async def test_clock_of_the_database_may_be_wrong(
    processes: Callable[[], Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    right_time = remote_calls.database_time
    for module in (remote_calls, relay_calls):
        monkeypatch.setattr(module, "database_time", lambda connection: right_time(connection) - timedelta(hours=1))
    holder, asker = processes(), processes()
    async with holder.connected() as connection:
        holder.relay.start()
        call = asker.write("a", 60)
        await holder.until_sent(1)
        await holder.answer(connection, holder.sent[0])
        assert (await call).success
        await holder.relay.close()


async def test_call_that_another_process_did_not_send_in_time_is_never_sent(processes: Callable[[], Process]) -> None:
    holder, asker = processes(), processes()
    async with holder.connected() as connection:
        late = await asker.write("late", 0.2)
        assert (late.code, "Nothing was sent" in (late.error or "")) == ("timed_out", True)

        holder.relay.start()
        in_time = asker.write("in time", 30)
        await holder.until_sent(1)
        await holder.answer(connection, holder.sent[0])
        assert (await in_time).success

        too_late = asker.write("unanswered", 2)
        await holder.until_sent(2)
        assert (await too_late).code == "unknown"  # it was sent
        await holder.relay.close()

    assert [message["params"]["path"] for message in holder.sent] == ["in time", "unanswered"]


async def test_write_whose_connection_breaks_before_it_is_sent_is_offline(processes: Callable[[], Process]) -> None:
    here = processes()
    async with here.connected():
        calls = [here.write(str(number), 1) for number in range(MAX_AT_ONCE)]
        await here.until_sent(MAX_AT_ONCE)
        waiting = here.write("waiting", 30)
        await asyncio.wait({waiting}, timeout=0.1)

    assert (await waiting).code == "offline"
    assert {result.code for result in await asyncio.gather(*calls)} == {"unknown"}
