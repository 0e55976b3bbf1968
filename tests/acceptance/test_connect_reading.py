"""Reading, listing and searching through a connector: a real process, a real folder, a test server."""

import hashlib
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.connecting import Connecting
from tests.connector_server import USER, Connection

OUTSIDE = "Path is outside workspace bounds"


@pytest.fixture
def connection(connect: Connecting) -> Connection:
    (connect.work / "src").mkdir()
    (connect.work / "src" / "main.py").write_text("import os\n\nprint('hello')\n")
    (connect.work / "README.md").write_text("# Привет\nhello\n")
    return connect.connection("--read-only")


def names(result: dict[str, Any]) -> list[str]:
    return [entry["path"] for entry in result["files"]]


@pytest.mark.req("WSA-01.1", "WSA-02.1")
def test_file_is_read(connection: Connection, connect: Connecting) -> None:
    content = "# Привет\nhello\n"

    read = connection.ok("read", path="README.md")

    assert (read["content"], read["size"], read["total_lines"], read["is_cut"]) == (content, 21, 2, False)
    assert read["sha256"] == hashlib.sha256(content.encode()).hexdigest()
    assert read["modified"].endswith("+00:00")
    connect.until("agent_coder read README.md")


@pytest.mark.parametrize(
    ("first", "lines", "content", "is_cut"),
    [
        (1, 1, "import os", True),
        (2, 2, "\nprint('hello')", True),
        (3, 100, "print('hello')\n", True),
        (9, 5, "", True),
        (None, 0, "", True),
        (-5, None, "import os\n\nprint('hello')\n", False),
        (1, 3, "import os\n\nprint('hello')\n", False),
    ],
)
def test_some_lines_of_a_file_are_read(
    connection: Connection, first: int | None, lines: int | None, content: str, is_cut: bool
) -> None:
    read = connection.ok("read", path="src/main.py", first_line=first, lines=lines)

    assert (read["content"], read["total_lines"], read["is_cut"]) == (content, 3, is_cut)


def test_big_file_is_read_in_parts(connection: Connection, connect: Connecting) -> None:
    with (connect.work / "big.log").open("w") as big:
        for number in range(1, 1_000_001):
            big.write(f"line {number:07}\n")

    beginning = connection.ok("read", path="big.log")
    later = connection.ok("read", path="big.log", first_line=900_000, lines=2)

    assert beginning["is_cut"]
    assert beginning["content"].startswith("line 0000001\nline 0000002\n")
    assert beginning["content"].endswith("\n")
    assert len(beginning["content"]) <= 1_000_000
    assert (later["content"], later["first_line"]) == ("line 0900000\nline 0900001", 900_000)
    assert connection.refused("read", "read_failed", path="big.log", first_line=5_000_000) == (
        "big.log is too big to find line 5000000 in it"
    )


def test_sparse_file_of_a_terabyte_is_refused_quickly(connection: Connection, connect: Connecting) -> None:
    with (connect.work / "sparse").open("wb") as sparse:
        sparse.write(b"begin\n")
        sparse.truncate(1 << 40)

    assert "binary file of 1099511627776 bytes" in connection.refused("read", "read_failed", path="sparse")
    assert connection.ok("stat", path="sparse")["size"] == 1 << 40
    assert connection.ok("search", query="begin")["matches"] == []


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x00\x00", "Grüße".encode("latin-1"), b"x" * 9000 + b"\x00"])
def test_binary_files_are_reported_as_binary(connection: Connection, connect: Connecting, content: bytes) -> None:
    (connect.work / "data").write_bytes(content)

    result = connection.call("read", path="data")

    assert result["error"] == f"data is a binary file of {len(content)} bytes, not UTF-8 text"
    assert (result["success"], result["is_binary"], result["size"]) == (False, True, len(content))


@pytest.mark.req("WSA-04.1", "WSA-04.2")
def test_folders_are_listed(connection: Connection) -> None:
    listed = connection.ok("list")

    assert [(entry["path"], entry["type"]) for entry in listed["files"]] == [
        ("README.md", "file"),
        ("src", "directory"),
    ]
    assert {*listed["files"][0]} == {"path", "type", "size", "modified"}
    assert names(connection.ok("list", recursive=True)) == ["README.md", "src", "src/main.py"]
    assert names(connection.ok("list", recursive=True, pattern="*.py")) == ["src/main.py"]
    assert names(connection.ok("list", path="src", pattern="*.py")) == ["src/main.py"]
    assert names(connection.ok("list", recursive=True, pattern="src/*")) == ["src/main.py"]
    assert connection.refused("list", "file_not_found", path="nowhere") == "Path nowhere does not exist"
    assert connection.ok("stat", path="src")["type"] == "directory"


