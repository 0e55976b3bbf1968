"""Task workspaces: the properties that hold for any path, content and family, without a server."""

import itertools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from artel.paths.errors import FileMissing, OutsideWorkspace, PathError, WriteFailed
from artel.paths.policy import Parts
from artel.task_workspaces import stamps
from artel.task_workspaces.errors import Busy, ChangedUnseen, QuotaReached, WorkspaceNotAssigned
from artel.task_workspaces.owner import MAX_GENERATIONS, owner_of
from artel.task_workspaces.service import TaskWorkspaces
from artel.task_workspaces.task_workspace import Info, Quota, TaskWorkspace
from tests.depth import by_depth

ROOT = 1
CASES = settings(max_examples=by_depth(150, 1000))

_numbers = itertools.count(10)
_names = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"), exclude_characters="/\\:"),
    min_size=1,
    max_size=8,
).filter(lambda name: name not in (".", "..") and not re.fullmatch(r"\.artel-.*\.tmp", name))
paths = st.lists(_names, min_size=1, max_size=4).map("/".join)
contents = st.binary(max_size=200) | st.text(st.characters(codec="utf-8"), max_size=50).map(str.encode)
# Ways out in many spellings: a component `..` between others, a leading slash, a drive, backslashes, odd characters.
_anything = st.text(st.characters(codec="utf-8") | st.sampled_from("/.\\\x00\u202e"), max_size=12)
ways_out = st.one_of(
    st.tuples(st.lists(_anything, max_size=3), st.lists(_anything, max_size=3)).map(
        lambda around: "/".join([*around[0], "..", *around[1]])
    ),
    _anything.map(lambda rest: f"/{rest}"),
    paths.map(lambda rest: f"C:\\{rest}"),
    st.sampled_from(
        ["..", "../", "a/../../b", "..\\x", "/etc/passwd", "//", "a/..", "./../x", "a/b/../../../c", "/\x00"]
    ),
    st.integers(1, 3_000).map(lambda times: "../" * times + "x"),
)


class Somewhere:
    """A data folder, and new owners in it."""

    def __init__(self, data_dir: Path, quota: Quota | None = None) -> None:
        self.data_dir = data_dir
        self.all = TaskWorkspaces(data_dir, quota)

    def folder(self, owner_id: int) -> Path:
        return self.data_dir / "workspaces" / str(owner_id)

    def new(self) -> tuple[int, TaskWorkspace]:
        owner_id = next(_numbers)
        return owner_id, self.all.of(owner_id)

    def snapshot(self) -> list[str]:
        return sorted(str(path) for path in self.data_dir.rglob("*"))


@pytest.fixture(scope="module", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Make files that need not survive a power cut: thousands of cases would keep the disk busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="module")
def somewhere(tmp_path_factory: pytest.TempPathFactory) -> Somewhere:
    return Somewhere(tmp_path_factory.mktemp("data"))


# Whose it is


@st.composite
def families(draw: st.DrawFn) -> dict[int, int | None]:
    """Return who created whom, from `root` down."""
    parents: dict[int, int | None] = {ROOT: None}
    for agent_id in range(2, draw(st.integers(2, 30))):
        parents[agent_id] = draw(st.sampled_from(sorted(parents)))
    return parents


@pytest.mark.req("TWS-01.1", "TWS-01.2", "TWS-01.4", "TWS-08.1")
@CASES
@given(families())
def test_every_agent_works_in_the_workspace_of_the_child_of_root_that_it_comes_from(
    parents: dict[int, int | None],
) -> None:
    for agent_id in parents.keys() - {ROOT}:
        owner = owner_of(agent_id, parents)

        assert parents[owner] == ROOT
        line = [agent_id]
        while line[-1] != ROOT:
            above = parents[line[-1]]
            assert above is not None
            line.append(above)
        assert owner == line[-2]
        assert (owner == agent_id) == (parents[agent_id] == ROOT)
    for nobody in (ROOT, 0, max(parents) + 1):
        with pytest.raises(WorkspaceNotAssigned):
            owner_of(nobody, parents)


