"""The contract of `Brain`: the direct client and LiteLLM against a scripted server, and the demo brain."""

import asyncio
import itertools
import json
import subprocess
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from artel.brain import litellm_client
from artel.brain.brain import Brain, Completion, Message, Request, Schema, ToolCall, ToolSchema, Usage
from artel.brain.demo.demo_brain import DemoBrain
from artel.brain.errors import (
    ModelAnswerCut,
    ModelAnswerInvalid,
    ModelError,
    ModelRateLimited,
    ModelRefused,
    ModelTimedOut,
    ModelUnavailable,
)
from artel.brain.litellm_client import LiteLLM
from artel.brain.openai_compatible import OpenAICompatible
from artel.brain.openai_format import EventParser, ModelAnswer, body_of
from artel.brain.prices import cost
from artel.brain.providers import PROVIDERS, StoredProvider, provider_of
from artel.brain.retries import RetryingBrain
from artel.brain.router import BrainRouter, ModelChoice, ModelRules
from tests.model_server import Behaviour, Cut, Fail, Hang, Hold, ModelServer, Raw, Say, Tool

pytestmark = pytest.mark.anyio

KEY = "sk-a-very-secret-key-0123456789"
MODEL, OTHER_MODEL = "openai/gpt-4o", "openai/gpt-4"
SOON = 60.0  # nothing here takes that long
SECRET = "my private words"
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])

