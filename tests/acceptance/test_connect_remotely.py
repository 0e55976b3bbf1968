"""Settings, grants and questions of `artel connect` that the server changes: never beyond what the user allowed."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.connecting import Connecting
from tests.connector_server import Connection
from tests.terminal import Terminal

WRITE = {"path": "a.txt", "content": "a\n", "turn_id": "t1"}
ANY = {"id": "a", "holds": "always"}
At = Callable[..., tuple[Terminal, Connection]]


@pytest.fixture
def at_terminal(connect: Connecting) -> Iterator[At]:
    """Start `artel connect` in a terminal with these options."""
    opened: list[Terminal] = []

    def start(*options: str) -> tuple[Terminal, Connection]:
        opened.append(Terminal(*connect.arguments(options), env=connect.env))
        opened[-1].__enter__()
        return opened[-1], connect.server.connection()

    yield start
    for terminal in opened:
        terminal.__exit__()


def mode_after(connection: Connection, **wanted: Any) -> str:
    return str(connection.ok("settings", **wanted)["mode"])


@pytest.mark.req("DEC-02.1")
@pytest.mark.parametrize("ask", ["browser", "both"])
def test_server_can_loosen_terminal_mode_only_with_consent_there(
    connect: Connecting, at_terminal: At, ask: str
) -> None:
    terminal, connection = at_terminal("--ask", "terminal")
    question = connection.call("settings", ask=ask)
    assert (question["code"], "mode" in question) == ("asks", False)
    assert connection.call("settings", ask=ask)["ask_id"] == question["ask_id"]  # asking twice is no consent
    shown = terminal.until("before each write? y")
    assert "the server wants to change the mode to: asks" in shown
    assert "Whoever controls the server" in shown

    # Whatever the server says, it is the user who answers.
    for decision in ("approve", "reject"):
        params = {"ask_id": question["ask_id"], "decision": decision, "feedback": ""}
        connection.raw({"jsonrpc": "2.0", "method": "workspace/answered", "params": params})
    second = connection.call("settings", ask=ask, approval=ANY, read_only=False)
    assert second["code"] == "asks"
    assert connection.call("write", **WRITE, approval=ANY)["code"] == "asks"
    assert connect.files() == {}

    terminal.until("before each write? y")
    terminal.type("y")
    assert connection.other()["params"]["ask_id"] == second["ask_id"]
    assert mode_after(connection, ask=ask) == ask
    terminal.until("asks in the browser" if ask == "browser" else "asks here and in the browser")
    assert connection.ok("write", **WRITE, approval={"id": "a"})
    assert mode_after(connection, ask="terminal") == "terminal"
    assert mode_after(connection, ask=ask) == ask  # the consent holds until the connector ends
    connection.cut()
    assert connect.server.connection().hello["mode"] == ask


@pytest.mark.req("DEC-02.1")
def test_consent_can_be_refused_and_read_only_is_never_lifted(connect: Connecting, at_terminal: At) -> None:
    terminal, connection = at_terminal("--ask", "terminal")
    assert mode_after(connection, read_only=True) == "read-only"
    assert connection.refused("write", "read_only", **WRITE)
    assert connection.call("settings", ask="browser", read_only=False)["code"] == "asks"
    terminal.until("n(o) ")
    terminal.type("n no")
    assert connection.other()["params"]["decision"] == "reject"
    assert "said no" in connection.refused("settings", "refused", ask="browser", read_only=False)
    assert mode_after(connection, read_only=False) == "terminal"
    assert connection.call("write", **WRITE, approval=ANY)["code"] == "asks"
    terminal.press("\x03")
    terminal.end()

    _, again = at_terminal("--read-only")
    for wanted in ({"read_only": False}, {"ask": "terminal", "read_only": False}, {"ask": "both", "read_only": False}):
        assert "--read-only" in again.refused("settings", "refused", **wanted)
    assert again.refused("write", "read_only", **WRITE, approval=ANY)
    assert connect.files() == {}


@pytest.mark.req("DEC-02.1")
def test_stricter_modes_need_no_consent_and_are_asked_for_in_the_terminal(connect: Connecting, at_terminal: At) -> None:
    terminal, connection = at_terminal("--ask", "browser")
    assert mode_after(connection, ask="both") == "both"
    assert mode_after(connection, ask="terminal") == "terminal"
    terminal.until("agent_coder changed the mode to terminal")

    assert connection.call("write", **WRITE, approval=ANY)["where"] == "terminal"

    terminal.until("write a.txt? y(es, once)")
    terminal.type("y")
    connection.other()
    assert connection.ok("write", **WRITE)
    assert connect.files() == {"a.txt": b"a\n"}
    assert [line["name"] for line in connect.audit() if line["method"] == "workspace/settings"] == ["both", "terminal"]


@pytest.mark.req("DEC-02.1")
def test_read_only_that_the_page_chose_outlives_the_connection(connect: Connecting) -> None:
    connection = connect.connection("--yes")
    assert mode_after(connection, read_only=True) == "read-only"
    connection.cut()

    again = connect.server.connection()

    assert (again.hello["mode"], again.hello["read_only"]) == ("read-only", True)
    assert again.refused("write", "read_only", **WRITE)
    assert mode_after(again, read_only=False) == "yes"  # what it was started with


@pytest.mark.req("DEC-02.2")
def test_server_can_revoke_but_not_create_grants(connect: Connecting) -> None:
    connection = connect.connection("--ask", "browser")
    connection.ok("write", **WRITE, approval=ANY)
    [grant] = connection.ok("grants")["grants"]
    assert (grant["kind"], grant["name"], grant["lasts"]) == ("write", "./*.txt", "always")

    answer = connection.send("grant", kind="write", name="**")
    assert "no method" in connection.wait(answer)["error"]["message"]
    assert connection.refused("revoke", "no_grant", grant_id="0" * 16)
    connection.ok("revoke", grant_id=grant["id"])

    assert connection.ok("grants")["grants"] == []
    assert connection.call("write", **WRITE | {"content": "b\n"})["code"] == "asks"
    connect.until("agent_coder revoked write ./*.txt")