@pytest.mark.req("TWS-01.2", "TWS-08.1")
@CASES
@given(st.dictionaries(st.integers(0, 20), st.none() | st.integers(0, 20), max_size=20), st.integers(0, 20))
def test_a_family_that_goes_round_in_circles_has_an_end_too(parents: dict[int, int | None], agent_id: int) -> None:
    try:
        owner = owner_of(agent_id, parents)
    except WorkspaceNotAssigned:
        return
    above = parents[owner]
    assert above is not None
    assert parents[above] is None


def test_a_line_without_end_is_given_up() -> None:
    parents: dict[int, int | None] = {0: None} | {number: number - 1 for number in range(1, 1000)}

    assert owner_of(MAX_GENERATIONS, parents) == 1
    with pytest.raises(WorkspaceNotAssigned):
        owner_of(MAX_GENERATIONS + 1, parents)


@pytest.mark.req("TWS-01.1", "TWS-01.3", "TWS-01.5", "TWS-08.1")
@CASES
@given(path=paths, content=contents)
def test_two_children_of_root_have_different_workspaces(somewhere: Somewhere, path: str, content: bytes) -> None:
    (mine, here), (_, there) = somewhere.new(), somewhere.new()

    here.write(mine, path, content)

    assert (somewhere.folder(mine) / path).read_bytes() == content
    assert there.list().entries == []
    with pytest.raises(FileMissing):
        there.read(path)
    with pytest.raises(OutsideWorkspace):
        there.read(f"../{mine}/{path}")


# Lazy


@pytest.mark.req("TWS-02.1", "TWS-02.2", "TWS-05.2", "TWS-08.1")
@CASES
@given(path=paths)
def test_only_a_write_makes_the_folder(somewhere: Somewhere, path: str) -> None:
    owner, workspace = somewhere.new()

    assert workspace.list().entries == []
    assert workspace.list(recursive=True).entries == []
    assert workspace.info() == Info()
    for ask in (workspace.read, workspace.list):
        with pytest.raises(FileMissing):
            ask(path)
    assert not somewhere.folder(owner).exists()

    workspace.write(owner, path, b"first")

    assert somewhere.folder(owner).is_dir()


# Round trip


@pytest.mark.req("TWS-03.1", "TWS-03.2", "TWS-08.1")
@CASES
@given(path=paths, content=contents, later=contents)
def test_what_is_written_is_what_is_read_back(somewhere: Somewhere, path: str, content: bytes, later: bytes) -> None:
    owner, workspace = somewhere.new()

    for data, is_new in ((content, True), (later, False)):
        written = workspace.write(owner, path, data)

        assert (written.size, written.is_new) == (len(data), is_new)
        assert workspace.read(path).data == data
    assert (somewhere.folder(owner) / path).parent.is_dir()


@pytest.mark.req("TWS-05.2", "TWS-08.1")
@CASES
@given(st.dictionaries(paths, st.binary(max_size=100), max_size=3))
def test_the_figures_are_exact(somewhere: Somewhere, files: dict[str, bytes]) -> None:
    owner, workspace = somewhere.new()

    for path, content in files.items():
        try:
            workspace.write(owner, path, content)
        except WriteFailed:  # a name that is a folder in one path and a file in another
            continue

    there = [path for path in somewhere.folder(owner).rglob("*") if path.is_file()]
    info = workspace.info()
    assert info.file_count == len(there)
    assert info.dir_count == sum(path.is_dir() for path in somewhere.folder(owner).rglob("*"))
    assert info.total_size == sum(path.stat().st_size for path in there)
    newest = max((path.stat().st_mtime for path in there), default=None)
    assert (info.last_modified and info.last_modified.timestamp()) == (newest and pytest.approx(newest, abs=1e-5))


# No way out


@pytest.mark.req("TWS-04.1", "TWS-08.1")
@CASES
@given(path=ways_out)
def test_no_path_leads_out_and_nothing_is_touched(tmp_path_factory: pytest.TempPathFactory, path: str) -> None:
    here = Somewhere(tmp_path_factory.getbasetemp() / "closed")
    owner = 5
    workspace = here.all.of(owner)
    before = here.snapshot()

    for attempt in (
        lambda: workspace.write(owner, path, b"x"),
        lambda: workspace.read(path),
        lambda: workspace.list(path),
    ):
        with pytest.raises(OutsideWorkspace) as refused:
            attempt()
        assert refused.value.code == "path_traversal_blocked"

    assert here.snapshot() == before


