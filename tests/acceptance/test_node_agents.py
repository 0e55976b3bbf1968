"""Agents that run on nodes inside the server: through HTTP, with a scripted model."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.actors.node_user import PROMPT, NodeUser, write_agent_file
from tests.conftest import Rows, StartServer, with_model
from tests.deadlines import eventually
from tests.model_server import ByMark, Fail, Hold, ModelRequest, ModelServer, Say, Tool
from tests.people import Person, assert_problem
from tests.running import Server, artel, clean_environment

pytestmark = pytest.mark.any_database

OWN_TOOL = {
    "enabled": ["file_write"],
    "security": {"file_write": {"enabled": True, "allowed_paths": ["**"]}},
}


@pytest.fixture(scope="session")
def server(start_shared_server: StartServer, model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = tmp_path_factory.mktemp("agents")
    write_agent_file(folder)
    capability = {"name": "note_down", "prompt_template": "Note down: {text}"}
    write_agent_file(folder, "agent.scribe.001", type="scribe", capabilities=[capability], tools=OWN_TOOL)
    once = [{"name": "note_once", "prompt_template": "Note once: {text}"}]
    for name in ("agent.pair.001", "agent.pair.002"):
        write_agent_file(folder, name, type="pair", capabilities=once, tools=OWN_TOOL)
    for number, model_name in enumerate(("gpt-4o", "gpt-4o-mini"), 1):
        brain = {"model": model_name, "system_prompt": PROMPT}
        mirror = [{"name": "mirror", "prompt_template": "Mirror: {text}"}]
        write_agent_file(folder, f"agent.twin.00{number}", type="twin", brain=brain, capabilities=mirror)
    fallback = {"enabled": True, "model": "gpt-4o"}
    unpriced = {"model": "unpriced-model", "system_prompt": PROMPT, "fallback": fallback}
    save = [{"name": "save_money", "prompt_template": "Save: {text}"}]
    write_agent_file(folder, "agent.saver.001", type="saver", brain=unpriced, capabilities=save)
    return start_shared_server(**with_model(model), ARTEL_NODES_DIR=str(folder))


@pytest.fixture
def user(person: Person, model: ModelServer, mark: str) -> NodeUser:
    return NodeUser(person, model, mark)


# Messages


@pytest.mark.req("AGT-04.4", "AGT-08.3")
def test_message_to_an_agent_with_runtime_node_is_answered_by_a_node(user: NodeUser, script: ByMark, mark: str) -> None:
    script[mark] = Say("A sonnet.", tokens=(120, 30))

    answer = user.ask("Write a sonnet.")

    assert (answer["content"], answer["agent"]) == ("A sonnet.", "composer")
    assert answer["usage"] == {
        "model": "gpt-4o",
        "input_tokens": 120,
        "output_tokens": 30,
        "cost_usd": pytest.approx(120 * 2.5e-6 + 30 * 1e-5),
        "calls": 1,
    }
    [prompt] = user.prompts()
    assert prompt[0]["content"].startswith(PROMPT)  # the node's own prompt
    assert "Compose: " in prompt[-1]["content"]
    assert [message["role"] for message in user.person.history(user.session)] == ["user", "assistant"]


@pytest.mark.req("AGT-04.4")
def test_node_is_told_the_conversation_and_the_capability_that_the_message_names(
    person: Person, model: ModelServer, script: ByMark, mark: str
) -> None:
    user = NodeUser(person, model, mark, capabilities=["compose", "shorten"], system_prompt="Only in verse, please.")
    script[mark] = [Say("A long text."), Say("Short.")]
    user.ask("Write something.")

    assert user.ask("Now shorten it.")["content"] == "Short."

    first, second = user.prompts()
    assert "Compose: " in first[-1]["content"]
    assert "Shorten: " in second[-1]["content"]
    told = "\n".join(message["content"] for message in second[:-1])
    assert "Only in verse, please." in told
    assert "A long text." in told


@pytest.mark.req("AGT-04.4")
def test_agent_without_capabilities_runs_on_the_node_with_its_name(
    person: Person, model: ModelServer, script: ByMark, mark: str
) -> None:
    user = NodeUser(person, model, mark, capabilities=[])
    person.agent(user.project, name="agent_composer_001", runtime="node", capabilities=[])
    script[mark] = Say("Hello.")

    assert user.person.say(user.session, mark, "agent_composer_001")["content"] == "Hello."
    refused = assert_problem(user.person.post(user.session, mark, "composer"), 503, "agent_unavailable")

    assert "the name composer" in refused["detail"]


@pytest.mark.req("AGT-08.3")
def test_missing_node_is_named_with_what_to_do(person: Person, model: ModelServer, mark: str) -> None:
    user = NodeUser(person, model, mark, capabilities=["compose", "translate"])

    problem = assert_problem(user.person.post(user.session, mark, "composer"), 503, "agent_unavailable")

    assert "compose, translate" in problem["detail"]
    assert "artel node run" in problem["detail"]


@pytest.mark.req("AGT-04.4")
def test_project_uses_only_the_nodes_that_it_allows(user: NodeUser, script: ByMark, mark: str) -> None:
    script[mark] = Say("Hello.")
    user.settings(nodes_allowed=["agent.scribe.*"])

    refused = assert_problem(user.person.post(user.session, mark, "composer"), 503, "agent_unavailable")

    assert "nodes_allowed" in refused["detail"]
    assert user.prompts() == []
    user.settings(nodes_allowed=["agent.comp*"])
    assert user.ask()["content"] == "Hello."


def test_globs_of_nodes_are_validated(user: NodeUser) -> None:
    url = f"/my/projects/{user.project}"
    for wrong in ("*", [""], [7], ["x"] * 101, None):
        answer = user.person.http.patch(url, json={"settings": {"nodes_allowed": wrong}})
        problem = assert_problem(answer, 422, "invalid_request")
        assert problem["errors"][0]["field"].startswith("body.settings.nodes_allowed")


def test_error_of_the_node_is_the_answer_of_the_turn(user: NodeUser, script: ByMark, mark: str) -> None:
    script[mark] = Fail(401, {"message": "Wrong key.", "type": "invalid_request_error"})

    problem = assert_problem(user.person.post(user.session, mark, "composer"), 502, "agent_failed")

    assert "agent.composer.001" in problem["detail"]


class FirstModelFails:
    """A model server on which the model that is asked first can't answer, and the other one can."""

    def __init__(self) -> None:
        self.first = ""

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        self.first = self.first or request.body["model"]
        behaviour = Fail(503) if request.body["model"] == self.first else Say("From the other.")
        return await behaviour(request, http)


