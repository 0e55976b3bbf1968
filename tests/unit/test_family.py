"""Creating agents: what the model is offered, and what a child is told."""

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artel.brain.brain import ToolCall
from artel.contract.http import NewAgent
from artel.errors import LimitReached
from artel.runs.children import _name, generation
from artel.tools.family import Brief, ChildResult, SpawnAgent
from artel.tools.tool import ToolResult
from artel.tools.toolbox import Toolbox

pytestmark = pytest.mark.anyio


class Children:
    """A family that keeps what it was asked for."""

    def __init__(self, error: str | None = None) -> None:
        self.briefs: list[Brief] = []
        self._error = error

    async def run_child(self, brief: Brief) -> ChildResult:
        if self._error == "limit":
            raise LimitReached("You may create 1 agents.")
        self.briefs.append(brief)
        return ChildResult(9, "tester_1", "task", "The result.", self._error)


async def call(children: Children, **arguments: Any) -> ToolResult:
    toolbox = Toolbox([SpawnAgent(children)], ["spawn_agent"])
    return await toolbox.call(ToolCall("1", "spawn_agent", json.dumps(arguments)), time.monotonic() + 600)


@pytest.mark.req("TWS-07.1", "AGT-02.2")
async def test_the_brief_reaches_the_child_in_its_order_without_what_is_empty() -> None:
    children = Children()

    result = await call(
        children, role="tester", task_brief={"outputs": "A report.", "objective": " Test it. ", "inputs": " "}
    )

    assert result.data == {"agent_id": 9, "agent": "tester_1", "task_id": "task", "result": "The result."}
    [brief] = children.briefs
    assert brief.text == "Objective: Test it.\n\nOutputs: A report."
    assert (brief.role, brief.tools, brief.child) == ("tester", None, None)


async def test_tools_are_not_given_to_a_child_that_is_there_and_that_is_said() -> None:
    children = Children()
    task = {"role": "tester", "task_brief": {"objective": "Test it."}, "child": "tester_1"}

    refused = await call(children, **task, tools=["tool_read_file"])
    given = await call(children, **task)

    assert (refused.success, refused.error) == (False, "tester_1 has the tools that you gave it: leave out `tools`.")
    assert given.success
    assert len(children.briefs) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"role": "tester"},
        {"role": "", "task_brief": {"objective": "x"}},
        {"role": "two\nlines", "task_brief": {"objective": "x"}},
        {"role": "r" * 65, "task_brief": {"objective": "x"}},
        {"role": "tester", "task_brief": {}},
        {"role": "tester", "task_brief": {"objective": " "}},
        {"role": "tester", "task_brief": {"objective": "x" * 8_001}},
        {"role": "tester", "task_brief": {"objective": "x", "parent": 1}},
        {"role": "tester", "task_brief": {"objective": "x"}, "parent_agent_id": 1},
    ],
)
async def test_spawn_with_invalid_arguments_or_a_parent_creates_no_agent(arguments: dict[str, Any]) -> None:
    children = Children()

    result = await call(children, **arguments)

    assert not result.success
    assert children.briefs == []


async def test_model_gets_the_error_of_a_failed_child_or_a_limit() -> None:
    brief = {"objective": "x"}

    assert (await call(Children("No time."), role="a", task_brief=brief)).error == "tester_1 could not do it: No time."
    assert (await call(Children("limit"), role="a", task_brief=brief)).error == "You may create 1 agents."


@given(st.text(max_size=64))
def test_every_role_makes_a_name_that_an_agent_may_have(role: str) -> None:
    name = _name(role)

    assert re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", name)
    assert NewAgent(name=name, role="x", model="m", system_prompt="").name == name


def test_generations_are_counted_from_the_children_of_root() -> None:
    parents = {1: None, 2: 1, 3: 2, 4: 3, 5: 6, 6: 5}

    assert [generation(agent_id, parents) for agent_id in (2, 3, 4)] == [0, 1, 2]
    assert generation(5, parents) >= 0
