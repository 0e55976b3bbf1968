"""What agents can read through a connector, and what not: a real process, a real folder, a scripted server."""

import hashlib
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.connecting import Connecting
from tests.connector_server import USER, Line

OUTSIDE = "Path is outside workspace bounds"


@pytest.fixture
def line(connect: Connecting) -> Line:
    (connect.work / "src").mkdir()
    (connect.work / "src" / "main.py").write_text("import os\n\nprint('hello')\n")
    (connect.work / "README.md").write_text("# Привет\nhello\n")
    return connect.line("--read-only")


def names(result: dict[str, Any]) -> list[str]:
    return [entry["path"] for entry in result["files"]]


@pytest.mark.req("WSA-01.1", "WSA-02.1")
def test_a_file_is_read(line: Line, connect: Connecting) -> None:
    content = "# Привет\nhello\n"

    read = line.ok("read", path="README.md")

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
    line: Line, first: int | None, lines: int | None, content: str, is_cut: bool
) -> None:
    read = line.ok("read", path="src/main.py", first_line=first, lines=lines)

    assert (read["content"], read["total_lines"], read["is_cut"]) == (content, 3, is_cut)


def test_a_file_too_big_to_be_read_is_read_in_parts(line: Line, connect: Connecting) -> None:
    with (connect.work / "big.log").open("w") as big:
        for number in range(1, 1_000_001):
            big.write(f"line {number:07}\n")

    beginning = line.ok("read", path="big.log")
    later = line.ok("read", path="big.log", first_line=900_000, lines=2)

    assert beginning["is_cut"]
    assert beginning["content"].startswith("line 0000001\nline 0000002\n")
    assert beginning["content"].endswith("\n")
    assert len(beginning["content"]) <= 1_000_000
    assert (later["content"], later["first_line"]) == ("line 0900000\nline 0900001", 900_000)
    assert line.refused("read", "read_failed", path="big.log", first_line=5_000_000) == (
        "big.log is too big to find line 5000000 in it"
    )


def test_a_sparse_file_of_a_terabyte_is_no_trouble(line: Line, connect: Connecting) -> None:
    with (connect.work / "sparse").open("wb") as sparse:
        sparse.write(b"begin\n")
        sparse.truncate(1 << 40)

    assert "binary file of 1099511627776 bytes" in line.refused("read", "read_failed", path="sparse")
    assert line.ok("stat", path="sparse")["size"] == 1 << 40
    assert line.ok("search", query="begin")["matches"] == []


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x00\x00", "Grüße".encode("latin-1"), b"x" * 9000 + b"\x00"])
def test_binary_files_are_named_as_such(line: Line, connect: Connecting, content: bytes) -> None:
    (connect.work / "data").write_bytes(content)

    result = line.call("read", path="data")

    assert result["error"] == f"data is a binary file of {len(content)} bytes, not UTF-8 text"
    assert (result["success"], result["is_binary"], result["size"]) == (False, True, len(content))


@pytest.mark.req("WSA-04.1", "WSA-04.2")
def test_folders_are_listed(line: Line) -> None:
    listed = line.ok("list")

    assert [(entry["path"], entry["type"]) for entry in listed["files"]] == [
        ("README.md", "file"),
        ("src", "directory"),
    ]
    assert {*listed["files"][0]} == {"path", "type", "size", "modified"}
    assert names(line.ok("list", recursive=True)) == ["README.md", "src", "src/main.py"]
    assert names(line.ok("list", recursive=True, pattern="*.py")) == ["src/main.py"]
    assert names(line.ok("list", path="src", pattern="*.py")) == ["src/main.py"]
    assert names(line.ok("list", recursive=True, pattern="src/*")) == ["src/main.py"]
    assert line.refused("list", "file_not_found", path="nowhere") == "Path nowhere does not exist"
    assert line.ok("stat", path="src")["type"] == "directory"


