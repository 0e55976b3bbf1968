"""Tools of nodes: those of the worker space, their own, and the approvals of a person."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from artel.contract.envelope import Envelope, Result
from artel.nodes.node import AgentNode
from artel.tools.policy import arguments_hash
from tests.agents import reply, structured, wants
from tests.node_worlds import Client, NodeBrain, Nodes, approved, capability, code_of, node_file, output_of

pytestmark = pytest.mark.anyio
OUTPUT = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "words": {"type": "integer", "minimum": 1}},
    "required": ["title", "words"],
    "additionalProperties": False,
}
SPACE_TASK = {"task_id": "task-1"}
READ = {"name": "tool_read_file", "description": "Reads.", "parameters": {"type": "object"}}
OTHER_KEY = SecretStr("another key, as somebody else would have it")


async def test_answer_is_the_agent_itself_with_what_the_space_knows(nodes: Nodes) -> None:
    brain = NodeBrain(reply("Because."))
    node, client = await nodes.start(brain=brain), await nodes.client()
    messages = [
        {"role": "system", "content": "You remember tea.", "part": "memory"},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi!"},
    ]

    answer = await client.ask(node, "answer", {"text": "Why?", "messages": messages})

    assert output_of(answer) == {"kind": "answer", "text": "Because.", "output": None}
    told = [(message.role, message.content) for message in brain.asked[1].messages if message.part != "note"]
    assert told == [
        ("system", "You are a writer."),
        ("system", "You remember tea."),
        ("user", "Hello"),
        ("assistant", "Hi!"),
        ("user", "Why?"),
    ]


async def test_answer_with_a_capability_gives_it_the_text_or_what_the_model_reads_in_it(nodes: Nodes) -> None:
    two = {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"}}, "required": ["a", "n"]}
    file = node_file(
        capabilities=[
            capability(output_schema=OUTPUT),
            {"name": "count", "input_schema": two, "prompt_template": "Count {a} up to {n}."},
        ]
    )
    document = json.dumps({"title": "Cats", "words": 3})
    brain = NodeBrain(reply(document), documents={"params": [structured({"a": "sheep", "n": 3})]})
    node, client = await nodes.start(file, brain), await nodes.client()

    plain = await client.ask(node, "answer", {"text": "cats, please", "capability": "write_article"})
    derived = await client.ask(node, "answer", {"text": "three sheep", "capability": "count"})
    unknown = await client.ask(node, "answer", {"text": "x", "capability": "fly"})
    empty = await client.ask(node, "answer", {"text": ""})

    assert output_of(plain)["output"] == {"title": "Cats", "words": 3}
    assert "Cats" in output_of(plain)["text"]
    prompts = [request.messages[-1].content for request in brain.asked if request.response_format is None]
    assert [prompt.splitlines()[0] for prompt in prompts] == ["Write about cats, please.", "Count sheep up to 3."]
    assert output_of(derived)["text"] == "Done."
    assert (code_of(unknown), code_of(empty)) == ("UNIMPLEMENTED", "INVALID_ARGUMENT")


async def test_tools_of_the_space_are_asked_for_and_any_node_of_the_kind_goes_on(nodes: Nodes) -> None:
    first = NodeBrain(
        reply("", wants("tool_read_file", "x", path="a"), wants("tool_read_file", "x", path="b")),
    )
    file, client = node_file(), await nodes.client()
    context = {"user_id": 1, "project_id": 2}
    node = await nodes.start(file, first)
    asked_for = await client.ask(node, "answer", {"text": "Read both.", "tools": [READ]}, context=context)
    output = output_of(asked_for)
    assert node.status.status().total_tasks_processed == 0  # it is not over
    await node.stop()
    second = NodeBrain(reply("Both read."))
    other = await nodes.start(file.model_copy(update={"name": f"{file.name}b"}), second)
    results = [{"id": call["id"], "text": f"<{call['arguments']}>"} for call in output["calls"]]

    missing = await client.ask(other, "continue", {"state": output["state"], "results": results[:1]}, context=context)
    foreign = await client.ask(
        other, "continue", {"state": output["state"], "results": results}, context={"user_id": 7, "project_id": 2}
    )
    done = await client.ask(other, "continue", {"state": output["state"], "results": results}, context=context)

    assert output["kind"] == "tool_calls"
    assert [(call["name"], call["kind"]) for call in output["calls"]] == [("tool_read_file", "space")] * 2
    assert len({call["id"] for call in output["calls"]}) == 2
    assert (code_of(missing), code_of(foreign)) == ("INVALID_ARGUMENT", "INVALID_ARGUMENT")
    assert output_of(done)["text"] == "Both read."
    assert other.status.status().total_tasks_processed == 3  # two are refused
    assert second.kinds == ["answer", "critique"]
    told = [message.content for message in second.asked[0].messages if message.role == "tool"]
    assert told == ['<{"path": "a"}>', '<{"path": "b"}>']
    assert isinstance(asked_for.data, Result)
    assert isinstance(done.data, Result)
    assert (asked_for.data.metrics.tool_calls, done.data.metrics.tool_calls) == (0, 2)
    assert (asked_for.data.metrics.llm_calls, done.data.metrics.llm_calls) == (2, 2)


def file_writer(folder: Path) -> dict[str, Any]:
    security = {"file_write": {"enabled": True, "allowed_paths": [f"{folder}/**"]}}
    return {"enabled": ["file_write"], "security": security}


async def test_own_tool_that_needs_a_person_is_not_called_for_a_client_that_can_not_ask(
    nodes: Nodes, tmp_path: Path
) -> None:
    target = tmp_path / "out" / "a.txt"
    target.parent.mkdir()
    call = wants("file_write", path=str(target), content="hello")
    file, client = node_file(tools=file_writer(target.parent)), await nodes.client()
    node = await nodes.start(file, NodeBrain(reply("", call)))

    answer = await client.ask(node, "answer", {"text": "Write it."})

    assert code_of(answer) == "FAILED_PRECONDITION"
    assert not target.exists()


async def test_approved_rejected_and_changed_calls(nodes: Nodes, tmp_path: Path) -> None:
    target = tmp_path / "out" / "a.txt"
    target.parent.mkdir()
    call = wants("file_write", path=str(target), content="hello")
    file, client = node_file(tools=file_writer(target.parent)), await nodes.client()
    brain = NodeBrain(reply("", call), reply("Not written."), reply("Written."))
    node = await nodes.start(file, brain)
    output = output_of(await client.ask(node, "answer", {"text": "Write it.", "tools": [READ]}))
    [wanted] = output["calls"]

    async def decide(state: str, result: dict[str, Any]) -> Envelope:
        return await client.ask(node, "continue", {"state": state, "results": [result]}, context=SPACE_TASK)

    rejected = await decide(output["state"], {"id": wanted["id"], "approved": False, "feedback": "no, thanks"})
    assert output_of(rejected)["text"] == "Not written."
    assert "no, thanks" in str(brain.asked[-2].messages)
    changed = await decide(output["state"].replace("hello", "hullo"), approved(node, wanted))
    assert code_of(changed) == "INVALID_ARGUMENT"
    assert not target.exists()
    done = await decide(output["state"], approved(node, wanted))

    assert wanted["kind"] == "approval"
    assert json.loads(wanted["arguments"]) == {"path": str(target), "content": "hello"}
    assert output_of(done)["text"] == "Written."
    assert target.read_text() == "hello"
    assert isinstance(done.data, Result)
    assert done.data.metrics.tool_calls == 1


@pytest.mark.req("AGT-02.4", "AGT-02.7")
@pytest.mark.parametrize(
    "forged",
    [
        {"key": OTHER_KEY},
        {"arguments": '{"path": "a.txt", "content": "what the person was shown"}'},
        {"name": "file_read"},
        {"call_id": "call_2"},
        {"task_id": "task-2"},
        {"user_id": 1},
        {"project_id": 1},
        {"node": "agent.writer.another"},
        {"seconds": 0},
    ],
    ids=lambda forged: next(iter(forged)),
)
async def test_approval_is_of_exactly_this_call(nodes: Nodes, tmp_path: Path, forged: dict[str, Any]) -> None:
    node, client, output = await _waits_for_a_person(nodes, tmp_path)
    result = approved(node, output["calls"][0], **forged)

    params = {"state": output["state"], "results": [result]}
    answer = await client.ask(node, "continue", params, context=SPACE_TASK)

    assert code_of(answer) == "PERMISSION_DENIED"
    assert "ARTEL_NODE_KEY" in str(answer.data)
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.req("AGT-02.4", "AGT-02.7")
async def test_state_of_the_senders_own_making_is_no_approval(nodes: Nodes, tmp_path: Path) -> None:
    node, client, output = await _waits_for_a_person(nodes, tmp_path)
    saved = json.loads(output["state"])
    arguments = {"path": str(tmp_path / "a.txt"), "content": "something else"}
    saved["state"]["calls"][0]["arguments"] = json.dumps(arguments)
    saved["pending"][0]["approval_hash"] = arguments_hash("file_write", arguments)

    for result in ({"id": output["calls"][0]["id"], "approved": True}, approved(node, output["calls"][0])):
        params = {"state": json.dumps(saved), "results": [result]}
        assert code_of(await client.ask(node, "continue", params, context=SPACE_TASK)) == "PERMISSION_DENIED"

    assert not (tmp_path / "a.txt").exists()


@pytest.mark.req("AGT-05.4")
@pytest.mark.parametrize("counter", ["tool_calls", "iterations"])
async def test_state_of_the_senders_own_making_lifts_no_limit(nodes: Nodes, tmp_path: Path, counter: str) -> None:
    node, client, output = await _waits_for_a_person(nodes, tmp_path)
    saved = json.loads(output["state"])
    saved["state"][counter] = -1_000

    params = {"state": json.dumps(saved), "results": [{"id": output["calls"][0]["id"], "approved": False}]}
    answer = await client.ask(node, "continue", params, context=SPACE_TASK)

    assert code_of(answer) == "INVALID_ARGUMENT"
    assert f"state.{counter} is wrong" in str(answer.data)


@pytest.mark.req("AGT-02.4")
async def test_node_without_a_key_asks_nobody(nodes: Nodes, tmp_path: Path) -> None:
    brain = NodeBrain(reply("", wants("file_write", path=str(tmp_path / "a.txt"), content="hello")))
    node, client = await nodes.start(node_file(tools=file_writer(tmp_path)), brain, node_key=None), await nodes.client()

    answer = await client.ask(node, "answer", {"text": "Write it.", "tools": [READ]})

    assert code_of(answer) == "FAILED_PRECONDITION"
    assert "ARTEL_NODE_KEY" in str(answer.data)


@pytest.mark.req("AGT-02.7", "AGT-10.1")
async def test_approval_holds_for_one_call_also_after_a_restart(nodes: Nodes, tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    node, client, output = await _waits_for_a_person(nodes, tmp_path)
    params = {"state": output["state"], "results": [approved(node, output["calls"][0])]}
    # The command comes again, because the node was killed before it had an answer: here, as another command.
    await client.ask(node, "continue", params, context=SPACE_TASK)
    target.unlink()
    await node.stop()  # the first command is acknowledged, so that it does not come a third time
    brain = NodeBrain(reply("I don't know."))
    again = await nodes.start(node.status.file, brain)

    answer = await client.ask(again, "continue", params, context=SPACE_TASK)

    assert output_of(answer)["text"] == "I don't know."
    assert "its outcome is unknown" in str(brain.asked[0].messages)
    assert not target.exists()


async def _waits_for_a_person(nodes: Nodes, folder: Path) -> tuple[AgentNode, Client, dict[str, Any]]:
    """Return a node whose task waits for the approval to write a.txt, a client, and the output of the task."""
    brain = NodeBrain(reply("", wants("file_write", path=str(folder / "a.txt"), content="hello")))
    node, client = await nodes.start(node_file(tools=file_writer(folder)), brain), await nodes.client()
    return node, client, output_of(await client.ask(node, "answer", {"text": "Write it.", "tools": [READ]}))


@pytest.mark.req("AGT-02.2")
@pytest.mark.parametrize(
    "rule", [{"$ref": "http://127.0.0.1:9/schema"}, {"pattern": "(a|a)*$"}], ids=["remote", "slow"]
)
async def test_schemas_of_the_space_are_not_evaluated(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, rule: dict[str, Any]
) -> None:
    fetched: list[Any] = []
    monkeypatch.setattr("urllib.request.urlopen", fetched.append)
    tool = READ | {"parameters": {"type": "object", "properties": {"path": rule}}}
    brain = NodeBrain(reply("", wants("tool_read_file", path="a" * 30 + "b")))
    node, client = await nodes.start(brain=brain), await nodes.client()

    output = output_of(await client.ask(node, "answer", {"text": "Read it.", "tools": [tool]}))

    assert [call["name"] for call in output["calls"]] == ["tool_read_file"]
    assert fetched == []


async def test_tool_of_the_space_wins_over_one_of_the_node_with_its_name(nodes: Nodes, tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    file, client = node_file(tools=file_writer(tmp_path)), await nodes.client()
    node = await nodes.start(file, NodeBrain(reply("", wants("file_write", path=str(target), content="hello"))))
    tool = {"name": "file_write", "description": "The user's.", "parameters": {"type": "object"}}

    output = output_of(await client.ask(node, "answer", {"text": "Write it.", "tools": [tool]}))

    assert [(call["name"], call["kind"]) for call in output["calls"]] == [("file_write", "space")]