@pytest.mark.req("TWS-04.2", "TWS-08.1")
@CASES
@given(name=_names, below=paths, kind=st.sampled_from(["absolute", "relative", "neighbour", "dangling", "chain"]))
def test_no_link_leads_out(somewhere: Somewhere, name: str, below: str, kind: str) -> None:
    owner, workspace = somewhere.new()
    neighbour, theirs = somewhere.new()
    theirs.write(neighbour, "secret", b"theirs")
    workspace.write(owner, "own/file", b"mine")
    target = {
        "absolute": str(somewhere.folder(neighbour)),
        "relative": "../" * 3,
        "neighbour": f"../{neighbour}",
        "dangling": "/nowhere/at/all",
        "chain": "own/out",
    }[kind]
    (somewhere.folder(owner) / "own" / "out").symlink_to(somewhere.data_dir)
    assume(not (somewhere.folder(owner) / name).exists())
    (somewhere.folder(owner) / name).symlink_to(target)

    for attempt in (
        lambda: workspace.write(owner, f"{name}/{below}", b"x"),
        lambda: workspace.read(f"{name}/secret"),
        lambda: workspace.list(name),
    ):
        with pytest.raises(OutsideWorkspace):
            attempt()

    assert {entry.path: entry.type for entry in workspace.list().entries} == {"own": "directory", name: "link"}
    assert theirs.read("secret").data == b"theirs"
    assert theirs.info().file_count == 1


@CASES
@given(path=st.text(max_size=40) | _anything)
def test_any_path_at_all_is_answered_or_refused_in_words(somewhere: Somewhere, path: str) -> None:
    owner, workspace = somewhere.new()

    for attempt in (
        lambda: workspace.write(owner, path, b"x"),
        lambda: workspace.read(path),
        lambda: workspace.list(path),
    ):
        assert str(somewhere.data_dir) not in _complaint(attempt)


def _complaint(attempt: Callable[[], object]) -> str:
    """Return what is said against something; nothing if it is done."""
    try:
        attempt()
    except PathError as refused:
        return refused.message
    return ""


# Quota


@given(st.lists(st.tuples(paths, st.integers(0, 40)), max_size=12))
@settings(max_examples=by_depth(100, 300))
def test_no_sequence_of_writes_goes_over_the_quota(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[str, int]]
) -> None:
    quota = Quota(total_bytes=100, files=8, file_bytes=30)
    here = Somewhere(tmp_path_factory.getbasetemp() / "quota", quota)
    owner, workspace = here.new()

    for path, size in writes:
        before = workspace.info()
        if _complaint(partial(workspace.write, owner, path, b"x" * size)):
            assert workspace.info() == before
        info = workspace.info()
        assert info.total_size <= quota.total_bytes
        assert info.file_count + info.dir_count <= quota.files


def test_replacing_a_file_needs_room_only_for_what_is_more(tmp_path: Path) -> None:
    here = Somewhere(tmp_path, Quota(total_bytes=100, files=3, file_bytes=90))
    owner, workspace = here.new()
    workspace.write(owner, "a/b", b"x" * 60)

    workspace.write(owner, "a/b", b"y" * 90)

    with pytest.raises(QuotaReached, match="may hold 100 bytes, and would have 101"):
        workspace.write(owner, "c", b"x" * 11)
    workspace.write(owner, "c", b"x" * 10)
    with pytest.raises(QuotaReached, match="3 files and folders"):
        workspace.write(owner, "d", b"")
    with pytest.raises(QuotaReached, match="more than the 90 allowed"):
        workspace.write(owner, "c", b"x" * 91)
    assert workspace.info().total_size == 100


