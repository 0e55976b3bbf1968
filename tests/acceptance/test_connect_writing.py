"""Writes, deletions, commands and undo through a connector, and their idempotency."""

import fcntl
import hashlib
import json
import os
import resource
import stat
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import running
from tests.connecting import Connecting
from tests.connector_server import Connection
from tests.deadlines import eventually
from tests.running import artel

OLD, NEW = "old\n", "new\n"
APPROVED = {"id": "a1", "holds": "once"}


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def connection(connect: Connecting) -> Connection:
    (connect.work / "src").mkdir()
    (connect.work / "file.txt").write_text(OLD)
    return connect.connection("--yes")


@pytest.mark.req("WSA-01.1", "WSA-03.1")
def test_write_replaces_the_file_and_keeps_its_mode(connection: Connection, connect: Connecting) -> None:
    (connect.work / "file.txt").chmod(0o751)

    written = connection.ok("write", path="file.txt", content=NEW)
    made = connection.ok("write", path="src/привет.txt", content="")

    assert (written["size"], written["sha256"], written["is_new"]) == (4, sha(NEW), False)
    assert written["timestamp"].endswith("+00:00")
    assert stat.S_IMODE((connect.work / "file.txt").stat().st_mode) == 0o751
    assert (made["is_new"], made["size"]) == (True, 0)
    assert connect.files() == {"file.txt": NEW.encode(), "src/привет.txt": b""}
    connect.until("agent_coder wrote file.txt")


@pytest.mark.req("WSA-03.2", "WSA-06.3")
def test_folders_are_created_with_create_dirs(connection: Connection, connect: Connecting) -> None:
    assert (
        connection.refused("write", "file_not_found", path="src/a/b.txt", content=NEW)
        == "Path src/a/b.txt does not exist"
    )
    assert connect.files() == {"file.txt": OLD.encode()}

    assert connection.ok("write", path="src/a/b/c.txt", content=NEW, create_dirs=True)

    assert connection.ok("write", path="top/level/x.txt", content=NEW, create_dirs=True)
    assert [*connect.files()] == ["file.txt", "src/a/b/c.txt", "top/level/x.txt"]

    for root in (".", "", "./"):
        refused = connection.refused("write", "invalid_path", path=root, content=NEW, create_dirs=True)
        assert refused == "That is the folder itself, not a file in it"


def test_file_changed_since_the_read_is_not_overwritten(connection: Connection, connect: Connecting) -> None:
    assert connection.refused("write", "file_changed", path="file.txt", content=NEW, if_match=sha("else"))
    assert connection.refused("write", "file_changed", path="file.txt", content=NEW, if_match="")
    assert connection.refused("write", "file_changed", path="none.txt", content=NEW, if_match=sha(OLD))
    assert connection.refused("edit", "file_changed", path="file.txt", old="old", new="x", if_match=sha("else"))
    assert connection.refused("delete", "file_changed", path="file.txt", if_match=sha("else"), approval=APPROVED)
    assert connect.files() == {"file.txt": OLD.encode()}

    assert connection.ok("write", path="file.txt", content=NEW, if_match=sha(OLD))
    assert connection.ok("write", path="fresh.txt", content=NEW, if_match="")


def test_edit_replaces_a_text_that_occurs_once(connection: Connection, connect: Connecting) -> None:
    (connect.work / "file.txt").write_text("one two two\r\nthree\n")

    edited = connection.ok("edit", path="file.txt", old="one", new="1")

    assert edited["sha256"] == sha("1 two two\r\nthree\n")
    assert (connect.work / "file.txt").read_bytes() == b"1 two two\r\nthree\n"
    assert "2 times" in connection.refused("edit", "not_unique", path="file.txt", old="two", new="2")
    assert "0 times" in connection.refused("edit", "not_unique", path="file.txt", old="four", new="4")
    assert "0 times" in connection.refused("edit", "not_unique", path="file.txt", old="", new="4")
    assert (
        connection.refused("edit", "file_not_found", path="none.txt", old="a", new="b")
        == "Path none.txt does not exist"
    )


