"""Serialization and validation of bus messages."""

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
    CommandLimits,
    Control,
    Envelope,
    Error,
    ErrorInfo,
    Event,
    InvalidMessage,
    Metrics,
    Requirements,
    Result,
    RetryPolicy,
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
counts = st.integers(0, 2**63 - 1)
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
            limits=st.none() | st.builds(CommandLimits, cost_usd=st.none() | amounts, timeout_ms=st.none() | counts),
        ),
        timeout_seconds=st.none() | st.floats(0.001, 1e6),
        idempotency_key=st.none() | names,
        retry_policy=st.none() | st.builds(RetryPolicy, max_retries=counts, backoff_seconds=amounts),
    ),
    st.builds(
        Result,
        output=json_values,
        execution_time_ms=counts,
        metrics=st.builds(Metrics, llm_calls=counts, tool_calls=counts, cost_usd=st.none() | amounts),
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
    """Return a serialized command with some fields changed."""
    fields = json.loads(Envelope.of(Command(action="write"), source="tests").to_bytes())
    return json.dumps(fields | changes).encode()


@given(envelopes)
def test_envelope_is_read_back_as_written(envelope: Envelope) -> None:
    assert Envelope.from_bytes(envelope.to_bytes()) == envelope


@pytest.mark.req("AGT-01.3")
@pytest.mark.parametrize("cost", [None, 0, 0.25])
def test_unknown_cost_differs_from_no_cost(cost: float | None) -> None:
    result = Result(metrics=Metrics(llm_calls=1, cost_usd=cost))

    sent = Envelope.of(result, source="tests").to_bytes()

    assert ("cost_usd" in json.loads(sent)["data"]["metrics"]) is (cost is not None)
    read = Envelope.from_bytes(sent).data
    assert isinstance(read, Result)
    assert read.metrics.cost_usd == cost


@given(envelopes)
def test_json_is_a_cloud_event(envelope: Envelope) -> None:
    fields = json.loads(envelope.to_bytes())

    assert fields["specversion"] == "1.0"
    assert fields["type"] == f"ai.team.{type(envelope.data).__name__.lower()}"
    assert None not in fields.values()
    assert datetime.fromisoformat(fields["time"]) == envelope.time


@given(st.binary(max_size=200) | json_values.map(json.dumps).map(str.encode))
def test_garbage_raises_only_invalid_message(body: bytes) -> None:
    with pytest.raises(InvalidMessage):
        Envelope.from_bytes(body)


@given(envelopes, st.data())
def test_damaged_message_is_valid_or_raises_invalid_message(envelope: Envelope, source: st.DataObject) -> None:
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
        pytest.param(b"[" * 100_000, id="too deeply nested"),
        pytest.param(b"9" * 10_000, id="too long number"),
        pytest.param(valid().replace(b'"params": {}', b'"params": {"a": NaN}'), id="NaN"),
        pytest.param(valid().replace(b'"params": {}', b'"params": {"a": 1e999}'), id="infinite number"),
        pytest.param(valid().replace(b"write", b"\\ud800"), id="lone surrogate"),
        pytest.param(valid(specversion="0.3"), id="another CloudEvents version"),
        pytest.param(valid(type="ai.team.gossip"), id="an unknown type"),
        pytest.param(valid(type="ai.team.result", data={"status": "FAILURE"}), id="data of another type"),
        pytest.param(valid(data=None), id="no data"),
        pytest.param(valid(id=""), id="no id"),
        pytest.param(valid(time="2026-01-01T00:00:00"), id="time without zone"),
        pytest.param(valid(datacontenttype="text/xml"), id="other content type"),
        pytest.param(valid(nodeepoch=2**31), id="epoch beyond its column"),
        pytest.param(
            valid(data={"action": "write", "context": {"user_id": 2**63}}), id="number of a user beyond its column"
        ),
        pytest.param(valid(padding="x" * contract.MAX_BYTES), id="too large"),
    ],
)
def test_contract_violation_is_invalid(body: bytes) -> None:
    assert body != valid()
    with pytest.raises(InvalidMessage) as caught:
        Envelope.from_bytes(body)

    assert len(caught.value.detail) < 1_000


def test_error_names_the_field_without_its_value() -> None:
    with pytest.raises(InvalidMessage, match=r"data\.timeout_seconds") as caught:
        Envelope.from_bytes(valid(data={"action": "write", "timeout_seconds": "sk-secret"}))

    assert "sk-secret" not in caught.value.detail


def test_fields_of_a_later_version_are_ignored() -> None:
    body = valid(novelty=1, data={"action": "write", "novelty": {"a": 1}})

    assert Envelope.from_bytes(body).data == Command(action="write")


def test_type_decides_how_data_is_read() -> None:
    both = {"action": "write", "control_type": "stop"}

    assert isinstance(Envelope.from_bytes(valid(type="ai.team.command", data=both)).data, Command)
    assert isinstance(Envelope.from_bytes(valid(type="ai.team.control", data=both)).data, Control)
    with pytest.raises(ValidationError):
        Envelope(source="tests", type="ai.team.event", data=Command(action="write"))


def test_message_is_immutable() -> None:
    envelope = Envelope.of(Command(action="write"), source="tests")

    with pytest.raises(ValidationError):
        envelope.source = "others"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        envelope.data.action = "delete"  # type: ignore[union-attr, misc]


def test_time_zones_are_converted() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    elsewhere = noon.astimezone(timezone(timedelta(hours=3)))

    assert Envelope.from_bytes(valid(time=elsewhere.isoformat())).time == noon


def test_too_large_or_unencodable_message_is_not_sent() -> None:
    largest = "x" * (contract.MAX_BYTES - len(Envelope.of(Result(output=""), source="tests").to_bytes()))

    assert len(Envelope.of(Result(output=largest), source="tests").to_bytes()) == contract.MAX_BYTES
    for output in (largest + "x", "\ud800"):
        with pytest.raises(InvalidMessage):
            Envelope.of(Result(output=output), source="tests").to_bytes()
