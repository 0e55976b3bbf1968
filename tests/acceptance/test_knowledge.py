"""What all agents of a project remember together can be searched by its owner, and by agents that were let in."""

from typing import Any

import pytest

from tests.conftest import StartServer
from tests.model_server import ModelServer, Say, Tool
from tests.people import Person, assert_problem

pytestmark = pytest.mark.any_database


def remember(person: Person, project_id: int, agent_id: int, content: str, **fields: Any) -> None:
    url = f"/my/projects/{project_id}/agents/{agent_id}/context"
    assert person.http.post(url, json={"content": content} | fields).status_code == 201


def search(person: Person, project_id: int, query: str, **fields: Any) -> list[dict[str, Any]]:
    answer = person.http.post(f"/my/projects/{project_id}/context/search", json={"query": query} | fields)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


@pytest.mark.req("UWS-20.2")
def test_the_best_memory_of_a_project_is_found_whosever_it_is(person: Person, other: Person) -> None:
    project, elsewhere = person.project(), person.project("Elsewhere")
    coder, analyzer, writer, _ = project["agents"]
    remember(person, project["id"], coder["id"], "The build needs make and a C compiler.")
    remember(person, project["id"], analyzer["id"], "Invoices go out as PDF on the first of the month.")
    remember(person, project["id"], writer["id"], "The house style has short sentences.", type="style")
    remember(person, elsewhere["id"], elsewhere["agents"][0]["id"], "Invoices of another project are on paper.")

    found = search(person, project["id"], "When are bills sent to customers?")

    assert (found[0]["agent"], found[0]["agent_id"]) == ("agent_analyzer", analyzer["id"])
    assert found[0]["content"].startswith("Invoices go out")
    assert not any("another project" in item["content"] for item in found)
    assert [item["agent"] for item in search(person, project["id"], "sentences", type="style")] == ["agent_writer"]
    assert len(search(person, project["id"], "anything at all", top_k=2)) == 2
    assert search(person, person.project("Empty")["id"], "anything") == []
    refused = other.http.post(f"/my/projects/{project['id']}/context/search", json={"query": "bills"})
    assert_problem(refused, 404, "project_not_found")


@pytest.mark.req("UWS-20.2")
def test_an_agent_searches_what_others_remember_only_if_it_was_let_in(start_server: StartServer) -> None:
    with ModelServer().running_in_thread() as model:
        person = Person.register(start_server(OPENAI_API_KEY="x", OPENAI_BASE_URL=model.url).url)
        project = person.project()
        remember(person, project["id"], project["agents"][1]["id"], "Invoices go out as PDF.")
        person.agent(project["id"], name="agent_guest", model="gpt-4o-mini", tools=["memory_read"])
        person.agent(project["id"], name="agent_friend", model="gpt-4o-mini", tools=["project_memory_read"])
        session = person.http.post("/my/chat/sessions", json={"project_id": project["id"]}).json()["session_id"]

        results = {}
        for agent in ("guest", "friend"):
            model.script(Say(tools=[Tool("project_memory_read", '{"query": "In which format are bills sent?"}')]))
            body = {"content": "How do we send bills?", "target_agent": agent}
            answer = person.http.post(f"/my/chat/{session}/message", json=body)
            assert answer.status_code == 200, answer.text
            results[agent] = [m["content"] for m in model.asked[-1].body["messages"] if m["role"] == "tool"]

        assert "Invoices go out as PDF." in results["friend"][0]
        assert "Invoices" not in results["guest"][0]