@pytest.mark.req("WSA-05.1", "WSA-05.2", "WSA-05.5", "WSA-06.2", "WSA-06.5")
def test_no_path_leads_out(connection: Connection, connect: Connecting, tmp_path: Path) -> None:
    (tmp_path / "work-secret").mkdir()
    (tmp_path / "work-secret" / "file").write_text("TREASURE")
    (connect.work / "out").symlink_to(tmp_path / "work-secret")
    (connect.work / "chain").symlink_to("out")
    (connect.work / "loop").symlink_to("loop")
    (connect.work / "dangling").symlink_to("../nothing")
    (connect.work / "magic").symlink_to("/proc/self/root")
    inside = connect.work / "README.md"
    leaving = [
        "../work-secret/file",
        "src/../../work-secret/file",
        "/etc/passwd",
        str(inside),
        "..",
        "C:/x",
        "a\\..\\b",
    ]
    leaving += ["out/file", "chain/file", "out/", "magic/etc/passwd", "dangling", "/", "//etc/passwd", "~root/../../x"]

    for path in leaving:
        for method in ("read", "stat", "list", "search"):
            query = {"query": "TREASURE"} if method == "search" else {}
            assert connection.refused(method, "path_traversal_blocked", path=path, **query) == OUTSIDE, path
    for path in ("%2e%2e/x", "..x", "...", "a..b", "~", "$HOME", "src\u2215main.py"):
        assert connection.refused("read", "file_not_found", path=path) == f"Path {path} does not exist"
    assert "too many links" in connection.refused("read", "read_failed", path="loop")
    listed = connection.ok("list", recursive=True)
    assert not {entry["path"] for entry in listed["files"]} & {"out", "chain", "loop"}
    assert {"path": "out"} in listed["left_out"]
    assert connection.ok("search", query="TREASURE")["matches"] == []


@pytest.mark.parametrize(
    "path", ["a\0b", "a\nb", "a\u202eb", "a\u200bb", "x" * 10_000, "y/" * 400, "z" * 300, "\ufeff"], ids=range(8)
)
def test_invalid_paths_are_refused_with_a_message(connection: Connection, path: str) -> None:
    for method in ("read", "stat", "list"):
        words = connection.refused(method, "invalid_path", path=path)
        assert "path" in words
    assert len(words) < 200


def test_lone_surrogates_are_refused(connection: Connection) -> None:
    """JSON can contain them, UTF-8 can't."""
    connection.raw(
        '{"jsonrpc": "2.0", "id": "x", "method": "workspace/read", '
        '"params": {"call_id": "x", "user_id": 7, "timeout_ms": 1000, "path": "a\\ud800"}}'
    )

    assert connection.wait("x")["error"]["code"] == -32602
    assert connection.ok("read", path="README.md")


@pytest.mark.req("WSA-04.1")
def test_list_has_files_and_folders_and_names_what_it_leaves_out(connection: Connection, connect: Connecting) -> None:
    for name, target in (("file", "README.md"), ("folder", "src"), ("out", ".."), ("gone", "nowhere"), ("env", ".env")):
        (connect.work / name).symlink_to(target)
    (connect.work / ".env").write_text("SECRET=1")
    os.mkfifo(connect.work / "fifo")

    listed = connection.ok("list")
    found = {entry["path"]: entry for entry in listed["files"]}

    assert {entry["type"] for entry in found.values()} == {"file", "directory"}
    assert (found["file"]["type"], found["file"]["size"]) == ("file", found["README.md"]["size"])
    assert found["folder"]["type"] == "directory"
    assert [entry["path"] for entry in listed["left_out"]] == ["env", "fifo", "gone", "out"]
    assert not listed["is_cut"]
    rules = {"denied_paths": ["src/**"]}
    assert {"path": "folder"} in connection.ok("list", **rules)["left_out"]


def test_special_files_are_refused_without_blocking(connection: Connection, connect: Connecting) -> None:
    os.mkfifo(connect.work / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(connect.work / "sock"))
        for name in ("fifo", "sock"):
            assert "not a regular file" in connection.refused("read", "read_failed", path=name)
            assert connection.ok("stat", path=name)["type"] == "other"
    assert "is a folder" in connection.refused("read", "read_failed", path="src")
    assert connection.ok("search", query="hello")["files_searched"] == 2


