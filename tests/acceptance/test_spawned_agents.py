"""Agents that create agents: through HTTP with a scripted model, on SQLite and PostgreSQL."""

import json
from typing import Any

import pytest

from tests.conftest import StartServer, with_model
from tests.deadlines import eventually
from tests.model_server import ByMark, Fail, Hold, ModelServer, Say, Tool
from tests.people import Person, assert_problem
from tests.running import Server

pytestmark = pytest.mark.any_database

LIMIT_SECONDS = "6"  # the parent's own calls have to end within it, on a busy machine too; only the child reaches it


@pytest.fixture
def person(chat_server: Server) -> Person:
    return Person.register(chat_server.url)


def spawn(objective: str, role: str = "tester", **more: Any) -> Say:
    """Return a model answer that spawns a child with a task."""
    brief = {"role": role, "task_brief": {"objective": objective}} | more
    return Say(tools=[Tool("spawn_agent", json.dumps(brief))], tokens=(10, 5))


def write(path: str, content: str) -> Say:
    return Say(tools=[Tool("write_file", json.dumps({"path": path, "content": content}))], tokens=(10, 5))


class SpawnUser:
    """A person with a project, and a session with its coder."""

    def __init__(self, person: Person, model: ModelServer) -> None:
        self.person, self.model = person, model
        self.project = person.project()
        self.session = person.session(self.project["id"])
        self.coder = next(agent for agent in self.project["agents"] if agent["name"] == "agent_coder")
        self.agents_url = f"/my/projects/{self.project['id']}/agents"

    def children(self, parent_id: int | None = None) -> list[dict[str, Any]]:
        parent_id = self.coder["id"] if parent_id is None else parent_id
        items = self.person.get(self.agents_url, limit=100)["items"]
        return [agent for agent in items if agent["parent_agent_id"] == parent_id]

    def told(self, text: str) -> dict[str, Any]:
        """Return the result of the tool call that this text caused."""
        told: dict[str, Any] = json.loads(self.model.asked_about(text)[-1].body["messages"][-1]["content"])
        return told


@pytest.fixture
def user(person: Person, model: ModelServer) -> SpawnUser:
    return SpawnUser(person, model)


@pytest.mark.req("TWS-07.1", "TWS-01.2", "AGT-02.2")
def test_spawned_agent_does_task_in_same_workspace(user: SpawnUser, script: ByMark, mark: str) -> None:
    brief = {
        "objective": f"{mark} child: test it.",
        "constraints": "Be quick.",
        "inputs": "notes.md",
        "outputs": "report.md",
        "completion_criteria": "The report is there.",
    }
    script[f"{mark} parent"] = [
        write("notes.md", "from the parent"),
        Say(tools=[Tool("spawn_agent", json.dumps({"role": "Unit Tester!", "task_brief": brief}))], tokens=(10, 5)),
        Say("All done.", tokens=(10, 5)),
    ]
    script[f"{mark} child"] = [
        Say(tools=[Tool("read_file", '{"path": "notes.md"}')], tokens=(10, 5)),
        write("report.md", "from the child"),
        Say("It works.", tokens=(10, 5)),
    ]

    answer = user.person.say(user.session, f"{mark} parent")

    assert answer["content"] == "All done."
    [child] = user.children()
    assert (child["role"], child["model"], child["tools"]) == ("Unit Tester!", user.coder["model"], user.coder["tools"])
    assert child["name"].startswith("unit_tester_")
    outcome = user.told(f"{mark} parent")
    assert (outcome["data"]["agent_id"], outcome["data"]["agent"]) == (child["id"], child["name"])
    assert outcome["data"]["result"] == "It works."
    first = user.model.asked_about(f"{mark} child")[0]
    assert first.text == (
        f"Objective: {mark} child: test it.\n\nConstraints: Be quick.\n\nInputs: notes.md\n\nOutputs: report.md\n\n"
        "Completion criteria: The report is there."
    )
    assert f"{mark} parent" not in json.dumps(first.body["messages"])  # nothing of the conversation
    owner = f"{user.agents_url}/{user.coder['id']}/workspace"
    assert [file["name"] for file in user.person.get(f"{owner}/files")["items"]] == ["notes.md", "report.md"]
    info = user.person.get(f"{user.agents_url}/{child['id']}/workspace")
    assert (info["agent_id"], info["file_count"]) == (user.coder["id"], 2)
    # The turn has paid for both: three calls of the parent, three of the child.
    usage = (answer["usage"]["calls"], answer["usage"]["input_tokens"], answer["usage"]["output_tokens"])
    assert usage == (6, 60, 30)