@pytest.mark.req("WSA-05.1", "WSA-05.2", "WSA-05.5", "WSA-06.2", "WSA-06.5")
def test_no_path_leads_out(line: Line, connect: Connecting, tmp_path: Path) -> None:
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
            assert line.refused(method, "path_traversal_blocked", path=path, **query) == OUTSIDE, path
    for path in ("%2e%2e/x", "..x", "...", "a..b", "~", "$HOME", "src\u2215main.py"):
        assert line.refused("read", "file_not_found", path=path) == f"Path {path} does not exist"
    assert "too many links" in line.refused("read", "read_failed", path="loop")
    listed = line.ok("list", recursive=True)
    assert not {entry["path"] for entry in listed["files"]} & {"out", "chain", "loop"}
    assert {"path": "out"} in listed["left_out"]
    assert line.ok("search", query="TREASURE")["matches"] == []


@pytest.mark.parametrize(
    "path", ["a\0b", "a\nb", "a\u202eb", "a\u200bb", "x" * 10_000, "y/" * 400, "z" * 300, "\ufeff"], ids=range(8)
)
def test_odd_paths_are_refused_in_words(line: Line, path: str) -> None:
    for method in ("read", "stat", "list"):
        words = line.refused(method, "invalid_path", path=path)
        assert "path" in words
    assert len(words) < 200


def test_half_characters_are_no_text(line: Line) -> None:
    """JSON can say them; nothing that we could write to a disk can."""
    line.raw(
        '{"jsonrpc": "2.0", "id": "x", "method": "workspace/read", '
        '"params": {"call_id": "x", "user_id": 7, "timeout_ms": 1000, "path": "a\\ud800"}}'
    )

    assert line.wait("x")["error"]["code"] == -32602
    assert line.ok("read", path="README.md")


@pytest.mark.req("WSA-04.1")
def test_list_has_files_and_folders_and_names_what_it_leaves_out(line: Line, connect: Connecting) -> None:
    for name, target in (("file", "README.md"), ("folder", "src"), ("out", ".."), ("gone", "nowhere"), ("env", ".env")):
        (connect.work / name).symlink_to(target)
    (connect.work / ".env").write_text("SECRET=1")
    os.mkfifo(connect.work / "fifo")

    listed = line.ok("list")
    found = {entry["path"]: entry for entry in listed["files"]}

    assert {entry["type"] for entry in found.values()} == {"file", "directory"}
    assert (found["file"]["type"], found["file"]["size"]) == ("file", found["README.md"]["size"])
    assert found["folder"]["type"] == "directory"
    assert [one["path"] for one in listed["left_out"]] == ["env", "fifo", "gone", "out"]
    assert not listed["is_cut"]
    rules = {"denied_paths": ["src/**"]}
    assert {"path": "folder"} in line.ok("list", **rules)["left_out"]


def test_what_is_no_file_is_not_read_and_never_waited_for(line: Line, connect: Connecting) -> None:
    os.mkfifo(connect.work / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(connect.work / "sock"))
        for name in ("fifo", "sock"):
            assert "not a regular file" in line.refused("read", "read_failed", path=name)
            assert line.ok("stat", path=name)["type"] == "other"
    assert "is a folder" in line.refused("read", "read_failed", path="src")
    assert line.ok("search", query="hello")["files_searched"] == 2


@pytest.mark.req("WSA-05.5")
def test_files_without_permission_are_named_as_asked_for(line: Line, connect: Connecting) -> None:
    (connect.work / ".env").write_text("KEY=1")
    (connect.work / "Deploy.PEM").write_text("-----")
    (connect.work / "secrets").mkdir()
    (connect.work / "secrets" / "all.txt").write_text("TOKEN")
    (connect.work / "fine.txt").symlink_to(".env")

    for path in (".env", "./.env", "Deploy.PEM", "secrets/all.txt", "fine.txt"):
        assert line.refused("read", "permission_denied", path=path) == f"Permission denied to read {path}"
    assert line.ok("search", query="KEY")["matches"] == line.ok("search", query="TOKEN")["matches"] == []
    assert "secrets/all.txt" not in names(line.ok("list", recursive=True))


