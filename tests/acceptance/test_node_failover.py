"""Nodes as processes on RabbitMQ: what becomes of a task when its node or its server is killed."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from tests.actors.node_user import NodeUser, write_agent_file
from tests.conftest import JWT_SECRET, with_model
from tests.deadlines import eventually
from tests.model_server import ByMark, Hold, ModelServer, Say
from tests.people import Person
from tests.running import ARTEL, START_SECONDS, Process, Server, _first_line, _start, clean_environment
from tests.services import ServiceRun

StartNode = Callable[[str], Process]


@pytest.fixture(scope="module")
def bus(services: ServiceRun) -> str:
    return services.own_rabbitmq()


@pytest.fixture(scope="module")
def env(bus: str, model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("server")
    database = f"sqlite:///{folder}/artel.db"
    variables = {"ARTEL_BUS_URL": bus, "ARTEL_DATABASE_URL": database, "ARTEL_JWT_SECRET": JWT_SECRET}
    return clean_environment(folder, **with_model(model), **variables)


@pytest.fixture
def start_server(env: dict[str, str], tmp_path: Path) -> Iterator[Callable[[], Server]]:
    """Start the server, or start it again on the same database."""
    started: list[Server] = []

    def start() -> Server:
        started.append(Server.start(tmp_path, env))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.kill()


@pytest.fixture
def start_node(env: dict[str, str], tmp_path: Path) -> Iterator[StartNode]:
    """Start a node of this name and wait until it is registered."""
    started: list[Process] = []

    def start(name: str) -> Process:
        path = write_agent_file(tmp_path / "agents", name, type=f"type_{name.partition('.')[0]}")
        own = env | {"ARTEL_DATA_DIR": str(tmp_path / name)}
        with (tmp_path / f"{name}.log").open("a") as log:
            process = _start([ARTEL, "node", "run", "--json", str(path)], own, log, "artel.cli.main")
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


def _client(server: Server, person: Person) -> Any:
    from tests.people import client

    return client(server.url, person.token)
