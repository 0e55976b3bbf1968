"""Both model clients: failures, retries, deadlines and fallbacks."""

import asyncio
import itertools
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from artel.brain.brain import Brain
from artel.brain.errors import (
    ModelAnswerCut,
    ModelAnswerInvalid,
    ModelError,
    ModelRateLimited,
    ModelRefused,
    ModelTimedOut,
    ModelUnavailable,
)
from artel.brain.prices import cost
from artel.brain.retries import RetryingBrain
from tests.actors.model_caller import KEY, MODEL, OTHER_MODEL, SOON, STREAMED, Pauses, Sink, ask, failure_of
from tests.model_server import Behaviour, Cut, Fail, Hang, ModelServer, Raw, Say

pytestmark = pytest.mark.anyio
SECRET = "my private words"
TRANSIENT: list[tuple[Behaviour, type[ModelError]]] = [
    (Fail(429), ModelRateLimited),
    (Fail(500), ModelUnavailable),
    (Fail(503), ModelUnavailable),
]
CUTS: list[tuple[Behaviour, type[ModelError]]] = [
    (Cut(), ModelAnswerCut),
    (Cut(broken=True), ModelAnswerCut),
]
GARBAGE = [b"<html>no</html>", b"null", b"[1, 2]", b'{"hello": 1}', b'{"choices": []}', b"", b"\xff\xfe", b"[" * 50_000]
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
