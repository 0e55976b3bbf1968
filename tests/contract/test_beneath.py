"""Access to files at untrusted paths, with both resolvers."""

import errno
import hashlib
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artel.paths import beneath
from artel.paths.beneath import Beneath, FileLimits
from artel.paths.errors import (
    FileChanged,
    FileMissing,
    FolderMoved,
    InvalidPath,
    OutsideWorkspace,
    PathError,
    ReadDenied,
    ReadFailed,
    WriteFailed,
)
from artel.paths.policy import Parts, is_secret
from artel.paths.resolve import Resolver, best_resolver, by_kernel, by_walking

RESOLVERS = {"kernel": by_kernel, "walk": by_walking}


@pytest.fixture(params=RESOLVERS)
def resolver(request: pytest.FixtureRequest) -> Resolver:
    return RESOLVERS[request.param]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace, a sibling folder whose name has the same prefix, and a file outside."""
    workspace = tmp_path / "work"
    (workspace / "src").mkdir(parents=True)
    (workspace / "readme.txt").write_text("hello")
    (workspace / "src" / "main.py").write_text("print(1)")
    (tmp_path / "work-secret").mkdir()
    (tmp_path / "work-secret" / "x").write_text("outside")
    (tmp_path / "outside.txt").write_text("outside")
    return workspace


@pytest.fixture
def files(folder: Path, resolver: Resolver) -> Iterator[Beneath]:
    with Beneath(folder, resolver=resolver) as files:
        yield files


def no_secrets(parts: Parts) -> None:
    if parts and is_secret(parts):
        raise ReadDenied("/".join(parts))


def test_openat2_is_used_where_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert best_resolver() is (by_kernel if sys.platform.startswith("linux") else by_walking)
    monkeypatch.setattr(beneath, "best_resolver", lambda: by_walking)
    with Beneath(Path("/")) as files:
        assert files.stat(".").type == "directory"


# Reading


@pytest.mark.req("WSA-02.1")
def test_read_returns_size_and_hash(files: Beneath) -> None:
    content = files.read("src/main.py")

    assert (content.data, content.size, content.parts) == (b"print(1)", 8, ("src", "main.py"))
    assert content.sha256 == hashlib.sha256(b"print(1)").hexdigest()


def test_part_of_a_big_file_is_read(files: Beneath, folder: Path) -> None:
    with (folder / "huge").open("wb") as huge:
        huge.truncate(1 << 40)  # a terabyte of nothing
        huge.seek(1 << 39)
        huge.write(b"in the middle")

    part = files.read("huge", offset=1 << 39, most=9)

    assert (part.data, part.size, part.sha256) == (b"in the mi", 1 << 40, None)
    with pytest.raises(ReadFailed, match=r"more than 10000000 bytes. Read a part"):
        files.read("huge")


@pytest.mark.req("WSA-05.5")
@pytest.mark.parametrize("path", ["nothing", "src/nothing", "nothing/at/all", "readme.txt/x"])
def test_missing_file_is_reported_with_the_requested_path(files: Beneath, path: str) -> None:
    for operation in (files.read, files.stat, files.list, files.delete):
        with pytest.raises(FileMissing, match=f"^Path {path} does not exist$"):
            operation(path)


@pytest.mark.parametrize("path", ["src", "."])
def test_reading_a_folder_as_a_file_fails(files: Beneath, path: str) -> None:
    with pytest.raises(ReadFailed, match="is a folder"):
        files.read(path)


def test_pipes_sockets_and_devices_are_refused_without_blocking(
    files: Beneath, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(folder / "pipe")
    monkeypatch.chdir(folder)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        names = ["pipe", "socket"]
        if os.geteuid() == 0:
            os.mknod(folder / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
            names.append("zero")
        for name in names:
            with pytest.raises(ReadFailed, match="regular file"):
                files.read(name)
            with pytest.raises(WriteFailed, match="not a regular file"):
                files.write(name, b"x")
            with pytest.raises(WriteFailed, match="not a regular file"):
                files.delete(name)
            assert files.stat(name).type == "other"


# Links


@pytest.mark.req("WSA-05.2", "TWS-04.2")
@pytest.mark.parametrize(
    "target",
    ["../outside.txt", "/etc/hostname", "../work-secret", "../work/../outside.txt", "src/../../outside.txt", "/", ".."],
)
def test_link_that_leads_out_is_refused_by_every_operation(files: Beneath, folder: Path, target: str) -> None:
    (folder / "link").symlink_to(target)
    (folder / "src" / "to_link").symlink_to("../link")  # a chain

    for path in ("link", "link/", "src/to_link", "link/x", "src/to_link/x"):
        operations: list[Callable[[], object]] = [
            lambda path=path: files.read(path),  # type: ignore[misc]
            lambda path=path: files.stat(path),  # type: ignore[misc]
            lambda path=path: files.list(path),  # type: ignore[misc]
            lambda path=path: files.write(path, b"x", create_dirs=True),  # type: ignore[misc]
            lambda path=path: files.delete(path),  # type: ignore[misc]
        ]
        for operation in operations:
            with pytest.raises(OutsideWorkspace):
                operation()
    assert (folder.parent / "outside.txt").read_text() == "outside"
    assert sorted(each.name for each in folder.parent.iterdir()) == ["outside.txt", "work", "work-secret"]


def test_links_that_stay_inside_are_followed_and_not_replaced(files: Beneath, folder: Path) -> None:
    (folder / "folder").symlink_to("src")
    (folder / "src" / "up").symlink_to("../readme.txt")

    assert files.read("folder/up").parts == ("readme.txt",)
    files.write("folder/up", b"new")

    assert (folder / "readme.txt").read_bytes() == b"new"
    assert (folder / "src" / "up").is_symlink()
    files.write("folder/added.txt", b"x")
    assert (folder / "src" / "added.txt").read_bytes() == b"x"


@pytest.mark.parametrize("target", ["nowhere", "loop", "link2"])
def test_dangling_and_circular_links_are_refused(files: Beneath, folder: Path, target: str) -> None:
    (folder / "loop").symlink_to("loop")
    (folder / "link2").symlink_to("link1")
    (folder / "link1").symlink_to("link2")
    (folder / "link").symlink_to(target)

    for refused in (lambda: files.read("link"), lambda: files.write("link", b"x"), lambda: files.delete("link")):
        with pytest.raises((FileMissing, ReadFailed, WriteFailed)):
            refused()
    assert (folder / "link").is_symlink()


@pytest.mark.req("AGT-02.6")
def test_rule_is_applied_to_the_requested_path_and_to_the_resolved_path(files: Beneath, folder: Path) -> None:
    (folder / ".env").write_text("KEY=1")
    (folder / "innocent.txt").symlink_to(".env")
    (folder / "src" / ".env").symlink_to("main.py")

    for path in (".env", "innocent.txt", "src/.env", ".ENV"):
        with pytest.raises((ReadDenied, FileMissing)):
            files.read(path, no_secrets)
        with pytest.raises((ReadDenied, FileMissing)):
            files.write(path, b"x", no_secrets)
    assert (folder / ".env").read_text() == "KEY=1"


def test_magic_links_are_refused(resolver: Resolver) -> None:
    with Beneath(Path("/proc/self"), resolver=resolver) as files, pytest.raises(PathError):
        files.read("root/etc/hostname")


# Listing


@pytest.mark.req("WSA-04.1", "WSA-04.2")
def test_listing_is_ordered_by_name_and_does_not_follow_links(files: Beneath, folder: Path) -> None:
    (folder / "out").symlink_to("..")
    (folder / "b").mkdir()
    (folder / "b" / "deep.py").write_text("x")

    flat = files.list()
    deep = files.list(recursive=True)
    only = files.list(recursive=True, keep=lambda entry: entry.path.endswith(".py"))

    assert [(entry.path, entry.type) for entry in flat.entries] == [
        ("b", "directory"),
        ("out", "link"),
        ("readme.txt", "file"),
        ("src", "directory"),
    ]
    assert [entry.path for entry in deep.entries] == ["b", "b/deep.py", "out", "readme.txt", "src", "src/main.py"]
    assert [entry.path for entry in only.entries] == ["b/deep.py", "src/main.py"]
    assert flat.entries[2].size == 5
    assert not flat.is_cut


def test_hidden_folders_are_not_entered(files: Beneath, folder: Path) -> None:
    hidden = files.list(recursive=True, hidden=lambda parts, is_folder: is_folder and parts[-1] == "src")

    assert [entry.path for entry in hidden.entries] == ["readme.txt"]
    assert (folder / "src").is_dir()


def test_listings_of_big_folders_and_deep_trees_are_cut(folder: Path, resolver: Resolver) -> None:
    for number in range(300):
        (folder / "src" / f"{number:03}").touch()
    folder.joinpath("deep", *["d"] * 100).mkdir(parents=True)

    with Beneath(folder, FileLimits(entries=100), resolver) as files:
        some = files.list("src")
        assert (len(some.entries), some.is_cut) == (100, True)
        assert [entry.path for entry in some.entries][:2] == ["src/000", "src/001"]
        deep = files.list("deep", recursive=True)
        assert (len(deep.entries), deep.is_cut) == (63, True)
    with Beneath(folder, FileLimits(scanned=50), resolver) as files:
        assert files.list("src").is_cut
        assert len(files.list(recursive=True).entries) <= 50


def test_invalid_names_are_not_listed(files: Beneath, folder: Path) -> None:
    (folder / "a\nb").touch()
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).touch()

    assert [entry.path for entry in files.list().entries] == ["readme.txt", "src"]


# Writing


@pytest.mark.req("WSA-03.1", "TWS-03.1")
@given(data=st.binary(max_size=2000), names=st.lists(st.sampled_from(["a", "b", "ü", "..x"]), min_size=1, max_size=4))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_written_data_is_read_back(files: Beneath, data: bytes, names: list[str]) -> None:
    path = "/".join([*names[:-1], f"{names[-1]}.file"])

    written = files.write(path, data, create_dirs=True)
    content = files.read(path)

    assert content.data == data
    assert (written.size, written.sha256, written.modified) == (content.size, content.sha256, content.modified)


@pytest.mark.req("WSA-03.2")
def test_folders_are_created_only_with_create_dirs(files: Beneath, folder: Path) -> None:
    with pytest.raises(FileMissing, match=r"^Path new/x.txt does not exist$"):
        files.write("new/x.txt", b"x")

    assert not (folder / "new").exists()
    files.write("new/er/x.txt", b"x", create_dirs=True)
    assert (folder / "new" / "er" / "x.txt").read_bytes() == b"x"


@pytest.mark.req("WSA-06.3")
def test_folders_are_created_at_the_top_level_but_never_the_root(files: Beneath, folder: Path) -> None:
    files.write("new/x", b"x", create_dirs=True)
    files.write("src/new/x", b"x", create_dirs=True)

    assert (folder / "new" / "x").read_bytes() == b"x"
    for path in (".", "", "src"):
        with pytest.raises((InvalidPath, WriteFailed)):
            files.delete(path)
        with pytest.raises((InvalidPath, WriteFailed)):
            files.write(path, b"x", create_dirs=True)
    shutil.rmtree(folder)
    with pytest.raises(FolderMoved):
        files.write("new/x", b"x", create_dirs=True)
    assert not folder.exists()


def test_write_keeps_the_mode_and_leaves_no_temporary_file(files: Beneath, folder: Path) -> None:
    (folder / "run.sh").write_text("old")
    (folder / "run.sh").chmod(0o751)

    files.write("run.sh", b"new")
    files.write("added", b"x")

    assert stat.S_IMODE((folder / "run.sh").stat().st_mode) == 0o751
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((folder / "added").stat().st_mode) == 0o666 & ~mask
    assert sorted(each.name for each in folder.iterdir()) == ["added", "readme.txt", "run.sh", "src"]


@pytest.mark.req("SEC-03.6")
@pytest.mark.parametrize("bits", [0o4000, 0o2000, 0o1000])
def test_rewritten_file_gets_no_special_bits_back(files: Beneath, folder: Path, bits: int) -> None:
    (folder / "tool").write_text("theirs")
    (folder / "tool").chmod(bits | 0o755)

    files.write("tool", b"the agent's")
    files.write("new", b"the agent's", mode=bits | 0o755)

    assert stat.S_IMODE((folder / "tool").stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / "new").stat().st_mode) == 0o755


def test_write_with_if_match_fails_if_the_file_has_changed(files: Beneath, folder: Path) -> None:
    read = files.read("readme.txt")
    (folder / "readme.txt").write_text("changed by the user")

    for path, match in (("readme.txt", read.sha256), ("readme.txt", ""), ("gone", "a" * 64)):
        with pytest.raises(FileChanged, match="Read it again"):
            files.write(path, b"mine", if_match=match)
        with pytest.raises((FileChanged, FileMissing)):
            files.delete(path, if_match=match)

    assert (folder / "readme.txt").read_text() == "changed by the user"
    files.write("readme.txt", b"mine", if_match=files.read("readme.txt").sha256)
    files.write("added", b"mine", if_match="")
    assert (folder / "added").read_bytes() == b"mine"


def test_file_with_hard_links_is_not_written(files: Beneath, folder: Path) -> None:
    (folder / "twin").hardlink_to(folder.parent / "outside.txt")

    with pytest.raises(WriteFailed, match="hard links"):
        files.write("twin", b"x")
    with pytest.raises(WriteFailed, match="hard links"):
        files.delete("twin")

    assert (folder.parent / "outside.txt").read_text() == "outside"


def test_require_writable_raises_what_write_would_raise(files: Beneath, folder: Path) -> None:
    (folder / "twin").hardlink_to(folder.parent / "outside.txt")
    (folder / "out").symlink_to("..")
    cases: list[tuple[str, dict[str, str | bool]]] = [
        ("readme.txt", {}),
        ("readme.txt", {"if_match": ""}),
        ("readme.txt", {"if_match": "a" * 64}),
        ("added", {"if_match": ""}),
        ("added", {"if_match": "a" * 64}),
        ("src", {}),
        ("twin", {}),
        ("out/x", {}),
        (".", {}),
        ("none/x", {}),
        ("none/x", {"create_dirs": True}),
        ("src/none/x", {"create_dirs": True}),
        ("readme.txt/x", {"create_dirs": True}),
    ]
    for path, options in cases:
        before = sorted(folder.rglob("*"))
        predicted = _raised(lambda p=path, o=options: files.require_writable(p, **o))  # type: ignore[misc]
        assert sorted(folder.rglob("*")) == before
        actual = _raised(lambda p=path, o=options: files.write(p, b"x", **o))  # type: ignore[misc]
        assert predicted == actual, (path, options)
        (folder / "readme.txt").write_text("hello")
        for created in ("added", "src/none/x", "none/x"):
            (folder / created).unlink(missing_ok=True)
        for created in ("src/none", "none"):
            if (folder / created).exists():
                (folder / created).rmdir()
    assert files.read("readme.txt").data == b"hello"


def _raised(act: Callable[[], object]) -> str | None:
    try:
        act()
    except PathError as error:
        return error.message
    return None


def test_callbacks_of_write_get_the_temporary_name_before_it_exists_and_before_the_rename(
    files: Beneath, folder: Path
) -> None:
    calls: list[tuple[str, Parts, str, bool]] = []

    def record(when: str) -> Callable[[Parts, str], None]:
        return lambda parts, name: calls.append((when, parts, name, (folder / "src" / name).exists()))

    files.write("src/main.py", b"x", before_temporary=record("temporary"), before_replace=record("replace"))

    (first, parts, name, was_there), (second, *second_arguments, is_there) = calls
    assert (first, was_there, second, is_there) == ("temporary", False, "replace", True)
    assert second_arguments == [parts, name]
    assert parts == ("src", "main.py")


def test_failure_before_the_rename_leaves_the_file_unchanged(files: Beneath, folder: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with pytest.raises(WriteFailed, match="the disk is full"):
        files.write("readme.txt", b"new", before_replace=full)

    assert (folder / "readme.txt").read_text() == "hello"
    assert sorted(each.name for each in folder.iterdir()) == ["readme.txt", "src"]


def test_folder_that_is_moved_out_during_a_write_gets_no_file(files: Beneath, folder: Path) -> None:
    def move(*_: object) -> None:
        (folder / "src").rename(folder.parent / "moved")

    with pytest.raises((OutsideWorkspace, FileMissing)):
        files.write("src/new.py", b"x", before_replace=move)

    assert [each.name for each in (folder.parent / "moved").iterdir()] == ["main.py"]


def test_files_over_the_size_limit_are_not_written(folder: Path, resolver: Resolver) -> None:
    with Beneath(folder, FileLimits(file_bytes=3), resolver) as files:
        with pytest.raises(WriteFailed, match="more than the 3 allowed"):
            files.write("x", b"1234")
        files.write("x", b"123")


# The folder itself, and permissions


@pytest.mark.parametrize("replaced", [True, False])
def test_moved_or_replaced_folder_is_detected(files: Beneath, folder: Path, replaced: bool) -> None:
    folder.rename(folder.parent / "elsewhere")
    if replaced:
        folder.mkdir()

    for operation in (lambda: files.read("readme.txt"), lambda: files.write("x", b"x"), files.list):
        with pytest.raises(FolderMoved):
            operation()


PERMISSIONS = """
import os, sys
from pathlib import Path
from artel.paths.beneath import Beneath
from artel.paths.errors import PathError
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
with Beneath(Path(sys.argv[1])) as files:
    for operation in (
        lambda: files.read("mine"), lambda: files.write("theirs", b"x"), lambda: files.write("locked/x", b"x"),
        lambda: files.list("closed"), lambda: files.delete("locked/y"),
    ):
        try:
            operation()
        except PathError as refused:
            print(refused.message)
