"""examples/newsroom: three nodes make an article out of one message, with the demo brain and without the web."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import StartServer
from tests.deadlines import eventually
from tests.people import Person
from tests.running import Server

pytestmark = pytest.mark.any_database

NEWSROOM = Path(__file__).parents[2] / "examples" / "newsroom"
REQUEST = "Research how tea came to Europe, then write an article about it, then review the article"


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer) -> Server:
    # Nobody listens there: web_search fails at once, wherever the test runs.
    return start_shared_server(ARTEL_NODES_DIR=str(NEWSROOM), ARTEL_SEARXNG_URL="http://127.0.0.1:9/")


@pytest.fixture(scope="module", autouse=True)
def administrator(server: Server) -> Person:
    """The first account of the server, whichever test runs first."""
    return Person.register(server.url)


def carried_out(person: Person, request: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the plan that a request became, after its approval and its end, and the agents of its tasks."""
    project = person.project()
    accepted = person.post(person.session(project["id"]), request, None).json()

    def ended() -> dict[str, Any]:
        workflow = person.get(f"/my/workflows/{accepted['workflow_id']}")
        if asked := workflow["approval_id"]:
            assert person.get(f"/my/approvals/{asked}")["kind"] == "plan"  # and not the budget: the demo brain is free
            person.http.post(f"/my/approvals/{asked}/confirm", json={"decision": "approve"})
        return workflow if workflow["status"] in ("completed", "partial", "failed", "rejected") else {}

    workflow = eventually(ended, 60)
    agents = {agent["id"]: agent for agent in person.get(f"/my/projects/{project['id']}")["agents"]}
    return workflow, [agents[task["agent_id"]] for task in workflow["tasks"]]


@pytest.mark.req("AGT-04.4", "AGT-09.1", "UWS-10.3")
def test_newsroom_makes_an_article_out_of_one_message(person: Person, administrator: Person) -> None:
    workflow, used = carried_out(person, REQUEST)

    assert (workflow["status"], workflow["error"]) == ("completed", None)
    assert workflow["estimated_cost_high"] == 0
    assert {node["model"] for node in administrator.get("/nodes")["items"]} == {"demo"}  # and not what the files name
    research, article, review = workflow["tasks"]
    assert [agent["runtime"] for agent in used] == ["node"] * 3
    assert [agent["role"] for agent in used] == ["researcher", "writer", "critic"]
    assert (article["depends_on"], review["depends_on"]) == ([research["id"]], [article["id"]])
    assert "web_search" in research["result"]  # it says plainly that the web was not reached
    assert "**Sources:** none" in research["result"]
    assert "tea" in article["result"]
    assert "Score:" in review["result"]
    assert article["description"] == "Write an article about how tea came to Europe"
    assert all("demo brain" in task["result"] for task in (research, article, review))


@pytest.mark.req("AGT-04.4", "UWS-10.3")
def test_demo_plan_with_nodes_and_an_agent_of_the_server_costs_nothing(person: Person) -> None:
    workflow, used = carried_out(person, "Research how tea came to Europe, then fix the code of the page about it")

    assert (workflow["status"], workflow["error"]) == ("completed", None)
    assert [agent["runtime"] for agent in used] == ["node", "local"]
    assert workflow["estimated_cost_high"] == 0


@pytest.mark.req("AGT-01.3")
def test_renewed_approval_of_a_plan_has_the_price_of_the_nodes(person: Person) -> None:
    project = person.project()["id"]
    person.agent(project, name="scout", runtime="node", capabilities=["research_topic"], model="gpt-4")
    settings = {"settings": {"approval_seconds": 1, "plans": {"approve_from_tasks": 1}}}
    assert person.http.patch(f"/my/projects/{project}", json=settings).status_code == 200
    accepted = person.post(person.session(project), "Let scout research tea, then fix the code", None).json()
    workflow = f"/my/workflows/{accepted['workflow_id']}"
    eventually(lambda: person.get(workflow)["status"] == "timeout", 60)
    [expired] = person.get("/my/approvals", status="expired")["items"]

    again = person.http.post(f"/my/approvals/{expired['id']}/ask-again").json()

    assert "scout" in [task["agent"] for task in again["arguments"]["tasks"]]
    assert (expired["details"]["estimated_cost_high"], again["details"]["estimated_cost_high"]) == (0, 0)