CRITIQUE = Schema(
    "critique",
    {
        "type": "object",
        "properties": {"needs_improvement": {"type": "boolean"}, "critique": {"type": "string"}},
        "required": ["needs_improvement", "critique"],
        "additionalProperties": False,
    },
)
PLAN = Schema(
    "plan",
    {
        "type": "object",
        "properties": {
            "tasks": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string"},
                        "agent": {"type": "string"},
                        "description": {"type": "string"},
                        "depends_on": {"type": "array", "items": {"type": "string"}},
                    },
                    "required": ["id", "agent", "description", "depends_on"],
                },
            }
        },
        "required": ["tasks"],
    },
)
UNDERSTANDING = Schema(
    "understanding",
    {"type": "object", "properties": {"understanding": {"type": "string"}}, "required": ["understanding"]},
)
STEPS = Schema(
    "steps",
    {"type": "object", "properties": {"steps": {"type": "array", "items": {"type": "string"}}}, "required": ["steps"]},
)
READ = ToolSchema("tool_read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


@dataclass
class Sink:
    """Records the streamed chunks; a restart is None."""

    heard: list[str | None] = field(default_factory=list)

    def token(self, text: str) -> None:
        self.heard.append(text)

    def restart(self) -> None:
        self.heard.append(None)

    @property
    def text(self) -> str:
        last = list(itertools.takewhile(lambda text: text is not None, reversed(self.heard)))
        return "".join(str(text) for text in reversed(last))


@dataclass
class Pauses:
    """Replaces sleep; records the durations."""

    seconds: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
async def models() -> AsyncIterator[ModelServer]:
    async with ModelServer().running() as server:
        yield server


@pytest.fixture(params=["direct", "litellm"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "litellm":
        litellm_client._import()  # it takes seconds, which must not count for the deadlines
    return name


@pytest.fixture
async def new_client(kind: str, models: ModelServer) -> AsyncIterator[Callable[..., Brain]]:
    made: list[Brain] = []

    def make(url: str = "", limit: int = 1_000_000) -> Brain:
        url = url or models.url
        if kind == "direct":
            made.append(OpenAICompatible(url, KEY, max_answer_bytes=limit))
        else:
            made.append(LiteLLM(KEY, url, max_answer_characters=limit))
        return made[-1]

    yield make
    for client in made:
        await client.close()


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def brain(new_client: Callable[..., Brain], pauses: Pauses) -> Brain:
    client = new_client()
    return RetryingBrain(lambda _model: client, sleep=pauses)


def ask(text: str = "Hello there", **changes: Any) -> Request:
    messages = (Message("system", "You are brief."), Message("user", text))
    request = Request(MODEL, messages, temperature=0.3, max_tokens=50, deadline=time.monotonic() + SOON)
    return replace(request, **changes)


async def failure_of(brain: Brain, request: Request, stream: Sink | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await brain.complete(request, stream)
    return caught.value


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


TRANSIENT: list[tuple[Behaviour, type[ModelError]]] = [
    (Fail(429), ModelRateLimited),
    (Fail(500), ModelUnavailable),
    (Fail(503), ModelUnavailable),
]
CUTS: list[tuple[Behaviour, type[ModelError]]] = [
    (Cut(), ModelAnswerCut),
    (Cut(broken=True), ModelAnswerCut),
]


@STREAMED
@pytest.mark.parametrize(("trouble", "expected"), TRANSIENT, ids=["429", "500", "503"])
async def test_transient_failure_is_retried_at_most_twice(
    brain: Brain,
    models: ModelServer,
    pauses: Pauses,
    trouble: Behaviour,
    expected: type[ModelError],
    streamed: bool,
) -> None:
    models.script(trouble, trouble)
    completion = await brain.complete(ask(), Sink() if streamed else None)
    assert (completion.content, completion.usage.calls) == ("You said: Hello there", 3)
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses.seconds, [0.5, 1.0], strict=True))

    models.asked.clear()
    models.script(trouble, trouble, trouble)
    failure = await failure_of(brain, ask(), Sink() if streamed else None)
    assert type(failure) is expected
    assert failure.usage
    assert failure.usage.calls == len(models.asked) == 3


@pytest.mark.parametrize(("cut", "expected"), CUTS, ids=["ended", "broken"])
async def test_cut_stream_is_an_error_and_is_restarted(
    brain: Brain, models: ModelServer, cut: Behaviour, expected: type[ModelError]
) -> None:
    models.script(cut)
    sink = Sink()
    await brain.complete(ask(), sink)
    assert sink.heard == ["one", " two", " three", None, "You", " said:", " Hello", " there"]

    models.script(cut, cut, cut)
    sink = Sink()
    failure = await failure_of(brain, ask(), sink)
    assert type(failure) is expected
    assert sink.heard.count(None) == 2


async def test_cut_answer_is_an_error_and_is_retried(brain: Brain, models: ModelServer) -> None:
    models.script(Cut(), Cut())
    assert (await brain.complete(ask())).content == "You said: Hello there"

    models.script(Cut(), Cut(), Cut())
    assert (await failure_of(brain, ask())).transient


@pytest.mark.req("AGT-01.3")
async def test_usage_of_a_failed_attempt_counts(brain: Brain, models: ModelServer) -> None:
    models.script(Cut("one two three", usage=True), Say("fine", tokens=(7, 1)))

    usage = (await brain.complete(ask("Hello there"), Sink())).usage

    assert usage.calls == 2
    assert (usage.input_tokens, usage.output_tokens) == (5 + 7, 3 + 1)
    assert usage.cost_usd == pytest.approx(cost(MODEL, 12, 4))


@STREAMED
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_refusal_is_not_retried_and_says_what_to_check(
    brain: Brain, models: ModelServer, status: int, streamed: bool
) -> None:
    models.script(Fail(status, {"message": "No.", "type": "invalid_request_error"}))

    failure = await failure_of(brain, ask(), Sink() if streamed else None)

    assert type(failure) is ModelRefused
    assert len(models.asked) == 1
    assert str(status) in failure.detail
    assert MODEL in failure.detail
    if status == 401:
        assert "check OPENAI_API_KEY" in failure.detail


async def test_an_account_without_credit_is_a_refusal(brain: Brain, models: ModelServer) -> None:
    models.script(Fail(429, {"message": "You exceeded your current quota.", "code": "insufficient_quota"}))

    failure = await failure_of(brain, ask())

    assert type(failure) is ModelRefused
    assert "credit" in failure.detail


async def test_refusal_says_that_the_conversation_is_too_long(brain: Brain, models: ModelServer) -> None:
    message = "This model's maximum context length is 8192 tokens."
    models.script(Fail(400, {"message": message, "code": "context_length_exceeded", "param": "messages"}))

    assert "longer than" in (await failure_of(brain, ask())).detail


@pytest.mark.parametrize("header", [{"Retry-After": "7"}, {"Retry-After-Ms": "6500", "Retry-After": "90"}])
async def test_retry_waits_as_long_as_the_server_demands(
    brain: Brain, models: ModelServer, pauses: Pauses, header: dict[str, str]
) -> None:
    models.script(Fail(429, headers=header))

    await brain.complete(ask())

    assert pauses.seconds == [7]


async def test_pause_beyond_the_deadline_ends_the_retries(brain: Brain, models: ModelServer, pauses: Pauses) -> None:
    models.script(Fail(429, headers={"Retry-After": "3600"}))

    failure = await failure_of(brain, ask())

    assert type(failure) is ModelRateLimited
    assert failure.retry_after == 3600
    assert (pauses.seconds, len(models.asked)) == ([], 1)


@STREAMED
@pytest.mark.parametrize("slow", [Hang, lambda: Say("a b c d e f", delay=0, pause=0.1)], ids=["hangs", "drips"])
async def test_the_deadline_ends_a_call(
    brain: Brain, models: ModelServer, slow: Callable[[], Behaviour], streamed: bool
) -> None:
    await brain.complete(ask())  # so that the import is not measured
    hang = slow()
    if isinstance(hang, Say) and not streamed:
        hang = replace(hang, delay=5)
    models.script(hang)
    began = time.monotonic()

    failure = await failure_of(brain, ask(deadline=began + 0.3), Sink() if streamed else None)

    assert type(failure) is ModelTimedOut
    assert time.monotonic() - began > 0.25
    if isinstance(hang, Hang):
        async with asyncio.timeout(60):
            await hang.abandoned.wait()


async def test_passed_deadline_sends_no_request(brain: Brain, models: ModelServer) -> None:
    failure = await failure_of(brain, ask(deadline=time.monotonic() - 1))

    assert type(failure) is ModelTimedOut
    assert len(models.asked) == 0


@pytest.mark.req("AGT-01.2")
@STREAMED
@pytest.mark.parametrize(
    "trouble", [Fail(500), Fail(401), Fail(429), Raw(b"<html>")], ids=["500", "401", "429", "html"]
)
async def test_fallback_answers_if_the_model_fails(
    brain: Brain, models: ModelServer, trouble: Behaviour, streamed: bool
) -> None:
    models.script(*[trouble] * (3 if isinstance(trouble, Fail) and trouble.status != 401 else 1))
    if isinstance(trouble, Raw):  # LiteLLM treats this as a server error and retries
        models.default = _garbage_for("gpt-4o")
    sink = Sink()

    completion = await brain.complete(ask(fallback_model=OTHER_MODEL), sink if streamed else None)

    assert completion.content == "You said: Hello there"
    assert models.asked[-1].body["model"] == "gpt-4"
    assert {asked.body["model"] for asked in list(models.asked)[:-1]} == {"gpt-4o"}
    usage = completion.usage
    assert (usage.model, usage.calls) == (OTHER_MODEL, len(models.asked))
    assert usage.cost_usd == pytest.approx(cost(OTHER_MODEL, usage.input_tokens, usage.output_tokens))
    if streamed:
        assert sink.text == completion.content


def _garbage_for(model: str) -> Behaviour:
    async def answer(asked: Any, http: Any) -> Any:
        return await (Raw(b"<html>") if asked.body["model"] == model else Say())(asked, http)

    return answer


@pytest.mark.req("AGT-01.2")
async def test_model_that_hangs_leaves_time_for_its_fallback(brain: Brain, models: ModelServer) -> None:
    await brain.complete(ask())
    models.script(Hang(word="never"))
    sink = Sink()

    request = ask(fallback_model=OTHER_MODEL, deadline=time.monotonic() + 1.5)
    completion = await brain.complete(request, sink)

    assert completion.usage.model == OTHER_MODEL
    assert sink.heard[:2] == ["never", None]
    assert sink.text == completion.content


@pytest.mark.req("AGT-01.2")
async def test_fallback_is_not_called_if_the_model_answers(brain: Brain, models: ModelServer) -> None:
    completion = await brain.complete(ask(fallback_model=OTHER_MODEL))

    assert completion.usage.model == MODEL
    assert [asked.body["model"] for asked in models.asked] == ["gpt-4o"]


async def test_error_of_the_fallback_has_the_usage_of_both_models(brain: Brain, models: ModelServer) -> None:
    models.script(Fail(401), Fail(500), Fail(500), Fail(500))

    failure = await failure_of(brain, ask(fallback_model=OTHER_MODEL))

    assert type(failure) is ModelUnavailable
    assert OTHER_MODEL in failure.detail
    assert failure.usage
    assert failure.usage.calls == 4


GARBAGE = [b"<html>no</html>", b"null", b"[1, 2]", b'{"hello": 1}', b'{"choices": []}', b"", b"\xff\xfe", b"[" * 50_000]


@pytest.mark.parametrize("body", GARBAGE, ids=range(len(GARBAGE)))
async def test_garbage_is_an_error(brain: Brain, models: ModelServer, kind: str, body: bytes) -> None:
    models.default = Raw(body)

    failure = await failure_of(brain, ask())

    if kind == "direct":
        assert type(failure) is ModelAnswerInvalid
        assert len(models.asked) == 1


@pytest.mark.parametrize("line", [b"<html>", b"data: {nonsense", b"data: 5", b"data: null", b'data: {"choices": 1}'])
async def test_garbage_in_a_stream_is_an_error(brain: Brain, models: ModelServer, line: bytes) -> None:
    models.default = Raw(line + b"\n\n", "text/event-stream")

    assert isinstance(await failure_of(brain, ask(), Sink()), ModelAnswerInvalid | ModelAnswerCut | ModelUnavailable)


@STREAMED
async def test_answer_beyond_the_size_limit_is_an_error(
    new_client: Callable[..., Brain], models: ModelServer, streamed: bool
) -> None:
    client = new_client(limit=20_000)
    models.script(Say(pieces=["x" * 1000] * 30))

    failure = await failure_of(client, ask(), Sink() if streamed else None)

    assert type(failure) is ModelAnswerInvalid
    assert "longer than" in failure.detail


async def test_errors_and_logs_hold_no_key_and_no_conversation(
    brain: Brain,
    models: ModelServer,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level("DEBUG")
    quoting = {"message": f"Bad key {KEY} for {SECRET}", "code": KEY, "param": SECRET, "type": KEY}
    troubles: list[Behaviour] = [Fail(status, quoting) for status in (400, 401, 404, 429, 500)]
    troubles += [Raw(f"{KEY} {SECRET}".encode()), Cut(f"{SECRET} {KEY}")]
    reports = []
    for trouble, sink in itertools.product(troubles, (None, Sink())):
        models.default = trouble
        failure = await failure_of(brain, ask(SECRET), sink)
        reports.append("".join(traceback.format_exception(failure)) + failure.detail + repr(failure))

    printed = capfd.readouterr()
    for text in (*reports, caplog.text, printed.out, printed.err):
        assert KEY not in text
        assert SECRET not in text


@STREAMED
async def test_cancelling_closes_the_connection(brain: Brain, models: ModelServer, streamed: bool) -> None:
    await brain.complete(ask())
    hang = Hang(word="early" if streamed else "")
    models.script(hang)
    asking = asyncio.create_task(brain.complete(ask(), Sink() if streamed else None))
    await asyncio.wait_for(hang.begun.wait(), SOON)

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    await asyncio.wait_for(hang.abandoned.wait(), SOON)


async def test_unreachable_server_is_retried_and_then_named(
    new_client: Callable[..., Brain], pauses: Pauses, kind: str
) -> None:
    client = new_client("http://127.0.0.1:9/v1")

    failure = await failure_of(RetryingBrain(lambda _: client, sleep=pauses), ask())

    assert type(failure) is ModelUnavailable
    assert len(pauses.seconds) == 2
    if kind == "direct":
        assert "OPENAI_BASE_URL" in failure.detail


BILLS: list[tuple[Behaviour, bool]] = [
    (Fail(400), False),
    (Fail(401), False),
    (Fail(429), False),
    (Fail(408), True),
    (Fail(500), False),
    (Fail(502), True),
    (Fail(503), False),
    (Fail(504), True),
    (Cut(), True),
    (Cut(broken=True), True),
    (Raw(b"<html>"), True),
]


@pytest.mark.parametrize(("trouble", "billed"), BILLS, ids=str)
async def test_call_is_unbilled_only_if_the_model_did_not_start(
    new_client: Callable[..., Brain], models: ModelServer, trouble: Behaviour, billed: bool
) -> None:
    models.default = trouble

    failure = await failure_of(new_client(models.url), ask(), Sink())

    assert failure.unbilled is not billed


async def test_unreachable_server_and_passed_deadline_are_unbilled(
    new_client: Callable[..., Brain], brain: Brain
) -> None:
    assert (await failure_of(new_client("http://127.0.0.1:9/v1"), ask())).unbilled
    assert (await failure_of(brain, ask(deadline=time.monotonic() - 1))).unbilled


async def test_concurrent_answers_are_not_mixed_up(brain: Brain, models: ModelServer) -> None:
    models.default = Say(pause=0.001)
    texts = [f"number {number}" for number in range(60)]
    sinks = [Sink() for _ in texts]

    answers = await asyncio.gather(*(brain.complete(ask(text), sink) for text, sink in zip(texts, sinks, strict=True)))

    assert [answer.content for answer in answers] == [f"You said: {text}" for text in texts]
    assert [sink.text for sink in sinks] == [answer.content for answer in answers]


async def test_connections_are_reused_for_any_deadline(brain: Brain, models: ModelServer) -> None:
    for seconds in range(5):
        await brain.complete(ask(deadline=time.monotonic() + SOON + seconds))

    assert len({asked.connection for asked in models.asked}) == 1


# The direct client only.


@pytest.fixture
async def direct(models: ModelServer) -> AsyncIterator[OpenAICompatible]:
    client = OpenAICompatible(models.url, KEY)
    yield client
    await client.close()


async def test_connections_are_reused_after_streams(direct: OpenAICompatible, models: ModelServer) -> None:
    models.default = Say(pause=0.01)  # so that the end of a stream arrives after its last event
    for sink in (None, Sink(), None, Sink(), None):
        await direct.complete(ask(), sink)

    assert len({asked.connection for asked in models.asked}) == 1


async def test_server_that_does_not_stream_is_supported(direct: OpenAICompatible, models: ModelServer) -> None:
    whole = {"choices": [{"message": {"content": "All at once."}, "finish_reason": "stop"}]}
    models.script(Raw(json.dumps(whole).encode()))
    sink = Sink()

    assert (await direct.complete(ask(), sink)).content == sink.text == "All at once."


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"message": "Slow down", "code": "rate_limit_exceeded"}, ModelRateLimited),
        ({"message": "Overloaded", "code": 529}, ModelUnavailable),
        ({"message": "Bad", "type": "invalid_request_error"}, ModelRefused),
        ("something", ModelUnavailable),
    ],
)
async def test_error_inside_a_stream_is_raised(
    direct: OpenAICompatible, models: ModelServer, error: Any, expected: type[ModelError]
) -> None:
    models.script(Raw(b"data: " + json.dumps({"error": error}).encode() + b"\n\n", "text/event-stream"))

    assert type(await failure_of(direct, ask(), Sink())) is expected