def test_ignored_files_are_not_there(line: Line, connect: Connecting) -> None:
    (connect.work / "notes").mkdir()
    (connect.work / "notes" / "Diary.txt").write_text("hello diary")
    (connect.work / "keep.txt").write_text("hello keep")
    assert len(line.ok("search", query="hello")["matches"]) == 4

    (connect.work / ".artelignore").write_text("# mine\n/notes/\n*.md\n")

    for path in ("notes/Diary.txt", "NOTES/diary.TXT", "README.md", "notes", "notes/new.txt"):
        assert line.refused("read", "file_not_found", path=path) == f"Path {path} does not exist"
        assert line.refused("stat", "file_not_found", path=path)
    assert names(line.ok("list", recursive=True)) == [".artelignore", "keep.txt", "src", "src/main.py"]
    assert names(line.ok("list")) == [".artelignore", "keep.txt", "src"]
    assert {match["path"] for match in line.ok("search", query="hello")["matches"]} == {"keep.txt", "src/main.py"}

    (connect.work / ".artelignore").write_text("!\n")
    assert "can't be used" in line.refused("read", "refused", path="keep.txt")

    (connect.work / ".artelignore").unlink()
    assert line.ok("read", path="notes/Diary.txt")["content"] == "hello diary"


def test_all_but_some_can_be_ignored(line: Line, connect: Connecting) -> None:
    (connect.work / "src" / "deep").mkdir()
    (connect.work / "src" / "deep" / "x.txt").write_text("hello")
    (connect.work / "src.txt").write_text("hello")
    (connect.work / ".artelignore").write_text("/*\n!/src/\n")

    assert names(line.ok("list")) == ["src"]
    assert names(line.ok("list", recursive=True)) == ["src", "src/deep", "src/deep/x.txt", "src/main.py"]
    assert names(line.ok("list", path="src")) == ["src/deep", "src/main.py"]
    assert line.ok("read", path="src/main.py")["size"]
    assert {match["path"] for match in line.ok("search", query="hello")["matches"]} == {"src/deep/x.txt", "src/main.py"}
    for path in ("README.md", "src.txt", ".artelignore"):
        for method in ("read", "stat"):
            line.refused(method, "file_not_found", path=path)
    (connect.work / ".artelignore").write_text("*\n!lib/\n")
    (connect.work / "lib").write_text("TREASURE")
    assert line.refused("read", "file_not_found", path="lib")
    assert line.ok("search", query="TREASURE")["matches"] == []
    assert "TREASURE" not in str(line.call("search", query="TREAS", path="lib"))


def test_what_git_ignores_is_left_out_of_long_listings_only(line: Line, connect: Connecting) -> None:
    for name in (".git", "build/deep", "src/made"):
        (connect.work / name).mkdir(parents=True)
    (connect.work / ".git" / "description").write_text("hello git")
    (connect.work / "build" / "deep" / "x.txt").write_text("hello build")
    (connect.work / "src" / "made" / "y.txt").write_text("hello made")
    (connect.work / "src" / "made" / "kept.txt").write_text("hello kept")
    (connect.work / ".gitignore").write_text("build/\n*.txt\n")
    (connect.work / "src" / ".gitignore").write_text("!kept.txt\n")

    found = {match["path"] for match in line.ok("search", query="hello")["matches"]}
    listed = names(line.ok("list", recursive=True))

    assert found == {"README.md", "src/main.py", "src/made/kept.txt"}
    assert not [name for name in listed if name.startswith((".git/", "build"))]
    assert ".git" in names(line.ok("list"))
    assert line.ok("read", path="build/deep/x.txt")["content"] == "hello build"
    assert line.ok("read", path=".git/description")["content"] == "hello git"


def test_rules_that_would_take_for_ever_are_not_tried(line: Line, connect: Connecting) -> None:
    (connect.work / ("a" * 250)).write_text("hello")
    (connect.work / ".gitignore").write_text("*a" * 40 + "b\n" + "**/" * 20 + "c\n*.md\n")

    listed = names(line.ok("list", recursive=True))

    assert "a" * 250 in listed
    assert "README.md" not in listed


