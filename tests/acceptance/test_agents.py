"""Agents over HTTP, on SQLite and PostgreSQL."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from artel.contract.http import DEFAULT_TOOLS
from tests.conftest import StartServer, Write
from tests.people import Person, assert_problem, new_agent

pytestmark = pytest.mark.any_database


def test_only_four_fields_are_required_and_the_rest_has_defaults(person: Person) -> None:
    project = person.project()

    agent = person.agent(project["id"])

    assert agent | {"id": 0, "created_at": "", "updated_at": ""} == {
        "id": 0,
        "project_id": project["id"],
        "parent_agent_id": project["agents"][0]["parent_agent_id"],
        "name": "agent_reviewer",
        "role": "reviewer",
        "model": "gpt-4",
        "temperature": 0.7,
        "max_tokens": 2048,
        "system_prompt": "Review.",
        "tools": list(DEFAULT_TOOLS),
        "concurrency_limit": 3,
        "capabilities": [],
        "memory": True,
        "runtime": "local",
        "fallback": {"enabled": True, "model": None},
        "loop": {"understand": False, "plan": False, "critique": False, "max_iterations": 5, "max_tool_calls": 10},
        "created_at": "",
        "updated_at": "",
    }
    assert person.http.get(f"/my/projects/{project['id']}/agents/{agent['id']}/").json() == agent


CHANGES: dict[str, Any] = {
    "name": "agent_critic",
    "role": "critic",
    "model": "ollama/llama3",
    "temperature": 0,
    "max_tokens": 1,
    "system_prompt": "Be strict.\nBe kind. 请",
    "tools": ["tool_read_file"],
    "concurrency_limit": 10,
    "capabilities": ["review_code", "score_quality"],
    "memory": False,
    "runtime": "local",
    "loop": {"understand": True, "plan": True, "critique": True, "max_iterations": 1, "max_tool_calls": 0},
}


@pytest.mark.parametrize("field", CHANGES)
def test_every_field_can_be_changed_alone(person: Person, field: str) -> None:
    project = person.project()
    agent = person.agent(project["id"])
    url = f"/my/projects/{project['id']}/agents/{agent['id']}"

    changed = person.http.patch(url, json={field: CHANGES[field]})

    assert changed.status_code == 200, changed.text
    assert changed.json() == agent | {field: CHANGES[field], "updated_at": changed.json()["updated_at"]}
    assert person.http.get(url).json() == changed.json()


@pytest.mark.parametrize("field", [*CHANGES, "id", "project_id", "parent_agent_id", "created_at", "user_id"])
def test_null_and_unknown_fields_are_refused(person: Person, field: str) -> None:
    project = person.project()
    agent = project["agents"][0]
    url = f"/my/projects/{project['id']}/agents/{agent['id']}"

    assert_problem(person.http.patch(url, json={field: None}), 422, "invalid_request")

    assert person.http.get(url).json() == agent


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "Agent"},
        {"name": "1agent"},
        {"name": "a" * 64},
        {"name": "agent\n"},
        {"name": ""},
        {"role": ""},
        {"model": ""},
        {"model": "gpt\n4"},
        {"system_prompt": "nul\x00"},
        {"system_prompt": "x" * 100_001},
        {"temperature": -0.1},
        {"temperature": 2.1},
        {"temperature": "0.5"},
        {"max_tokens": 0},
        {"max_tokens": 1.5},
        {"max_tokens": True},
        {"concurrency_limit": 0},
        {"concurrency_limit": 11},
        {"tools": ["a", "a"]},
        {"tools": ["not a name"]},
        {"tools": "tool_stat"},
        {"tools": [f"t{number}" for number in range(65)]},
        {"capabilities": [1]},
        {"memory": "yes"},
        {"runtime": "cloud"},
        {"loop": []},
        {"loop": {"understand": 1}},
        {"loop": {"plan": None}},
        {"loop": {"critique": "yes"}},
        {"loop": {"max_iterations": 0}},
        {"loop": {"max_iterations": 11}},
        {"loop": {"max_tool_calls": -1}},
        {"loop": {"max_tool_calls": 21}},
        {"loop": {"max_tool_calls": True}},
        {"loop": {"enable_self_critique": False}},
        {"unknown": 1},
    ],
)
def test_a_bad_agent_is_refused_and_nothing_is_stored(person: Person, fields: dict[str, Any]) -> None:
    project = person.project()
    agents = f"/my/projects/{project['id']}/agents"

    problem = assert_problem(person.http.post(agents, json=new_agent(**fields)), 422, "invalid_request")
    assert_problem(person.http.patch(f"{agents}/{project['agents'][0]['id']}", json=fields), 422, "invalid_request")

    assert problem["errors"][0]["field"].startswith(f"body.{next(iter(fields))}")
    assert person.http.get(agents).json()["items"] == project["agents"]


def test_agent_may_run_on_nodes(person: Person) -> None:
    project = person.project()
    agent = person.agent(project["id"], runtime="node", capabilities=["review_code"])
    url = f"/my/projects/{project['id']}/agents/{agent['id']}"

    assert person.http.get(url).json()["runtime"] == "node"
    assert person.http.patch(url, json={"runtime": "local"}).json()["runtime"] == "local"


def test_an_agent_that_was_stored_for_a_node_can_still_be_read_and_changed(person: Person, write: Write) -> None:
    project = person.project()
    agent = person.agent(project["id"], tools=["tool_stat"])
    url = f"/my/projects/{project['id']}/agents/{agent['id']}"
    stored = {"tools": ["web_search", "tool_stat"], "runtime": "node"}
    write(
        "UPDATE agents SET tools = :tools, runtime = 'node' WHERE id = :id",
        tools=json.dumps(stored["tools"]),
        id=agent["id"],
    )

    assert person.http.get(url).json() == agent | stored
    more = ["web_search", "tool_stat", "tool_read_file"]
    changed = person.http.patch(url, json={"tools": more}).json()
    assert (changed["tools"], changed["runtime"]) == (more, "node")
    assert person.http.patch(url, json={"tools": ["tool_stat"], "runtime": "local"}).json()["runtime"] == "local"


def test_loop_fields_that_are_omitted_do_not_change(person: Person, write: Write) -> None:
    project = person.project()
    defaults = project["agents"][0]["loop"]
    agent = person.agent(project["id"], loop={"critique": True, "max_tool_calls": 3.0})
    url = f"/my/projects/{project['id']}/agents/{agent['id']}"
    assert agent["loop"] == defaults | {"critique": True, "max_tool_calls": 3}

    changed = person.http.patch(url, json={"loop": {"plan": True, "max_tool_calls": 4}}).json()

    assert changed["loop"] == defaults | {"critique": True, "plan": True, "max_tool_calls": 4}
    assert person.http.patch(url, json={"loop": {}}).json()["loop"] == changed["loop"]
    write("UPDATE agents SET loop = NULL WHERE id = :id", id=agent["id"])  # by an earlier version
    assert person.http.get(url).json()["loop"] == defaults
    write("UPDATE agents SET loop = :loop WHERE id = :id", loop='{"plan": true, "later": 1}', id=agent["id"])
    assert person.http.get(url).json()["loop"] == defaults | {"plan": True}


@pytest.mark.parametrize("missing", ["name", "role", "system_prompt"])
def test_a_required_field_that_is_missing_is_named(person: Person, missing: str) -> None:
    project = person.project()
    body = new_agent()
    del body[missing]

    problem = assert_problem(
        person.http.post(f"/my/projects/{project['id']}/agents", json=body), 422, "invalid_request"
    )

    assert problem["errors"] == [{"field": f"body.{missing}", "message": "Field required"}]


@pytest.mark.parametrize("name", ["agent_coder", "root"])
def test_a_name_is_unique_in_its_project_and_free_in_another(person: Person, name: str) -> None:
    first, second = person.project(), person.project()
    agents = f"/my/projects/{first['id']}/agents"
    mine = person.agent(first["id"])
    person.agent(second["id"])

    assert_problem(person.http.post(agents, json=new_agent(name=name)), 409, "agent_name_taken")
    assert_problem(person.http.patch(f"{agents}/{mine['id']}", json={"name": name}), 409, "agent_name_taken")

    assert person.http.get(f"{agents}/{mine['id']}").json() == mine
    assert person.http.get(agents).json()["total"] == 5


def test_one_of_many_concurrent_agents_gets_the_name(person: Person) -> None:
    agents = f"/my/projects/{person.project()['id']}/agents"

    with ThreadPoolExecutor(10) as threads:
        answers = list(threads.map(lambda _: person.http.post(agents, json=new_agent()).status_code, range(20)))

    assert sorted(answers) == [201] + [409] * 19
    assert person.http.get(agents).json()["total"] == 5


def test_the_orchestrator_can_be_neither_listed_nor_reached(person: Person) -> None:
    project = person.project()
    root_id = min(agent["id"] for agent in project["agents"]) - 1
    url = f"/my/projects/{project['id']}/agents/{root_id}"

    assert_problem(person.http.get(url), 404, "agent_not_found")
    assert_problem(person.http.patch(url, json={"role": "mine"}), 404, "agent_not_found")
    assert_problem(person.http.delete(url), 404, "agent_not_found")
    assert "root" not in [
        agent["name"] for agent in person.http.get(f"/my/projects/{project['id']}/agents").json()["items"]
    ]


def test_id_of_a_deleted_agent_is_not_reused(person: Person) -> None:
    project = person.project()
    agents = f"/my/projects/{project['id']}/agents"
    agent = person.agent(project["id"])

    assert person.http.delete(f"{agents}/{agent['id']}/").status_code == 204

    assert_problem(person.http.get(f"{agents}/{agent['id']}"), 404, "agent_not_found")
    assert_problem(person.http.delete(f"{agents}/{agent['id']}"), 404, "agent_not_found")
    assert person.agent(project["id"])["id"] > agent["id"]


def test_agent_limit_per_project(start_server: StartServer) -> None:
    person = Person.register(start_server(ARTEL_MAX_AGENTS_PER_PROJECT="5").url)
    project = person.project()
    agents = f"/my/projects/{project['id']}/agents"

    with ThreadPoolExecutor(5) as threads:
        bodies = [new_agent(name=f"agent_{number}") for number in range(10)]
        answers = list(threads.map(lambda body: person.http.post(agents, json=body).status_code, bodies))

    assert sorted(answers) == [201] + [409] * 9
    assert person.http.get(agents).json()["total"] == 5


def test_agents_are_listed_page_by_page(person: Person) -> None:
    project = person.project()
    names = [agent["name"] for agent in project["agents"]]

    page = person.http.get(f"/my/projects/{project['id']}/agents", params={"limit": 3, "offset": 2}).json()

    assert [agent["name"] for agent in page["items"]] == names[2:]
    assert (page["total"], page["limit"], page["offset"]) == (4, 3, 2)
