"""Nodes as an administrator sees and controls them: over HTTP and on the command line, with nodes on RabbitMQ."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from artel.bus.bus import Delivery, QueueSpec
from artel.bus.rabbit import RabbitBus
from artel.bus.topology import command_key, command_queue, tenants_queue
from artel.contract.envelope import Command, Envelope, Event, Result
from tests.actors.bus_node import BusNode
from tests.conftest import StartServer
from tests.node_worlds import Nodes, RabbitWorld, node_file, until
from tests.people import Person, assert_problem, client
from tests.running import Server, artel, clean_environment
from tests.services import ServiceRun

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="session")
def node_server(start_shared_server: StartServer, services: ServiceRun) -> tuple[Server, Person, str]:
    """A server on RabbitMQ, its administrator, and the URL of the broker."""
    url = services.own_rabbitmq()
    server = start_shared_server(ARTEL_BUS_URL=url)
    return server, Person.register(server.url), url


@pytest.fixture
async def bus(node_server: tuple[Server, Person, str]) -> AsyncIterator[RabbitBus]:
    bus = await RabbitBus.connect(node_server[2], name="tests")
    yield bus
    await bus.close(grace_seconds=0)


@pytest.fixture
def administrator(node_server: tuple[Server, Person, str]) -> Person:
    _, person, _ = node_server
    return Person(person.email, person.user_id, person.token, client(node_server[0].url, person.token))


async def node(bus: RabbitBus, name: str, **fields: Any) -> BusNode:
    made = await BusNode(bus, name, protocol="amqp", **fields).register()
    await made.listen()
    return made


def names(administrator: Person, **query: Any) -> list[str]:
    page = administrator.get("/nodes", **query)
    assert page["total"] >= len(page["items"])
    return [each["name"] for each in page["items"]]


@pytest.mark.req("AGT-08.1", "AGT-08.2", "AGT-08.3", "AGT-04.4")
async def test_registered_nodes_are_listed_with_what_they_do(administrator: Person, bus: RabbitBus) -> None:
    working = ("019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c",)
    made = await node(bus, "list.writer.1", tasks=working, slots=2, labels={"env": "test", "cores": "8"})
    await node(bus, "list.critic.1", node_type="critic", capabilities=("review_text",), labels={"env": "prod"})

    writer = administrator.get("/nodes/list.writer.1")

    assert (writer["state"], writer["phase"], writer["epoch"], writer["load"]) == ("ALIVE", "Running", 1, 0.5)
    [task] = writer["current_tasks"]
    assert (task["task_id"], task["phase"], task["elapsed_seconds"]) == (working[0], "execute", 12.0)
    assert 0 <= writer["heartbeat_age"] < 60
    assert writer["passport"]["metadata"]["uid"] == made.uid
    assert writer["passport"]["spec"]["capabilities"][0]["parameters"] == {"languages": ["en"]}
    assert names(administrator, selector="env in (test, prod)") == ["list.critic.1", "list.writer.1"]
    assert names(administrator, selector="env in (test, prod)", limit=1, offset=1) == ["list.writer.1"]
    assert names(administrator, type="critic") == ["list.critic.1"]
    assert names(administrator, capability="write_article", selector="cores > 7", state="ALIVE") == ["list.writer.1"]
    assert names(administrator, selector="env in (test)", state="OFFLINE") == []
    refused = administrator.http.get("/nodes", params={"selector": "env in (a b)"})
    assert_problem(refused, 422, "selector_invalid")
    assert "character 11" in refused.json()["detail"]
    assert_problem(administrator.http.get("/nodes", params={"state": "asleep"}), 422, "invalid_request")


@pytest.mark.any_database
async def test_only_administrators_see_and_control_nodes(
    node_server: tuple[Server, Person, str], administrator: Person, bus: RabbitBus
) -> None:
    made = await node(bus, "guarded")
    server, _, _ = node_server
    user, nobody = Person.register(server.url), client(server.url)

    for http, status, code in ((user.http, 403, "administrator_only"), (nobody, 401, "not_authenticated")):
        assert_problem(http.get("/nodes"), status, code)
        assert_problem(http.get("/nodes/guarded"), status, code)
        assert_problem(http.post("/nodes/guarded/control", json={"control_type": "pause"}), status, code)
    assert administrator.http.post("/nodes/guarded/control", json={"control_type": "resume"}).status_code == 202
    assert (await made.signalled()).control_type == "resume"
    assert made.signals == []


@pytest.mark.any_database
async def test_signal_of_an_administrator_reaches_the_node(administrator: Person, bus: RabbitBus) -> None:
    made = await node(bus, "controlled.1")
    body = {"control_type": "stop", "reason": "too slow", "parameters": {"task_id": "t1"}}

    sent = administrator.http.post("/nodes/controlled.1/control", json=body)

    assert (sent.status_code, sent.json()) == (202, {"name": "controlled.1", "control_type": "stop"})
    signal = await made.signalled()
    assert (signal.control_type, signal.reason, signal.parameters) == ("stop", "too slow", {"task_id": "t1"})
    assert_problem(administrator.http.post("/nodes/nobody/control", json=body), 404, "node_not_found")
    [entry] = administrator.get("/admin/audit", action="node_controlled", limit=1)["items"]
    done = {name: entry[name] for name in ("actor", "target", "detail")}
    assert done == {"actor": administrator.email, "target": "node controlled.1", "detail": "stop: too slow"}
    assert_problem(administrator.http.get("/nodes/nobody"), 404, "node_not_found")
    invalid = administrator.http.post("/nodes/controlled.1/control", json={"control_type": "dance"})
    assert_problem(invalid, 422, "invalid_request")
    for control_type, parameters, problem in (
        ("config", {"temprature": 1}, "Parameters of config: temperature,"),
        ("config", {}, "Nothing to change"),
        ("shutdown", {"grace_seconds": -1}, "greater than or equal to 0"),
        ("pause", {"task_id": "t1"}, "Parameters of pause: none"),
    ):
        wrong = administrator.http.post(
            "/nodes/controlled.1/control", json={"control_type": control_type, "parameters": parameters}
        )
        assert_problem(wrong, 422, "invalid_request")
        assert problem in wrong.text
    assert made.signals == []
    await BusNode(bus, "deaf", protocol="amqp").register()
    deaf = administrator.http.post("/nodes/deaf/control", json={"control_type": "pause"})
    assert_problem(deaf, 503, "node_unreachable")


@pytest.mark.any_database
async def test_retired_node_is_forgotten_with_its_queues(
    node_server: tuple[Server, Person, str], tmp_path: Path
) -> None:
    server, _, url = node_server
    nodes = Nodes(RabbitWorld(url), tmp_path / "data")
    file = node_file(registry={"enabled": True})
    node, client = await nodes.start(file), await nodes.client()
    await until(lambda: node.status.epoch == 1)

    def forget() -> tuple[int, str]:
        done = artel("node", "forget", node.name, "--json", env=server.env)
        return done.returncode, done.stdout or done.stderr

    refused = await asyncio.to_thread(forget)
    await node.stop()
    key, command = command_key(node.name, "write_article"), Envelope.of(Command(action="x"), source="client")
    assert await client.bus.publish(key, command)  # it waits there for nobody
    code, shown = await asyncio.to_thread(forget)
    again = await asyncio.to_thread(forget)

    assert refused[0] == 5
    assert f"{node.name} runs" in refused[1]
    queues = {command_queue(node.name): 1, tenants_queue(node.name): 0}
    assert (code, json.loads(shown)) == (0, {"name": node.name, "queues": queues, "was_registered": True})
    assert not await client.bus.publish(key, command)
    assert json.loads(again[1]) == {"name": node.name, "queues": {}, "was_registered": False}
    await nodes.close()


@pytest.mark.req("AGT-10.1")
@pytest.mark.any_database
async def test_node_that_the_registry_does_not_know_keeps_its_queues_while_it_runs(
    node_server: tuple[Server, Person, str], tmp_path: Path
) -> None:
    server, _, url = node_server
    nodes = Nodes(RabbitWorld(url), tmp_path / "data")
    node, client = await nodes.start(), await nodes.client()

    refused = await asyncio.to_thread(artel, "node", "forget", node.name, env=server.env)

    assert refused.returncode == 5
    assert "Stop it first" in refused.stderr
    assert isinstance((await client.ask(node, "write_article", {"topic": "tea"})).data, Result)
    await nodes.close()


@pytest.mark.any_database
async def test_command_line_lists_shows_and_controls_nodes(
    node_server: tuple[Server, Person, str], administrator: Person, bus: RabbitBus, tmp_path: Path
) -> None:
    made = await node(bus, "cli.writer", tasks=("t1",), slots=2, labels={"env": "cli"})
    env = clean_environment(tmp_path, ARTEL_SERVER=node_server[0].url, ARTEL_TOKEN=administrator.token)

    def run(*arguments: str) -> str:
        done = artel("node", *arguments, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    listed = run("list", "-l", "env = cli").splitlines()
    assert listed[0].split()[:6] == ["name", "type", "state", "phase", "heartbeat", "load"]
    assert listed[1].split()[:4] == ["cli.writer", "writer", "ALIVE", "Running"]
    assert " 1/2 " in listed[1]
    assert "write_article: execute, 12 s" in listed[1]
    assert "No such nodes" in run("list", "-l", "env = none")
    assert [each["uid"] for each in json.loads(run("list", "--selector", "env = cli", "--json"))] == [made.uid]
    assert "write_article t1 (execute, 12 s, last moved 0 s ago)" in run("show", "cli.writer")
    run("stop", "cli.writer", "--task", "t1", "--reason", "too slow")
    run("drain", "cli.writer", "--grace", "60")
    signals = [await made.signalled(), await made.signalled()]
    assert [(each.control_type, each.parameters) for each in signals] == [
        ("stop", {"task_id": "t1"}),
        ("shutdown", {"grace_seconds": 60}),
    ]
    unknown = artel("node", "show", "nobody", env=env)
    assert (unknown.returncode, "artel node list" in unknown.stderr) == (3, True)


@pytest.mark.req("AGT-10.1")
@pytest.mark.any_database
async def test_nodes_are_told_of_the_projects_of_a_deleted_account(
    node_server: tuple[Server, Person, str], bus: RabbitBus
) -> None:
    server, _, _ = node_server
    person = Person.register(server.url)
    projects = {person.project()["id"], person.project()["id"]}
    tenants_gone: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def note(delivery: Delivery) -> None:
        assert isinstance(delivery.envelope.data, Event)
        await tenants_gone.put(delivery.envelope.data.event_data)

    queue = QueueSpec(f"test.tenants.{person.user_id}", ("evt.tenant.deleted",), exclusive=True, durable=False)
    await bus.subscribe(queue, note)
    deleted = artel("users", "delete", str(person.user_id), "--yes", env=server.env)

    assert (deleted.returncode, deleted.stderr) == (0, "")
    async with asyncio.timeout(60):
        while projects:
            gone = await tenants_gone.get()
            assert gone["user_id"] == person.user_id
            projects.discard(gone["project_id"])


WRONG_URL = {"ARTEL_BUS_URL": "amqp://127.0.0.1:1/?heartbeat=often"}


@pytest.mark.req("AGT-10.1")
@pytest.mark.any_database
@pytest.mark.parametrize(
    ("env", "has_project"),
    [(WRONG_URL, True), (WRONG_URL, False), ({"ARTEL_NODES_DIR": "agents"}, True)],
    ids=["wrong URL", "no project", "no broker"],
)
def test_operator_hears_what_nodes_keep_of_a_deleted_account_if_they_are_not_told(
    node_server: tuple[Server, Person, str], env: dict[str, str], *, has_project: bool
) -> None:
    server, _, _ = node_server
    person = Person.register(server.url)
    if has_project:
        person.project()
    without_bus = {name: value for name, value in server.env.items() if name != "ARTEL_BUS_URL"}

    deleted = artel("users", "delete", str(person.user_id), "--yes", env=without_bus | env)

    assert deleted.returncode == 0, deleted.stderr
    kept = f"user{person.user_id}_project"
    named = [each in deleted.stderr for each in (f"files/{kept}", f"work/{kept}", "answers.db", "memory.db")]
    assert named == [has_project] * 4