async def test_refusal_in_the_middle_of_an_answer_may_be_billed(direct: OpenAICompatible, models: ModelServer) -> None:
    begun = {"choices": [{"index": 0, "delta": {"content": "One"}, "finish_reason": None}]}
    error = {"error": {"message": "Bad", "type": "invalid_request_error"}}
    events = b"".join(b"data: " + json.dumps(document).encode() + b"\n\n" for document in (begun, error))
    models.script(Raw(events, "text/event-stream"))

    failure = await failure_of(direct, ask(), Sink())

    assert (type(failure), failure.unbilled) == (ModelRefused, False)


async def test_surrogate_pair_may_be_split_between_chunks(direct: OpenAICompatible, models: ModelServer) -> None:
    chunks = [{"choices": [{"index": 0, "delta": {"content": half}}]} for half in ("\ud83d", "\ude00")]
    events = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    models.script(Raw(events + b"data: [DONE]\n\n", "text/event-stream"))

    completion = await direct.complete(ask(), Sink())

    assert completion.content == "\ud83d\ude00"


async def test_a_redirect_is_not_followed(direct: OpenAICompatible, models: ModelServer) -> None:
    models.script(Fail(307, headers={"Location": f"{models.url}/elsewhere"}))

    failure = await failure_of(direct, ask())

    assert type(failure) is ModelRefused
    assert "OPENAI_BASE_URL" in failure.detail
    assert len(models.asked) == 1