@pytest.mark.req("WSA-05.5")
def test_unreadable_files_are_reported_with_the_requested_path(connection: Connection, connect: Connecting) -> None:
    (connect.work / ".env").write_text("KEY=1")
    (connect.work / "Deploy.PEM").write_text("-----")
    (connect.work / "secrets").mkdir()
    (connect.work / "secrets" / "all.txt").write_text("TOKEN")
    (connect.work / "fine.txt").symlink_to(".env")

    for path in (".env", "./.env", "Deploy.PEM", "secrets/all.txt", "fine.txt"):
        assert connection.refused("read", "permission_denied", path=path) == f"Permission denied to read {path}"
    assert connection.ok("search", query="KEY")["matches"] == connection.ok("search", query="TOKEN")["matches"] == []
    assert "secrets/all.txt" not in names(connection.ok("list", recursive=True))


def test_ignored_files_are_reported_as_missing(connection: Connection, connect: Connecting) -> None:
    (connect.work / "notes").mkdir()
    (connect.work / "notes" / "Diary.txt").write_text("hello diary")
    (connect.work / "keep.txt").write_text("hello keep")
    assert len(connection.ok("search", query="hello")["matches"]) == 4

    (connect.work / ".artelignore").write_text("# mine\n/notes/\n*.md\n")

    for path in ("notes/Diary.txt", "NOTES/diary.TXT", "README.md", "notes", "notes/new.txt"):
        assert connection.refused("read", "file_not_found", path=path) == f"Path {path} does not exist"
        assert connection.refused("stat", "file_not_found", path=path)
    assert names(connection.ok("list", recursive=True)) == [".artelignore", "keep.txt", "src", "src/main.py"]
    assert names(connection.ok("list")) == [".artelignore", "keep.txt", "src"]
    assert {match["path"] for match in connection.ok("search", query="hello")["matches"]} == {"keep.txt", "src/main.py"}

    (connect.work / ".artelignore").write_text("!\n")
    assert "is invalid" in connection.refused("read", "refused", path="keep.txt")

    (connect.work / ".artelignore").unlink()
    assert connection.ok("read", path="notes/Diary.txt")["content"] == "hello diary"


def test_artelignore_supports_exceptions(connection: Connection, connect: Connecting) -> None:
    (connect.work / "src" / "deep").mkdir()
    (connect.work / "src" / "deep" / "x.txt").write_text("hello")
    (connect.work / "src.txt").write_text("hello")
    (connect.work / ".artelignore").write_text("/*\n!/src/\n")

    assert names(connection.ok("list")) == ["src"]
    assert names(connection.ok("list", recursive=True)) == ["src", "src/deep", "src/deep/x.txt", "src/main.py"]
    assert names(connection.ok("list", path="src")) == ["src/deep", "src/main.py"]
    assert connection.ok("read", path="src/main.py")["size"]
    assert {match["path"] for match in connection.ok("search", query="hello")["matches"]} == {
        "src/deep/x.txt",
        "src/main.py",
    }
    for path in ("README.md", "src.txt", ".artelignore"):
        for method in ("read", "stat"):
            connection.refused(method, "file_not_found", path=path)
    (connect.work / ".artelignore").write_text("*\n!lib/\n")
    (connect.work / "lib").write_text("TREASURE")
    assert connection.refused("read", "file_not_found", path="lib")
    assert connection.ok("search", query="TREASURE")["matches"] == []
    assert "TREASURE" not in str(connection.call("search", query="TREAS", path="lib"))


def test_gitignore_applies_to_recursive_listings_only(connection: Connection, connect: Connecting) -> None:
    for name in (".git", "build/deep", "src/made"):
        (connect.work / name).mkdir(parents=True)
    (connect.work / ".git" / "description").write_text("hello git")
    (connect.work / "build" / "deep" / "x.txt").write_text("hello build")
    (connect.work / "src" / "made" / "y.txt").write_text("hello made")
    (connect.work / "src" / "made" / "kept.txt").write_text("hello kept")
    (connect.work / ".gitignore").write_text("build/\n*.txt\n")
    (connect.work / "src" / ".gitignore").write_text("!kept.txt\n")

    found = {match["path"] for match in connection.ok("search", query="hello")["matches"]}
    listed = names(connection.ok("list", recursive=True))

    assert found == {"README.md", "src/main.py", "src/made/kept.txt"}
    assert not [name for name in listed if name.startswith((".git/", "build"))]
    assert ".git" in names(connection.ok("list"))
    assert connection.ok("read", path="build/deep/x.txt")["content"] == "hello build"
    assert connection.ok("read", path=".git/description")["content"] == "hello git"


def test_expensive_ignore_rules_are_not_applied(connection: Connection, connect: Connecting) -> None:
    (connect.work / ("a" * 250)).write_text("hello")
    (connect.work / ".gitignore").write_text("*a" * 40 + "b\n" + "**/" * 20 + "c\n*.md\n")

    listed = names(connection.ok("list", recursive=True))

    assert "a" * 250 in listed
    assert "README.md" not in listed


