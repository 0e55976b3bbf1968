"""When an agent's model fails, another one answers in its place: the server's fallback, or the agent's own."""

from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from tests.conftest import StartServer
from tests.model_server import Fail, ModelRequest, ModelServer, Say
from tests.people import Person, assert_problem, new_agent
from tests.running import Server

pytestmark = pytest.mark.any_database


async def all_but_gpt_4_work(request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
    model = request.body["model"]
    return await (Fail(400) if model == "gpt-4" else Say(f"From {model}."))(request, http)


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with ModelServer(all_but_gpt_4_work).running_in_thread() as model:
        yield model


@pytest.fixture(scope="module")
def server(start_shared_server: StartServer, models: ModelServer) -> Server:
    return start_shared_server(
        OPENAI_API_KEY="x",
        OPENAI_BASE_URL=models.url,
        ARTEL_FALLBACK_MODEL="gpt-4o-mini",
        ARTEL_MODELS_ALLOWED='["gpt-4*"]',
    )


@pytest.mark.req("AGT-01.2")
def test_servers_fallback_model_answers_when_the_agents_own_fails(person: Person, models: ModelServer) -> None:
    models.asked.clear()
    answer = person.say(person.session(), "Hello?")

    assert answer["content"] == "From gpt-4o-mini."
    assert answer["usage"]["model"] == "gpt-4o-mini"
    assert [asked.body["model"] for asked in models.asked] == ["gpt-4", "gpt-4o-mini"]


@pytest.mark.req("AGT-01.4")
@pytest.mark.parametrize(
    ("fallback", "content"),
    [
        ({"model": "gpt-4.1"}, "From gpt-4.1."),
        ({"enabled": True, "model": None}, "From gpt-4o-mini."),
        ({"enabled": False}, "agent_failed"),
        ({"enabled": False, "model": "gpt-4.1"}, "agent_failed"),
    ],
)
def test_fallback_is_chosen_per_agent(person: Person, fallback: dict[str, Any], content: str) -> None:
    project = person.project()
    person.agent(project["id"], fallback=fallback)

    answer = person.post(person.session(project["id"]), "Hello?", "agent_reviewer").json()

    assert (answer.get("content") or answer["code"]) == content


@pytest.mark.req("AGT-01.4", "SEC-05.1")
def test_fallback_must_be_a_model_that_is_allowed(person: Person) -> None:
    project = person.project()
    agents = f"/my/projects/{project['id']}/agents"
    agent = person.agent(project["id"], fallback={"model": "gpt-4.1"})
    foreign = {"fallback": {"model": "o1-pro"}}

    assert_problem(person.http.post(agents, json=new_agent(name="agent_other", **foreign)), 422, "model_not_allowed")
    assert_problem(person.http.patch(f"{agents}/{agent['id']}", json=foreign), 422, "model_not_allowed")
    off = person.http.patch(f"{agents}/{agent['id']}", json={"fallback": {"enabled": False}})

    assert off.json()["fallback"] == {"enabled": False, "model": "gpt-4.1"}
    assert person.get(f"{agents}/{agent['id']}")["fallback"] == {"enabled": False, "model": "gpt-4.1"}
    assert project["agents"][0]["fallback"] == {"enabled": True, "model": None}