@pytest.mark.req("AGT-08.3")
def test_task_is_given_to_another_node_if_the_model_of_the_first_fails(
    person: Person, model: ModelServer, script: ByMark, mark: str
) -> None:
    user = NodeUser(person, model, mark, capabilities=["mirror"])
    script[mark] = failing = FirstModelFails()

    answer = user.ask()

    assert answer["content"] == "From the other."
    assert answer["usage"]["model"] != failing.first


# Tools


@pytest.mark.req("AGT-02.2", "AGT-02.8", "AGT-05.2")
def test_tools_of_the_space_run_in_the_space(user: NodeUser) -> None:
    user.script(
        ("write_file", {"path": "verse.txt", "content": "Roses are red."}),
        ("read_file", {"path": "verse.txt"}),
        end="Written.",
    )

    answer = user.ask()

    assert answer["content"] == "Written."
    assert answer["usage"]["calls"] == 3
    assert user.heard()[-1]["data"]["content"] == "Roses are red."
    url = f"/my/projects/{user.project}/agents/{user.agent['id']}/workspace/files/verse.txt"
    assert user.person.http.get(url).text == "Roses are red."
    assert [(call["tool"], call["status"], call["agent"]) for call in user.audit()] == [
        ("write_file", "done", "composer"),
        ("read_file", "done", "composer"),
    ]
    events = user.person.events_of(user.session, answer["turn_id"])
    assert [event.data["tool"] for event in events if event.type == "tool_called"] == ["write_file", "read_file"]