@pytest.mark.req("TWS-07.1")
def test_session_events_show_work_of_child(user: SpawnUser, script: ByMark, mark: str) -> None:
    script[f"{mark} parent"] = [spawn(f"{mark} child"), Say("Done.")]
    script[f"{mark} child"] = [write("a", "x"), Say("The child's result.")]

    answer = user.person.say(user.session, f"{mark} parent")

    [child] = user.children()
    events = user.person.events_of(user.session, answer["turn_id"])
    started = next(event.data for event in events if event.type == "task_started")
    task_id = started["task_id"]
    assert started["agent_id"] == child["id"]
    assert task_id != answer["turn_id"]
    of_child = [event for event in events if event.data.get("task_id") == task_id]
    assert [event.type for event in of_child] == ["task_started", "tool_called", "tool_result", "task_completed"]
    assert (of_child[1].data["tool"], of_child[1].data["agent_id"]) == ("write_file", child["id"])
    assert of_child[-1].data["result"] == "The child's result."
    deltas = "".join(event.data["text"] for event in events if event.type == "message_delta")
    assert "child's" not in deltas


def test_parent_continues_after_failure_of_child(user: SpawnUser, script: ByMark, mark: str) -> None:
    script[f"{mark} parent"] = [spawn(f"{mark} child"), Say("Then without it.")]
    script[f"{mark} child"] = Fail(400, {"message": "No.", "type": "invalid_request_error"})

    answer = user.person.say(user.session, f"{mark} parent")

    assert answer["content"] == "Then without it."
    outcome = user.told(f"{mark} parent")
    assert outcome["success"] is False
    assert "could not do it" in outcome["error"]
    assert "task_failed" in [event.type for event in user.person.events_of(user.session, answer["turn_id"])]


@pytest.mark.req("AGT-02.5")
def test_child_has_no_more_permissions_than_parent(user: SpawnUser, script: ByMark, mark: str) -> None:
    person = user.person
    parent = person.agent(user.project["id"], name="parent", tools=["spawn_agent", "write_file", "list_files"])
    script[f"{mark} parent"] = [
        spawn(f"{mark} child", tools=["list_files", "read_file", "memory_read"]),
        Say("Done."),
    ]
    script[f"{mark} child"] = [write("a", "x"), Say("Not allowed.")]

    person.say(user.session, f"{mark} parent", "parent")

    [child] = user.children(parent["id"])
    assert child["tools"] == ["list_files"]
    first = user.model.asked_about(f"{mark} child")[0]
    assert [tool["function"]["name"] for tool in first.body["tools"]] == ["list_files"]
    assert user.told(f"{mark} child")["error"].startswith("You may not use write_file")

    # What is taken from the parent later, or given to the child, changes nothing of that.
    person.http.patch(f"{user.agents_url}/{child['id']}", json={"tools": ["read_file", "list_files", "write_file"]})
    person.http.patch(f"{user.agents_url}/{parent['id']}", json={"tools": ["spawn_agent", "write_file"]})
    script[f"{mark} again"] = Say("Hello.")
    person.say(user.session, f"{mark} again", child["id"])
    again = user.model.asked_about(f"{mark} again")[0]
    assert [tool["function"]["name"] for tool in again.body["tools"]] == ["write_file"]


@pytest.mark.req("TWS-01.2", "TWS-07.1")
def test_three_generations_with_one_slot_each_do_not_deadlock(user: SpawnUser, script: ByMark, mark: str) -> None:
    agent = user.person.agent(
        user.project["id"], name="elder", concurrency_limit=1, tools=["spawn_agent", "write_file"]
    )
    for number in range(3):
        script[f"{mark} level{number}."] = [
            spawn(f"{mark} level{number + 1}."),
            write(f"{number}.txt", "x"),
            Say(f"{number} done.", tokens=(10, 5)),
        ]
    script[f"{mark} level3."] = [spawn(f"{mark} level4."), write("3.txt", "x"), Say("3 done.")]

    said = user.person.say(user.session, f"{mark} level0.", "elder")

    assert said["content"] == "0 done."
    parent, generations = agent["id"], []
    for _ in range(3):
        [child] = user.children(parent)
        assert child["concurrency_limit"] == 1
        generations.append(child["id"])
        parent = child["id"]
    assert user.children(parent) == []
    deepest = user.model.asked_about(f"{mark} level3.")[1].body["messages"][-1]["content"]
    assert "Families end after 3 generations" in deepest
    for member in generations:
        info = user.person.get(f"{user.agents_url}/{member}/workspace")
        assert (info["agent_id"], info["file_count"]) == (agent["id"], 4)


