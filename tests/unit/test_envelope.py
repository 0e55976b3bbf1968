"""Messages on the bus: what is written can be read, and what can't be read is one clear error."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from artel.contract import envelope as contract
from artel.contract.envelope import (
    Command,
    CommandContext,
    Control,
    Envelope,
    Error,
    ErrorInfo,
    Event,
    InvalidMessage,
    Limits,
    Metrics,
    Requirements,
    Result,
    RetryPolicy,
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
counts = st.integers(0, 2**63)
amounts = st.floats(0, 1e12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=10,
)
objects = st.dictionaries(text, json_values, max_size=4)
data = st.one_of(
    st.builds(
        Command,
        action=names,
        params=objects,
        target_node=st.none() | names,
        requirements=st.none() | st.builds(Requirements, capabilities=st.lists(names, max_size=3).map(tuple)),
        context=st.none()
        | st.builds(
            CommandContext,
            process_id=st.none() | text,
            step=st.none() | text,
            parent_task_id=st.none() | text,
            limits=st.none() | st.builds(Limits, cost_usd=st.none() | amounts, timeout_ms=st.none() | counts),
        ),
        timeout_seconds=st.none() | st.floats(0.001, 1e6),
        idempotency_key=st.none() | names,
        retry_policy=st.none() | st.builds(RetryPolicy, max_retries=counts, backoff_seconds=amounts),
    ),
    st.builds(
        Result,
        output=json_values,
        execution_time_ms=counts,
        metrics=st.builds(Metrics, llm_calls=counts, tool_calls=counts, cost_usd=amounts),
    ),
    st.builds(
        Error,
        error=st.builds(
            ErrorInfo,
            code=st.sampled_from(get_args(contract.ErrorCode)),
            message=text,
            retryable=st.booleans(),
            details=objects,
        ),
        execution_time_ms=counts,
    ),
    st.builds(
        Event,
        event_type=names,
        event_data=objects,
        severity=st.sampled_from(get_args(contract.Severity)),
        tags=st.lists(text, max_size=3).map(tuple),
    ),
    st.builds(
        Control,
        control_type=st.sampled_from(get_args(contract.ControlType)),
        reason=st.none() | text,
        parameters=objects,
    ),
)
envelopes = st.builds(
    Envelope.of, data, source=names, subject=st.none() | text, traceparent=st.none() | text, message_id=names
)


def valid(**changes: Any) -> bytes:
    """Write a valid command with some fields changed."""
    fields = json.loads(Envelope.of(Command(action="write"), source="tests").to_bytes())
    return json.dumps(fields | changes).encode()


@given(envelopes)
def test_what_is_written_is_what_is_read_back(envelope: Envelope) -> None:
    assert Envelope.from_bytes(envelope.to_bytes()) == envelope


@given(envelopes)
def test_the_json_is_a_cloud_event(envelope: Envelope) -> None:
    fields = json.loads(envelope.to_bytes())

    assert fields["specversion"] == "1.0"
    assert fields["type"] == f"ai.team.{type(envelope.data).__name__.lower()}"
    assert None not in fields.values()
    assert datetime.fromisoformat(fields["time"]) == envelope.time


@given(st.binary(max_size=200) | json_values.map(json.dumps).map(str.encode))
def test_garbage_is_an_invalid_message_and_nothing_else(body: bytes) -> None:
    with pytest.raises(InvalidMessage):
        Envelope.from_bytes(body)


@given(envelopes, st.data())
def test_a_damaged_message_is_read_or_is_invalid_and_nothing_else(envelope: Envelope, source: st.DataObject) -> None:
    body = bytearray(envelope.to_bytes())
    at = source.draw(st.integers(0, len(body) - 1))
    body[at : at + source.draw(st.integers(0, 3))] = source.draw(st.binary(max_size=3))

    try:
        read = Envelope.from_bytes(bytes(body))
    except InvalidMessage:
        return
    assert Envelope.from_bytes(read.to_bytes()) == read


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * 100_000, id="nested without end"),
        pytest.param(b"9" * 10_000, id="a number without end"),
        pytest.param(valid().replace(b'"params": {}', b'"params": {"a": NaN}'), id="NaN"),
        pytest.param(valid().replace(b'"params": {}', b'"params": {"a": 1e999}'), id="an infinite number"),
        pytest.param(valid().replace(b"write", b"\\ud800"), id="half a character"),
        pytest.param(valid(specversion="0.3"), id="another CloudEvents version"),
        pytest.param(valid(type="ai.team.gossip"), id="an unknown type"),
        pytest.param(valid(type="ai.team.result", data={"status": "FAILURE"}), id="a result that is none"),
        pytest.param(valid(data=None), id="no data"),
        pytest.param(valid(id=""), id="no id"),
        pytest.param(valid(time="2026-01-01T00:00:00"), id="a time that could be anywhere"),
        pytest.param(valid(datacontenttype="text/xml"), id="data of another kind"),
        pytest.param(valid(padding="x" * contract.MAX_BYTES), id="too large"),
    ],
)
def test_what_breaks_the_contract_is_invalid(body: bytes) -> None:
    assert body != valid()
    with pytest.raises(InvalidMessage) as caught:
        Envelope.from_bytes(body)

    assert len(caught.value.detail) < 1_000


def test_the_error_names_the_place_and_does_not_repeat_what_was_sent() -> None:
    with pytest.raises(InvalidMessage, match=r"data\.timeout_seconds") as caught:
        Envelope.from_bytes(valid(data={"action": "write", "timeout_seconds": "sk-secret"}))

    assert "sk-secret" not in caught.value.detail


def test_fields_of_a_later_version_are_ignored() -> None:
    body = valid(novelty=1, data={"action": "write", "novelty": {"a": 1}})

    assert Envelope.from_bytes(body).data == Command(action="write")


def test_the_same_data_is_read_as_what_the_type_says() -> None:
    both = {"action": "write", "control_type": "stop"}

    assert isinstance(Envelope.from_bytes(valid(type="ai.team.command", data=both)).data, Command)
    assert isinstance(Envelope.from_bytes(valid(type="ai.team.control", data=both)).data, Control)
    with pytest.raises(ValidationError):
        Envelope(source="tests", type="ai.team.event", data=Command(action="write"))


def test_a_message_can_not_be_changed() -> None:
    envelope = Envelope.of(Command(action="write"), source="tests")

    with pytest.raises(ValidationError):
        envelope.source = "others"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        envelope.data.action = "delete"  # type: ignore[union-attr, misc]


def test_a_time_is_the_same_moment_in_every_zone() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    there = noon.astimezone(timezone(timedelta(hours=3)))

    assert Envelope.from_bytes(valid(time=there.isoformat())).time == noon


def test_what_is_too_large_or_no_text_is_not_sent() -> None:
    largest = "x" * (contract.MAX_BYTES - len(Envelope.of(Result(output=""), source="tests").to_bytes()))

    assert len(Envelope.of(Result(output=largest), source="tests").to_bytes()) == contract.MAX_BYTES
    for output in (largest + "x", "\ud800"):
        with pytest.raises(InvalidMessage):
            Envelope.of(Result(output=output), source="tests").to_bytes()
