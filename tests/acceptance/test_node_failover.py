"""Nodes as processes on RabbitMQ: what becomes of a task when its node or its server is killed, stopped or hangs."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from tests.actors.node_user import NodeUser, write_agent_file
from tests.conftest import JWT_SECRET, with_model
from tests.deadlines import eventually
from tests.model_server import ByMark, Hold, ModelServer, Say, Tool
from tests.people import Person
from tests.running import ARTEL, START_SECONDS, Process, Server, _first_line, _start, clean_environment
from tests.services import ServiceRun
from tests.unit.test_tool_plugins import package

StartNode = Callable[..., Process]
STUCK_SECONDS = 8  # of nodes that report progress five times a second
# A tool that blocks the event loop of its node until there is a file.
HANGING_TOOL = """
import time
from pathlib import Path

from artel.tools.policy import Level
from artel.tools.tool import BaseTool, ToolResult


class Hang(BaseTool):
    name = "hang"
    description = "Hang."
    level = Level.SAFE
    parameters_schema = {"type": "object", "properties": {}}

    async def execute(self):
        Path(__file__).with_name("begun").touch()
        while not Path(__file__).with_name("ended").exists():
            time.sleep(0.01)
        return ToolResult(success=True, data={})
"""


@pytest.fixture(scope="module")
def bus(services: ServiceRun) -> str:
    return services.own_rabbitmq()


@pytest.fixture(scope="module")
def env(bus: str, model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("server")
    database = f"sqlite:///{folder}/artel.db"
    variables = {"ARTEL_BUS_URL": bus, "ARTEL_DATABASE_URL": database, "ARTEL_JWT_SECRET": JWT_SECRET}
    variables["ARTEL_NODE_STUCK_SECONDS"] = str(STUCK_SECONDS)
    return clean_environment(folder, **with_model(model), **variables)


@pytest.fixture
def start_server(env: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start the server, or start it again on the same database."""
    started: list[Server] = []

    def start(module: str = "artel.cli.main", **variables: str) -> Server:
        started.append(Server.start(tmp_path, env | variables, module=module))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.kill()


@pytest.fixture
def start_node(env: dict[str, str], tmp_path: Path) -> Iterator[StartNode]:
    """Start a node of this name and wait until it is registered; `changes` are sections of its file."""
    started: list[Process] = []

    def start(name: str, module: str = "artel.cli.main", **changes: Any) -> Process:
        path = write_agent_file(tmp_path / "agents", name, type=f"type_{name.partition('.')[0]}", **changes)
        own = env | {"ARTEL_DATA_DIR": str(tmp_path / name)}
        own |= {"TOOLS": str(tmp_path / "tools"), "SILENT": str(tmp_path / "silent")}
        with (tmp_path / f"{name}.log").open("a") as log:
            process = _start([ARTEL, "node", "run", "--json", str(path)], own, log, module)
        assert _first_line(process, time.monotonic() + START_SECONDS), (tmp_path / f"{name}.log").read_text()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(30)
        if process.stdout:
            process.stdout.close()


def _write(env: dict[str, str], statement: str, **values: Any) -> None:
    engine = sqlalchemy.create_engine(env["ARTEL_DATABASE_URL"])
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(statement), values)
    engine.dispose()


@pytest.mark.req("AGT-10.1", "AGT-08.2")
def test_task_goes_on_after_its_server_was_killed_and_is_done_once(
    start_server: Callable[[], Server], start_node: StartNode, model: ModelServer, script: ByMark, mark: str
) -> None:
    server = start_server()
    start_node("one.composer")
    person = Person.register(server.url)
    user = NodeUser(person, model, mark)
    script[mark] = hold = Hold("A sonnet.")
    accepted = user.ask(Prefer="respond-async")
    eventually(lambda: hold.arrived)

    server.kill()
    hold.release()
    again = start_server()

    user.person = Person(person.email, person.user_id, person.token, _client(again, person))
    ended = user.ended(accepted["turn_id"], 60)
    assert (ended["status"], ended["usage"]["calls"]) == ("completed", 1)
    assert [message["content"] for message in user.person.history(user.session)][-1] == "A sonnet."
    assert len(hold.arrived) == 1


@pytest.mark.req("AGT-08.2", "UWS-10.3")
def test_task_of_a_lost_node_is_given_to_another_with_the_capability(
    start_server: Callable[[], Server],
    start_node: StartNode,
    env: dict[str, str],
    model: ModelServer,
    script: ByMark,
    mark: str,
) -> None:
    server = start_server()
    first = start_node("two.composer")
    user = NodeUser(Person.register(server.url), model, mark)
    script[mark] = [hold := Hold(), Say("From the other.")]
    accepted = user.ask(Prefer="respond-async")
    eventually(lambda: hold.arrived)
    start_node("three.composer")

    first.kill()
    # As if it had been silent for long enough.
    _write(env, "UPDATE nodes SET deregistered_at = heartbeat_at WHERE name = 'two.composer'")

    assert user.ended(accepted["turn_id"], 60)["status"] == "completed"
    assert user.person.history(user.session)[-1]["content"] == "From the other."
    alerts = user.person.get(f"/my/projects/{user.project}/alerts")["items"]
    assert any("two.composer" in alert["message"] for alert in alerts)