def test_parent_and_child_do_not_overwrite_each_other_unseen(user: SpawnUser, script: ByMark, mark: str) -> None:
    script[f"{mark} parent"] = [
        write("plan", "the parent's"),
        spawn(f"{mark} child"),
        write("plan", "mine"),
        Say("Done."),
    ]
    script[f"{mark} child"] = [
        write("plan", "unseen"),
        Say(tools=[Tool("read_file", '{"path": "plan"}')]),
        write("plan", "the child's"),
        Say("Done."),
    ]

    user.person.say(user.session, f"{mark} parent")

    child = [asked.body["messages"][-1]["content"] for asked in user.model.asked_about(f"{mark} child")[1:]]
    assert "write_failed: plan was changed by another agent" in child[0]
    assert json.loads(child[2])["success"]
    assert "write_failed: plan was changed by another agent" in user.told(f"{mark} parent")["error"]


def test_only_parent_can_give_child_another_task(user: SpawnUser, script: ByMark, mark: str) -> None:
    script[f"{mark} parent"] = [spawn(f"{mark} child one"), Say("Done.")]
    user.person.say(user.session, f"{mark} parent")
    [child] = user.children()
    script[f"{mark} second"] = [spawn(f"{mark} child two", child=child["name"]), Say("Done.")]
    script[f"{mark} third"] = [spawn(f"{mark} child three", child="agent_writer"), Say("Done.")]

    user.person.say(user.session, f"{mark} second")
    user.person.say(user.session, f"{mark} third")

    assert user.children() == [child]
    assert user.told(f"{mark} second")["data"]["agent_id"] == child["id"]
    assert user.told(f"{mark} third")["error"].startswith("You created no agent 'agent_writer'. Those that you did: ")
    assert user.model.asked_about(f"{mark} child three") == []


def test_number_and_depth_of_children_are_limited(
    start_server: StartServer, model: ModelServer, script: ByMark, mark: str
) -> None:
    server = start_server(**with_model(model), ARTEL_MAX_CHILDREN_PER_AGENT="1", ARTEL_MAX_AGENTS_PER_PROJECT="5")
    user = SpawnUser(Person.register(server.url), model)
    for text in ("first", "second"):
        script[f"{mark} {text}"] = [spawn(f"{mark} child"), Say("Done.")]
    writer = next(agent["id"] for agent in user.project["agents"] if agent["name"] == "agent_writer")
    user.person.http.patch(f"{user.agents_url}/{writer}", json={"tools": ["spawn_agent"]})
    script[f"{mark} writer"] = [spawn(f"{mark} child"), Say("Done.")]

    user.person.say(user.session, f"{mark} first")
    user.person.say(user.session, f"{mark} second")
    user.person.say(user.session, f"{mark} writer", "writer")

    [child] = user.children()
    assert user.told(f"{mark} second")["error"] == (
        f"You may create 1 agents. Give the task to one of yours: {child['name']}."
    )
    assert user.told(f"{mark} writer")["error"].startswith("A project may have 5 agents")


@pytest.mark.req("TWS-07.1")
def test_children_survive_restart(
    start_server: StartServer, upgraded_database: Any, model: ModelServer, script: ByMark, mark: str
) -> None:
    settings = with_model(model) | {"ARTEL_DATABASE_URL": upgraded_database()}
    before = start_server(**settings)
    user = SpawnUser(Person.register(before.url), model)
    script[f"{mark} parent"] = [write("plan", "the parent's"), spawn(f"{mark} child"), Say("Done.")]
    user.person.say(user.session, f"{mark} parent")
    [child] = user.children()
    before.stop()

    after = start_server(**settings, ARTEL_DATA_DIR=before.env["ARTEL_DATA_DIR"])
    user.person.http.base_url = after.url

    assert user.children() == [child]
    script[f"{mark} later"] = [Say(tools=[Tool("read_file", '{"path": "plan"}')]), Say("Done.")]
    user.person.say(user.session, f"{mark} later", child["name"])
    assert user.told(f"{mark} later")["data"]["content"] == "the parent's"
    script[f"{mark} again"] = [write("plan", "the parent's, again"), Say("Done.")]
    user.person.say(user.session, f"{mark} again")
    assert user.told(f"{mark} again")["success"]


# The end of a parent