def test_what_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    here = Somewhere(tmp_path, Quota(files=2))
    owner, workspace = here.new()
    workspace.write(owner, "file", b"x")
    before = here.snapshot()

    for number in range(20):
        with pytest.raises(WriteFailed):
            workspace.write(owner, f"file/{number}", b"x")
        with pytest.raises(QuotaReached):
            workspace.write(owner, f"other{number}/x", b"x")
        with pytest.raises(FileMissing):
            workspace.read(f"nothing{number}", owner)

    assert here.snapshot() == before


# Families: nobody overwrites what it has not seen


def test_a_sibling_reads_before_it_overwrites(tmp_path: Path) -> None:
    _, workspace = Somewhere(tmp_path).new()
    ada, bob = 100, 101
    workspace.write(ada, "plan", b"by Ada")

    with pytest.raises(
        ChangedUnseen, match=r"^./plan was changed by another agent since you last read it. Read it again"
    ):
        workspace.write(bob, "./plan", b"by Bob")
    assert workspace.read("plan", bob).data == b"by Ada"
    workspace.write(bob, "plan", b"by Bob")

    with pytest.raises(ChangedUnseen):
        workspace.write(ada, "plan", b"by Ada again")
    assert workspace.read("plan").data == b"by Bob"  # by the user, who never writes
    with pytest.raises(ChangedUnseen):
        workspace.write(ada, "plan", b"by Ada again")


def test_a_change_from_outside_is_seen_too(tmp_path: Path) -> None:
    here = Somewhere(tmp_path)
    owner, workspace = here.new()
    workspace.write(owner, "plan", b"mine")
    (here.folder(owner) / "plan").write_bytes(b"the operator's")

    with pytest.raises(ChangedUnseen):
        workspace.write(owner, "plan", b"mine again")

    (here.folder(owner) / "plan").unlink()
    assert workspace.write(owner, "plan", b"new").is_new


def test_stamps_outlive_the_process_and_a_torn_one_only_asks_to_read_again(tmp_path: Path) -> None:
    here = Somewhere(tmp_path)
    owner, workspace = here.new()
    workspace.write(owner, "plan", b"one")
    Somewhere(tmp_path).all.of(owner).write(owner, "plan", b"two")

    for stamp in (tmp_path / "workspace-stamps" / str(owner)).iterdir():
        stamp.write_text('{"sha256": "tor')

    with pytest.raises(ChangedUnseen):
        workspace.write(owner, "plan", b"three")
    workspace.read("plan", owner)
    workspace.write(owner, "plan", b"three")


@settings(max_examples=by_depth(100, 300))
@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from("ab"), st.booleans()), max_size=20))
def test_whatever_siblings_do_nobody_overwrites_what_it_does_not_know(
    somewhere: Somewhere, steps: list[tuple[int, str, bool]]
) -> None:
    _, workspace = somewhere.new()
    content: dict[str, bytes] = {}
    known: dict[tuple[int, str], bytes] = {}

    for number, (member, path, is_write) in enumerate(steps):
        if is_write:
            data = str(number).encode()
            if path not in content or known.get((member, path)) == content[path]:
                workspace.write(member, path, data)
                content[path] = known[member, path] = data
            else:
                with pytest.raises(ChangedUnseen):
                    workspace.write(member, path, data)
        elif path in content:
            known[member, path] = workspace.read(path, member).data
            assert known[member, path] == content[path]
        else:
            with pytest.raises(FileMissing):
                workspace.read(path, member)


def test_threads_of_one_family_lose_nothing_and_stay_in_the_quota(tmp_path: Path) -> None:
    here = Somewhere(tmp_path, Quota(files=30))
    _, workspace = here.new()

    def work(member: int) -> int:
        made = 0
        for number in range(10):
            try:
                workspace.write(member, f"{member}/{number}", b"x")
                made += 1
            except QuotaReached:
                pass
            _append(workspace, member)
        return made

    with ThreadPoolExecutor(5) as pool:
        made = sum(pool.map(work, range(1, 6)))

    info = workspace.info()
    assert info.file_count == made + 1
    assert info.file_count + info.dir_count == 30
    assert sorted(workspace.read("log").data.split()) == sorted(
        b"12345"[i : i + 1] for i in range(5) for _ in range(10)
    )


