"""When an agent's model fails, the configured fallback answers in its place."""

import pytest
from aiohttp import web

from tests.conftest import StartServer
from tests.model_server import Fail, ModelRequest, ModelServer, Say
from tests.people import Person


async def only_the_second_model_works(request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
    return await (Fail(400) if request.body["model"] == "gpt-4" else Say("From the other one."))(request, http)


@pytest.mark.req("AGT-01.2")
def test_the_fallback_model_answers_when_the_agents_own_fails(start_server: StartServer) -> None:
    with ModelServer(only_the_second_model_works).running_in_thread() as model:
        variables = {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": model.url, "ARTEL_FALLBACK_MODEL": "gpt-4o-mini"}
        person = Person.register(start_server(**variables).url)

        answer = person.say(person.session(), "Hello?")

        assert answer["content"] == "From the other one."
        assert answer["usage"]["model"] == "gpt-4o-mini"
        assert [asked.body["model"] for asked in model.asked] == ["gpt-4", "gpt-4o-mini"]
