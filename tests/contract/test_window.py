"""Calls that no agent makes fit too: planning, merging, the fallback model, an answer that is mended."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from artel.agent_loop.context import ConversationMessage
from artel.brain.brain import Message, Request, Schema
from artel.brain.errors import ModelUnavailable
from artel.brain.router import BrainRouter
from artel.brain.tokens import count_tokens
from artel.plans.merge import merged
from artel.plans.planner import AgentBrief, Planner, PlannerInput
from tests.model_server import Fail, ModelServer, Say
from tests.plan_tasks import completed_task
from tests.windows import Windowed

pytestmark = pytest.mark.anyio

LONG = "word " * 3_000


class Pieces:
    def token(self, text: str) -> None:
        pass

    def restart(self) -> None:
        pass


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer(Windowed()).running() as server:
        yield server


@pytest.fixture
async def brain(model: ModelServer) -> AsyncIterator[BrainRouter]:
    router = BrainRouter({"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": model.url})
    yield router
    await router.close()


def refused(model: ModelServer) -> list[int]:
    assert isinstance(model.default, Windowed)
    return model.default.refused


def request(*messages: Message, model: str, fallback: str | None = None, max_tokens: int = 4_096) -> Request:
    return Request(model, messages, 0.2, max_tokens, time.monotonic() + 600, fallback_model=fallback)


@pytest.mark.req("AGT-03.2")
async def test_the_fallback_model_gets_less_if_its_window_is_smaller(brain: BrainRouter, model: ModelServer) -> None:
    model.script(Fail(400))
    said = [Message("user", f"{number} {LONG}", part="history") for number in range(4)]

    answer = await brain.complete(request(*said, Message("user", "And?"), model="gpt-4o", fallback="gpt-4"))

    assert (answer.content, refused(model)) == ("You said: And?", [])
    large, small = model.asked
    assert [len(asked.body["messages"]) for asked in (large, small)] == [5, 2]
    assert small.body["messages"][0]["content"].startswith("3 ")


@pytest.mark.req("AGT-03.2")
async def test_a_message_that_fits_only_the_fallback_model_is_answered_by_it(
    brain: BrainRouter, model: ModelServer
) -> None:
    answer = await brain.complete(request(Message("user", LONG * 3), model="gpt-4", fallback="gpt-4o"))

    assert answer.usage.model == "gpt-4o"
    assert len(model.asked) == 1


@pytest.mark.req("AGT-03.2")
async def test_a_fallback_model_that_is_too_small_does_not_hide_why_the_model_failed(
    brain: BrainRouter, model: ModelServer
) -> None:
    model.script(Fail(500), Fail(500), Fail(500))

    with pytest.raises(ModelUnavailable):
        await brain.complete(request(Message("user", LONG * 3), model="gpt-4o", fallback="gpt-4"))


@pytest.mark.req("AGT-03.2")
async def test_an_answer_that_is_mended_fits(brain: BrainRouter, model: ModelServer) -> None:
    wanted = Schema("steps", {"type": "object", "required": ["steps"]})
    model.script(Windowed(Say("no JSON " * 2_000), refused(model)))
    asked = request(Message("user", "word " * 2_500), model="gpt-4")

    await brain.complete(replace(asked, response_format=wanted))

    assert refused(model) == []
    assert len(model.asked) == 2


@pytest.mark.req("AGT-03.2")
async def test_a_planner_with_a_small_window_plans(brain: BrainRouter, model: ModelServer) -> None:
    agents = [AgentBrief(f"agent_{number}", "developer", "You write code. " * 20) for number in range(30)]
    agents.append(AgentBrief("agent_coder", "developer"))
    said = [ConversationMessage("user", "talk " * 400, 400) for _ in range(5)]

    plan = await Planner(brain, "gpt-4").plan(PlannerInput("word " * 1_500, agents, said))

    assert (plan.planned_by, refused(model)) == ("model", [])


@pytest.mark.req("AGT-03.2", "UWS-23.2")
async def test_every_result_is_merged_however_small_the_window(brain: BrainRouter, model: ModelServer) -> None:
    tasks = [completed_task(f"task{number}", f"Found {number}. {LONG}") for number in range(12)]

    text, _ = await merged(brain, "gpt-4o", "gpt-4", "Put it together.", tasks, Pieces())
    await merged(brain, "gpt-4", None, "Put it together.", tasks, Pieces())

    assert (text, refused(model)) == ("You said: Put it together.", [])
    assert [asked.body["model"] for asked in model.asked] == ["gpt-4o", "gpt-4"]
    for asked in model.asked:
        told = asked.body["messages"][0]["content"]
        assert all(f"Found {number}." in told for number in range(12))
    assert count_tokens(model.asked[-1].body["messages"][0]["content"]) > 4_000
