"""examples/newsroom as its README says, three processes on RabbitMQ, and the client of the documentation."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.test_newsroom import NEWSROOM, REQUEST, carried_out
from tests.conftest import StartServer
from tests.deadlines import eventually
from tests.node_process import NodeProcess
from tests.people import Person
from tests.services import ServiceRun

SOON = 120.0
PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "nodes.md"


@pytest.fixture(scope="module")
def bus_url(services: ServiceRun) -> str:
    return services.own_rabbitmq()


@pytest.fixture(scope="module", autouse=True)
def newsroom(bus_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NodeProcess]]:
    """The three nodes of the example, each a process of its own."""
    nodes = []
    for name in ("researcher", "writer", "critic"):
        folder = tmp_path_factory.mktemp(name)
        nowhere = {"ARTEL_SEARXNG_URL": "http://127.0.0.1:9/"}  # the web can't be reached
        nodes.append(NodeProcess.start(folder, bus_url, [str(NEWSROOM / f"{name}.yaml")], variables=nowhere))
    yield nodes
    assert [node.stop() for node in nodes] == [0, 0, 0]


@pytest.mark.req("AGT-07.1", "AGT-07.4", "AGT-09.1")
def test_client_of_the_documentation_gets_the_result(bus_url: str, tmp_path: Path) -> None:
    [program] = re.findall(r"```python\n(import json\n.+?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    script = tmp_path / "client.py"
    script.write_text(program)

    environment = os.environ | {"ARTEL_BUS_URL": bus_url}
    done = subprocess.run(
        [sys.executable, "-P", script], env=environment, capture_output=True, text=True, timeout=SOON, check=True
    )

    answer = json.loads(done.stdout)
    assert (answer["type"], answer["source"], answer["subject"]) == ("ai.team.result", "newsroom.critic", "task-1")
    assert {"review", "score"} <= set(answer["data"]["output"])


@pytest.mark.req("AGT-04.4", "AGT-09.1", "UWS-10.3")
def test_newsroom_of_processes_makes_an_article_out_of_one_message(bus_url: str, start_server: StartServer) -> None:
    server = start_server(ARTEL_BUS_URL=bus_url)
    administrator = Person.register(server.url)
    eventually(lambda: len([node for node in administrator.get("/nodes")["items"] if node["state"] == "ALIVE"]) == 3)

    workflow, used = carried_out(Person.register(server.url), REQUEST)

    assert (workflow["status"], workflow["error"]) == ("completed", None)
    assert [(agent["runtime"], agent["role"]) for agent in used] == [
        ("node", "researcher"),
        ("node", "writer"),
        ("node", "critic"),
    ]
    assert "Score:" in workflow["tasks"][-1]["result"]