async def test_line_beyond_the_size_limit_is_an_error(direct: OpenAICompatible, models: ModelServer) -> None:
    models.script(Raw(b"x" * 100_000, "text/event-stream", times=30))

    assert type(await failure_of(direct, ask(), Sink())) is ModelAnswerInvalid


EVENTS = [
    b"data: {}\n\n",
    b"data:{}\r\n\r\n",
    b": a comment\n\n",
    b"event: ping\nid: 7\nretry: 10\n\n",
    b"data: one\ndata: two\n\n",
    'data: {"choices": [{"delta": {"content": "Привет, 世界 😀"}}]}\n\n'.encode(),
    b"data: [DONE]\n\n",
    b"\n",
    b"data\n",
]


def parsed(pieces: list[bytes]) -> list[bytes]:
    parser = EventParser(max_line_bytes=1000)
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.finish()


@given(st.lists(st.sampled_from(EVENTS), max_size=8), st.lists(st.integers(0, 400), max_size=12), st.booleans())
@example([b"data: {}\r\n\r\n"], [9, 10, 11], True)
def test_events_do_not_depend_on_how_the_stream_is_split(sent: list[bytes], cuts: list[int], marked: bool) -> None:
    stream = (b"\xef\xbb\xbf" if marked else b"") + b"".join(sent)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]

    split = [stream[start:end] for start, end in itertools.pairwise(places)]

    assert parsed(split) == parsed([stream]) == parsed([bytes([byte]) for byte in stream])


