"""Operator limits: models, monthly budget and storage of users."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.actors.workspace_user import WorkspaceUser
from tests.conftest import JWT_SECRET, StartServer, with_model
from tests.model_server import ByMark, ModelServer, Say, Tool
from tests.people import Person, assert_problem, client, new_agent
from tests.running import Server, artel, clean_environment

pytestmark = pytest.mark.any_database


@pytest.fixture(scope="module")
def limited(start_shared_server: StartServer, model: ModelServer) -> Server:
    """A server that allows two glob patterns of models, no unpriced ones, and few tool calls."""
    rules = {"ARTEL_MODELS_ALLOWED": '["gpt-4o*", "openai/*"]', "ARTEL_MODELS_UNPRICED": "[]"}
    calls = {"ARTEL_MAX_TOOL_CALLS_PER_TASK": "2", "ARTEL_MAX_API_CALLS_PER_MINUTE": "3"}
    return start_shared_server(**with_model(model), **rules, **calls)


@pytest.fixture(scope="module")
def first(limited: Server) -> Person:
    """The first account of the server, its administrator."""
    return Person.register(limited.url)


@pytest.fixture
def administrator(limited: Server, first: Person) -> Person:
    return replace(first, http=client(limited.url, first.token))


@pytest.fixture
def user(limited: Server, administrator: Person) -> Person:
    assert administrator.user_id
    return Person.register(limited.url)


Limits = Callable[..., dict[str, Any]]


@pytest.fixture
def limits(administrator: Person, user: Person) -> Limits:
    def change(**values: Any) -> dict[str, Any]:
        answer = administrator.http.patch(f"/admin/users/{user.user_id}", json=values)
        assert answer.status_code == 200, answer.text
        account: dict[str, Any] = answer.json()
        return account

    return change


def _agent(person: Person, project_id: int, name: str) -> int:
    agent_id: int = person.agent(project_id, name=name, model="gpt-4o", memory=False)["id"]
    return agent_id


@pytest.mark.req("AGT-02.9", "AGT-02.12")
def test_tool_calls_of_a_task_and_of_a_minute_are_limited(
    user: Person, model: ModelServer, script: ByMark, mark: str
) -> None:
    project = user.project()
    agent = user.agent(project["id"], name="counter", model="gpt-4o", tools=["get_workspace_info"], memory=False)
    assert agent["loop"]["max_tool_calls"] == 10

    def errors_of(turn: str) -> list[str | None]:
        """Make the agent call a tool three times; return the error of each call."""
        calls = [Tool("get_workspace_info", "{}", f"call_{number}") for number in range(3)]
        script[f"{mark} {turn}"] = [Say(tools=calls), Say("Done.")]
        user.say(user.session(project["id"]), f"{mark} {turn}", "counter")
        told = model.asked_about(f"{mark} {turn}")[-1].body["messages"]
        return [json.loads(message["content"]).get("error") for message in told if message["role"] == "tool"]

    used_up = "get_workspace_info was not called: all 2 tool calls of this task are used up."
    assert errors_of("first") == [None, None, used_up]
    done, refused, last = errors_of("second")
    assert (done, last) == (None, used_up)
    assert str(refused).startswith("3 tool calls were made in the last minute.")


@pytest.mark.req("SEC-05.1")
def test_only_allowed_models_can_be_configured_and_called(user: Person, model: ModelServer, mark: str) -> None:
    project = user.project()
    url = f"/my/projects/{project['id']}/agents"

    refused = user.http.post(url, json=new_agent(model="gpt-3.5-turbo"))
    problem = assert_problem(refused, 422, "model_not_allowed")
    assert "gpt-4o*" in problem["detail"]

    agent = user.agent(project["id"], model="gpt-4o-mini")
    assert_problem(user.http.patch(f"{url}/{agent['id']}", json={"model": "o1"}), 422, "model_not_allowed")

    answer = user.post(user.session(project["id"]), mark, "coder")  # the starter pack has gpt-4
    assert answer.status_code == 502
    assert "not allowed on this server" in answer.json()["detail"]
    assert model.asked_about(mark) == []


@pytest.mark.req("SEC-05.1")
@pytest.mark.parametrize(
    "name",
    [
        "http://127.0.0.1/v1",
        "huggingface/http://127.0.0.1:18799/x",
        "openai/../../etc",
        "openai//x",
        "/etc/passwd",
        "a\\b",
        "a b",
        "gpt-4\u202e",
        "-x",
    ],
)
def test_model_name_cannot_be_a_url(person: Person, name: str) -> None:
    answer = person.http.post(f"/my/projects/{person.project()['id']}/agents", json=new_agent(model=name))

    assert_problem(answer, 422, "invalid_request")


@pytest.mark.req("SEC-05.1")
@pytest.mark.parametrize(
    "name",
    [
        "anthropic/claude-sonnet-4-5",
        "ollama/llama3:8b",
        "bedrock/us.amazon.nova-v1:0",
        "vertex_ai/m@001",
        "ft:gpt-4o:o::1",
    ],
)
def test_usual_model_names_are_accepted(person: Person, name: str) -> None:
    assert person.agent(person.project()["id"], model=name)["model"] == name


@pytest.mark.req("SEC-05.4")
def test_a_model_without_a_price_needs_permission(user: Person) -> None:
    url = f"/my/projects/{user.project()['id']}/agents"

    problem = assert_problem(
        user.http.post(url, json=new_agent(model="openai/nobody-knows-this")), 422, "model_not_allowed"
    )

    assert "models_unpriced" in problem["detail"]


@pytest.mark.req("SEC-05.4")
@pytest.mark.parametrize("name", ["vllm/x", "llamafile/x", "demo", "demo/x", "openai/vllm/x"])
def test_model_named_free_is_not_free(user: Person, name: str) -> None:
    refused = user.http.post(f"/my/projects/{user.project()['id']}/agents", json=new_agent(model=name))

    assert_problem(refused, 422, "model_not_allowed")


@pytest.mark.req("SEC-05.4")
@pytest.mark.parametrize(("command", "status"), [("serve", 422), ("up", 201)])
def test_unpriced_models_are_allowed_by_default_only_under_up(
    tmp_path: Path, model: ModelServer, command: str, status: int
) -> None:
    env = clean_environment(tmp_path, ARTEL_JWT_SECRET=JWT_SECRET, **with_model(model))
    del env["ARTEL_MODELS_UNPRICED"]
    server = Server.start(tmp_path, env, command, *(["--no-folder"] if command == "up" else []))
    try:
        http = client(server.url, server.ready.get("token")) if command == "up" else Person.register(server.url).http
        project = http.post("/my/projects", json={"name": "Own models"}).json()
        answer = http.post(f"/my/projects/{project['id']}/agents", json=new_agent(model="openai/own"))
    finally:
        server.stop()

    assert answer.status_code == status, answer.text


@pytest.mark.req("SEC-05.2")
def test_user_budget_covers_all_projects_and_deleted_ones(
    user: Person, limits: Limits, administrator: Person, mark: str
) -> None:
    first, second = user.project(), user.project("Other")
    for project in (first, second):
        _agent(user, project["id"], "thrifty")
    assert limits(monthly_budget_usd=100)["spent_usd"] == 0
    user.say(user.session(first["id"]), mark, "thrifty")
    spent = limits()["spent_usd"]
    assert spent > 0

    limits(monthly_budget_usd=spent)
    refused = user.post(user.session(second["id"]), mark, "thrifty")
    problem = assert_problem(refused, 409, "account_budget_exceeded")
    assert "Ask an administrator" in problem["detail"]

    assert user.http.delete(f"/my/projects/{first['id']}").status_code == 204
    assert limits()["spent_usd"] == spent
    assert_problem(user.post(user.session(second["id"]), mark, "thrifty"), 409, "account_budget_exceeded")

    limits(monthly_budget_usd=-1)
    user.say(user.session(second["id"]), mark, "thrifty")
    _agent(administrator, administrator.project()["id"], "thrifty")  # other users are not affected


@pytest.mark.req("SEC-05.2")
def test_spending_before_the_limit_was_set_counts(user: Person, limits: Limits, mark: str) -> None:
    project = user.project()
    _agent(user, project["id"], "thrifty")
    user.say(user.session(project["id"]), mark, "thrifty")
    before = user.get("/my/usage")["sum"]["cost_usd"]

    assert limits(monthly_budget_usd=1)["spent_usd"] == pytest.approx(before)
    assert before > 0


@pytest.mark.req("SEC-05.2")
def test_user_budget_covers_plans(user: Person, limits: Limits, mark: str) -> None:
    session = user.session(user.project()["id"])
    limits(monthly_budget_usd=0)

    answer = user.post(session, mark, None, {"Prefer": "wait=60"})

    assert_problem(answer, 409, "account_budget_exceeded")


@pytest.mark.req("SEC-05.3")
def test_storage_quota_per_user(user: Person, limits: Limits, model: ModelServer, script: ByMark, mark: str) -> None:
    workspace_user = WorkspaceUser(user, model, script, mark)
    agent_id = _agent(user, workspace_user.project["id"], "agent_keeper")
    user.http.patch(f"/my/projects/{workspace_user.project['id']}/agents/{agent_id}", json={"tools": ["write_file"]})
    memory = f"/my/projects/{workspace_user.project['id']}/agents/{agent_id}/context"
    assert user.http.post(memory, json={"content": "x" * 3000}).status_code == 201

    limits(storage_bytes=6000)

    full = user.http.post(memory, json={"content": "y" * 5000})
    assert "of 6,000 bytes" in assert_problem(full, 409, "storage_full")["detail"]
    assert_problem(user.post(workspace_user.session, "z" * 5000), 409, "storage_full")
    assert user.history(workspace_user.session) == []

    result = workspace_user.call("write_file", "agent_keeper", path="big.txt", content="w" * 4000)
    assert not result["success"]
    assert "storage is full" in result["error"]

    small = user.say(workspace_user.session, mark, "keeper")
    forked = user.http.post(
        f"/my/chat/sessions/{workspace_user.session}/fork", json={"message_id": small["message_id"]}
    )
    assert forked.status_code == 201
    limits(storage_bytes=3200)
    full = user.http.post(f"/my/chat/sessions/{workspace_user.session}/fork", json={"message_id": small["message_id"]})
    assert_problem(full, 409, "storage_full")

    limits(storage_bytes=None)
    assert user.http.post(memory, json={"content": "y" * 5000}).status_code == 201


@pytest.mark.req("SEC-05.3")
def test_failed_write_does_not_count_against_the_storage_quota(
    user: Person, limits: Limits, model: ModelServer, script: ByMark, mark: str
) -> None:
    workspace_user = WorkspaceUser(user, model, script, mark)
    agent_id = _agent(user, workspace_user.project["id"], "agent_keeper")
    user.http.patch(f"/my/projects/{workspace_user.project['id']}/agents/{agent_id}", json={"tools": ["write_file"]})
    limits(storage_bytes=8000)

    result = workspace_user.call("write_file", "agent_keeper", path="../outside.txt", content="w" * 4000)

    assert not result["success"]
    assert "storage is full" not in result["error"]
    memory = f"/my/projects/{workspace_user.project['id']}/agents/{agent_id}/context"
    assert user.http.post(memory, json={"content": "x" * 4000}).status_code == 201


@pytest.mark.req("SEC-05.3")
def test_agents_count_against_the_storage_quota(user: Person, limits: Limits) -> None:
    url = f"/my/projects/{user.project()['id']}/agents"
    limits(storage_bytes=100_000)
    stored = user.http.post(url, json=new_agent(model="gpt-4o", name="large", system_prompt="x" * 60_000)).json()
    small = user.http.post(url, json=new_agent(model="gpt-4o", name="small", system_prompt="x")).json()
    exported = user.http.get(f"{url}/{stored['id']}/export").text.replace("large", "imported")

    def assert_full() -> None:
        """Check that another 60,000 bytes are refused in each way."""
        for answer in (
            user.http.post(url, json=new_agent(model="gpt-4o", name="other", system_prompt="x" * 60_000)),
            user.http.patch(f"{url}/{small['id']}", json={"system_prompt": "x" * 60_000}),
            user.http.post(f"{url}/import", content=exported, headers={"Content-Type": "application/yaml"}),
        ):
            assert_problem(answer, 409, "storage_full")

    assert_full()
    limits(storage_bytes=100_000)  # now they are measured
    assert_full()
    assert user.http.patch(f"{url}/{small['id']}", json={"role": "Tester"}).status_code == 200
    assert user.http.patch(f"{url}/{stored['id']}", json={"system_prompt": "x"}).status_code == 200
    assert user.http.patch(f"{url}/{small['id']}", json={"system_prompt": "x" * 60_000}).status_code == 200
    refused_again = user.http.post(url, json=new_agent(model="gpt-4o", name="other", system_prompt="x" * 60_000))
    assert user.http.delete(f"{url}/{small['id']}").status_code == 204

    assert_problem(refused_again, 409, "storage_full")
    assert (
        user.http.post(url, json=new_agent(model="gpt-4o", name="other", system_prompt="x" * 60_000)).status_code == 201
    )


@pytest.mark.req("SEC-05.3")
def test_projects_count_against_the_storage_quota(user: Person, limits: Limits) -> None:
    limits(storage_bytes=6_000)
    created = [user.http.post("/my/projects", json={"name": f"Project {number}"}) for number in range(4)]

    assert created[0].status_code == 201
    assert_problem(created[-1], 409, "storage_full")


@pytest.mark.req("SEC-05.3")
@pytest.mark.parametrize("deleted", ["project", "session"])
def test_deletion_frees_storage_at_once(user: Person, limits: Limits, deleted: str) -> None:
    limits(storage_bytes=30_000)
    project, other_project = user.project()["id"], user.project()["id"]
    _agent(user, other_project, "thrifty")
    session, next_session = user.session(other_project), user.session(project)
    _agent(user, project, "thrifty")
    assert user.post(session, "x" * 9000, "thrifty").status_code == 200
    refused = user.post(next_session, "y" * 20_000, "thrifty")

    url = f"/my/projects/{other_project}" if deleted == "project" else f"/my/chat/sessions/{session}"
    assert user.http.delete(url).status_code == 204

    assert_problem(refused, 409, "storage_full")
    assert user.post(next_session, "y" * 20_000, "thrifty").status_code == 200


@pytest.mark.req("SEC-05.3")
def test_repeated_message_is_accepted_when_the_storage_is_full(user: Person, limits: Limits) -> None:
    project = user.project()
    _agent(user, project["id"], "thrifty")
    session = user.session(project["id"])
    limits(storage_bytes=15_000)  # which the agents of the project take up too
    first = user.post(session, "x" * 9000, "thrifty", idempotency_key="once")

    again = user.post(session, "x" * 9000, "thrifty", idempotency_key="once")

    assert (first.status_code, again.json()["turn_id"]) == (200, first.json()["turn_id"])
    assert_problem(user.post(session, "x" * 9000, "thrifty", idempotency_key="twice"), 409, "storage_full")


@pytest.mark.req("SEC-05.2", "SEC-05.3")
def test_only_administrators_see_and_set_limits(user: Person, administrator: Person, limits: Limits) -> None:
    assert_problem(user.http.get("/admin/users"), 403, "administrator_only")
    assert_problem(user.http.patch(f"/admin/users/{user.user_id}", json={}), 403, "administrator_only")
    assert_problem(administrator.http.patch("/admin/users/999999", json={}), 404, "account_not_found")

    limits(monthly_budget_usd=2.5, storage_bytes=10)

    everybody = administrator.get("/admin/users", limit=100)
    [mine] = [account for account in everybody["items"] if account["user_id"] == user.user_id]
    assert (mine["monthly_budget_usd"], mine["storage_bytes"], mine["email"]) == (2.5, 10, user.email)
    assert everybody["total"] == len(everybody["items"])


@pytest.mark.req("SEC-05.2", "SEC-05.3")
def test_the_operator_sets_limits_on_the_command_line(start_server: StartServer) -> None:
    server = start_server()
    person = Person.register(server.url)
    server.stop()

    limit = "users", "limit", person.email, "--monthly-usd"
    done = artel(*limit, "2.5", "--storage-mb", "none", "--json", env=server.env)
    wrong = artel(*limit, "much", env=server.env)

    assert '"monthly_micros": 2500000' in done.stdout, done.stderr
    assert '"storage_bytes": -1' in done.stdout
    assert wrong.returncode == 2
    assert "--monthly-usd is a number" in " ".join(wrong.stderr.split())
