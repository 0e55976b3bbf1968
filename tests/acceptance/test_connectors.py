"""The WebSocket of a project's connector: authentication, protocol errors, take-over, and its state in the API."""

import json
import time
from typing import Any

import jwt
import pytest
from websockets.exceptions import InvalidStatus

from tests.conftest import JWT_SECRET
from tests.connector import connected, hello, socket
from tests.deadlines import eventually
from tests.people import Person, assert_problem

pytestmark = pytest.mark.any_database


def state(person: Person, project_id: int) -> dict[str, Any]:
    answer = person.http.get(f"/my/projects/{project_id}/connector")
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


@pytest.fixture
def project(person: Person) -> int:
    number: int = person.project()["id"]
    return number


def test_connector_is_online_while_it_is_connected(person: Person, project: int) -> None:
    assert state(person, project)["online"] is False

    with person.follow_project(project) as news:
        with connected(person, project, mode="yes", commands={"test": "pytest -q"}):
            shown = state(person, project)
            assert (shown["online"], shown["connector_id"], shown["workspace_name"]) == (
                True,
                "connector-of-a-test",
                "work",
            )
            assert (shown["read_only"], shown["mode"], shown["commands"]) == (False, "yes", ["test"])
        events = news.until("connector_offline")

    eventually(lambda: not state(person, project)["online"])
    assert [event.type for event in events if event.type.startswith("connector")] == [
        "connector_online",
        "connector_offline",
    ]
    assert "workspace_name" in next(event.data for event in events if event.type == "connector_online")


@pytest.mark.req("WSA-06.1", "WSA-08.1")
def test_only_the_owner_of_a_project_can_open_its_socket(person: Person, other: Person, project: int) -> None:
    for who, token, status in ((other, None, 404), (person, "nonsense", 401)):
        with pytest.raises(InvalidStatus) as refused, socket(who, project, token=token):
            pass
        assert refused.value.response.status_code == status
        document = json.loads(refused.value.response.body)
        assert (document["status"], bool(document["request_id"])) == (status, True)
    assert_problem(other.http.get(f"/my/projects/{project}/connector"), 404, "project_not_found")
    with pytest.raises(InvalidStatus), socket(person, 10**9):
        pass


@pytest.mark.parametrize(
    "wrong",
    [
        {"user_id": 999_999},
        {"project_id": 999_999},
        {"protocol": "artel.connector.v9"},
        {"connector_id": ""},
        {"connector_id": 5},
        {"workspace_name": "x" * 1000},
        {"read_only": "perhaps"},
        {"commands": {"test": "x" * 1_001}},
        {"commands": {"x" * 64: "pytest"}},
    ],
)
def test_invalid_hello_is_refused(person: Person, project: int, wrong: dict[str, Any]) -> None:
    with socket(person, project) as connector:
        connector.say(hello(person, project, **wrong))
        code, reason = connector.close_code()

    assert code == 4400
    assert reason
    assert state(person, project)["online"] is False


@pytest.mark.parametrize(
    "first", ["", "no json", "[]", "5", '{"method": "hello"}', '{"jsonrpc": "2.0", "method": "x"}']
)
def test_connection_that_does_not_begin_with_hello_is_closed(person: Person, project: int, first: str) -> None:
    with socket(person, project) as connector:
        connector.say(first)
        assert connector.close_code()[0] == 4400


def test_another_subprotocol_is_refused(person: Person, project: int) -> None:
    with pytest.raises(Exception, match=r"subprotocol|4400"), socket(person, project, protocol="chat") as connector:
        connector.hear()


@pytest.mark.parametrize(
    "message",
    [
        "no json",
        b"bytes",
        "[]",
        '{"jsonrpc": "1.0"}',
        '{"jsonrpc": "2.0", "method": "workspace/decided"}',
        "[" * 100_000,
    ],
)
def test_connector_that_sends_invalid_messages_is_disconnected(
    person: Person, project: int, message: str | bytes
) -> None:
    with connected(person, project) as connector:
        connector.say(message)
        assert connector.close_code()[0] == 4413
    eventually(lambda: not state(person, project)["online"])


def test_connector_that_sends_too_many_messages_is_disconnected(person: Person, project: int) -> None:
    with connected(person, project) as connector:
        try:
            for _ in range(2_000):
                connector.say({"jsonrpc": "2.0", "id": "nobody asked", "result": {"success": True}})
        except Exception:  # noqa: BLE001, S110 - it may be closed before all is sent
            pass
        assert connector.close_code()[0] == 4413


def test_connector_that_sends_too_many_unsolicited_bytes_is_disconnected(person: Person, project: int) -> None:
    message = {"jsonrpc": "2.0", "id": "nobody asked", "result": {"success": True, "x": "x" * 90_000}}
    with connected(person, project) as connector:
        try:
            for _ in range(30):  # below the limit on the number of messages
                connector.say(message)
        except Exception:  # noqa: BLE001, S110 - it may be closed before all is sent
            pass
        assert connector.close_code()[0] == 4413


def test_connector_may_not_call_the_server(person: Person, project: int) -> None:
    with connected(person, project) as connector:
        connector.say({"jsonrpc": "2.0", "id": 7, "method": "workspace/read", "params": {"path": "x"}})
        answer = connector.hear()

    assert (answer["id"], answer["error"]["code"]) == (7, -32601)


def test_second_connector_is_refused_unless_it_takes_over(person: Person, project: int) -> None:
    with connected(person, project, workspace_name="first") as first:
        with socket(person, project) as second:
            second.say(hello(person, project, connector_id="another-one"))
            refused = second.hear()
            assert "first" in refused["error"]["message"]
            assert "--take-over" in refused["error"]["message"]
            assert second.close_code()[0] == 4409
        assert state(person, project)["workspace_name"] == "first"

        with connected(person, project, connector_id="another-one", workspace_name="second", take_over=True):
            assert first.close_code()[0] == 4410
            assert state(person, project)["workspace_name"] == "second"


def test_reconnect_of_the_same_connector_replaces_its_old_connection(person: Person, project: int) -> None:
    with connected(person, project) as old, connected(person, project, workspace_name="again"):
        assert old.close_code()[0] == 4410
        assert state(person, project)["workspace_name"] == "again"
    eventually(lambda: not state(person, project)["online"])


def test_deleting_a_project_closes_its_connection_with_a_reason(person: Person, project: int) -> None:
    with connected(person, project) as connector:
        assert person.http.delete(f"/my/projects/{project}").status_code == 204

        assert connector.close_code() == (4400, "The project was deleted.")


def test_connection_is_closed_when_its_token_expires(person: Person, project: int) -> None:
    claims = jwt.decode(person.token, JWT_SECRET, algorithms=["HS256"], audience="artel")
    short = jwt.encode(claims | {"exp": int(time.time()) + 3}, JWT_SECRET, "HS256")

    with socket(person, project, token=short) as connector:
        connector.say(hello(person, project))
        assert "result" in connector.hear()
        code, reason = connector.close_code()

    assert (code, reason) == (4401, "The token has expired. Log in again.")
    eventually(lambda: not state(person, project)["online"])