@pytest.mark.req("AGT-02.9", "AGT-05.4")
def test_calls_of_a_node_count_toward_the_limit_of_the_task(person: Person, model: ModelServer, mark: str) -> None:
    user = NodeUser(person, model, mark, loop={"max_tool_calls": 1})
    user.script(("list_files", {}), ("list_files", {}))

    user.ask()

    assert [result["success"] for result in user.heard()] == [True, False]
    assert "all 1 tool calls of this task are used up" in user.heard()[1]["error"]
    assert len(user.audit()) == 1


@pytest.mark.req("AGT-02.5")
def test_node_gets_no_tools_that_the_agent_may_not_use(person: Person, model: ModelServer, mark: str) -> None:
    user = NodeUser(person, model, mark, tools=["list_files"])
    user.script(("write_file", {"path": "a.txt", "content": "x"}))

    user.ask()

    [first, *_] = user.model.asked_about(mark)
    assert [tool["function"]["name"] for tool in first.body["tools"]] == ["list_files"]
    assert not user.heard()[0]["success"]
    assert not any(call["status"] == "done" for call in user.audit())


@pytest.mark.req("AGT-02.7")
@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_call_that_needs_approval_waits_for_the_user(user: NodeUser, decision: str) -> None:
    user.settings(tools={"write_file": {"requires_approval": True}})
    user.script(("list_files", {}), ("write_file", {"path": "a.txt", "content": "x"}), end="Done.")

    accepted = user.ask()
    [asked] = eventually(user.approvals)
    assert (asked["tool"], asked["arguments"]["path"], asked["agent_id"]) == ("write_file", "a.txt", user.agent["id"])
    user.decide(asked["id"], decision=decision, feedback="Not there.")

    assert user.ended(accepted["turn_id"])["status"] == "completed"
    first, second = user.heard()
    assert first["success"]
    assert second["success"] is (decision == "approve")
    assert second["success"] or "Not there." in second["error"]
    assert user.ended(accepted["turn_id"])["usage"]["calls"] == 3


@pytest.mark.req("AGT-02.4", "AGT-02.7")
@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_user_approves_exactly_the_call_of_the_nodes_own_tool(
    person: Person, model: ModelServer, mark: str, decision: str
) -> None:
    user = NodeUser(person, model, mark, capabilities=["note_down"])
    arguments = {"path": f"{mark}.txt", "content": "Buy milk."}
    user.script(("file_write", arguments), end="Noted.")

    accepted = user.ask()
    [approval] = eventually(user.approvals)
    assert (approval["tool"], approval["arguments"], approval["risk"]) == ("file_write", arguments, "high")
    assert "agent.scribe.001" in approval["details"]["reason"]
    user.decide(approval["id"], decision=decision)

    assert user.ended(accepted["turn_id"])["status"] == "completed"
    [result] = user.heard()
    assert result["success"] is (decision == "approve")
    statuses = [call["status"] for call in user.audit() if call["tool"] == "file_write"]
    assert statuses == ["asked", "done" if decision == "approve" else "refused"]


@pytest.mark.req("AGT-02.7", "AGT-08.3")
def test_approved_call_is_not_given_to_another_node(
    person: Person, model: ModelServer, script: ByMark, mark: str
) -> None:
    user = NodeUser(person, model, mark, capabilities=["note_once"])
    arguments = json.dumps({"path": f"{mark}.txt", "content": "Buy milk."})
    script[mark] = [Say(tools=[Tool("file_write", arguments, "call_0")]), Fail(503)]

    accepted = user.ask()
    [approval] = eventually(user.approvals)
    user.decide(approval["id"], decision="approve")

    ended = user.ended(accepted["turn_id"], 60)
    assert ended["status"] == "failed"
    assert "no other node makes it again" in json.dumps(ended)


