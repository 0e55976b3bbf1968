"""The client's reading of a turn's event stream, also when it is cut, repeated and resumed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artel.client.api_client import ApiClient, ResponseLost, ServerRefused, ServerUnreachable
from artel.client.sse import ServerEvent, read_events
from artel.client.turn import StreamedAnswer as Answer
from artel.client.turn import TurnView
from artel.client.turn_stream import CONNECTION_LOST, RetryStream, TurnStream

TURN = {"session_id": "s", "turn_id": "t"}
ENDED = ServerEvent("turn_completed", TURN | {"status": "completed", "usage": {}}, 4)


def sse(event: ServerEvent) -> bytes:
    number = f"id: {event.number}\n" if event.number is not None else ""
    return f"{number}event: {event.type}\ndata: {json.dumps(event.data)}\n\n".encode()


def delta(n: int, text: str, kind: str = "message_delta", **more: str) -> ServerEvent:
    return ServerEvent(kind, {"message_id": "m", "n": n, "text": text, "task_id": "t"} | more)


def completed(text: str) -> ServerEvent:
    message = {"message_id": "m", "role": "assistant", "content": text, "agent_id": 7}
    return ServerEvent("message_completed", TURN | message, 3)


@given(
    st.lists(st.builds(ServerEvent, st.sampled_from(["a", "b"]), st.dictionaries(st.text(), st.text()), st.none())),
    st.data(),
)
def test_events_are_read_from_any_split_of_the_stream(events: list[ServerEvent], data: st.DataObject) -> None:
    whole = b": comment\n\n".join([b"", *(sse(event) for event in events)])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    assert list(read_events(pieces)) == events


@pytest.mark.parametrize(
    "rubbish", [b"data: {\n\n", b"event: a\ndata: 1\n\n", b"event: a\ndata: {}\nid: x\n\n", b"data"]
)
def test_invalid_events_are_skipped(rubbish: bytes) -> None:
    good = b"id: 3\r\nevent: a\r\ndata: {\r\ndata: }\r\n\r\n"

    assert list(read_events([rubbish if rubbish.endswith(b"\n\n") else b"", good, rubbish])) == [
        ServerEvent("a", {}, 3),
    ]


@dataclass
class Writer:
    """A server that streams an answer to a client whose connection may break at any point."""

    pieces: list[str]
    written: int = 0
    text: str = ""
    answer: Answer = field(default_factory=Answer)
    connected: bool = True

    def write(self) -> None:
        """Write the next piece."""
        if self.written < len(self.pieces):
            piece = self.pieces[self.written]
            self.written, self.text = self.written + 1, self.text + piece
            if self.connected:
                self.answer.add(self.written, piece)

    def cut(self) -> None:
        """Break the connection."""
        self.connected = False

    def connect(self) -> None:
        """Reconnect and send a snapshot."""
        self.connected = True
        self.answer.replace(self.written, self.text)

    def repeat(self) -> None:
        """Send deltas again that are contained in a snapshot."""
        if self.connected:
            for n in range(self.written // 2 + 1, self.written + 1):
                self.answer.add(n, self.pieces[n - 1])


@given(
    st.lists(st.text(), max_size=12), st.lists(st.sampled_from(["cut", "connect", "repeat", "write"])), st.booleans()
)
def test_any_interleaving_of_deltas_snapshots_and_reconnects_yields_the_final_text(
    pieces: list[str], steps: list[str], finished_while_away: bool
) -> None:
    writer = Writer(pieces)
    for step in [*steps, *["write"] * len(pieces)]:
        getattr(writer, step)()
        if writer.connected:
            assert writer.answer.text == writer.text

    if not writer.connected and not finished_while_away:
        writer.connect()
    if finished_while_away:
        writer.answer.finish("".join(pieces))
        writer.answer.add(writer.written + 1, "too late")
        writer.answer.replace(1, "too late")

    assert writer.answer.text == "".join(pieces)


def test_deltas_after_a_gap_are_ignored_until_a_snapshot() -> None:
    answer = Answer()
    answer.add(1, "a")
    answer.add(3, "c")
    answer.add(4, "d")
    assert answer.text == "a"

    answer.replace(4, "abcd")
    answer.add(4, "d")
    answer.add(5, "e")

    assert answer.text == "abcde"


def test_retried_model_call_starts_with_empty_text() -> None:
    answer = Answer()
    answer.add(1, "wrong")
    answer.replace(2, "")
    answer.add(3, "right")

    assert answer.text == "right"


def test_turn_is_followed_to_its_end() -> None:
    turn = TurnView()
    seen = []
    for event in (
        ServerEvent("message_created", TURN | {"message_id": "u", "role": "user", "content": "?"}, 1),
        ServerEvent("direct_agent_call", TURN | {"agent_id": 7, "task_id": "t"}, 2),
        ServerEvent("tool_called", TURN | {"tool": "tool_stat", "agent_id": 7}, 3),
        delta(1, "not part of the answer", task_id="another task"),
        delta(1, "Hel"),
        completed("Hello"),
        ENDED,
    ):
        turn.apply(event)
        seen.append((turn.phase, turn.answer.text))

    assert [phase for phase, _ in seen[:3]] == ["waits for its turn", "thinks", "uses tool_stat"]
    assert [text for _, text in seen[3:]] == ["", "Hel", "Hello", "Hello"]
    assert (turn.ended, turn.succeeded, turn.agent_id) == (True, True, 7)


def test_failed_turn_has_an_error_and_no_answer() -> None:
    turn = TurnView()
    note = {"message_id": "x", "role": "system", "content": "It broke.", "agent_id": 7}
    turn.apply(ServerEvent("message_completed", TURN | note, 1))
    turn.apply(ServerEvent("turn_failed", TURN | {"status": "timeout", "code": "timeout", "error": "Too long."}, 2))

    assert (turn.succeeded, turn.status, turn.error, turn.answer.text) == (False, "timeout", "Too long.", "")


class ScriptedClient(ApiClient):
    """A client whose responses are given by the test."""

    def __init__(self, *answers: Any) -> None:
        super().__init__("http://127.0.0.1:1")
        self._answers = iter(answers)
        self.calls: list[tuple[str, str, str | None]] = []
        self.keys: set[str] = set()

    def call(self, method: str, path: str, **_: Any) -> Any:
        self.calls.append((method, path, None))
        return {"turn_id": "t"} if "message" in path else None

    @contextmanager
    def stream(self, method: str, path: str, headers: dict[str, str] | None = None, **options: Any) -> Iterator[Any]:
        self.calls.append((method, path, (headers or {}).get("Last-Event-ID")))
        if method == "POST":
            self.keys.add(options["json"]["idempotency_key"])
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        yield answer


class Response:
    """A response: a stream that may break, or a JSON document."""

    def __init__(self, *events: Any, document: Any = None) -> None:
        self._events, self._document = events, document
        self.headers = {"content-type": "application/json" if document else "text/event-stream; charset=utf-8"}

    def read(self) -> None: ...

    def json(self) -> Any:
        return self._document

    def iter_bytes(self) -> Iterator[bytes]:
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield sse(event)


CREATED = ServerEvent("message_created", TURN | {"message_id": "u", "role": "user", "content": "?"}, 2)
LOST = ResponseLost("gone")


def read(client: ScriptedClient) -> tuple[list[ServerEvent], list[float]]:
    pauses: list[float] = []
    events = TurnStream(client, "s", "?", "coder", sleep=pauses.append).events()
    return [event for event in events if event.type != CONNECTION_LOST], pauses


def test_broken_connection_resumes_after_the_last_event() -> None:
    client = ScriptedClient(
        Response(CREATED, delta(1, "a"), LOST),
        LOST,
        ServerRefused(503, "server_busy", "Busy."),
        Response(CREATED, delta(2, "ab", "message_snapshot")),
        Response(completed("abc"), ENDED, ServerEvent("message_created", {}, 9)),
    )

    events, pauses = read(client)

    assert events == [CREATED, delta(1, "a"), delta(2, "ab", "message_snapshot"), completed("abc"), ENDED]
    assert client.calls == [("POST", "/my/chat/s/message", None)] + [("GET", "/my/chat/s/events", "2")] * 4
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses, [0.1, 0.2, 0.4, 0.1], strict=True))


def test_message_is_sent_again_with_the_same_idempotency_key() -> None:
    client = ScriptedClient(LOST, ServerUnreachable("starting"), Response(CREATED, completed("a"), ENDED))

    events, _ = read(client)

    assert events[-1] == ENDED
    assert [call[0] for call in client.calls] == ["POST"] * 3
    assert len(client.keys) == 1


def test_no_retry_if_the_server_never_got_the_message() -> None:
    with pytest.raises(ServerUnreachable):
        read(ScriptedClient(ServerUnreachable("nobody")))
    with pytest.raises(ServerRefused):
        read(ScriptedClient(ServerRefused(503, "agent_unavailable", "In error.")))


def test_reconnecting_gives_up_after_a_time() -> None:
    with pytest.raises(ResponseLost):
        read(ScriptedClient(Response(CREATED), *[LOST] * 100))


@pytest.mark.parametrize(
    "first", [Response(document={"turn_id": "t", "status": "queued"}), Response(CREATED, ServerEvent("x", {}, None))]
)
def test_accepted_turn_is_followed_without_events_of_other_turns(first: Response) -> None:
    other = ServerEvent("turn_completed", {"turn_id": "other", "status": "completed"}, 3)
    ours = ServerEvent("message_completed", completed("a").data, 4), ServerEvent("turn_completed", ENDED.data, 5)

    events, _ = read(ScriptedClient(first, Response(other, *ours)))

    assert [event.type for event in events][-2:] == ["message_completed", "turn_completed"]
    assert other not in events


def test_json_response_becomes_a_completed_turn() -> None:
    document = {"turn_id": "t", "message_id": "m", "content": "Hello", "agent_id": 7, "usage": {"model": "demo"}}
    turn = TurnView()
    for event in read(ScriptedClient(Response(document=document)))[0]:
        turn.apply(event)

    assert (turn.answer.text, turn.succeeded, turn.usage) == ("Hello", True, {"model": "demo"})


def test_interrupted_stream_can_be_cancelled_and_read_to_its_end() -> None:
    client = ScriptedClient(
        Response(CREATED, delta(1, "a")), Response(ServerEvent("turn_cancelled", TURN | {"status": "x"}, 3))
    )
    stream = TurnStream(client, "s", "?")
    next(stream.events())

    stream.cancel()

    assert [event.type for event in stream.events()] == ["turn_cancelled"]
    assert ("POST", "/my/chat/s/turns/t/cancel", None) in client.calls


def test_turn_with_unknown_id_is_cancelled() -> None:
    client = ScriptedClient()

    TurnStream(client, "s", "?").cancel()

    assert [path for _, path, _ in client.calls] == ["/my/chat/s/message", "/my/chat/s/turns/t/cancel"]


ENDED_LATER = ServerEvent("turn_completed", ENDED.data, 7)
WORKFLOW = {"id": "w", "session_id": "s", "turn_id": "before"}
STARTED = ServerEvent("task_started", TURN | {"task_id": "1", "agent_id": 7}, 6)


class RetryClient(ScriptedClient):
    """A client that loses the first `lost` responses to a retry; `received` if the server got those requests."""

    def __init__(self, *answers: Any, lost: int, received: bool = True) -> None:
        super().__init__(*answers)
        self._lost, self._received = lost, received
        self.turn_id = "before"

    def call(self, method: str, path: str, **_: Any) -> Any:
        self.calls.append((method, path, None))
        if method == "POST" and path == "/my/workflows/w/retry":
            if self._received or not self._lost:
                self.turn_id = "t"
            if self._lost:
                self._lost -= 1
                raise LOST
        return {"turn_id": self.turn_id}


@pytest.mark.parametrize(("lost", "received", "sent"), [(0, True, 1), (1, True, 1), (1, False, 2)])
def test_retry_starts_once_even_if_its_response_is_lost(lost: int, received: bool, sent: int) -> None:
    client = RetryClient(*[Response(STARTED, ENDED_LATER)] * (lost + 1), lost=lost, received=received)

    events = [event for event in RetryStream(client, WORKFLOW, sleep=lambda _: None).events() if event.number]

    assert events == [STARTED, ENDED_LATER]
    assert [call[0] for call in client.calls].count("POST") == sent
    assert client.calls[0] == ("GET", "/my/chat/s/events", None)  # it subscribes before it starts the retry


def test_broken_retry_resumes_after_the_last_event() -> None:
    client = RetryClient(Response(STARTED), ServerUnreachable("starting"), Response(STARTED, ENDED_LATER), lost=0)

    events = [event for event in RetryStream(client, WORKFLOW, sleep=lambda _: None).events() if event.number]

    assert events == [STARTED, ENDED_LATER]
    assert client.calls[-1] == ("GET", "/my/chat/s/events", "6")


def test_only_a_started_retry_is_cancelled() -> None:
    idle = RetryClient(lost=0)
    with pytest.raises(KeyboardInterrupt):
        RetryStream(idle, WORKFLOW).cancel()
    assert [call[0] for call in idle.calls] == ["GET"]

    started = RetryClient(lost=0)
    started.turn_id = "t"
    RetryStream(started, WORKFLOW).cancel()
    assert started.calls[-1] == ("POST", "/my/workflows/w/cancel", None)


PLAN: dict[str, Any] = {
    "workflow_id": "w",
    "tasks": [
        {"id": "a", "agent": "agent_coder", "description": "Begin.", "depends_on": [], "estimated_cost": 0.01},
        {"id": "b", "agent": "agent_writer", "description": "End.", "depends_on": ["a"], "estimated_cost": 0.02},
    ],
    "estimated_cost": 0.04,
    "estimated_cost_low": 0.01,
    "estimated_cost_high": 0.2,
    "estimated_duration": 40.0,
}


def turn_after(*events: tuple[str, dict[str, Any]], plan: dict[str, Any] = PLAN) -> TurnView:
    turn = TurnView()
    for kind, data in [("task_plan_created", plan), *events]:
        turn.apply(ServerEvent(kind, TURN | data, 1))
    return turn


def test_plan_follows_the_status_of_its_tasks() -> None:
    turn = turn_after(
        ("task_started", {"task_id": "a", "agent_id": 7}),
        ("task_completed", {"task_id": "a", "result": "x", "duration": 1.5}),
        ("tool_result", {"task_id": "a", "tool": "tool_stat", "agent_id": 7}),  # a late event
        ("task_failed", {"task_id": "b", "code": "agent_failed", "error": "It broke."}),
        ("task_progress", {"task_id": "t", "state": "running", "phase": "writing"}),
    )
    assert turn.plan is not None
    assert [(task.status, task.seconds, task.error) for task in turn.plan.tasks.values()] == [
        ("completed", 1.5, None),
        ("failed", None, "It broke."),
    ]


def test_text_of_a_task_is_the_answer_only_if_it_is_the_only_task() -> None:
    piece = ("message_delta", {"message_id": "m", "task_id": "a", "n": 1, "text": "Hello"})
    started = ("task_started", {"task_id": "a", "agent_id": 7})

    several, single = turn_after(started, piece), turn_after(started, piece, plan=PLAN | {"tasks": PLAN["tasks"][:1]})

    assert (several.answer.text, several.agent_id) == ("", None)
    assert (single.answer.text, single.agent_id) == ("Hello", 7)


def test_only_the_pending_approval_is_cleared_by_its_decision() -> None:
    turn = turn_after(("tool_request", {"approval_id": "1", "task_id": "a", "tool": "tool_write_file", "agent_id": 7}))
    turn.apply(ServerEvent("approval_resolved", TURN | {"approval_id": "0", "decision": "approve"}, 3))
    assert turn.approval is not None
    assert turn.plan is not None
    assert turn.plan.tasks["a"].status == "waiting"

    turn.apply(ServerEvent("approval_resolved", TURN | {"approval_id": "1", "decision": "approve"}, 4))

    assert turn.approval is None


def test_plan_of_an_earlier_turn_is_read_from_the_request() -> None:
    turn = TurnView()
    details = {"estimated_cost_low": 0.01, "estimated_cost_high": 0.2, "unknown_prices": ["odd"]}
    request = {"approval_id": "1", "workflow_id": "w", "plan": {"tasks": PLAN["tasks"]}, "details": details}
    turn.apply(ServerEvent("plan_request", TURN | request, 1))

    assert turn.plan is not None
    assert (list(turn.plan.tasks), turn.plan.high, turn.plan.unknown_prices) == (["a", "b"], 0.2, ["odd"])
