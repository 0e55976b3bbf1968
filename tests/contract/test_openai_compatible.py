"""The client that calls servers with the API of OpenAI directly."""

import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from artel.brain.errors import ModelAnswerInvalid, ModelError, ModelRateLimited, ModelRefused, ModelUnavailable
from artel.brain.openai_compatible import OpenAICompatible
from artel.brain.openai_format import EventParser, ModelAnswer
from tests.actors.model_caller import KEY, Sink, ask, failure_of
from tests.model_server import Fail, ModelServer, Raw, Say

pytestmark = pytest.mark.anyio
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


@given(st.lists(JSON, max_size=5))
def test_any_document_is_an_answer_or_a_clear_error(documents: list[Any]) -> None:
    answer = ModelAnswer("gpt-4o")
    try:
        text = "".join(answer.take(document) for document in documents)
    except ModelAnswerInvalid:
        return
    assert text == answer.content
    assert all(isinstance(call.arguments, str) for call in answer.tool_calls)