# Money


@pytest.mark.req("AGT-01.3")
def test_cost_of_a_node_is_settled_against_the_budget(user: NodeUser, script: ByMark, mark: str) -> None:
    user.settings(monthly_budget_usd=1.0)
    script[mark] = Say("A sonnet.", tokens=(100_000, 1_000))
    cost = 100_000 * 2.5e-6 + 1_000 * 1e-5

    assert user.ask()["usage"]["cost_usd"] == pytest.approx(cost)

    user.settings(monthly_budget_usd=cost)
    problem = assert_problem(user.person.post(user.session, mark, "composer"), 409, "budget_exceeded")
    assert "$0.0000 of" in problem["detail"]
    assert len(user.prompts()) == 1


@pytest.mark.req("AGT-01.3")
def test_node_may_spend_no_more_than_the_budget_has_left(user: NodeUser, script: ByMark, mark: str) -> None:
    user.settings(monthly_budget_usd=0.03)  # enough for one call of 2,048 tokens, not for two
    script[mark] = [
        Say(tools=[Tool("list_files", "{}")], tokens=(100, 2_000)),
        Say(tools=[Tool("list_files", "{}")], tokens=(100, 2_000)),
        Say("Done."),
    ]

    problem = assert_problem(user.person.post(user.session, mark, "composer"), 409, "budget_exceeded")

    assert problem["detail"]
    assert len(user.prompts()) < 3


@pytest.mark.req("AGT-01.3")
def test_cost_of_a_model_without_a_price_is_unknown_and_of_its_fallback_is_paid(
    person: Person, model: ModelServer, script: ByMark, mark: str
) -> None:
    user = NodeUser(person, model, mark, capabilities=["save_money"])
    user.settings(monthly_budget_usd=1.0)
    cost = 100_000 * 2.5e-6 + 1_000 * 1e-5
    script[mark] = [Say("Cheap."), Fail(400), Say("Dear.", tokens=(100_000, 1_000))]

    assert user.ask()["usage"]["cost_usd"] is None
    assert user.ask()["usage"]["cost_usd"] == pytest.approx(cost)

    user.settings(monthly_budget_usd=cost)
    person.agent(user.project, name="payer", model="gpt-4o")
    problem = assert_problem(person.post(user.session, mark, "payer"), 409, "budget_exceeded")
    assert "$0.0000 of" in problem["detail"]
    script[mark] = [Say("Cheap again."), Fail(400), Say("Too dear.", tokens=(100_000, 1_000))]
    assert user.ask()["content"] == "Cheap again.", "no budget refuses what costs nothing"
    assert_problem(person.post(user.session, mark, "composer"), 409, "budget_exceeded")


# Plans


def _plan(agent: str, description: str) -> Say:
    task = {"id": "1", "agent": agent, "description": description, "depends_on": []}
    return Say(json.dumps({"tasks": [task]}))


def _planned(person: Person, session: str, text: str) -> str:
    """Send a message to the orchestrator and return its answer."""
    turn_id = person.submit(session, text, None)

    def over() -> dict[str, Any]:
        state = person.turn(session, turn_id)
        return state if state["finished_at"] else {}

    ended = eventually(over)
    assert ended["status"] == "completed", ended
    content: str = person.history(session)[-1]["content"]
    return content