def test_search_by_text_and_by_regular_expression(connection: Connection) -> None:
    by_text = connection.ok("search", query="hello")
    by_expression = connection.ok("search", query=r"^print\('(\w+)'\)$", regex=True)

    assert [(match["path"], match["line"]) for match in by_text["matches"]] == [("README.md", 2), ("src/main.py", 3)]
    assert by_expression["matches"] == [{"path": "src/main.py", "line": 3, "text": "print('hello')"}]
    assert connection.ok("search", query="hel+o", regex=True, pattern="*.md")["files_searched"] == 1
    assert connection.ok("search", query="hello", path="src")["files_searched"] == 1
    assert connection.ok("search", query="hello", path="README.md")["files_searched"] == 1
    assert connection.ok("search", query="h.llo")["matches"] == []
    cut = connection.ok("search", query="hello", most=1)
    assert (len(cut["matches"]), cut["is_cut"], cut["cut_by"]) == (1, True, "matches")
    assert "Not a valid regular expression" in connection.refused("search", "failed", query="(", regex=True)
    assert connection.refused("search", "failed", query="")
    assert connection.refused("search", "failed", query="x" * 3000)


@pytest.mark.parametrize("expression", ["(a+)+$", "(?:(?:a{1,99}){1,99}){1,99}b"])
def test_endless_regular_expression_does_not_block_other_calls(
    connection: Connection, connect: Connecting, expression: str
) -> None:
    (connect.work / "aaa").write_text("a" * 60 + "!\n")

    slow = connection.send("search", query=expression, regex=True, timeout_ms=2000)

    assert connection.ok("read", path="README.md", timeout_ms=1500)
    result = connection.wait(slow)["result"]
    assert result["success"]
    assert result["cut_by"] == "time"


def test_listing_of_a_huge_folder_is_cut(connection: Connection, connect: Connecting) -> None:
    many = connect.work / "many"
    many.mkdir()
    for number in range(12_000):
        os.close(os.open(many / f"f{number:06}", os.O_CREAT))

    listed = connection.ok("list", path="many")

    assert listed["is_cut"]
    assert names(listed) == [f"many/f{number:06}" for number in range(10_000)]


def test_deep_tree_is_listed_up_to_the_limit(connection: Connection, connect: Connecting) -> None:
    folder = os.open(connect.work, os.O_RDONLY)
    for _ in range(100):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)

    listed = connection.ok("list", recursive=True)

    assert listed["is_cut"]
    assert "/".join("d" * 64) in names(listed)


def test_replaced_root_folder_is_not_served(connection: Connection, connect: Connecting, tmp_path: Path) -> None:
    connect.work.rename(tmp_path / "moved")
    gone = "The workspace folder was moved, replaced or removed. Connect it again."
    assert connection.refused("read", "workspace_gone", path="README.md") == gone
    connect.work.mkdir()
    (connect.work / "README.md").write_text("another")

    assert connection.refused("read", "workspace_gone", path="README.md") == gone
    assert connection.refused("list", "workspace_gone") == gone

    connect.work.rename(tmp_path / "other")
    (tmp_path / "moved").rename(connect.work)
    assert connection.ok("read", path="README.md")["size"] == 21


@pytest.mark.req("WSA-05.3", "WSA-06.1")
@pytest.mark.parametrize("method", ["read", "stat", "list", "search", "write", "edit", "delete"])
def test_call_of_another_user_is_refused(connection: Connection, method: str) -> None:
    more = {"query": "x", "content": "x", "old": "hello", "new": "x"}
    words = connection.refused(method, "wrong_user", path="README.md", user_id=USER + 1, **more)

    assert words == f"User {USER + 1} is not authorized to access this path"


def test_call_with_an_old_epoch_is_refused(connection: Connection) -> None:
    assert connection.ok("read", path="README.md", epoch=3)
    assert connection.ok("read", path="README.md", epoch=4)

    assert connection.refused("read", "old_epoch", path="README.md", epoch=3)
    assert connection.ok("read", path="README.md", epoch=4)


@pytest.mark.req("WSA-06.2")
def test_answers_do_not_reveal_the_path_of_the_folder(connection: Connection, connect: Connecting) -> None:
    os.mkfifo(connect.work / "fifo")
    for path in (".", "..", "x", "fifo", "src", str(connect.work), "README.md/x", "x" * 5000):
        for method in ("read", "stat", "list", "search", "write", "delete"):
            result = connection.call(method, path=path, query="q", content="c", user_id=USER)
            assert str(connect.work) not in str(result) or path == str(connect.work)
            assert str(connect.work) not in str(result.get("error"))