def test_events_are_parsed_as_the_standard_says() -> None:
    stream = b"\xef\xbb\xbfdata: a\ndata:b\r\nevent: x\n\n: comment\r\n\r\ndata:  c \n\ndata: last"

    assert parsed([stream]) == [b"a\nb", b" c ", b"last"]


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "message", "content", "tool_calls", "function", "usage", "index", "id"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(st.lists(JSON, max_size=5))
def test_any_document_is_an_answer_or_a_clear_error(documents: list[Any]) -> None:
    answer = ModelAnswer("gpt-4o")
    try:
        text = "".join(answer.take(document) for document in documents)
    except ModelAnswerInvalid:
        return
    assert text == answer.content
    assert all(isinstance(call.arguments, str) for call in answer.tool_calls)


# The demo brain and the router.


async def complete_with_demo(request: Request, sink: Sink | None = None) -> Completion:
    return await RetryingBrain(lambda _model: DemoBrain()).complete(request, sink)


async def test_demo_brain_streams_its_answer_and_reports_its_name() -> None:
    sink = Sink()

    completion = await complete_with_demo(ask("Hello!"), sink)

    assert len(sink.heard) > 10
    assert sink.text == completion.content
    assert (completion.usage.model, completion.usage.cost_usd, completion.usage.calls) == ("demo", 0.0, 1)
    assert completion.usage.input_tokens > 0