@pytest.mark.req("AGT-04.4", "AGT-08.3")
def test_planner_is_told_the_nodes_and_a_plan_that_uses_one_gets_an_agent(
    person: Person, model: ModelServer, script: ByMark, mark: str
) -> None:
    project = person.project()["id"]
    session = person.session(project)
    script[mark] = [_plan("composer", f"compose {mark} part"), Say("A sonnet.")]

    assert _planned(person, session, f"{mark} Write a sonnet.") == "A sonnet."
    planning, working = model.asked_about(mark)
    told = [json.loads(line) for line in planning.body["messages"][0]["content"].splitlines() if line.startswith("{")]
    [brief] = [brief for brief in told if brief["name"] == "composer"]
    assert (brief["role"], brief["capabilities"]) == ("composer", ["compose", "shorten"])
    assert working.body["messages"][0]["content"].startswith(PROMPT)
    agents = {agent["name"]: agent for agent in person.get(f"/my/projects/{project}/agents")["items"]}
    assert (agents["composer"]["runtime"], agents["composer"]["capabilities"]) == ("node", ["compose", "shorten"])
    assert agents["composer"]["model"] == "gpt-4o"
    script[mark] = [_plan("composer", f"shorten {mark} part"), Say("Short.")]
    assert _planned(person, session, f"{mark} Again, shorter.") == "Short."
    assert len(person.get(f"/my/projects/{project}/agents")["items"]) == len(agents)


@pytest.mark.req("AGT-04.4")
def test_planner_is_not_told_nodes_that_the_project_does_not_allow(
    person: Person, model: ModelServer, script: ByMark, mark: str
) -> None:
    project = person.project()["id"]
    person.http.patch(f"/my/projects/{project}", json={"settings": {"nodes_allowed": ["agent.scribe.*"]}})
    script[mark] = [_plan("agent_coder", f"Do {mark}."), Say("Done.")]

    assert _planned(person, person.session(project), f"{mark} Write.") == "Done."

    prompt = model.asked_about(mark)[0].body["messages"][0]["content"]
    assert '"scribe"' in prompt
    assert '"composer"' not in prompt


def test_node_agent_gets_another_name_if_the_project_has_one_like_it(person: Person, script: ByMark, mark: str) -> None:
    project = person.project()["id"]
    person.agent(project, name="agent_composer")
    script[mark] = [_plan("composer_node", f"compose {mark}."), Say("Done.")]

    assert _planned(person, person.session(project), f"{mark} Write.") == "Done."

    names = [agent["name"] for agent in person.get(f"/my/projects/{project}/agents")["items"]]
    assert names[-2:] == ["agent_composer", "composer_node"]


# Stopping


@pytest.mark.req("AGT-07.2")
def test_cancelled_turn_stops_the_task_of_the_node(user: NodeUser, script: ByMark, mark: str) -> None:
    script[mark] = hold = Hold()
    accepted = user.ask(Prefer="respond-async")
    eventually(lambda: hold.arrived)

    user.person.http.post(f"/my/chat/{user.session}/turns/{accepted['turn_id']}/cancel")

    assert hold.abandoned.wait(30)  # the node has cut the call to its model
    assert user.ended(accepted["turn_id"])["status"] == "cancelled"


def test_broken_agent_file_stops_the_start_with_its_mistake(tmp_path: Path) -> None:
    path = write_agent_file(tmp_path / "agents", limits={"max_retries": "many"})
    env = clean_environment(tmp_path)

    ended = artel("serve", "--port", "0", "--nodes", str(path.parent), env=env)

    assert ended.returncode == 2
    assert f"{path}:1: agent.limits.max_retries" in ended.stderr


@pytest.mark.req("SEC-02.5")
def test_command_is_stored_for_its_user_and_project_only(
    person: Person, model: ModelServer, mark: str, rows: Rows
) -> None:
    user = NodeUser(person, model, mark)

    user.ask()

    of_project = "SELECT user_id, project_id, node_name, status FROM node_commands WHERE project_id = :id"
    [command] = rows(of_project, id=user.project)
    assert tuple(command) == (person.user_id, user.project, "agent.composer.001", "answered")
