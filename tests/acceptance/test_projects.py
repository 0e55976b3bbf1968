"""Projects over HTTP, on SQLite and PostgreSQL."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import StartServer, Write
from tests.depth import by_depth
from tests.people import Person, assert_problem

pytestmark = pytest.mark.any_database

STARTER_PACK = {
    "agent_coder": ("developer", "gpt-4", 0.3, 4096),
    "agent_analyzer": ("analyst", "gpt-4", 0.5, 2048),
    "agent_writer": ("writer", "gpt-4", 0.7, 2048),
    "agent_researcher": ("researcher", "gpt-4", 0.6, 3096),
}
# Valid and invalid settings for tools.
VALUE = st.none() | st.booleans() | st.integers(-5, 700_000) | st.sampled_from(["yes", "x", "**", "60"])
RULE_FIELDS = ["enabled", "requires_approval", "allowed_paths", "denied_paths", "other"]
RULE = VALUE | st.dictionaries(st.sampled_from(RULE_FIELDS), VALUE | st.lists(VALUE, max_size=2), max_size=3)
RULES = VALUE | st.lists(RULE, max_size=1) | st.dictionaries(st.sampled_from(["tool_stat", "any"]), RULE, max_size=2)
SETTINGS = st.fixed_dictionaries({}, optional={"tools": RULES, "approval_seconds": VALUE, "other": VALUE})


@pytest.mark.req("UWS-02.1")
@pytest.mark.parametrize("path", ["/my/projects/", "/my/projects"])
def test_a_new_project_has_the_starter_pack(person: Person, path: str) -> None:
    answer = person.http.post(path, json={"name": "Website"})

    assert answer.status_code == 201
    project = answer.json()
    made = {a["name"]: (a["role"], a["model"], a["temperature"], a["max_tokens"]) for a in project["agents"]}
    assert made == STARTER_PACK
    listed = person.http.get(f"/my/projects/{project['id']}/agents/").json()
    assert [agent["name"] for agent in listed["items"]] == list(STARTER_PACK)
    assert person.http.get(f"/my/projects/{project['id']}").json() == project


def test_starter_agents_have_the_tools_of_their_role(person: Person) -> None:
    tools = {agent["name"]: set(agent["tools"]) for agent in person.project()["agents"]}

    everywhere = {"write_file", "read_file", "list_files", "get_workspace_info", "memory_read", "memory_write"}
    reading = {"tool_read_file", "tool_list_directory", "tool_search_files", "tool_stat"}
    writing = {"tool_write_file", "tool_edit_file", "tool_delete_file", "tool_run_command", "spawn_agent"}
    assert tools["agent_coder"] == everywhere | reading | writing
    assert tools["agent_analyzer"] == everywhere | reading
    assert tools["agent_writer"] == everywhere | reading | {"tool_write_file"}
    assert tools["agent_researcher"] == everywhere | reading | {"web_search", "web_fetch"}


def test_projects_are_listed_page_by_page(person: Person) -> None:
    made = [person.project(f"Project {number}")["id"] for number in range(5)]

    pages = [person.http.get("/my/projects", params={"limit": 2, "offset": offset}).json() for offset in (0, 2, 4, 6)]

    assert [[item["id"] for item in page["items"]] for page in pages] == [made[:2], made[2:4], made[4:], []]
    assert all(page["total"] == 5 and page["limit"] == 2 for page in pages)
    assert [page["offset"] for page in pages] == [0, 2, 4, 6]
    assert person.http.get("/my/projects").json()["limit"] == 50


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 101}, {"limit": "x"}, {"offset": -1}, {"offset": 2**63}])
def test_pages_out_of_range_are_refused(person: Person, query: dict[str, str]) -> None:
    assert_problem(person.http.get("/my/projects", params=query), 422, "invalid_request")


def test_name_and_settings_can_be_changed_separately(person: Person) -> None:
    project = person.project("Before")
    url = f"/my/projects/{project['id']}"

    renamed = person.http.patch(url, json={"name": "After"}).json()
    settled = person.http.patch(
        url, json={"settings": {"language": "ru", "nested": {"list": [1, 2.5, None, True]}}}
    ).json()
    unchanged = person.http.patch(url, json={}).json()

    assert (renamed["name"], renamed["settings"]) == ("After", {})
    assert settled["name"] == "After"
    assert settled["settings"] == {"language": "ru", "nested": {"list": [1, 2.5, None, True]}}
    assert settled["updated_at"] > project["updated_at"]
    assert unchanged == settled
    assert person.http.get(url).json()["settings"] == settled["settings"]


@pytest.mark.req("AGT-02.7")
@pytest.mark.parametrize(
    ("new_settings", "location"),
    [
        ({"tools": []}, "tools"),
        ({"tools": {"tool_stat": True}}, "tools.tool_stat"),
        ({"tools": {"*": {"enabled": "perhaps"}}}, "tools.*.enabled"),
        ({"tools": {"tool_stat": {"denied_paths": "**"}}}, "tools.tool_stat.denied_paths"),
        ({"tools": {"tool_stat": {"allowed_paths": ["a", 7]}}}, "tools.tool_stat.allowed_paths.1"),
        ({"approval_seconds": 0}, "approval_seconds"),
        ({"approval_seconds": 7 * 24 * 3600 + 1}, "approval_seconds"),
        ({"approval_seconds": None}, "approval_seconds"),
        ({"plans": []}, "plans"),
        ({"plans": {"approve_from_tasks": 0}}, "plans.approve_from_tasks"),
        ({"plans": {"approve_over_usd": -1}}, "plans.approve_over_usd"),
        ({"plans": {"approve_over": 1}}, "plans.approve_over"),
        ({"monthly_budget_usd": "much"}, "monthly_budget_usd"),
    ],
)
def test_invalid_tool_settings_are_refused_with_their_location(
    person: Person, new_settings: dict[str, Any], location: str
) -> None:
    project = person.project()
    url = f"/my/projects/{project['id']}"

    for answer in (
        person.http.patch(url, json={"name": "Other", "settings": new_settings}),
        person.http.post("/my/projects", json={"name": "Other", "settings": new_settings}),
    ):
        problem = assert_problem(answer, 422, "invalid_request")
        assert [error["field"] for error in problem["errors"]] == [f"body.settings.{location}"]
        assert f"body.settings.{location}" in problem["detail"]

    assert person.http.get("/my/projects").json()["total"] == 1
    assert (person.http.get(url).json()["name"], person.http.get(url).json()["settings"]) == (project["name"], {})


@pytest.mark.req("AGT-02.7")
@settings(max_examples=by_depth(25, 100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(new_settings=SETTINGS)
def test_only_usable_settings_are_stored(person: Person, project_url: str, new_settings: dict[str, Any]) -> None:
    person.http.patch(project_url, json={"settings": {}})

    answer = person.http.patch(project_url, json={"settings": new_settings})

    assert answer.status_code in (200, 422), answer.text
    stored = person.http.get(project_url).json()["settings"]
    assert stored == (new_settings if answer.status_code == 200 else {})
    tools = {tool["name"]: tool for tool in person.http.get(f"{project_url}/tools").json()["items"]}
    assert tools["tool_read_file"]["enabled"]  # no rule mentions it, so it stays enabled
    if answer.status_code == 422:
        assert all(error["field"].startswith("body.settings.") for error in answer.json()["errors"])


@pytest.fixture
def project_url(person: Person) -> str:
    return f"/my/projects/{person.project()['id']}"


@pytest.mark.req("AGT-02.7")
def test_all_tools_that_agents_can_have_are_listed_page_by_page(person: Person) -> None:
    project = person.project()
    url = f"/my/projects/{project['id']}/tools"

    listed = person.http.get(url).json()

    names = [tool["name"] for tool in listed["items"]]
    assert {tool for agent in project["agents"] for tool in agent["tools"]} <= {*names}
    assert (listed["total"], listed["limit"], listed["offset"]) == (len(names), 50, 0)
    assert len({*names}) == len(names)
    pages = [person.http.get(url, params={"limit": 10, "offset": offset}).json() for offset in (0, 10, 20)]
    assert [tool["name"] for page in pages for tool in page["items"]] == names
    assert_problem(person.http.get(url, params={"limit": 101}), 422, "invalid_request")


def test_deleting_a_project_deletes_its_agents(person: Person) -> None:
    project, other_project = person.project("Gone"), person.project("Kept")
    url = f"/my/projects/{project['id']}"

    answer = person.http.delete(url)

    assert answer.status_code == 204
    assert answer.content == b""
    assert_problem(person.http.get(url), 404, "project_not_found")
    assert_problem(person.http.get(f"{url}/agents/{project['agents'][0]['id']}"), 404, "project_not_found")
    assert_problem(person.http.delete(url), 404, "project_not_found")
    assert person.http.get(f"/my/projects/{other_project['id']}").json()["agents"] == other_project["agents"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "   "},
        {"name": "x" * 201},
        {"name": "line\nbreak"},
        {"name": "nul\x00"},
        {"name": 7},
        {"name": None},
        {"name": "Fine", "colour": "red"},
        {"name": "Fine", "settings": []},
        {"name": "Fine", "settings": {"long": "x" * 16_384}},
        {"name": "Fine", "settings": {"number": 10**400}},
    ],
)
def test_a_bad_project_is_refused_and_nothing_is_stored(person: Person, body: dict[str, object]) -> None:
    problem = assert_problem(person.http.post("/my/projects", json=body), 422, "invalid_request")

    assert problem["errors"][0]["field"].startswith("body.")
    assert person.http.get("/my/projects").json()["total"] == 0


@pytest.mark.parametrize(
    "raw",
    [
        rb'{"name": "\ud800"}',
        rb'{"name": "x", "settings": {"a": NaN}}',
        rb'{"name": "x", "settings": {"a": 1e999}}',
        rb'{"name": "x", "settings": {"\ud800": 1}}',
        b'{"name": "x", "settings": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b'{"name": "x", "settings": {"a": ' + b"[" * 17 + b"]" * 17 + b"}}",
        b'{"name": "x"',
        b"\xff\xfe",
        b"[]",
        b"null",
        b"",
    ],
)
def test_invalid_json_body_is_refused(person: Person, raw: bytes) -> None:
    answer = person.http.post("/my/projects", content=raw, headers={"Content-Type": "application/json"})

    assert answer.status_code in (400, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert person.http.get("/my/projects").json()["total"] == 0


def test_project_limit_per_user(start_server: StartServer) -> None:
    person = Person.register(start_server(ARTEL_MAX_PROJECTS_PER_USER="2").url)
    first = person.project()
    person.project()

    problem = assert_problem(person.http.post("/my/projects", json={"name": "Third"}), 409, "limit_reached")

    assert "2 projects" in problem["detail"]
    person.http.delete(f"/my/projects/{first['id']}")
    person.project("Room again")


@pytest.mark.req("SEC-02.3")
def test_too_long_stored_rules_disable_all_tools_with_a_reason(person: Person, write: Write) -> None:
    project = person.project()["id"]
    url = f"/my/projects/{project}"
    rules = {"tools": {"*": {"denied_paths": [f"folder{number}/**" for number in range(101)]}}}
    assert_problem(person.http.patch(url, json={"settings": rules}), 422, "invalid_request")
    assert_problem(person.http.post("/my/projects/", json={"name": "New", "settings": rules}), 422, "invalid_request")
    write("UPDATE projects SET settings = :settings WHERE id = :id", settings=json.dumps(rules), id=project)

    tools = person.get(f"{url}/tools")["items"]

    assert not any(tool["enabled"] for tool in tools)
    assert all("denied_paths: List should have at most 100 items" in tool["problem"] for tool in tools)
    rules["tools"]["*"]["denied_paths"].pop()
    assert person.http.patch(url, json={"settings": rules}).status_code == 200
    assert {(tool["enabled"], tool["problem"]) for tool in person.get(f"{url}/tools")["items"]} == {(True, None)}