def test_cancelling_turn_cancels_task_of_child(user: SpawnUser, script: ByMark, mark: str) -> None:
    hold = Hold()
    script[f"{mark} parent"] = [spawn(f"{mark} child"), Say("Done.")]
    script[f"{mark} child"] = hold
    turn_id = user.person.submit(user.session, f"{mark} parent")
    eventually(lambda: hold.arrived)

    answer = user.person.http.post(f"/my/chat/{user.session}/turns/{turn_id}/cancel")

    assert answer.status_code == 200, answer.text
    assert hold.abandoned.wait(10)
    [child] = user.children()
    status = f"{user.agents_url}/{child['id']}/status"
    eventually(lambda: user.person.get(status)["active_tasks"] == 0)
    turn = eventually(lambda: (found := user.person.turn(user.session, turn_id))["usage"] and found)
    assert (turn["status"], turn["usage"]["calls"]) == ("cancelled", 2)  # also the call of the child that was cut off


def test_deleting_a_parent_ends_and_deletes_its_children(
    start_server: StartServer, model: ModelServer, script: ByMark, mark: str
) -> None:
    server = start_server(**with_model(model), ARTEL_DRAIN_SECONDS="0")
    user = SpawnUser(Person.register(server.url), model)
    hold = Hold()
    script[f"{mark} parent"] = [write("a", "x"), spawn(f"{mark} child"), Say("Done.")]
    script[f"{mark} child"] = [spawn(f"{mark} grandchild"), Say("Done.")]
    script[f"{mark} grandchild"] = hold
    turn_id = user.person.submit(user.session, f"{mark} parent")
    eventually(lambda: hold.arrived)
    [child] = user.children()
    [grandchild] = user.children(child["id"])

    answer = user.person.http.delete(f"{user.agents_url}/{user.coder['id']}")

    assert answer.status_code == 204, answer.text
    assert hold.abandoned.wait(10)
    for gone in (user.coder, child, grandchild):
        assert_problem(user.person.http.get(f"{user.agents_url}/{gone['id']}"), 404, "agent_not_found")
    assert eventually(lambda: user.person.turn(user.session, turn_id)["status"] != "running")
    space = user.person.get(f"/my/projects/{user.project['id']}/space")
    assert (space["active_tasks"], space["active_agents"]) == (0, 3)


def test_deleting_a_child_leaves_the_workspace_and_its_parent(user: SpawnUser, script: ByMark, mark: str) -> None:
    script[f"{mark} parent"] = [write("a", "x"), spawn(f"{mark} child"), Say("Done.")]
    user.person.say(user.session, f"{mark} parent")
    [child] = user.children()

    assert user.person.http.delete(f"{user.agents_url}/{child['id']}").status_code == 204

    assert user.children() == []
    assert user.person.get(f"{user.agents_url}/{user.coder['id']}/workspace")["file_count"] == 1


# Time


def test_child_without_progress_times_out_and_parent_continues(
    start_server: StartServer, model: ModelServer, script: ByMark, mark: str
) -> None:
    server = start_server(**with_model(model), ARTEL_PROGRESS_TIMEOUT_SECONDS=LIMIT_SECONDS)
    user = SpawnUser(Person.register(server.url), model)
    hold = Hold()
    script[f"{mark} parent"] = [spawn(f"{mark} child"), Say("Then without it.")]
    script[f"{mark} child"] = hold

    said = user.person.say(user.session, f"{mark} parent")

    assert said["content"] == "Then without it."
    assert "There was no progress" in user.told(f"{mark} parent")["error"]
    assert hold.abandoned.wait(10)


def test_child_shares_time_limit_of_parent(
    start_server: StartServer, model: ModelServer, script: ByMark, mark: str
) -> None:
    server = start_server(**with_model(model), ARTEL_TASK_TIMEOUT_SECONDS=LIMIT_SECONDS)
    user = SpawnUser(Person.register(server.url), model)
    hold = Hold(word="thinking")
    script[f"{mark} parent"] = [spawn(f"{mark} child"), Say("Done.")]
    script[f"{mark} child"] = hold

    answer = user.person.post(user.session, f"{mark} parent")

    assert_problem(answer, 504, "timeout")
    assert hold.abandoned.wait(10)


def test_orchestrator_does_not_assign_tasks_to_children(user: SpawnUser, script: ByMark, mark: str) -> None:
    script[f"{mark} parent"] = [spawn(f"{mark} child", role="gardener"), Say("Done.")]
    user.person.say(user.session, f"{mark} parent")
    settings = {"plans": {"approve_over_usd": 10}}
    user.person.http.patch(f"/my/projects/{user.project['id']}", json={"settings": settings})

    turn_id = user.person.submit(user.session, f"{mark} a question for a gardener", None)

    events = user.person.events_of(user.session, turn_id)
    [called] = [event.data["agent_id"] for event in events if event.type == "task_started"]
    assert called in {agent["id"] for agent in user.project["agents"]}