@pytest.mark.parametrize("schema", [PLAN, CRITIQUE, UNDERSTANDING, STEPS], ids=lambda schema: schema.name)
async def test_demo_brain_returns_structured_answers(schema: Schema) -> None:
    completion = await complete_with_demo(ask("Research tea, then write about it.", response_format=schema))

    assert completion.parsed == json.loads(completion.content)


async def test_the_demo_brain_keeps_the_deadline() -> None:
    brain = RetryingBrain(lambda _model: DemoBrain())
    assert type(await failure_of(brain, ask(deadline=time.monotonic() - 1))) is ModelTimedOut


async def answer_of(env: dict[str, str], model: str) -> Completion:
    router = BrainRouter(env)
    try:
        return await router.complete(ask(model=model))
    finally:
        await router.close()


@pytest.mark.parametrize("model", ["gpt-4", "anthropic/claude-sonnet-4-5", "ollama/llama3", "whatever"])
async def test_without_any_key_the_demo_brain_answers_for_every_model(model: str) -> None:
    env = {"OPENAI_API_KEY": "", "AWS_ACCESS_KEY_ID": "for-other-things", "HF_TOKEN": "x"}

    assert BrainRouter(env).configured is False
    assert BrainRouter(env).describe().mode == "demo"
    assert (await answer_of(env, model)).usage.model == "demo"