@pytest.mark.req("WSA-01.2", "WSA-06.3", "WSA-07.1")
def test_deleting_needs_an_approval(connection: Connection, connect: Connecting) -> None:
    assert connection.refused("delete", "approval_needed", path="file.txt")
    assert connect.files() == {"file.txt": OLD.encode()}

    assert connection.ok("delete", path="file.txt", approval=APPROVED)

    assert connect.files() == {}
    gone = connection.refused("delete", "file_not_found", path="file.txt", approval=APPROVED)
    assert gone == "Path file.txt does not exist"
    assert "is a folder" in connection.refused("delete", "write_failed", path="src", approval=APPROVED)
    for root in (".", "", "src/.."):
        assert connection.call("delete", path=root, approval=APPROVED)["code"] in (
            "invalid_path",
            "path_traversal_blocked",
        )


@pytest.mark.req("SEC-06.2", "SEC-06.3")
@pytest.mark.parametrize(
    "path", [".git/hooks/x", ".github/workflows/x.yml", ".GitHub/a", "Jenkinsfile", "artel.yaml", ".new-tool/x.json"]
)
def test_protected_files_need_an_approval(connection: Connection, connect: Connecting, path: str) -> None:
    (connect.work / path).parent.mkdir(parents=True, exist_ok=True)

    assert connection.refused("write", "approval_needed", path=path, content=NEW)
    assert path not in connect.files()

    assert connection.ok("write", path=path, content=NEW, approval=APPROVED)
    assert connect.files()[path] == NEW.encode()


def test_link_to_a_protected_file_is_protected(connection: Connection, connect: Connecting) -> None:
    (connect.work / ".git").mkdir()
    (connect.work / "plain").symlink_to(".git")
    (connect.work / ".git" / "description").write_text("x")

    assert connection.refused("write", "refused", path="plain/description", content=NEW)
    assert connection.refused("write", "refused", path="plain/new", content=NEW)
    assert connection.refused("edit", "refused", path="plain/description", old="x", new="y")
    # Also if the link's own name is protected: the user would approve a path other than the one that is written.
    assert connection.refused("write", "refused", path="plain/HEAD", content=NEW, approval=APPROVED)
    assert connection.ok("write", path=".git/HEAD", content=NEW, approval=APPROVED)


@pytest.mark.req("SEC-03.5")
def test_path_rules_of_the_project_apply_to_resolved_links(connection: Connection, connect: Connecting) -> None:
    (connect.work / "private").mkdir()
    (connect.work / "private" / "plan.txt").write_text("theirs\n")
    (connect.work / "src" / "link").symlink_to("../private")
    (connect.work / "src" / "mine.txt").write_text("mine\n")
    before = connect.files()
    for rules in ({"denied_paths": ["private/**"]}, {"allowed_paths": ["src/**"]}):
        calls: list[tuple[str, str, dict[str, Any]]] = [
            ("read", "src/link/plan.txt", {}),
            ("stat", "src/link/plan.txt", {}),
            ("list", "src/link", {}),
            ("search", "src/link", {"query": "theirs"}),
            ("write", "src/link/plan.txt", {"content": NEW}),
            ("write", "src/link/new.txt", {"content": NEW}),
            ("edit", "src/link/plan.txt", {"old": "theirs", "new": "x"}),
            ("delete", "src/link/plan.txt", {"approval": APPROVED}),
        ]
        for method, path, more in calls:
            refused = connection.refused(method, "refused", path=path, **more, **rules)
            assert refused == f"The rules of this project do not allow access to {path}"
        assert connect.files() == before
        assert connection.ok("read", path="src/mine.txt", **rules)["content"] == "mine\n"
    found = connection.ok("search", query="i", path=".", denied_paths=["private/**"])["matches"]
    assert [match["path"] for match in found] == ["src/mine.txt"]
    assert connection.ok("write", path="src/mine.txt", content=NEW, allowed_paths=["src/**"])


