"""A connector that is killed at any point of a write keeps the promise: written once or not at all, and never torn.

`make faults` kills at each point 20 times; the usual run does it once.
"""

import os
import uuid
from typing import Any

import pytest

from tests.connecting import Connecting
from tests.faults.mortal_connector import POINTS

MORTAL = "tests.faults.mortal_connector"
KILLS = int(os.environ.get("KILLS_PER_POINT", "1"))
OLD, NEW = "old\n" * 10_000, "new\n" * 10_000
# Those at which the write has not begun, so that it is carried out when the call comes again.
NOT_BEGUN = ("making", "temporary", "before_started")
IN_DOUBT = "started"


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("method", ["write", "edit"])
def test_write_repeated_after_a_kill_happens_once(connect: Connecting, point: str, method: str) -> None:
    for number in range(KILLS):
        path = connect.work / f"file-{number}.txt"
        path.write_text(OLD)
        call: dict[str, Any] = {
            "path": path.name,
            "content": NEW,
            "old": OLD,
            "new": NEW,
            "turn_id": "t",
            "call_id": uuid.uuid4().hex,
        }
        killed(connect, point, method, call)
        torn = path.read_text()
        assert torn in (OLD, NEW)
        assert torn == (OLD if point in (*NOT_BEGUN, IN_DOUBT) else NEW)

        connection = connect.connection("--yes")

        assert not list(connect.work.glob(".artel-*"))
        result = connection.call(method, **call)
        if point == IN_DOUBT:
            assert (result["success"], result["code"]) == (False, "unknown")
            assert path.read_text() == OLD
        else:
            assert result["success"], result
            assert path.read_text() == NEW
        path.write_text("the user's\n")
        again = connection.call(method, **call)
        assert again["success"] == result["success"]
        assert path.read_text() == "the user's\n"
        path.write_text(NEW)
        if result["success"]:
            assert connection.ok("undo", of_turn="t", path=path.name)
            assert path.read_text() == OLD
        assert connect.stop() == 0


@pytest.mark.parametrize("point", ["before_started", "started", "before_done", "done", "call.answer"])
def test_delete_repeated_after_a_kill_happens_once(connect: Connecting, point: str) -> None:
    path = connect.work / "file.txt"
    path.write_text(OLD)
    call: dict[str, Any] = {"path": "file.txt", "approval": {"id": "a"}, "call_id": uuid.uuid4().hex, "turn_id": "t"}
    killed(connect, point, "delete", call)
    connection = connect.connection("--yes")

    result = connection.call("delete", **call)

    assert result["success"] == (point != "started")
    assert path.exists() == (point == "started")
    path.write_text("the user's\n")
    connection.call("delete", **call)
    assert path.read_text() == "the user's\n"


@pytest.mark.parametrize("point", ["started", "before_done", "done"])
def test_a_command_that_is_killed_is_never_run_again(connect: Connecting, point: str) -> None:
    run = ("--run", "count=sh -c 'echo x >> count.txt'")
    call: dict[str, Any] = {"name": "count", "approval": {"id": "a"}, "call_id": uuid.uuid4().hex}
    killed(connect, point, "run", call, *run)
    before = connect.files()
    connection = connect.connection("--yes", *run)

    result = connection.call("run", **call)

    assert result["success"] == (point == "done")
    assert result.get("code") == (None if point == "done" else "unknown")
    assert connect.files() == before
    assert before == ({} if point == "started" else {"count.txt": b"x\n"})


def test_the_line_cut_at_any_moment_writes_once(connect: Connecting) -> None:
    """The answer is lost, the call is asked for again by its id, as often as it takes."""
    connection = connect.connection("--yes")
    for number in range(KILLS * 5):
        (connect.work / "file.txt").write_text("old")
        call: dict[str, Any] = {"path": "file.txt", "old": "old", "new": "old old", "call_id": f"cut-{number}"}
        connection.send("edit", **call)
        connection.cut()
        connection = connect.server.connection()
        assert connection.call("edit", **call)["success"]
        assert (connect.work / "file.txt").read_text() == "old old"


def killed(connect: Connecting, point: str, method: str, call: dict[str, Any], *options: str) -> None:
    """Call a connector that dies at a point."""
    connect.start("--yes", *options, module=MORTAL, KILL_AT=point)
    connection = connect.server.connection()
    connection.send(method, **call)
    assert connect.processes[-1].wait(20) == -9