@pytest.mark.req("AGT-01.1")
@pytest.mark.parametrize(
    ("env", "model", "wire_name"),
    [
        ({"OPENAI_BASE_URL": "{url}"}, "gpt-4", "gpt-4"),
        ({"OPENAI_BASE_URL": "{url}", "OPENAI_API_KEY": KEY}, "meta-llama/Llama-3", "meta-llama/Llama-3"),
        ({"OPENAI_BASE_URL": "{url}/"}, "claude-sonnet-4-5", "claude-sonnet-4-5"),
        ({"OPENAI_BASE_URL": "{url}"}, "openai/anthropic/claude", "anthropic/claude"),
        ({"OLLAMA_API_BASE": "{host}"}, "ollama/llama3:8b", "llama3:8b"),
        ({"OLLAMA_API_BASE": "{host}/", "OPENAI_API_KEY": KEY}, "ollama_chat/llama3", "llama3"),
        ({"HOSTED_VLLM_API_BASE": "{url}"}, "hosted_vllm/Qwen/Qwen3", "Qwen/Qwen3"),
        ({"LM_STUDIO_API_BASE": "{url}"}, "lm_studio/qwen", "qwen"),
    ],
)
async def test_openai_compatible_servers_are_called_directly(
    models: ModelServer, env: dict[str, str], model: str, wire_name: str
) -> None:
    host = models.url.removesuffix("/v1")
    env = {name: value.format(url=models.url, host=host) for name, value in env.items()}

    completion = await answer_of(env, model)

    assert completion.content == "You said: Hello there"
    assert completion.usage.model == model
    assert completion.usage.cost_usd == (0 if model.startswith(("ollama", "hosted", "lm_")) else cost(model, 5, 4))
    assert models.asked[0].body["model"] == wire_name
    assert ("Authorization" in models.asked[0].headers) == ("OPENAI_API_KEY" in env and not model.startswith("ollama"))