@pytest.mark.req("WSA-05.2", "WSA-05.5", "WSA-06.3")
def test_forbidden_paths_are_not_written(connection: Connection, connect: Connecting, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("theirs")
    (connect.work / "out").symlink_to(outside)
    (connect.work / "link").symlink_to(outside / "file")
    (connect.work / "hard").hardlink_to(outside / "file")
    (connect.work / ".artelignore").write_text("private/\n")
    (connect.work / "private").mkdir()
    os.mkfifo(connect.work / "fifo")
    before = connect.files()

    for path in ("../x", "out/x", "link", "/tmp/x", "out", str(connect.work / "x")):
        refused = connection.refused("write", "path_traversal_blocked", path=path, content=NEW)
        assert refused == "Path is outside workspace bounds"
    for path in (".env", "src/id_rsa", "private/x", "secrets/x"):
        refused = connection.refused("write", "permission_denied", path=path, content=NEW, approval=APPROVED)
        assert refused == f"Permission denied to write to {path}"
    for path in ("hard", "fifo", "src"):
        connection.refused("write", "write_failed", path=path, content=NEW)
    for path in (".", "a\0b"):
        connection.refused("write", "invalid_path", path=path, content=NEW)
    assert "more than" in connection.refused("write", "write_failed", path="big", content="x" * 10_000_001)

    assert connect.files() == before
    assert (outside / "file").read_text() == "theirs"
    assert [*outside.iterdir()] == [outside / "file"]


def test_full_disk_leaves_all_files_unchanged(connection: Connection, connect: Connecting) -> None:
    before = connect.files()
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.prlimit(connect.processes[-1].pid, resource.RLIMIT_FSIZE, (5_000, hard))

    for path in ("file.txt", "src/new.txt"):
        assert (
            connection.refused("write", "write_failed", path=path, content="x" * 100_000) == f"{path}: File too large"
        )
    assert connection.refused("edit", "write_failed", path="file.txt", old="old", new="x" * 100_000)

    assert connect.files() == before
    resource.prlimit(connect.processes[-1].pid, resource.RLIMIT_FSIZE, (hard, hard))
    assert connection.ok("write", path="file.txt", content="x" * 100_000)
    assert connection.ok("undo")
    assert connect.files() == before


def test_read_only_mode_refuses_all_changes(connect: Connecting) -> None:
    (connect.work / "file.txt").write_text(OLD)
    connection = connect.connection("--read-only", "--run", "touch=touch made")
    assert (connection.hello["read_only"], connection.hello["mode"]) == (True, "read-only")

    for method in ("write", "edit", "delete", "run", "undo"):
        more = {"path": "file.txt", "content": NEW, "old": "old", "new": "new", "name": "touch", "approval": APPROVED}
        connection.refused(method, "read_only", **more)

    assert connect.files() == {"file.txt": OLD.encode()}
    assert "read only" in connect.printed()


# --- At most once


@pytest.mark.parametrize("method", ["write", "edit", "delete", "run", "undo"])
def test_repeated_call_returns_the_same_answer_and_changes_nothing(connect: Connecting, method: str) -> None:
    (connect.work / "file.txt").write_text(OLD)
    connection = connect.connection("--yes", "--run", "count=sh -c 'echo x >> count.txt; cat count.txt'")
    if method == "undo":
        connection.ok("write", path="file.txt", content=NEW, turn_id="t1")
    call = {"path": "file.txt", "content": NEW, "old": "old", "new": "new", "name": "count", "approval": APPROVED}
    call |= {"of_turn": "t1"} if method == "undo" else {}
    call_id = uuid.uuid4().hex

    first = connection.ok(method, call_id=call_id, **call)
    after = connect.files()
    (connect.work / "file.txt").write_text("the user's")
    connect.kill()
    connection = connect.connection("--yes", "--run", "count=sh -c 'echo x >> count.txt; cat count.txt'")
    again = connection.ok(method, call_id=call_id, **call)

    shown = {"diff", "holds", "grant"}  # to the user, once
    assert again == {name: value for name, value in first.items() if name not in shown}
    assert connect.files() == after | {"file.txt": b"the user's"}


def test_id_of_a_call_can_not_be_reused_for_another_call(connection: Connection, connect: Connecting) -> None:
    connection.ok("write", call_id="same-id", path="file.txt", content=NEW)

    assert "another call" in connection.refused("write", "failed", call_id="same-id", path="file.txt", content="else")
    assert "another call" in connection.refused(
        "delete", "failed", call_id="same-id", path="file.txt", approval=APPROVED
    )
    assert connect.files() == {"file.txt": NEW.encode()}


def test_parallel_calls_with_the_same_id_are_carried_out_once(connection: Connection, connect: Connecting) -> None:
    call = {"path": "file.txt", "old": "old", "new": "old old"}  # if it were done twice it would fail or be visible
    connection.send("edit", call_id="one", **call)
    for _ in range(19):
        connection.raw(connection.frame("edit", "one", **call))
    first = connection.wait("one")
    others = [connection.other() for _ in range(19)]

    assert first["result"]["success"]
    assert others == [first] * 19
    assert connect.files() == {"file.txt": b"old old\n"}


def test_calls_after_their_deadline_change_nothing(connection: Connection, connect: Connecting) -> None:
    before = connect.files()
    with (connect.state() / "change.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as another `artel undo` does
        begun = [connection.send("write", path=f"{number}.txt", content=NEW, timeout_ms=400) for number in range(8)]
        waiting = connection.send("write", path="8.txt", content=NEW, timeout_ms=400)

        assert [connection.wait(call_id)["result"]["code"] for call_id in begun] == ["unknown"] * 8
        assert connection.wait(waiting)["result"]["code"] == "too_late"
        assert connection.wait(connection.send("read", path="file.txt", timeout_ms=400))["result"]["code"] == "too_late"

    assert connection.ok("read", path="file.txt")["content"] == OLD
    assert connection.ok("write", path="done.txt", content=NEW)
    assert connect.files() == before | {"done.txt": NEW.encode()}
    assert connection.ok("write", call_id=begun[0], path="0.txt", content=NEW)


# --- Undo


def test_turn_is_undone_and_redone(connection: Connection, connect: Connecting) -> None:
    (connect.work / "gone.txt").write_text("here\n")
    (connect.work / "gone.txt").chmod(0o751)
    before = connect.files()
    for content in ("first\n", NEW):
        connection.ok("write", path="file.txt", content=content, turn_id="t1")
    connection.ok("write", path="src/made.txt", content=NEW, turn_id="t1")
    connection.ok("delete", path="gone.txt", turn_id="t1", approval=APPROVED)
    after = connect.files()
    assert after == {"file.txt": NEW.encode(), "src/made.txt": NEW.encode()}

    undone = connection.ok("undo", of_turn="t1")

    assert connect.files() == before
    assert stat.S_IMODE((connect.work / "gone.txt").stat().st_mode) == 0o751
    outcomes = {file["path"]: file["outcome"] for file in undone["files"]}
    assert outcomes == {"file.txt": "restored", "src/made.txt": "removed", "gone.txt": "restored"}
    assert connection.ok("undo", of_turn="t1")
    assert connect.files() == after
    assert connection.ok("undo", of_turn="t1", path="file.txt")
    assert connect.files() == after | {"file.txt": OLD.encode()}


def test_undo_leaves_files_that_the_user_has_changed_since(connection: Connection, connect: Connecting) -> None:
    connection.ok("write", path="file.txt", content=NEW, turn_id="t1")
    connection.ok("write", path="src/made.txt", content=NEW, turn_id="t1")
    (connect.work / "file.txt").write_text("the user's")

    result = connection.call("undo", of_turn="t1")

    assert (result["success"], result["code"]) == (False, "file_changed")
    assert connect.files() == {"file.txt": b"the user's"}
    assert connection.refused("undo", "file_not_found", of_turn="t9") == "There is nothing to undo"


@pytest.mark.req("CLI-01.11")
def test_undo_on_the_command_line_needs_no_server(connection: Connection, connect: Connecting) -> None:
    connection.ok("write", path="file.txt", content="one", turn_id="t1")
    connection.ok("write", path="src/a.txt", content="two", turn_id="t2")
    connection.ok("write", path="src/b.txt", content="two", turn_id="t2")
    folder = ("--folder", str(connect.work))
    listed = json.loads(artel("undo", "--list", "--json", *folder, env=connect.env).stdout)
    assert [(row["turn"], row["file"]) for row in listed] == [
        ("t2", "src/b.txt"),
        ("t2", "src/a.txt"),
        ("t1", "file.txt"),
    ]

    by_file = artel("undo", "src/b.txt", *folder, env=connect.env)
    assert (by_file.returncode, by_file.stdout) == (0, "src/b.txt was removed.\n")
    newest = artel("undo", *folder, env=connect.env)
    assert (newest.returncode, newest.stdout) == (0, "src/a.txt was removed.\n")
    connect.stop()
    by_turn = artel("undo", "t1", "--folder", str(connect.work / "src"), env=connect.env)
    assert (by_turn.returncode, by_turn.stdout) == (0, "file.txt was put back.\n")
    assert connect.files() == {"file.txt": OLD.encode()}
    assert artel("undo", *folder, env=connect.env).returncode == 3
    for what in ("t1", "file.txt"):
        twice = artel("undo", what, *folder, env=connect.env)
        assert (twice.returncode, twice.stderr) == (3, "artel: It is already undone. To redo it, add --again.\n")
    assert connect.files() == {"file.txt": OLD.encode()}
    again = artel("undo", "t2", "--again", *folder, env=connect.env)
    assert again.returncode == 0
    assert sorted(again.stdout.splitlines()) == [f"src/{name}.txt has the agent's text again." for name in "ab"]
    assert artel("undo", "t2", "--again", *folder, env=connect.env).returncode == 3
    assert [*connect.files()] == ["file.txt", "src/a.txt", "src/b.txt"]
    assert artel("undo", "nothing.txt", *folder, env=connect.env).returncode == 3
    elsewhere = artel("undo", "--folder", "/", env=connect.env)
    assert (elsewhere.returncode, "is not in a connected folder" in elsewhere.stderr) == (3, True)
    (connect.work / "src" / "a.txt").write_text("the user's")
    assert artel("undo", "t2", *folder, env=connect.env).returncode == 1


def test_undo_command_waits_for_a_connector_that_is_writing(connection: Connection, connect: Connecting) -> None:
    connection.ok("write", path="file.txt", content=NEW, turn_id="t1")
    assert running.nursery is not None
    with (connect.state() / "change.lock").open("w") as lock, Path(os.devnull).open("r+") as nothing:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as the connector does while it writes
        files = (nothing.fileno(),) * 3
        undo = running.nursery.fork(
            [running.ARTEL, "undo", "--folder", str(connect.work)], connect.env, (files[0], files[1], files[2])
        )
        connection.wait(connection.send("write", path="other.txt", content=NEW, timeout_ms=800))
        assert undo.poll() is None
        assert connect.files() == {"file.txt": NEW.encode()}

    assert undo.wait(20) == 0
    assert connect.files() == {"file.txt": OLD.encode()}


def test_connector_and_undo_command_see_each_others_changes(connection: Connection, connect: Connecting) -> None:
    connection.ok("write", path="file.txt", content="one", turn_id="t1")
    assert artel("undo", "--folder", str(connect.work), env=connect.env).returncode == 0
    connection.ok("write", path="file.txt", content="two", turn_id="t2")

    assert connection.ok("undo", of_turn="t2")
    assert connect.files() == {"file.txt": OLD.encode()}
    assert connection.ok("undo", of_turn="t1")
    assert connect.files() == {"file.txt": b"one"}


# --- Commands


def test_named_commands_run_exactly_as_defined(connect: Connecting) -> None:
    connect.env |= {"MY_API_KEY": "treasure", "GITHUB_TOKEN": "treasure", "LC_ALL": "C"}
    connection = connect.connection(
        "--ask",
        "browser",
        "--run",
        "words=printf '%s|' 'a b' $HOME ; x",
        "--run",
        "env=env",
        "--run",
        "fail=sh -c 'exit 3'",
    )
    assert connection.hello["commands"]["fail"] == "sh -c 'exit 3'"

    words = connection.ok("run", name="words", approval=APPROVED)
    environment = connection.ok("run", name="env", approval=APPROVED)["output"]
    failed = connection.ok("run", name="fail", approval=APPROVED)

    assert (words["output"], words["exit_code"]) == ("a b|$HOME|;|x|", 0)
    assert "treasure" not in environment
    assert "ARTEL_" not in environment
    assert f"PWD={connect.work}" in environment or "LC_ALL=C" in environment
    assert (failed["success"], failed["exit_code"]) == (True, 3)
    for name in ("other", "fail; rm", "sh", ""):
        assert "words, env, fail" in connection.refused("run", "no_command", name=name, approval=APPROVED)


def test_command_needs_an_approval_even_with_yes(connect: Connecting) -> None:
    connection = connect.connection("--yes", "--run", "touch=touch made")

    question = connection.call("run", name="touch")

    assert (question["code"], question["diff"], question["grant"]) == ("asks", "$ touch made\n", "run touch made")
    assert connect.files() == {}
    assert connection.ok("run", name="touch", approval={"id": "a", "holds": "session"})
    assert connection.ok("run", name="touch")["exit_code"] == 0


def test_command_that_takes_too_long_is_killed_with_its_child_processes(connect: Connecting) -> None:
    slow, quick = "slow=sh -c 'sleep 60 & echo $!; sleep 60'", "quick=sh -c 'sleep 60 & echo $!'"
    connection = connect.connection("--ask", "browser", "--run", slow, "--run", quick)

    for timeout_ms in (1500, 5000, 25_000):  # a busy machine may not even start it in time
        ended = connection.call("run", name="slow", approval=APPROVED, timeout_ms=timeout_ms)
        if ended["output"]:
            break
    left = connection.ok("run", name="quick", approval=APPROVED, timeout_ms=50_000)

    assert (ended["success"], ended["code"]) == (False, "too_late")
    for result in (ended, left):
        eventually(partial(_has_ended, int(result["output"])))


def test_commands_are_killed_with_the_connector(connect: Connecting) -> None:
    connection = connect.connection("--ask", "browser", "--run", "slow=sh -c 'echo $$ > pid; exec sleep 60'")
    connection.send("run", name="slow", approval=APPROVED, timeout_ms=50_000)
    pid = int(eventually(lambda: (connect.work / "pid").exists() and (connect.work / "pid").read_text()))
    assert not _has_ended(pid)

    assert connect.stop() == 0

    eventually(partial(_has_ended, pid))


def test_long_output_is_cut_in_the_middle(connect: Connecting) -> None:
    connection = connect.connection("--ask", "browser", "--run", "much=seq 1 100000")

    result = connection.ok("run", name="much", approval=APPROVED)

    assert result["is_cut"]
    assert result["output"].startswith("1\n2\n3\n")
    assert result["output"].endswith("99999\n100000\n")
    assert "bytes are left out" in result["output"]
    assert len(result["output"]) < 70_000


@pytest.mark.parametrize("named", ["test", "=x", "a b=x", "x=", "x='", "../x=y"])
def test_invalid_command_definitions_are_refused_at_start(connect: Connecting, named: str) -> None:
    connect.start("--yes", "--run", named)

    code, printed = connect.ended()

    assert code == 2
    assert "--run" in printed


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_only_artel_paths_opens_files_in_the_folder(connect: Connecting, tmp_path: Path) -> None:
    record = tmp_path / "record.txt"
    (connect.work / "src").mkdir()
    (connect.work / "src" / "a.txt").write_text("some text\n")
    (connect.work / ".artelignore").write_text("hidden\n")
    watching = {"WATCHED_FOLDER": str(connect.work), "WATCH_RECORD": str(record)}
    connect.start("--yes", "--run", "true=true", module="tests.faults.watched_connector", **watching)
    connection = connect.server.connection()

    connection.ok("list", path=".", recursive=True)
    connection.ok("read", path="src/a.txt")
    connection.ok("search", query="text")
    connection.ok("search", query="t.xt", regex=True)
    connection.ok("stat", path="src")
    connection.ok("write", path="src/b.txt", content="b", turn_id="t")
    connection.ok("edit", path="src/b.txt", old="b", new="c", turn_id="t")
    connection.ok("delete", path="src/a.txt", approval={"id": "a"}, turn_id="t")
    connection.ok("undo", of_turn="t")

    assert record.read_text() == "seen\n"


@pytest.mark.parametrize("method", ["write", "edit", "delete"])
def test_approval_of_a_link_does_not_cover_its_protected_target(connect: Connecting, method: str) -> None:
    hook = connect.work / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(parents=True)
    hook.write_text("mine")
    (connect.work / "notes.md").symlink_to(".git/hooks/pre-commit")
    connection = connect.connection("--yes")

    refused = connection.call(method, path="notes.md", content="x", old="mine", new="x", approval={"id": "a"})

    assert (refused["success"], refused["code"]) == (False, "refused")
    assert hook.read_text() == "mine"
    assert (connect.work / "notes.md").is_symlink()
