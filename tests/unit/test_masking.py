"""Masking of secrets in log lines."""

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artel.logs import MASK, MAX_TEXT_CHARACTERS, configure_logs, get_logger, mask, set_level

SECRETS = st.from_regex(r"[A-Za-z0-9_-]{12,40}", fullmatch=True)
KEYS = st.sampled_from(
    ["password", "Password", "access_token", "ARTEL_JWT_SECRET", "api_key", "apikey", "Authorization", "set-cookie"]
)
NESTING = st.lists(st.sampled_from(["dict", "list"]), max_size=4)


@given(secret=SECRETS, key=KEYS, nesting=NESTING)
def test_value_of_a_secret_key_is_masked_at_any_depth(secret: str, key: str, nesting: list[str]) -> None:
    value: object = {key: secret, "harmless": "visible"}
    for kind in nesting:
        value = {"inner": value} if kind == "dict" else [value]

    masked = json.dumps(mask(value))

    assert secret not in masked
    assert MASK in masked
    assert "visible" in masked


@given(
    secret=SECRETS,
    frame=st.sampled_from(
        [
            "Authorization: Bearer {}",
            "postgresql://ada:{}@db.example.org/artel",
            "amqp://{0}:{0}@127.0.0.1/",
            "amqp://{}@127.0.0.1/",
            "postgresql://ada:a@b/{}@db.example.org/artel",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{}",
            "key sk-{} refused",
            "host=db password={} user=ada",
        ]
    ),
)
def test_a_secret_in_the_middle_of_a_text_is_masked(secret: str, frame: str) -> None:
    assert secret not in mask(frame.format(secret))


@given(st.text())
def test_masking_twice_changes_nothing(text: str) -> None:
    assert mask(mask(text)) == mask(text)


@pytest.mark.parametrize("text", ["eyes only", "risk-free", "a://b/c", "max_tokens=5", "token_type bearer"])
def test_harmless_text_is_unchanged(text: str) -> None:
    assert mask(text) == text


@given(st.text())
def test_control_characters_are_escaped(text: str) -> None:
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in mask(text))


def test_token_counts_are_not_masked() -> None:
    assert mask({"max_tokens": 5, "input_tokens": 7}) == {"max_tokens": 5, "input_tokens": 7}


def test_tracebacks_and_foreign_loggers_are_masked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    root = logging.getLogger()
    before = root.handlers, root.level
    try:
        configure_logs("json", "info")
        logging.getLogger("somebody.else").warning("connecting to %s", "redis://:hunter2hunter2@cache/0")
        crash = ValueError("postgresql://ada:hunter2hunter2@db/artel")
        get_logger("ours").error("failed", password="hunter2hunter2", exc_info=crash)
    finally:
        root.handlers, level = before
        root.setLevel(level)

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["connecting to redis://***@cache/0", "failed"]
    assert "ValueError" in lines[1]["exception"]
    assert "hunter2" not in stream.getvalue()


def test_level_changes_for_loggers_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    root = logging.getLogger()
    before = root.handlers, root.level
    try:
        configure_logs("json", "warning")
        logger = get_logger("ours")
        for level in ("warning", "debug", "error"):
            set_level(level)
            logger.debug(f"debug at {level}")  # noqa: G004
            logger.warning(f"warning at {level}")  # noqa: G004
            logging.getLogger("somebody.else").warning("other at %s", level)
    finally:
        set_level("debug")
        root.handlers, level_before = before
        root.setLevel(level_before)

    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == [
        "warning at warning",
        "other at warning",
        "debug at debug",
        "warning at debug",
        "other at debug",
    ]


@pytest.mark.req("SEC-02.2")
def test_long_text_is_masked_before_it_is_cut() -> None:
    text = mask("a " * 4_990 + "redis://:" + "hunter2 ".strip() * 5_000 + "@cache/0")

    assert "hunter2" not in text
    assert len(mask("a" * 200_000)) == MAX_TEXT_CHARACTERS
    assert mask(mask("a" * 200_000)) == mask("a" * 200_000)
