"""The agent's loop with the real client, against a scripted server that speaks OpenAI's language."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from artel.agent_loop.loop import AnswerEmpty, Run, run_loop
from artel.agent_loop.parking import State
from artel.agent_loop.task import AgentSpec, LoopResult, LoopSettings, Tally
from artel.brain.brain import Message
from artel.brain.demo.demo_brain import DemoBrain
from artel.brain.errors import ModelRefused, ModelTimedOut
from artel.brain.openai_compatible import OpenAICompatible
from artel.brain.retries import RetryingBrain
from artel.tools.recall import MemoryRead, MemoryWrite
from artel.tools.toolbox import Toolbox
from tests.agents import Heard, ListRecall, Repeat
from tests.model_server import Cut, Fail, Hang, ModelServer, Say, Tool

pytestmark = pytest.mark.anyio

MESSAGES = (Message("system", "You are a coder."), Message("user", "What does it say?"))
CRITIQUE = LoopSettings(critique=True)


async def no_pause(_seconds: float) -> None:
    pass


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer().running() as server:
        yield server


@pytest.fixture
async def brain(model: ModelServer) -> AsyncIterator[RetryingBrain]:
    client = OpenAICompatible(model.url, "sk-a-key")
    yield RetryingBrain(lambda _: client, sleep=no_pause)
    await client.close()


async def run(
    brain: RetryingBrain,
    loop: LoopSettings = LoopSettings(),  # noqa: B008 - immutable
    *,
    toolbox: Toolbox | None = None,
    heard: Heard | None = None,
    tally: Tally | None = None,
    seconds: float = 600,
) -> LoopResult:
    spec = AgentSpec("agent_coder", "gpt-4", 0.2, 500, loop=loop)
    deadline = time.monotonic() + seconds
    tally = tally or Tally("gpt-4")
    return await run_loop(Run(spec, brain, toolbox or Toolbox(), heard or Heard(), deadline, tally), State(MESSAGES))


def roles(body: dict[str, Any]) -> list[str]:
    return [message["role"] for message in body["messages"]]


@pytest.mark.req("AGT-05.1")
async def test_a_plain_message_is_one_streamed_request(model: ModelServer, brain: RetryingBrain) -> None:
    heard = Heard()

    result = await run(brain, heard=heard)

    assert result.content == heard.text == "You said: What does it say?"
    assert result.usage.calls == 1
    [request] = model.asked
    assert request.streamed
    assert roles(request.body) == ["system", "user"]
    assert "tools" not in request.body


@pytest.mark.req("AGT-02.2", "AGT-05.2")
async def test_the_model_chooses_a_tool_by_function_calling(model: ModelServer, brain: RetryingBrain) -> None:
    repeat, heard = Repeat(), Heard()
    calls = [Tool("repeat", '{"text": "abc"}', "call_a"), Tool("repeat", '{"text": 5}', "call_b")]
    model.script(Say("Let me see.", tools=calls, tokens=(10, 5)), Say("It says abc.", tokens=(30, 4)))

    result = await run(brain, toolbox=Toolbox([repeat], ["repeat"]), heard=heard)

    assert result.content == heard.text == "It says abc."
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.calls) == (40, 9, 2)
    first, second = (asked.body for asked in model.asked)
    assert [tool["function"]["name"] for tool in first["tools"]] == ["repeat"]
    assert roles(second) == ["system", "system", "user", "assistant", "tool", "tool"]
    assert second["messages"][3]["tool_calls"] == [
        {"id": tool.id, "type": "function", "function": {"name": tool.name, "arguments": tool.arguments}}
        for tool in calls
    ]
    good, bad = second["messages"][4:]
    assert (good["tool_call_id"], json.loads(good["content"])["data"]) == ("call_a", {"repeated": "abc"})
    assert (bad["tool_call_id"], json.loads(bad["content"])["success"]) == ("call_b", False)


@pytest.mark.req("AGT-05.1", "AGT-05.3")
async def test_the_structures_are_asked_for_by_their_names(model: ModelServer, brain: RetryingBrain) -> None:
    heard = Heard()
    no = json.dumps({"needs_improvement": True, "critique": "Too short."})
    model.script(Say(), Say(), Say("Bad."), Say(no), Say("Good, and longer."))

    result = await run(brain, LoopSettings(understand=True, plan=True, critique=True), heard=heard)

    assert [request.schema_name for request in model.asked] == [
        "understanding",
        "steps",
        None,
        "critique",
        None,
        "critique",
    ]
    assert all(
        request.body["response_format"]["json_schema"]["strict"] for request in model.asked if request.schema_name
    )
    assert (result.content, result.iterations) == ("Good, and longer.", 1)
    assert (heard.text, heard.restarts) == ("Good, and longer.", 1)
    assert all(request.text == "What does it say?" for request in model.asked)


@pytest.mark.req("AGT-05.4")
async def test_the_last_request_has_no_tools(model: ModelServer, brain: RetryingBrain) -> None:
    repeat = Repeat()
    model.default = Say("Still looking.", tools=[Tool("repeat", '{"text": "abc"}')])

    result = await run(brain, LoopSettings(max_tool_calls=3), toolbox=Toolbox([repeat], ["repeat"]))

    assert ["tools" in asked.body for asked in model.asked] == [True, True, True, False]
    assert (result.content, result.tool_calls, len(repeat.calls)) == ("Still looking.", 3, 3)


@pytest.mark.req("AGT-05.3")
async def test_a_model_that_can_not_criticise_keeps_its_draft(model: ModelServer, brain: RetryingBrain) -> None:
    model.script(Say("Fine."), Say("no JSON"), Say("still none"))

    result = await run(brain, CRITIQUE)

    assert (result.content, result.iterations, result.usage.calls) == ("Fine.", 0, 3)


async def test_a_cut_answer_begins_again_for_readers_too(model: ModelServer, brain: RetryingBrain) -> None:
    heard = Heard()
    model.script(Say("Hm.", tools=[Tool("repeat", '{"text": "abc"}')]), Cut("It says"), Say("It says abc."))

    result = await run(brain, toolbox=Toolbox([Repeat()], ["repeat"]), heard=heard)

    assert result.content == heard.text == "It says abc."
    assert result.usage.calls == 3


async def test_a_refusal_and_what_it_took(model: ModelServer, brain: RetryingBrain) -> None:
    tally = Tally("gpt-4")
    tools = [Tool("repeat", '{"text": "abc"}')]
    model.script(Say("Hm.", tools=tools, tokens=(100, 20)), Fail(401))

    with pytest.raises(ModelRefused, match="does not accept the key"):
        await run(brain, toolbox=Toolbox([Repeat()], ["repeat"]), tally=tally)

    assert (tally.usage.input_tokens, tally.usage.output_tokens, tally.usage.calls) == (100, 20, 2)


async def test_an_empty_answer_is_an_error(model: ModelServer, brain: RetryingBrain) -> None:
    model.script(Say("", finish_reason="length"))

    with pytest.raises(AnswerEmpty, match="Raise the agent's max_tokens"):
        await run(brain)


async def test_the_deadline_ends_a_run(model: ModelServer, brain: RetryingBrain) -> None:
    await run(brain)  # what is slow the first time is over
    model.script(Hang("one"))

    with pytest.raises(ModelTimedOut):
        await run(brain, seconds=0.2)


async def test_a_cancelled_run_lets_go_of_the_model(model: ModelServer, brain: RetryingBrain) -> None:
    hang, tally = Hang("one"), Tally("gpt-4")
    model.script(hang)
    task = asyncio.create_task(run(brain, tally=tally))
    await hang.begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    async with asyncio.timeout(5):
        await hang.abandoned.wait()
    assert tally.pending is not None


@pytest.mark.req("AGT-02.2", "AGT-05.2")
async def test_the_demo_brain_uses_tools_in_the_loop() -> None:
    recall = ListRecall()
    toolbox = Toolbox([MemoryRead(recall), MemoryWrite(recall)], ["memory_read", "memory_write"])
    loop = LoopSettings(understand=True, plan=True, critique=True)
    spec = AgentSpec("agent_coder", "demo", 0, 500, loop=loop)
    answers = []

    for wish in ("Remember that the sky is green", "What do you remember about sky?"):
        messages = (Message("system", "You help."), Message("user", wish))
        run = Run(spec, DemoBrain(), toolbox, Heard(), time.monotonic() + 600, Tally("demo"))
        result = await run_loop(run, State(messages))
        answers.append((result.content, result.tool_calls))

    assert [one.text for one in recall.kept] == ["the sky is green"]
    assert [calls for _, calls in answers] == [1, 1]
    assert "the sky is green" in answers[1][0]
