"""Providers of models that an administrator adds while the server runs."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy

from tests.conftest import JWT_SECRET, StartServer, with_model
from tests.model_server import Behaviour, ByMark, Fail, ModelServer, Raw
from tests.people import PASSWORD, Person, assert_problem, client
from tests.running import Server, artel, clean_environment

pytestmark = pytest.mark.any_database

KEY = "sk-a-secret-that-nobody-may-see-x7Qd"
CLOSED = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def plain(start_shared_server: StartServer) -> Server:
    """A server without any model in its environment."""
    return start_shared_server()


@pytest.fixture(scope="module")
def first(plain: Server) -> Person:
    """The first account of the server, its administrator."""
    return Person.register(plain.url)


@pytest.fixture
def administrator(plain: Server, first: Person) -> Iterator[Person]:
    """The administrator of a server without providers and with default settings."""
    person = replace(first, http=client(plain.url, first.token))
    yield person
    for provider in person.get("/admin/providers")["items"]:
        assert person.http.delete(f"/admin/providers/{provider['id']}").status_code == 204
    settings = {"default_model": None, "planner_model": None}
    assert person.http.patch("/admin/settings", json=settings).status_code == 200


@pytest.fixture
def models() -> Iterator[ModelServer]:
    """A model server of this test only."""
    with ModelServer(ByMark()).running_in_thread() as running:
        yield running


def add(person: Person, **fields: Any) -> dict[str, Any]:
    answer = person.http.post("/admin/providers", json=fields)
    assert answer.status_code == 201, answer.text
    provider: dict[str, Any] = answer.json()
    return provider


def run_test(person: Person, provider: dict[str, Any]) -> dict[str, Any]:
    answer = person.http.post(f"/admin/providers/{provider['id']}/test")
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


def stored(server: Server, statement: str, **values: Any) -> list[Any]:
    """Run a statement in the server's database; return its rows, if it has any."""
    engine = sqlalchemy.create_engine(server.env["ARTEL_DATABASE_URL"].replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.begin() as connection:
            result = connection.execute(sqlalchemy.text(statement), values)
            return list(result) if result.returns_rows else []
    finally:
        engine.dispose()


@pytest.mark.req("MOD-01.1", "MOD-01.2")
def test_provider_is_used_at_once_and_its_key_is_never_shown(
    administrator: Person, plain: Server, models: ModelServer, mark: str
) -> None:
    session = administrator.session()
    assert administrator.get("/my/models")["demo"] is True
    assert administrator.say(session, mark)["usage"]["model"] == "demo"

    provider = add(administrator, kind="openai", base_url=models.url, api_key=f" {KEY}\n")

    assert (provider["status"], provider["key_set"], provider["key_hint"]) == ("untested", True, "x7Qd")
    assert administrator.say(session, f"{mark} again")["content"] == f"You said: {mark} again"
    assert models.asked[-1].headers["Authorization"] == f"Bearer {KEY}"
    provider = run_test(administrator, provider)
    assert (provider["status"], provider["error"], provider["models"]) == ("ok", None, ["gpt-4"])
    [shown] = administrator.get("/my/models")["items"]
    assert (shown["id"], shown["source"], shown["allowed"]) == ("gpt-4", "stored", True)
    assert (shown["input_usd_per_million"], shown["context_window"]) == (30.0, 8192)
    changed = administrator.http.patch(f"/admin/providers/{provider['id']}", json={"name": "Mine"}).text
    answers = [administrator.http.get(path).text for path in ("/admin/providers", "/my/models", "/admin/settings")]
    rows = str(stored(plain, "SELECT * FROM model_providers"))
    for text in (*answers, changed, rows, plain.log.read_text(), json.dumps(provider)):
        assert KEY not in text
        assert KEY[:-4] not in text

    assert administrator.http.delete(f"/admin/providers/{provider['id']}").status_code == 204
    assert administrator.say(session, f"{mark} last")["usage"]["model"] == "demo"


@pytest.mark.req("MOD-01.1")
def test_only_administrators_see_and_change_providers(administrator: Person, plain: Server) -> None:
    provider = add(administrator, kind="ollama")
    person = Person.register(plain.url)
    path = f"/admin/providers/{provider['id']}"

    for method, url, body in [
        ("GET", "/admin/providers", None),
        ("POST", "/admin/providers", {"kind": "lmstudio"}),
        ("PATCH", path, {"name": "Mine"}),
        ("DELETE", path, None),
        ("POST", f"{path}/test", None),
        ("POST", "/admin/providers/test", {"kind": "ollama"}),
        ("GET", "/admin/providers/discover", None),
        ("GET", "/admin/settings", None),
        ("PATCH", "/admin/settings", {"default_model": "gpt-4"}),
    ]:
        assert_problem(person.http.request(method, url, json=body), 403, "administrator_only")
    assert_problem(administrator.http.delete("/admin/providers/999999"), 404, "provider_not_found")
    assert_problem(administrator.http.post("/admin/providers", json={"kind": "ollama"}), 409, "provider_exists")
    assert_problem(administrator.http.post("/admin/providers", json={"kind": "openai"}), 422, "provider_invalid")
    compatible = administrator.http.post("/admin/providers", json={"kind": "openai_compatible"})
    assert_problem(compatible, 422, "provider_invalid")
    for url in ("file:///etc/passwd", "http://user:pass@example.org", "http://example.org/?key=1", "http://a b"):
        answer = administrator.http.post("/admin/providers", json={"kind": "lmstudio", "base_url": url})
        assert_problem(answer, 422, "invalid_request")


@pytest.mark.req("MOD-01.2")
def test_stored_key_is_never_sent_to_another_address(
    administrator: Person, plain: Server, models: ModelServer, model: ModelServer
) -> None:
    provider = add(administrator, kind="openai_compatible", name="Lab", base_url=models.url, api_key=KEY)
    path, elsewhere = f"/admin/providers/{provider['id']}", {"base_url": f"{models.url}/other"}

    assert_problem(administrator.http.patch(path, json=elsewhere), 422, "provider_invalid")

    # Somebody who can write to the database, but has not the server's secret, changes the address.
    stored(plain, "UPDATE model_providers SET base_url = :url", url=model.url)
    stored(plain, "UPDATE installation SET settings_version = settings_version + 1")
    before = len(model.asked), len(model.listed)
    [shown] = administrator.get("/admin/providers")["items"]
    assert shown["status"] == "failed"
    assert "enter the key again" in shown["error"]
    assert run_test(administrator, provider)["status"] == "failed"
    project = administrator.project()["id"]
    agent = administrator.agent(project, model="lab/qwen", name="lab")["id"]
    problem = assert_problem(administrator.post(administrator.session(project), "Hello", agent), 502, "agent_failed")
    assert "enter the key again" in problem["detail"]
    assert (len(model.asked), len(model.listed)) == before

    answer = administrator.http.patch(path, json={"base_url": model.url, "api_key": KEY})
    assert answer.json()["status"] == "untested", answer.text
    assert run_test(administrator, provider)["status"] == "ok"


@pytest.mark.req("MOD-01.3")
@pytest.mark.parametrize(
    ("listing", "words"),
    [
        (Fail(401), "does not accept the key (401)"),
        (Fail(404), "has no list of models (404)"),
        (Fail(503), "failed (503)"),
        (Raw(b"<html>"), "did not answer with JSON"),
        (Raw(b'{"answer": 42}'), "did not answer with a list of models"),
        (Raw(b" " * 1_000_000, times=6), "more than 4 MB"),
    ],
)
def test_test_names_the_address_and_says_what_is_wrong(
    administrator: Person, models: ModelServer, listing: Behaviour, words: str
) -> None:
    models.listing = listing
    body = {"kind": "openai_compatible", "base_url": models.url, "api_key": KEY}

    result = administrator.http.post("/admin/providers/test", json=body).json()

    assert (result["ok"], result["models"], result["url"]) == (False, [], f"{models.url}/models")
    assert result["error"].startswith(result["url"])
    assert words in result["error"]
    assert KEY not in str(result)


@pytest.mark.req("MOD-01.3")
@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini"])
def test_test_follows_no_redirect(administrator: Person, models: ModelServer, model: ModelServer, kind: str) -> None:
    models.listing = Fail(302, headers={"Location": f"{model.url}/models"})
    before = len(model.listed)

    body = {"kind": kind, "base_url": models.url, "api_key": KEY}
    result = administrator.http.post("/admin/providers/test", json=body).json()

    assert "redirects to 127.0.0.1" in result["error"]
    assert len(model.listed) == before
    header = {"openai": "Authorization", "anthropic": "x-api-key", "gemini": "x-goog-api-key"}[kind]
    assert models.listed[-1].headers[header].endswith(KEY)


@pytest.mark.req("MOD-01.3")
def test_unreachable_servers_and_those_on_this_machine_are_named(
    start_server: StartServer, models: ModelServer
) -> None:
    models.models = ["qwen3:8b", "nomic-embed-text", "bad name", "x" * 300]
    server = start_server(OLLAMA_HOST=models.url.removeprefix("http://").removesuffix("/v1"))
    administrator = Person.register(server.url)

    found = administrator.get("/admin/providers/discover")

    address = models.url.removesuffix("/v1")
    assert found["items"][0] == {"kind": "ollama", "base_url": address, "models": ["ollama/qwen3:8b"]}
    assert found["tried"] == [address, "http://127.0.0.1:1234"]
    result = administrator.http.post("/admin/providers/test", json={"kind": "ollama", "base_url": CLOSED}).json()
    assert result["error"].startswith(f"{CLOSED}/v1/models can't be reached: ")
    assert "ollama serve" in result["error"]


@pytest.mark.req("MOD-01.4")
def test_environment_wins_and_is_shown(start_server: StartServer, model: ModelServer, models: ModelServer) -> None:
    database = {}
    server = start_server()
    database["ARTEL_DATABASE_URL"] = server.env["ARTEL_DATABASE_URL"]
    administrator = Person.register(server.url)
    add(administrator, kind="openai", base_url=models.url, api_key=KEY)
    server.stop()

    server = start_server(**database, OPENAI_BASE_URL=model.url, ARTEL_DEFAULT_MODEL="gpt-4o")
    administrator = replace(administrator, http=client(server.url, administrator.token))
    administrator.say(administrator.session(), "Hello")

    assert not models.asked
    assert "Authorization" not in model.asked[-1].headers  # the stored key belongs to another address
    environment, unused = administrator.get("/admin/providers")["items"]
    assert (environment["id"], environment["source"], environment["variable"]) == (
        None,
        "environment",
        "OPENAI_BASE_URL",
    )
    assert (unused["source"], unused["status"]) == ("stored", "failed")
    assert "environment" in unused["error"]
    again = administrator.http.post("/admin/providers", json={"kind": "openai", "api_key": KEY})
    assert "OPENAI_API_KEY" in assert_problem(again, 409, "provider_exists")["detail"]
    assert administrator.http.post("/admin/providers/test", json={"kind": "openai"}).json()["ok"] is True
    assert administrator.get("/my/models")["items"][0]["source"] == "environment"
    settings = administrator.get("/admin/settings")
    assert settings["default_model"] == {
        "value": "gpt-4o",
        "source": "environment",
        "variable": "ARTEL_DEFAULT_MODEL",
    }
    fixed = administrator.http.patch("/admin/settings", json={"default_model": "gpt-4"})
    assert "ARTEL_DEFAULT_MODEL" in assert_problem(fixed, 409, "setting_fixed")["detail"]


@pytest.mark.req("MOD-01.5", "MOD-01.1")
def test_missing_provider_error_lists_models_and_new_agents_use_the_default(
    administrator: Person, models: ModelServer, mark: str
) -> None:
    models.models = ["qwen3", "llama3"]
    old = administrator.project()
    assert {agent["model"] for agent in old["agents"]} == {"gpt-4"}
    ollama = add(administrator, kind="ollama", base_url=models.url.removesuffix("/v1"))
    run_test(administrator, ollama)

    session = administrator.session(old["id"])
    problem = assert_problem(administrator.post(session, mark), 502, "agent_failed")
    assert "Agents" in problem["detail"]
    assert "ollama/llama3, ollama/qwen3" in problem["detail"]
    turn_id = administrator.history(session)[-1]["turn_id"]
    assert administrator.turn(session, turn_id)["error_code"] == "model_not_configured"
    assert not models.asked

    assert_problem(
        administrator.http.patch("/admin/settings", json={"default_model": "gpt-4"}), 422, "model_not_configured"
    )
    chosen = administrator.http.patch("/admin/settings", json={"default_model": "ollama/qwen3"}).json()
    assert (chosen["default_model"]["value"], chosen["default_model"]["source"]) == ("ollama/qwen3", "stored")
    assert chosen["planner_model"]["value"] == "ollama/qwen3"  # because OpenAI is not configured
    new = administrator.project()
    assert {agent["model"] for agent in new["agents"]} == {"ollama/qwen3"}
    assert _agent_without_model(administrator, new["id"]) == "ollama/qwen3"
    assert administrator.say(administrator.session(new["id"]), mark)["content"] == f"You said: {mark}"
    assert models.asked[-1].body["model"] == "qwen3"
    session = administrator.session(new["id"])
    administrator.submit(session, f"{mark} plan", None)
    with administrator.follow(session, 0) as events:
        assert next(event for event in events if event.type == "task_plan_created")
    assert {request.body["model"] for request in models.asked} == {"qwen3"}

    administrator.http.delete(f"/admin/providers/{ollama['id']}")
    assert administrator.get("/admin/settings")["default_model"]["source"] == "default"


@pytest.mark.req("SEC-05.4", "SEC-04.5", "MOD-01.1")
def test_administrator_allows_models_without_price_and_closes_registration(
    upgraded_database: Any, models: ModelServer, tmp_path: Path
) -> None:
    env = clean_environment(tmp_path, ARTEL_DATABASE_URL=upgraded_database(), ARTEL_JWT_SECRET=JWT_SECRET)
    del env["ARTEL_MODELS_UNPRICED"], env["ARTEL_REGISTRATION_OPEN"]
    server = Server.start(tmp_path, env)
    try:
        administrator = Person.register(server.url)
        models.models = ["our-model"]
        run_test(administrator, add(administrator, kind="openai_compatible", name="Our Lab", base_url=models.url))
        [shown] = administrator.get("/my/models")["items"]
        assert (shown["id"], shown["allowed"], shown["input_usd_per_million"]) == ("our-lab/our-model", False, None)
        refused = administrator.http.patch("/admin/settings", json={"default_model": "our-lab/our-model"})
        assert_problem(refused, 422, "model_not_allowed")

        settings = {"default_model": "our-lab/our-model", "models_unpriced": ["our-lab/*"], "registration_open": True}
        answer = administrator.http.patch("/admin/settings", json=settings)

        assert answer.status_code == 200, answer.text
        assert administrator.get("/my/models")["items"][0]["allowed"] is True
        person = Person.register(server.url)
        assert person.say(person.session(), "Hello")["content"] == "You said: Hello"
        assert models.asked[-1].body["model"] == "our-model"
        administrator.http.patch("/admin/settings", json={"registration_open": False})
        new = {"email": "late@example.org", "password": PASSWORD}
        assert_problem(httpx.post(f"{server.url}/auth/register", json=new, timeout=60), 403, "registration_closed")
    finally:
        server.stop()


@pytest.mark.req("MOD-01.1", "MOD-01.2")
def test_command_line_adds_tests_chooses_and_removes(
    administrator: Person, plain: Server, models: ModelServer, tmp_path: Path
) -> None:
    env = clean_environment(tmp_path, ARTEL_SERVER=plain.url, ARTEL_TOKEN=administrator.token)
    models.models = ["small", "large"]

    def run(*arguments: str, stdin: str = "", code: int = 0) -> str:
        done = artel("models", *arguments, env=env, stdin=stdin)
        assert done.returncode == code, done.stdout + done.stderr
        assert KEY not in done.stdout + done.stderr
        return done.stdout + done.stderr

    assert "demo brain" in run("list")
    added = run("add", "openai_compatible", "--url", models.url, "--name", "Lab", "--key", stdin=f"{KEY}\n")
    assert "Its models: lab/large, lab/small." in added
    assert "…x7Qd" in run("list", "--providers")
    assert "lab/large" in run("list")
    assert "lab/small (stored)" in run("default", "lab/small")
    models.listing = Fail(401)
    assert "does not accept the key (401)" in run("test", "lab")
    assert "Lab (" in run("test", "nobody", code=3)
    run("remove", "Lab", "--yes")
    assert administrator.get("/admin/providers")["total"] == 0


@pytest.mark.req("MOD-01.4")
def test_models_of_the_environment_are_listed(start_server: StartServer, models: ModelServer) -> None:
    models.models = ["served"]
    person = Person.register(start_server(**with_model(models), ANTHROPIC_API_KEY=KEY).url)

    shown = {model["id"]: model for model in person.get("/my/models")["items"]}

    assert shown["served"]["provider"] == "OpenAI"
    claude = shown["anthropic/claude-sonnet-4-5"]
    assert (claude["source"], claude["supports_images"], claude["provider_id"]) == ("environment", True, None)
    person.get("/my/models")
    assert len(models.listed) == 1  # remembered for a minute


def _agent_without_model(person: Person, project_id: int) -> str:
    new = {"name": "agent_reviewer", "role": "reviewer", "system_prompt": "Review."}
    answer = person.http.post(f"/my/projects/{project_id}/agents", json=new)
    assert answer.status_code == 201, answer.text
    model: str = answer.json()["model"]
    return model