@pytest.mark.req("AGT-10.4", "AGT-10.2")
def test_task_that_blocks_its_node_is_stuck_and_done_by_another(
    start_server: Callable[..., Server],
    start_node: StartNode,
    model: ModelServer,
    script: ByMark,
    mark: str,
    tmp_path: Path,
) -> None:
    tools = tmp_path / "tools"
    package(tools, "hanging_tools", HANGING_TOOL, hang="Hang")
    server = start_server()
    plugins = {"hang": {"requires_approval": False}}
    enabled = {"tools": {"enabled": ["hang"], "security": {"plugins": plugins}}}
    start_node("four.composer", "tests.faults.hanging_node", **enabled)
    user = NodeUser(Person.register(server.url), model, mark)
    script[mark] = [Say(tools=[Tool("hang", "{}")]), Say("From the other.")]
    accepted = user.ask(Prefer="respond-async")
    eventually((tools / "begun").exists)
    start_node("five.composer")

    assert user.ended(accepted["turn_id"], 120)["status"] == "completed"
    (tools / "ended").touch()

    eventually(lambda: _has_applied(tmp_path / "four.composer.log", "stop"))
    _assert_one_answer(user, "task_stuck", "four.composer")


@pytest.mark.req("AGT-10.4")
def test_silent_task_is_stopped_on_its_node_and_done_by_another(
    start_server: Callable[..., Server],
    start_node: StartNode,
    model: ModelServer,
    script: ByMark,
    mark: str,
    tmp_path: Path,
) -> None:
    server = start_server()
    start_node("six.composer", "tests.faults.hanging_node")
    user = NodeUser(Person.register(server.url), model, mark)
    script[mark] = [hold := Hold("Too late."), Say("From the other.")]
    accepted = user.ask(Prefer="respond-async")
    eventually(lambda: hold.arrived)
    start_node("seven.composer")

    (tmp_path / "silent").touch()

    assert user.ended(accepted["turn_id"], 120)["status"] == "completed"
    assert hold.abandoned.wait(60), "its task was not stopped"
    assert len(model.asked_about(mark)) == 2
    _assert_one_answer(user, "task_stuck", "six.composer")


@pytest.mark.req("AGT-08.2", "UWS-10.3")
def test_task_of_a_node_that_stands_still_is_done_by_another(
    start_server: Callable[..., Server], start_node: StartNode, model: ModelServer, script: ByMark, mark: str
) -> None:
    server = start_server("tests.faults.impatient_server")
    frozen = start_node("eight.composer")
    user = NodeUser(Person.register(server.url), model, mark)
    script[mark] = [hold := Hold("Too late."), Say("From the other.")]
    accepted = user.ask(Prefer="respond-async")
    eventually(lambda: hold.arrived)
    start_node("nine.composer")

    frozen.send_signal(signal.SIGSTOP)
    try:
        assert user.ended(accepted["turn_id"], 120)["status"] == "completed"
        hold.release()
    finally:
        frozen.send_signal(signal.SIGCONT)

    assert len(model.asked_about(mark)) == 2
    _assert_one_answer(user, "node_lost", "eight.composer")


@pytest.mark.req("AGT-10.4")
def test_without_failover_a_task_waits_for_its_node_that_stands_still(
    start_server: Callable[..., Server], start_node: StartNode, model: ModelServer, script: ByMark, mark: str
) -> None:
    server = start_server("tests.faults.impatient_server", ARTEL_NODE_FAILOVER="false")
    frozen = start_node("ten.composer")
    user = NodeUser(Person.register(server.url), model, mark)
    script[mark] = [hold := Hold("Late."), Say("From the other.")]
    accepted = user.ask(Prefer="respond-async")
    eventually(lambda: hold.arrived)
    start_node("eleven.composer")

    frozen.send_signal(signal.SIGSTOP)
    try:
        eventually(lambda: user.person.get(f"/my/projects/{user.project}/alerts")["items"])
        hold.release()
    finally:
        frozen.send_signal(signal.SIGCONT)

    assert user.ended(accepted["turn_id"], 120)["status"] == "completed"
    assert user.person.history(user.session)[-1]["content"] == "Late."
    assert len(model.asked_about(mark)) == 1


def _assert_one_answer(user: NodeUser, kind: str, node: str) -> None:
    """Check that the second node has answered, and that there was an alert about the first one."""
    contents = [message["content"] for message in user.person.history(user.session) if message["role"] != "user"]
    assert contents == ["From the other."]
    alerts = user.person.get(f"/my/projects/{user.project}/alerts")["items"]
    assert [(alert["kind"], node in alert["message"]) for alert in alerts] == [(kind, True)]


def _has_applied(log: Path, control_type: str) -> bool:
    """Return whether a node has applied a signal, by its log."""
    lines = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
    return any((line["event"], line.get("control_type")) == ("control_applied", control_type) for line in lines)


def _client(server: Server, person: Person) -> Any:
    from tests.people import client

    return client(server.url, person.token)