def test_two_who_write_at_once_do_not_both_take_the_last_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, workspace = Somewhere(tmp_path, Quota(files=1)).new()
    both_have_counted = threading.Barrier(2)
    require_room = TaskWorkspace._require_room

    def counted(self: TaskWorkspace, parts: Parts, size: int) -> None:
        require_room(self, parts, size)
        with suppress(threading.BrokenBarrierError):  # as it should be: the other one may not count yet
            both_have_counted.wait(0.3)

    monkeypatch.setattr(TaskWorkspace, "_require_room", counted)
    with ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda name: _complaint(partial(workspace.write, 1, name, b"x")), "ab")

    assert sorted(map(bool, done)) == [False, True]
    assert workspace.info().file_count == 1


def _append(workspace: TaskWorkspace, member: int) -> None:
    """Add a line to a file that all members add to, as an agent does: read, write, and again if it was changed."""
    while True:
        try:
            old = workspace.read("log", member).data
        except FileMissing:
            old = b""
        try:
            workspace.write(member, "log", old + b"%d\n" % member)
        except (ChangedUnseen, QuotaReached):
            continue
        return


_PROCESS = """
import sys
from pathlib import Path
from artel.task_workspaces.service import TaskWorkspaces
from tests.depth import by_depth
from tests.depth import by_depth
from tests.unit.test_task_workspace import _append
workspace = TaskWorkspaces(Path(sys.argv[1])).of(7)
for _ in range(20):
    _append(workspace, int(sys.argv[2]))
"""


def test_processes_that_share_the_folder_lose_nothing(tmp_path: Path) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", _PROCESS, str(tmp_path), str(member)], cwd=Path(__file__).parents[2])
        for member in (1, 2, 3)
    ]

    assert [process.wait(60) for process in running] == [0, 0, 0]

    lines = Somewhere(tmp_path).all.of(7).read("log").data.split()
    assert sorted(lines) == [b"1"] * 20 + [b"2"] * 20 + [b"3"] * 20


def test_a_lock_that_nobody_gives_back_is_an_error_and_no_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamps, "WAIT_SECONDS", 0.05)
    owner, workspace = Somewhere(tmp_path).new()
    workspace.write(owner, "a", b"x")
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with workspace._stamps.whole():
            held.set()
            done.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert held.wait(30)
        with pytest.raises(Busy):
            workspace.write(owner, "a", b"y")
    finally:
        done.set()
        holder.join(30)
    workspace.write(owner, "a", b"y")


# The end


def test_a_workspace_goes_with_all_that_is_in_it_and_no_link_is_followed(tmp_path: Path) -> None:
    here = Somewhere(tmp_path / "data")
    (mine, workspace), (theirs, neighbour) = here.new(), here.new()
    workspace.write(mine, "a/b/c", b"x")
    neighbour.write(theirs, "kept", b"x")
    outside = tmp_path / "outside"
    outside.write_text("kept")
    (here.folder(mine) / "link").symlink_to(outside)
    (here.folder(mine) / "folder").symlink_to(here.folder(theirs))

    here.all.remove([mine, 999])

    assert [path.name for path in (tmp_path / "data" / "workspaces").iterdir()] == [str(theirs)]
    assert [path.name for path in (tmp_path / "data" / "workspace-stamps").iterdir()] == [str(theirs)]
    assert outside.read_text() == "kept"
    assert neighbour.read("kept").data == b"x"
    assert workspace.list().entries == []


def test_a_folder_that_can_not_be_made_is_told_without_its_name(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    owner, workspace = Somewhere(tmp_path / "data").new()

    with pytest.raises(WriteFailed) as refused:
        workspace.write(owner, "plan", b"x")

    assert str(tmp_path) not in refused.value.message


def test_what_can_not_be_noted_can_be_read_all_the_same(tmp_path: Path) -> None:
    here = Somewhere(tmp_path)
    owner, workspace = here.new()
    (here.folder(owner)).mkdir(parents=True)
    (here.folder(owner) / "plan").write_bytes(b"x")
    (tmp_path / "workspace-stamps").write_text("a file where the folder should be")

    assert workspace.read("plan", owner).data == b"x"
