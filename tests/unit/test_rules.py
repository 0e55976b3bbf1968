"""Property tests of ids, login throttling, settings, URLs and stored logins."""

import math
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from artel.auth.throttle import counters_of
from artel.client.credentials import Credentials, normal_server
from artel.contract.http import MAX_SETTINGS_CHARACTERS, MAX_SETTINGS_DEPTH, NewAgent, NewProject
from artel.ids import uuid7
from artel.settings import Settings, without_password

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)


def test_ids_are_unique_uuids_of_version_7_that_sort_by_time() -> None:
    texts = [uuid7() for _ in range(1000)]

    ids = [uuid.UUID(text) for text in texts]
    assert {(parsed.version, parsed.variant) for parsed in ids} == {(7, uuid.RFC_4122)}
    assert len(set(texts)) == 1000
    times = [parsed.int >> 64 for parsed in ids]  # with the fraction of the millisecond
    assert times == sorted(times)


@given(st.integers(0, 10_000))
def test_login_pause_starts_at_zero_grows_and_is_bounded(failures: int) -> None:
    for counter in counters_of("ada@example.org", "192.0.2.1").all:
        pause, next_pause = counter.pause(failures), counter.pause(failures + 1)
        assert timedelta() <= pause <= next_pause <= counter.longest_pause
        assert (pause == timedelta()) == (failures < counter.free)


@given(st.text(), st.text(), st.text(), st.text())
def test_counters_are_shared_only_by_the_same_account_or_address(e1: str, a1: str, e2: str, a2: str) -> None:
    first, second = counters_of(_plain(e1), _plain(a1)), counters_of(_plain(e2), _plain(a2))
    same_account, same_network = _plain(e1) == _plain(e2), _plain(a1) == _plain(a2)

    assert (first.account.key == second.account.key) == same_account
    assert (first.network.key == second.network.key) == same_network
    assert (first.account_here.key == second.account_here.key) == (same_account and same_network)
    assert len({counter.key for counter in first.all}) == 3


def test_all_addresses_of_one_ipv6_network_share_a_counter() -> None:
    keys = {
        address: counters_of("ada@example.org", address).network.key
        for address in (
            "2001:db8::1",
            "2001:db8::ffff:2",
            "2001:db8:0:1::1",
            "192.0.2.1",
            "192.0.2.2",
            "::ffff:192.0.2.1",
        )
    }

    assert keys["2001:db8::1"] == keys["2001:db8::ffff:2"]
    assert keys["::ffff:192.0.2.1"] == keys["192.0.2.1"]
    assert len(set(keys.values())) == 4


@given(st.dictionaries(st.text(max_size=10), JSON, max_size=5))
def test_project_settings_are_returned_unchanged(settings: dict[str, Any]) -> None:
    assert NewProject.model_validate({"name": "x", "settings": settings}).settings == settings


@given(st.integers(0, 40))
def test_depth_of_settings_is_limited(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    body = {"name": "x", "settings": {"a": value}}

    if depth < MAX_SETTINGS_DEPTH:
        assert NewProject.model_validate(body).settings["a"] == value
    else:
        with pytest.raises(ValidationError, match="nested"):
            NewProject.model_validate(body)


@given(st.integers(0, 2 * MAX_SETTINGS_CHARACTERS))
def test_length_of_settings_is_limited(length: int) -> None:
    body = {"name": "x", "settings": {"a": "x" * length}}

    if length + 7 <= MAX_SETTINGS_CHARACTERS:
        NewProject.model_validate(body)
    else:
        with pytest.raises(ValidationError, match="longer"):
            NewProject.model_validate(body)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_refused_at_any_depth(number: float) -> None:
    with pytest.raises(ValidationError, match="NaN or Infinity"):
        NewProject.model_validate({"name": "x", "settings": {"a": [{"b": number}]}})


@given(st.floats() | st.integers())
def test_max_tokens_accepts_only_integers_in_range(number: float) -> None:
    body = {"name": "a", "role": "r", "model": "m", "system_prompt": "", "max_tokens": number}

    if math.isfinite(number) and number == int(number) and 1 <= number <= 1_000_000:
        assert NewAgent.model_validate(body).max_tokens == number
    else:
        with pytest.raises(ValidationError):
            NewAgent.model_validate(body)


@given(
    scheme=st.sampled_from(["postgresql", "amqp", "redis"]),
    user=st.from_regex(r"[a-z]{0,8}", fullmatch=True),
    password=st.from_regex(r"[A-Z0-9]{8,20}", fullmatch=True),
    query=st.sampled_from(["", "?password=", "?sslpassword="]),
)
def test_shown_url_has_no_password(scheme: str, user: str, password: str, query: str) -> None:
    shown = without_password(
        f"{scheme}://{user}:{password}@db.example.org:5432/artel{query}{password if query else ''}"
    )

    assert password not in shown
    assert "db.example.org:5432/artel" in shown


@given(st.dictionaries(st.from_regex(r"http://[a-z]{1,9}:[0-9]{1,4}", fullmatch=True), st.text(min_size=1), max_size=5))
def test_logins_are_stored_with_one_token_per_server(tokens: dict[str, str]) -> None:
    import tempfile

    assume(all(_plain(token) == token for token in tokens.values()))
    with tempfile.TemporaryDirectory() as folder:
        for server, token in tokens.items():
            Credentials.load(Path(folder)).remember(server, token)

        stored = Credentials.load(Path(folder))
        assert stored.tokens == tokens
        assert stored.current == (list(tokens)[-1] if tokens else None)
        for server in tokens:
            Credentials.load(Path(folder)).forget(server)
        assert Credentials.load(Path(folder)).tokens == {}


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"tokens": 5}', "\x00"])
def test_damaged_credentials_file_counts_as_empty(tmp_path: Path, broken: str) -> None:
    (tmp_path / "credentials.json").write_text(broken)

    assert Credentials.load(tmp_path).tokens == {}


@pytest.mark.parametrize(
    ("typed", "normal"),
    [
        ("localhost:8700", "http://localhost:8700"),
        ("artel.example.org", "https://artel.example.org"),
        ("https://artel.example.org/", "https://artel.example.org"),
        ("http://127.0.0.1:8700", "http://127.0.0.1:8700"),
        ("127.8.8.8:8700", "http://127.8.8.8:8700"),
        ("[::1]:8700", "http://[::1]:8700"),
        ("127.evil.example:8700", "https://127.evil.example:8700"),
        ("localhost.evil.example", "https://localhost.evil.example"),
        ("127.0.0.1@evil.example", "https://127.0.0.1@evil.example"),
        ("[::1", "https://[::1"),
    ],
)
def test_server_addresses_are_normalized(typed: str, normal: str) -> None:
    assert normal_server(typed) == normal


@pytest.mark.req("SEC-04.4")
@pytest.mark.parametrize(
    ("host", "is_checked"),
    [
        ("127.0.0.1", True),
        ("127.3.2.1", True),
        ("LocalHost", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),  # noqa: S104 - not listened on
        ("::", False),
        ("127.evil.example", False),
        ("localhost.evil.example", False),
        ("192.168.0.1", False),
    ],
)
def test_names_of_hosts_are_checked_by_default_when_only_this_machine_can_connect(host: str, is_checked: bool) -> None:
    settings = Settings(host=host)

    assert settings.listens_on_loopback is is_checked
    assert settings.hosts == ({"127.0.0.1", "localhost", "[::1]", host.lower()} if is_checked else None)


def _plain(text: str) -> str:
    return text.encode(errors="ignore").decode()
