"""The loop settings of agents, through HTTP with a scripted model, on SQLite and PostgreSQL."""

import json
from typing import Any

import pytest

from tests.model_server import ByMark, ModelServer, Say, Tool
from tests.people import Person
from tests.running import Server

pytestmark = pytest.mark.any_database

CRITICISED = json.dumps({"needs_improvement": True, "critique": "Too short."})


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


class Coder:
    """A person's session with a coder whose loop can be changed."""

    def __init__(self, person: Person, model: ModelServer, mark: str) -> None:
        self._person, self._model, self._mark = person, model, mark
        project = person.project()
        self.url = f"/my/projects/{project['id']}/agents/{project['agents'][0]['id']}"
        self.session = person.session(project["id"])

    def set_loop(self, **loop: Any) -> None:
        answer = self._person.http.patch(self.url, json={"loop": loop})
        assert answer.status_code == 200, answer.text

    def ask(self) -> dict[str, Any]:
        return self._person.say(self.session, self._mark)

    @property
    def structures(self) -> list[str | None]:
        """The structures that the model was asked for, None for an answer."""
        return [request.schema_name for request in self._model.asked_about(self._mark)]


@pytest.fixture
def coder(person: Person, model: ModelServer, mark: str) -> Coder:
    return Coder(person, model, mark)


@pytest.mark.req("AGT-05.6")
def test_an_agent_answers_directly_by_default(coder: Coder, script: ByMark, mark: str) -> None:
    script[mark] = Say("Hello.")

    assert coder.ask()["content"] == "Hello."
    assert coder.structures == [None]


@pytest.mark.req("AGT-05.1", "AGT-05.3", "AGT-05.6")
def test_phases_that_are_switched_on_run_and_can_be_switched_off(coder: Coder, script: ByMark, mark: str) -> None:
    script[mark] = [Say(), Say(), Say("Bad."), Say(CRITICISED), Say("Good, and longer."), Say()]
    coder.set_loop(understand=True, plan=True, critique=True)

    answer = coder.ask()

    assert coder.structures == ["understanding", "steps", None, "critique", None, "critique"]
    assert answer["content"] == "Good, and longer."
    assert answer["usage"]["calls"] == 6
    script[mark] = Say("Once.")
    coder.set_loop(understand=False, plan=False, critique=False)
    assert coder.ask()["content"] == "Once."
    assert coder.structures[6:] == [None]


@pytest.mark.req("AGT-05.3")
def test_critique_sends_drafts_back_at_most_max_iterations_times(coder: Coder, script: ByMark, mark: str) -> None:
    script[mark] = [Say("One."), Say(CRITICISED), Say("Two."), Say(CRITICISED), Say("Three."), Say("Never.")]
    coder.set_loop(critique=True, max_iterations=2)

    assert coder.ask()["content"] == "Three."
    assert coder.structures == [None, "critique", None, "critique", None]


@pytest.mark.req("AGT-05.4")
@pytest.mark.parametrize("limit", [0, 2])
def test_the_model_gets_no_tools_after_max_tool_calls(
    coder: Coder, model: ModelServer, script: ByMark, mark: str, limit: int
) -> None:
    script[mark] = [Say(tools=[Tool("list_files", "{}")])] * limit + [Say("Done.")]
    coder.set_loop(max_tool_calls=limit)

    assert coder.ask()["content"] == "Done."
    assert ["tools" in request.body for request in model.asked_about(mark)] == [True] * limit + [False]


@pytest.mark.req("TWS-07.1")
def test_a_child_has_the_loop_of_its_parent(coder: Coder, model: ModelServer, script: ByMark, mark: str) -> None:
    for_child = mark.upper()
    brief = {"role": "tester", "task_brief": {"objective": for_child}}
    script[mark] = [Say(tools=[Tool("spawn_agent", json.dumps(brief))]), Say("Done."), Say()]
    script[for_child] = [Say("Tested."), Say()]
    coder.set_loop(critique=True)

    assert coder.ask()["content"] == "Done."
    assert [request.schema_name for request in model.asked_about(for_child)] == [None, "critique"]
