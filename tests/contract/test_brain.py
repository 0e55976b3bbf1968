"""Both model clients: what is sent to a model, and what its answer becomes."""

import asyncio
import json

import pytest

from artel.brain.brain import Brain, Message, Schema, ToolCall, ToolSchema, Usage
from artel.brain.errors import ModelAnswerInvalid
from artel.brain.prices import cost
from tests.actors.model_caller import (
    CRITIQUE,
    KEY,
    MODEL,
    PLAN,
    SOON,
    STEPS,
    STREAMED,
    UNDERSTANDING,
    Sink,
    ask,
    failure_of,
)
from tests.model_server import Hang, ModelServer, Say, Tool

pytestmark = pytest.mark.anyio
READ = ToolSchema("tool_read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


@pytest.mark.req("AGT-01.1")
@STREAMED
async def test_request_is_sent_as_configured_and_the_answer_is_returned(
    brain: Brain, models: ModelServer, streamed: bool
) -> None:
    sink = Sink() if streamed else None

    completion = await brain.complete(ask("Hello there"), sink)

    assert (completion.content, completion.finish_reason) == ("You said: Hello there", "stop")
    assert completion.tool_calls == ()
    assert sink is None or sink.text == completion.content
    [sent] = models.asked
    assert sent.body["model"] == "gpt-4o"
    assert sent.body["temperature"] == 0.3
    assert sent.body["max_tokens"] == 50
    assert sent.body["messages"][0] == {"role": "system", "content": "You are brief."}
    assert sent.body["messages"][-1] == {"role": "user", "content": "Hello there"}
    assert sent.headers["Authorization"] == f"Bearer {KEY}"


async def test_chunks_are_streamed_in_order(brain: Brain, models: ModelServer) -> None:
    pieces = ["При", "вет, ", "世", "界", " 😀", "\n", "end"]
    models.script(Say(pieces=pieces))
    sink = Sink()

    completion = await brain.complete(ask(), sink)

    assert sink.heard == pieces
    assert completion.content == "".join(pieces)


async def test_chunks_are_streamed_before_the_answer_ends(brain: Brain, models: ModelServer) -> None:
    hang = Hang(word="early")
    models.script(hang)
    arrived = asyncio.Event()

    class First(Sink):
        def token(self, text: str) -> None:
            super().token(text)
            arrived.set()

    sink = First()
    asking = asyncio.create_task(brain.complete(ask(), sink))
    await asyncio.wait_for(arrived.wait(), SOON)

    assert sink.heard == ["early"]
    assert not asking.done()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


@pytest.mark.req("AGT-01.3")
@STREAMED
async def test_tokens_and_cost_are_counted(brain: Brain, models: ModelServer, streamed: bool) -> None:
    models.script(Say("fine", tokens=(1000, 200)))

    completion = await brain.complete(ask(), Sink() if streamed else None)

    assert completion.usage == Usage(MODEL, 1000, 200, cost("gpt-4o", 1000, 200), calls=1)
    assert completion.usage.cost_usd == pytest.approx(1000 * 2.5e-6 + 200 * 1e-5)


@pytest.mark.req("AGT-01.3")
@STREAMED
async def test_model_without_a_known_price_has_tokens_but_no_cost(brain: Brain, streamed: bool) -> None:
    completion = await brain.complete(ask(model="openai/nobodys-model"), Sink() if streamed else None)

    assert completion.usage.cost_usd is None
    assert completion.usage.input_tokens > 0
    assert completion.usage.output_tokens > 0


@pytest.mark.req("AGT-01.3")
@STREAMED
async def test_tokens_are_estimated_if_the_server_reports_none(
    brain: Brain, models: ModelServer, streamed: bool
) -> None:
    models.script(Say("one two three four five", usage=False))

    usage = (await brain.complete(ask("Tell me the first five numbers."), Sink() if streamed else None)).usage

    assert 8 <= usage.input_tokens <= 40
    assert 5 <= usage.output_tokens <= 8
    assert usage.cost_usd == pytest.approx(cost(MODEL, usage.input_tokens, usage.output_tokens))


@pytest.mark.req("AGT-02.2")
@STREAMED
async def test_tool_calls_are_assembled(brain: Brain, models: ModelServer, streamed: bool) -> None:
    long = json.dumps({"path": "notes.txt", "content": "Привет, мир. " * 20})
    models.script(
        Say(tools=[Tool("tool_read_file", '{"path": "a.txt"}', "call_a"), Tool("tool_write_file", long, "call_b")])
    )

    completion = await brain.complete(ask(tools=(READ,)), Sink() if streamed else None)

    assert completion.finish_reason == "tool_calls"
    assert completion.tool_calls == (
        ToolCall("call_a", "tool_read_file", '{"path": "a.txt"}'),
        ToolCall("call_b", "tool_write_file", long),
    )
    [tool] = models.asked[0].body["tools"]
    assert tool["function"] == {"name": READ.name, "description": READ.description, "parameters": READ.parameters}


async def test_tool_calls_and_results_are_sent_to_the_model(brain: Brain, models: ModelServer) -> None:
    call = ToolCall("call_a", "tool_read_file", '{"path": "a.txt"}')
    messages = (
        Message("user", "Read a.txt"),
        Message("assistant", "", (call,)),
        Message("tool", "It is empty.", tool_call_id="call_a"),
    )

    await brain.complete(ask(messages=messages, tools=(READ,)))

    sent = models.asked[0].body["messages"]
    function = {"name": call.name, "arguments": call.arguments}
    assert sent[1]["tool_calls"] == [{"id": "call_a", "type": "function", "function": function}]
    assert sent[2] == {"role": "tool", "content": "It is empty.", "tool_call_id": "call_a"}


@pytest.mark.parametrize("schema", [PLAN, CRITIQUE, UNDERSTANDING, STEPS], ids=lambda schema: schema.name)
async def test_structured_answers_are_requested_by_schema_and_parsed(
    brain: Brain, models: ModelServer, schema: Schema
) -> None:
    completion = await brain.complete(ask(response_format=schema))

    assert completion.parsed == json.loads(completion.content)
    wanted = models.asked[0].body["response_format"]
    assert wanted["type"] == "json_schema"
    assert (wanted["json_schema"]["name"], wanted["json_schema"]["schema"]) == (schema.name, schema.schema)


async def test_structured_answer_may_be_in_a_code_fence(brain: Brain, models: ModelServer) -> None:
    good = '{"needs_improvement": true, "critique": "Too ```long```."}'
    models.script(Say(f"<think>Well {{}}</think>Here you are:\n```json\n{good}\n```\n"))

    completion = await brain.complete(ask(response_format=CRITIQUE))

    assert completion.parsed == json.loads(good)


async def test_invalid_structured_answer_is_repaired_once(brain: Brain, models: ModelServer) -> None:
    models.script(Say('{"needs_improvement": "maybe"}', tokens=(10, 2)), Say(tokens=(20, 3)))
    sink = Sink()

    completion = await brain.complete(ask(response_format=CRITIQUE), sink)

    assert completion.parsed == {"needs_improvement": False, "critique": "It is good."}
    assert (completion.usage.input_tokens, completion.usage.output_tokens, completion.usage.calls) == (30, 5, 2)
    invalid, demand = models.asked[1].body["messages"][-2:]
    assert invalid == {"role": "assistant", "content": '{"needs_improvement": "maybe"}'}
    assert "'critique' is a required property" in demand["content"]
    assert json.loads(sink.text) == completion.parsed


@pytest.mark.parametrize("text", ["I'd rather not.", '{"needs_improvement": 1}', "[" * 100_000, '{"critique": NaN}'])
async def test_structured_answer_that_stays_invalid_is_an_error(brain: Brain, models: ModelServer, text: str) -> None:
    models.script(Say(text), Say(text))

    failure = await failure_of(brain, ask(response_format=CRITIQUE))

    assert isinstance(failure, ModelAnswerInvalid)
    assert "critique" in failure.detail
    assert failure.usage
    assert failure.usage.calls == len(models.asked) == 2


@STREAMED
async def test_server_that_rejects_response_format_gets_the_schema_in_the_prompt(
    brain: Brain, models: ModelServer, streamed: bool
) -> None:
    models.refuses = {"response_format"}
    models.default = Say('{"needs_improvement": false, "critique": "Good."}')

    for _ in range(2):
        sink = Sink() if streamed else None
        completion = await brain.complete(ask(response_format=CRITIQUE), sink)
        assert completion.parsed == {"needs_improvement": False, "critique": "Good."}

    assert ["response_format" in asked.body for asked in models.asked] == [True, False, False]
    system, rule, user = models.asked[-1].body["messages"]
    assert (system["content"], user["content"]) == ("You are brief.", "Hello there")
    assert json.dumps(CRITIQUE.schema) in rule["content"]


@STREAMED
async def test_model_that_rejects_max_tokens_gets_max_completion_tokens(
    brain: Brain, models: ModelServer, streamed: bool
) -> None:
    models.refuses = {"max_tokens"}

    for _ in range(2):
        completion = await brain.complete(ask(), Sink() if streamed else None)
        assert completion.content == "You said: Hello there"

    assert [asked.body.get("max_tokens") for asked in models.asked] == [50, None, None]
    assert models.asked[-1].body["max_completion_tokens"] == 50


async def test_model_that_rejects_temperature_is_called_without_it(brain: Brain, models: ModelServer) -> None:
    models.refuses = {"temperature", "max_tokens"}

    completion = await brain.complete(ask())

    assert completion.usage.calls == 3
    assert models.asked[-1].body.keys().isdisjoint({"temperature", "max_tokens"})
