"""Planning: a model's plan is checked, mended once, and there is always one that can be run."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from artel.agent_loop.context import ConversationMessage
from artel.brain.demo.demo_brain import DemoBrain
from artel.brain.router import BrainRouter
from artel.plans.planner import AgentBrief, Planner, PlannerInput, one_task
from tests.model_server import Fail, Hang, ModelServer, Say

pytestmark = pytest.mark.anyio

AGENTS = (
    AgentBrief("agent_coder", "developer", "You write code.", ("python",)),
    AgentBrief("agent_writer", "writer", "You write texts."),
)
INPUT = PlannerInput("Find out how it works, then write it down and add tests.", AGENTS)
DIAMOND = [("a", ""), ("b", "a"), ("c", "a"), ("d", "b c")]


def plan(*tasks: tuple[str, str], agent: str = "agent_coder") -> Say:
    return Say(
        json.dumps(
            {
                "tasks": [
                    {"id": name, "agent": agent, "description": f"Do {name}.", "depends_on": after.split()}
                    for name, after in tasks
                ]
            }
        )
    )


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer().running() as server:
        yield server


@pytest.fixture
async def planner(model: ModelServer) -> AsyncIterator[Planner]:
    brain = BrainRouter({"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": model.url})
    yield Planner(brain, "gpt-4o")
    await brain.close()


@pytest.mark.req("UWS-23.1", "CHT-03.1")
async def test_a_model_plans_over_the_agents_of_the_project(planner: Planner, model: ModelServer) -> None:
    model.script(plan(*DIAMOND))

    made = await planner.plan(INPUT)

    assert made.planned_by == "model"
    assert [(task.id, task.depends_on) for task in made.graph.tasks.values()] == [
        ("a", ()),
        ("b", ("a",)),
        ("c", ("a",)),
        ("d", ("b", "c")),
    ]
    assert made.usage.calls == 1
    [request] = model.asked
    assert request.schema_name == "plan"
    assert request.text == INPUT.text
    instructions = request.body["messages"][0]["content"]
    assert '"name": "agent_coder", "role": "developer"' in instructions
    assert request.body["max_tokens"] == 4_000


@pytest.mark.parametrize(
    ("bad", "mistake"),
    [
        (plan(("a", "b"), ("b", "a")), "wait for each other"),
        (plan(("a", "a")), "depends on itself"),
        (plan(("a", ""), ("a", "")), "two tasks 'a'"),
        (plan(("a", "x")), "'x', which is no task"),
        (plan(*((str(number), "") for number in range(10_000))), "10,000 tasks"),
        (plan(("a", ""), agent="agent_nobody"), "agent"),
        (Say('{"tasks": []}'), "no tasks"),
        (Say("I would rather not."), "plan"),
        (Say('{"tasks": [{"id": "a"}]}'), "plan"),
    ],
)
async def test_invalid_plan_is_repaired_once_with_its_problems(
    planner: Planner, model: ModelServer, bad: Say, mistake: str
) -> None:
    model.script(bad, plan(("a", "")))

    made = await planner.plan(INPUT)

    assert (made.planned_by, list(made.graph.tasks)) == ("model", ["a"])
    assert made.usage.calls == 2
    assert mistake in json.dumps(model.asked[1].body["messages"], ensure_ascii=False)
    assert model.asked[1].text == INPUT.text


@pytest.mark.parametrize("bad", [plan(("a", "a")), Say("nonsense"), plan(("a", ""), agent="agent_nobody")])
async def test_two_invalid_plans_fall_back_to_one_task_for_best_agent(
    planner: Planner, model: ModelServer, bad: Say
) -> None:
    model.script(bad, bad)

    made = await planner.plan(PlannerInput("Please write python code.", AGENTS))

    assert made.planned_by == "fallback"
    [task] = made.graph.tasks.values()
    assert (task.agent, task.description) == ("agent_coder", "Please write python code.")
    assert len(model.asked) == 2
    assert made.problems


async def test_refusing_model_falls_back_to_one_task(planner: Planner, model: ModelServer) -> None:
    model.script(Fail(401))

    made = await planner.plan(INPUT)

    assert made.planned_by == "fallback"
    assert len(made.graph) == 1


async def test_planning_has_a_timeout(planner: Planner, model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artel.plans.planner.PLAN_SECONDS", 0.5)
    model.script(hang := Hang())

    made = await planner.plan(INPUT)

    assert made.planned_by == "fallback"
    async with asyncio.timeout(60):
        await hang.abandoned.wait()


async def test_revision_prompt_contains_old_plan_and_feedback(planner: Planner, model: ModelServer) -> None:
    model.script(plan(("a", "")))

    await planner.plan(PlannerInput(INPUT.text, AGENTS, old_plan=one_task(INPUT), feedback='Rather "two" tasks'))

    told = json.dumps(model.asked[0].body["messages"], ensure_ascii=False)
    assert "Rather" in told
    assert "wants another one" in told
    assert model.asked[0].text == INPUT.text


async def test_planner_prompt_contains_history_that_fits(planner: Planner, model: ModelServer) -> None:
    history = [
        ConversationMessage("user", "too long", 5_000),
        ConversationMessage("user", "My name is Ada.", 5),
        ConversationMessage("assistant", "Hello Ada.", 4),
    ]
    model.script(plan(("a", "")))

    await planner.plan(PlannerInput("Do it.", AGENTS, history))

    assert [message["content"] for message in model.asked[0].body["messages"][1:]] == [
        "My name is Ada.",
        "Hello Ada.",
        "Do it.",
    ]


def test_same_request_has_same_cache_key() -> None:
    before = [ConversationMessage("user", "Hello", 1)]

    def key(text: str = "Write a long report.", agents: Any = AGENTS, said: Any = ()) -> str:
        return PlannerInput(text, agents, said).key

    once_more = [
        ConversationMessage("user", "Write a  long report.", 5),
        ConversationMessage("assistant", "There it is.", 5),
    ]
    assert key() == key("Write  a long\nreport.", said=once_more)
    assert key(said=before) == key(said=[*before, *once_more])
    assert key() != key(said=before)
    assert key() != key("Write a short report.")
    assert key() != key(agents=AGENTS[:1])
    assert key("Go on") == key("Go on")
    assert key("Go on") != key("Go on", said=before)


async def test_the_demo_brain_plans_too() -> None:
    made = await Planner(DemoBrain(), "demo").plan(INPUT)

    assert made.planned_by == "model"
    assert len(made.graph) > 1
    assert {task.agent for task in made.graph.tasks.values()} <= {agent.name for agent in AGENTS}
