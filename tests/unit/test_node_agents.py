"""Agents that a plan may use for nodes."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from artel.contract.agent_file import AgentFile
from artel.contract.http import Agent
from artel.contract.parked_run import ParkedNodeRun, ParkedRun
from artel.nodes.status import NodeStatus
from artel.plans.node_agents import node_agents, node_for, priced, status_of
from artel.registry.node import RegisteredNode
from artel.runs.node_run import wanted_capability
from artel.runs.task import Task, Waiting
from artel.settings import Settings

NOW = datetime.now(UTC)


def _node(name: str = "agent.writer.001", kind: str = "writer", *capabilities: str, **fields: Any) -> RegisteredNode:
    file = AgentFile.model_validate(
        {
            "name": name,
            "type": kind,
            "brain": {"model": "gpt-4o", "system_prompt": "You write."},
            "capabilities": [{"name": each, "description": f"It can {each}."} for each in capabilities or ("write",)],
        }
    )
    status = NodeStatus(file)
    for number in range(fields.get("tasks", 0)):
        status.began(str(number), "answer")
    return RegisteredNode(name, status.uid, 1, status.passport(), NOW, 0.0)


def _agent(name: str, **fields: Any) -> Agent:
    given: dict[str, Any] = {
        "id": 1,
        "project_id": 1,
        "name": name,
        "role": "writer",
        "model": "gpt-4",
        "temperature": 0.7,
        "max_tokens": 100,
        "system_prompt": "",
        "tools": [],
        "concurrency_limit": 1,
        "capabilities": [],
        "memory": False,
        "runtime": "local",
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Agent(**given | fields)


@pytest.mark.req("AGT-04.4")
def test_planner_is_told_all_that_nodes_can_do_as_agents_that_all_their_nodes_serve() -> None:
    nodes = [
        _node("a", "writer", "write", "edit", "proofread", tasks=1),
        _node("b", "writer", "write", "outline"),
        _node("c", "critic", "review", tasks=1),
    ]

    found = node_agents(nodes, [], 10)

    assert {name: (agent.new.capabilities, agent.status) for name, agent in found.items()} == {
        "critic": (["review"], "at_capacity"),
        "writer": (["write"], "idle"),
        "writer_edit": (["edit", "proofread"], "at_capacity"),
        "writer_outline": (["outline"], "idle"),
    }
    assert "write (It can write.)" in found["writer"].brief.about
    assert (found["writer"].new.runtime, found["writer"].new.model) == ("node", "gpt-4o")
    team = [_agent("writer", runtime="node", capabilities=["write"])]
    [offered] = node_agents(nodes[:1], team, 10).values()
    assert offered.new.capabilities == ["edit", "proofread"]


@pytest.mark.parametrize(
    ("team", "name"),
    [
        ([_agent("writer")], "writer_node"),
        ([_agent("agent_writer")], "writer_node"),
        ([_agent("writer"), _agent("writer_node")], None),
        ([_agent("poet", runtime="node", capabilities=["write"])], None),  # uses these nodes already
        ([_agent("poet", runtime="node", capabilities=["rhyme"])], "writer"),
    ],
)
def test_agent_for_nodes_has_a_name_that_no_other_agent_answers_to(team: list[Agent], name: str | None) -> None:
    assert list(node_agents([_node()], team, 10)) == ([name] if name else [])


def test_no_more_agents_are_offered_than_the_project_has_room_for() -> None:
    assert node_agents([_node()], [], 0) == {}


@pytest.mark.req("AGT-04.4")
def test_agent_on_nodes_is_in_error_without_a_node_and_priced_with_the_nodes_model() -> None:
    agent = _agent("poet", runtime="node", capabilities=["write"])

    assert status_of(agent, [], "idle") == "error"
    assert status_of(agent, [_node(tasks=1)], "idle") == "at_capacity"
    assert status_of(agent, [_node()], "processing") == "processing"
    priced_agent = priced(agent, [_node()])
    assert (priced_agent.model, priced_agent.max_tokens) == ("gpt-4o", 4_000)
    assert priced(_agent("coder"), [_node()]).model == "gpt-4"
    assert node_for(_agent("agent_writer_001", runtime="node"), [_node()]) is not None


@pytest.mark.req("AGT-04.4")
@pytest.mark.parametrize(
    ("text", "capability"),
    [
        ("Please improve_text: …", "improve_text"),
        ("Use improve_text.", "improve_text"),
        ('Improve_text of this draft. {"task": "write_article about bees"}', "improve_text"),
        ("Write.", "write_article"),
        ("improve_text_now", "write_article"),
    ],
)
def test_capability_is_the_one_that_the_task_names_else_the_first(text: str, capability: str) -> None:
    assert wanted_capability(["write_article", "improve_text"], text) == capability
    assert wanted_capability([], text) is None


@pytest.mark.parametrize(
    ("parked", "is_unprompted"),
    [(ParkedNodeRun(), True), (ParkedNodeRun(state="{}"), False)],
    ids=["waited for budget before the first command", "asked for a tool"],
)
def test_node_without_a_command_so_far_gets_memories_and_guidance(
    parked: ParkedNodeRun, *, is_unprompted: bool
) -> None:
    waiting = Waiting.of(ParkedRun(node=parked), {})
    unused: Any = None
    assert Task("1", "Write.", unused, unused, waiting=waiting).is_unprompted is is_unprompted
    assert Task("1", "Write.", unused, unused).is_unprompted


def test_several_hosts_need_rabbitmq_for_nodes_of_their_own(tmp_path: Path) -> None:
    database: dict[str, Any] = {"role": "host", "database_url": "postgresql://localhost/artel", "data_dir": tmp_path}
    with pytest.raises(ValidationError, match="nodes_dir with role host needs bus_url"):
        Settings(nodes_dir=tmp_path, **database)
    assert Settings(nodes_dir=tmp_path, **database, bus_url="amqp://localhost").nodes_dir