@pytest.mark.req("AGT-01.1")
async def test_other_providers_are_called_through_litellm(models: ModelServer) -> None:
    host = models.url.removesuffix("/v1")
    document: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "id": "1",
        "stop_reason": "end_turn",
    }
    document |= {"content": [{"type": "text", "text": "Good day."}], "usage": {"input_tokens": 7, "output_tokens": 2}}
    models.script(Raw(json.dumps(document).encode()))

    completion = await answer_of({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_API_BASE": host}, "claude-sonnet-4-5")

    assert completion.content == "Good day."
    assert completion.usage == Usage("claude-sonnet-4-5", 7, 2, cost("claude-sonnet-4-5", 7, 2), calls=1)
    assert completion.usage.cost_usd
    assert models.asked[0].headers["x-api-key"] == KEY


@pytest.mark.req("MOD-01.3")
@STREAMED
@pytest.mark.parametrize(
    "model",
    ["anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash", "gpt-4"],
)
async def test_redirect_of_a_provider_is_not_followed(models: ModelServer, model: str, streamed: bool) -> None:
    async with ModelServer().running() as elsewhere:
        models.default = Fail(307, headers={"Location": f"{elsewhere.url}/chat/completions"})
        provider = StoredProvider(
            1, "P", provider_of(model, {}).name, models.url.removesuffix("/v1"), KEY, is_direct=model == "gpt-4"
        )
        router = BrainRouter({})
        await router.configure([provider], ModelRules(), ModelChoice())
        try:
            with pytest.raises(ModelError):
                await router.complete(ask(model=model), Sink() if streamed else None)
        finally:
            await router.close()

        assert models.asked
        assert not elsewhere.asked


@pytest.mark.req("MOD-01.1")
async def test_running_call_ends_with_the_provider_that_it_began_with(models: ModelServer) -> None:
    hold = Hold("done")
    models.script(hold)
    router = BrainRouter({})
    first = StoredProvider(1, "P", "openai", models.url, KEY, is_direct=True)
    await router.configure([first], ModelRules(), ModelChoice())
    call = asyncio.ensure_future(router.complete(ask(model="gpt-4")))
    while not hold.arrived:  # noqa: ASYNC110 - it is a deque, because other tests use it from other threads
        await asyncio.sleep(0.005)

    await router.configure([replace(first, api_key="another")], ModelRules(), ModelChoice())
    hold.release()

    assert (await call).content == "done"
    await router.complete(ask(model="gpt-4"))
    assert [request.headers["Authorization"] for request in models.asked] == [f"Bearer {KEY}", "Bearer another"]
    await router.configure([], ModelRules(), ModelChoice())
    assert (await router.complete(ask(model="gpt-4"))).usage.model == "demo"
    await router.close()


@pytest.mark.req("AGT-01.4")
async def test_azure_answers_as_other_providers_do(models: ModelServer) -> None:
    host = models.url.removesuffix("/v1")

    completion = await answer_of({"AZURE_API_KEY": KEY, "AZURE_API_BASE": host}, "azure/gpt-4o")

    assert completion.content == "You said: Hello there"
    assert completion.usage.model == "azure/gpt-4o"
    assert completion.usage.cost_usd == cost("azure/gpt-4o", 5, 4)
    assert models.asked[0].body["model"] == "gpt-4o"
    assert models.asked[0].headers["api-key"] == KEY


@pytest.mark.parametrize(
    ("env", "model", "variable"),
    [
        ({"ANTHROPIC_API_KEY": KEY}, "gpt-4", "OPENAI_API_KEY"),
        ({"OPENAI_API_KEY": KEY}, "claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ({"OPENAI_API_KEY": KEY}, "ollama/llama3", "OLLAMA_API_BASE"),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:9"}, "gemini/gemini-2.5-pro", "GEMINI_API_KEY"),
        ({"AZURE_API_KEY": KEY}, "azure/gpt-4o", "AZURE_API_BASE"),
        ({"OPENAI_API_KEY": KEY, "AZURE_API_BASE": "http://127.0.0.1:9"}, "azure/gpt-4o", "AZURE_API_KEY"),
    ],
)
async def test_refusal_names_the_variable_of_the_missing_provider(
    env: dict[str, str], model: str, variable: str
) -> None:
    with pytest.raises(ModelRefused) as caught:
        await answer_of(env, model)

    assert variable in caught.value.detail
    assert model in caught.value.detail
    assert KEY not in caught.value.detail


@pytest.mark.req("AGT-01.2")
async def test_fallback_may_belong_to_another_provider(models: ModelServer) -> None:
    router = BrainRouter({"OPENAI_BASE_URL": models.url, "OLLAMA_API_BASE": models.url})
    models.script(Fail(401))

    completion = await router.complete(ask(model="gpt-4", fallback_model="ollama/llama3"))

    assert completion.usage.model == "ollama/llama3"
    assert completion.usage.cost_usd == 0
    await router.close()


def test_the_description_holds_no_secret() -> None:
    address = f"https://user:{KEY}@example.org/v1?key={KEY}"
    described = BrainRouter({"OPENAI_BASE_URL": address, "OPENAI_API_KEY": KEY, "GROQ_API_KEY": KEY}).describe()

    assert described.mode == "models"
    assert {provider.name: provider.address for provider in described.providers} == {
        "openai": "https://example.org/v1",
        "groq": None,
    }
    assert KEY not in repr(described)


def test_line_end_of_a_key_is_stripped() -> None:
    assert PROVIDERS["openai"].key({"OPENAI_API_KEY": f"{KEY}\n"}) == KEY


def test_schemas_are_strict_where_openai_accepts_it() -> None:
    strict = {schema.name: _strictness(schema) for schema in (CRITIQUE, PLAN, STEPS)}

    assert strict == {"critique": True, "plan": False, "steps": False}


def _strictness(schema: Schema) -> bool:
    body = body_of(ask(response_format=schema), "gpt-4o", frozenset(), stream=False)
    strict: bool = body["response_format"]["json_schema"]["strict"]
    return strict


# The scripted server itself, as other tests and the bench use it.


def completion_of(url: str) -> Any:
    body = {"model": "gpt-4", "messages": [{"role": "user", "content": "Hello there"}]}
    return httpx.post(f"{url}/chat/completions", json=body, timeout=SOON).json()["choices"][0]["message"]["content"]


def test_the_scripted_server_runs_in_a_thread() -> None:
    with ModelServer().running_in_thread() as models:
        models.script(Say("First."))

        assert [completion_of(models.url), completion_of(models.url)] == ["First.", "You said: Hello there"]
    assert len(models.asked) == 2


def test_the_scripted_server_runs_in_a_process() -> None:
    command = [sys.executable, "-m", "tests.model_server", "--port", "0", "--words", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        url = json.loads(process.stdout.readline())["url"]
        assert completion_of(url) == "word word word"
        [received] = httpx.get(url.replace("/v1", "/asked"), timeout=SOON).json()
        process.terminate()

    assert (received["model"], received["text"]) == ("gpt-4", "Hello there")
    assert process.returncode == 0


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = ("litellm", "openai", "tiktoken", "aiohttp", "jsonschema", "httpx")
    program = (
        "import sys, artel.brain.router, artel.brain.tokens, artel.brain.prices\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.strip() == "[]"