"""


@pytest.mark.req("WSA-05.5", "WSA-05.1")
def test_missing_permissions_are_reported(folder: Path) -> None:
    for above in (folder, *folder.parents):
        if above.stat().st_uid == os.geteuid() and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o055)
    for name, mode in (("mine", 0o200), ("theirs", 0o444)):
        (folder / name).write_text("x")
        (folder / name).chmod(mode)
    for name, mode in (("locked", 0o555), ("closed", 0o000)):
        (folder / name).mkdir()
        (folder / name / "y").touch()
        (folder / name).chmod(mode)

    done = subprocess.run(
        [sys.executable, "-c", PERMISSIONS, str(folder)], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.splitlines() == [
        "Permission denied to read mine",
        "Permission denied to write to theirs",
        "Permission denied to write to locked/x",
        "Permission denied to read closed",
        "Permission denied to write to locked/y",
    ]


LISTING = """
import json, os, sys
from pathlib import Path
from artel.connector.errors import Deadline
from artel.connector.file_reader import FileReader
from artel.connector.rules import Rules
from artel.contract.connector import ListCall
from artel.paths.beneath import Beneath
import importlib.metadata, pathspec
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
with Beneath(Path(sys.argv[1])) as files:
    call = ListCall(call_id="x", user_id=1, timeout_ms=1, recursive=True)
    print(FileReader(files, Rules(files)).list(call, Deadline(30)).model_dump_json())
"""


@pytest.mark.req("WSA-04.3")
def test_recursive_list_names_folders_that_it_could_not_read(folder: Path) -> None:
    for above in (folder, *folder.parents):
        if above.stat().st_uid == os.geteuid() and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o055)
    for name, mode in (("src/closed", 0o000), ("src/names_only", 0o444), ("src/open", 0o755)):
        (folder / name).mkdir()
        (folder / name / "y").touch()
        (folder / name).chmod(mode)

    done = subprocess.run(
        [sys.executable, "-c", LISTING, str(folder)], capture_output=True, text=True, check=True, timeout=60
    )
    listed = json.loads(done.stdout)

    assert [entry["path"] for entry in listed["unreadable"]] == ["src/closed", "src/names_only"]
    paths = {entry["path"] for entry in listed["files"]}
    assert {"src/closed", "src/names_only", "src/open/y", "src/main.py"} <= paths
    assert not {"src/closed/y", "src/names_only/y"} & paths