def test_lines_are_found_by_text_and_by_expression(line: Line) -> None:
    by_text = line.ok("search", query="hello")
    by_expression = line.ok("search", query=r"^print\('(\w+)'\)$", regex=True)

    assert [(match["path"], match["line"]) for match in by_text["matches"]] == [("README.md", 2), ("src/main.py", 3)]
    assert by_expression["matches"] == [{"path": "src/main.py", "line": 3, "text": "print('hello')"}]
    assert line.ok("search", query="hel+o", regex=True, pattern="*.md")["files_searched"] == 1
    assert line.ok("search", query="hello", path="src")["files_searched"] == 1
    assert line.ok("search", query="hello", path="README.md")["files_searched"] == 1
    assert line.ok("search", query="h.llo")["matches"] == []
    cut = line.ok("search", query="hello", most=1)
    assert (len(cut["matches"]), cut["is_cut"], cut["cut_by"]) == (1, True, "matches")
    assert "Not a valid regular expression" in line.refused("search", "failed", query="(", regex=True)
    assert line.refused("search", "failed", query="")
    assert line.refused("search", "failed", query="x" * 3000)


@pytest.mark.parametrize("expression", ["(a+)+$", "(?:(?:a{1,99}){1,99}){1,99}b"])
def test_an_expression_that_never_ends_holds_nobody_up(line: Line, connect: Connecting, expression: str) -> None:
    (connect.work / "aaa").write_text("a" * 60 + "!\n")

    slow = line.send("search", query=expression, regex=True, timeout_ms=2000)

    assert line.ok("read", path="README.md", timeout_ms=1500)
    result = line.wait(slow)["result"]
    assert result["success"]
    assert result["cut_by"] == "time"


def test_a_folder_with_very_many_entries_is_cut(line: Line, connect: Connecting) -> None:
    many = connect.work / "many"
    many.mkdir()
    for number in range(12_000):
        os.close(os.open(many / f"f{number:06}", os.O_CREAT))

    listed = line.ok("list", path="many")

    assert listed["is_cut"]
    assert names(listed) == [f"many/f{number:06}" for number in range(10_000)]


def test_a_deep_tree_is_listed_to_its_limit(line: Line, connect: Connecting) -> None:
    folder = os.open(connect.work, os.O_RDONLY)
    for _ in range(100):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)

    listed = line.ok("list", recursive=True)

    assert listed["is_cut"]
    assert "/".join("d" * 64) in names(listed)


def test_a_root_that_is_replaced_is_no_workspace_any_more(line: Line, connect: Connecting, tmp_path: Path) -> None:
    connect.work.rename(tmp_path / "moved")
    gone = "The workspace folder was moved, replaced or removed. Connect it again."
    assert line.refused("read", "workspace_gone", path="README.md") == gone
    connect.work.mkdir()
    (connect.work / "README.md").write_text("another")

    assert line.refused("read", "workspace_gone", path="README.md") == gone
    assert line.refused("list", "workspace_gone") == gone

    connect.work.rename(tmp_path / "other")
    (tmp_path / "moved").rename(connect.work)
    assert line.ok("read", path="README.md")["size"] == 21


@pytest.mark.req("WSA-05.3", "WSA-06.1")
@pytest.mark.parametrize("method", ["read", "stat", "list", "search", "write", "edit", "delete"])
def test_another_user_is_not_served(line: Line, method: str) -> None:
    more = {"query": "x", "content": "x", "old": "hello", "new": "x"}
    words = line.refused(method, "wrong_user", path="README.md", user_id=USER + 1, **more)

    assert words == f"User {USER + 1} is not authorized to access this path"


def test_a_host_that_lost_the_worker_space_is_not_served(line: Line) -> None:
    assert line.ok("read", path="README.md", epoch=3)
    assert line.ok("read", path="README.md", epoch=4)

    assert line.refused("read", "old_epoch", path="README.md", epoch=3)
    assert line.ok("read", path="README.md", epoch=4)


@pytest.mark.req("WSA-06.2")
def test_no_answer_says_where_the_folder_is(line: Line, connect: Connecting) -> None:
    os.mkfifo(connect.work / "fifo")
    for path in (".", "..", "x", "fifo", "src", str(connect.work), "README.md/x", "x" * 5000):
        for method in ("read", "stat", "list", "search", "write", "delete"):
            result = line.call(method, path=path, query="q", content="c", user_id=USER)
            assert str(connect.work) not in str(result) or path == str(connect.work)
            assert str(connect.work) not in str(result.get("error"))
