"""Properties of task workspaces for any path, content and family of agents, without a server."""

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable
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
from artel.task_workspaces.agent_files import MAX_GENERATIONS, owner_of
from artel.task_workspaces.errors import ChangedSinceRead, QuotaExceeded, WorkspaceBusy, WorkspaceNotAssigned
from artel.task_workspaces.service import TaskWorkspaces
from artel.task_workspaces.task_workspace import Info, Quota, TaskWorkspace
from tests.depth import by_depth
from tests.path_strategies import names, odd_texts, paths, traversals

pytestmark = pytest.mark.usefixtures("no_fsync")

ROOT = 1
CASES = settings(max_examples=by_depth(60, 1000))

_numbers = itertools.count(10)
contents = st.binary(max_size=200) | st.text(st.characters(codec="utf-8"), max_size=50).map(str.encode)


class DataFolder:
    """A data folder in which new owners get workspaces."""

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


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    return DataFolder(tmp_path_factory.mktemp("data"))


# Owners


@st.composite
def families(draw: st.DrawFn) -> dict[int, int | None]:
    """Return a random tree of agents below `root`, as a map from agent to parent."""
    parents: dict[int, int | None] = {ROOT: None}
    for agent_id in range(2, draw(st.integers(2, 30))):
        parents[agent_id] = draw(st.sampled_from(sorted(parents)))
    return parents


@pytest.mark.req("TWS-01.1", "TWS-01.2", "TWS-01.4", "TWS-08.1")
@CASES
@given(families())
def test_every_agent_uses_the_workspace_of_its_ancestor_below_root(
    parents: dict[int, int | None],
) -> None:
    for agent_id in parents.keys() - {ROOT}:
        owner = owner_of(agent_id, parents)

        assert parents[owner] == ROOT
        ancestors = [agent_id]
        while ancestors[-1] != ROOT:
            parent = parents[ancestors[-1]]
            assert parent is not None
            ancestors.append(parent)
        assert owner == ancestors[-2]
        assert (owner == agent_id) == (parents[agent_id] == ROOT)
    for without_workspace in (ROOT, 0, max(parents) + 1):
        with pytest.raises(WorkspaceNotAssigned):
            owner_of(without_workspace, parents)


@pytest.mark.req("TWS-01.2", "TWS-08.1")
@CASES
@given(st.dictionaries(st.integers(0, 20), st.none() | st.integers(0, 20), max_size=20), st.integers(0, 20))
def test_cyclic_parents_terminate(parents: dict[int, int | None], agent_id: int) -> None:
    try:
        owner = owner_of(agent_id, parents)
    except WorkspaceNotAssigned:
        return
    parent = parents[owner]
    assert parent is not None
    assert parents[parent] is None


def test_too_many_generations_have_no_workspace() -> None:
    parents: dict[int, int | None] = {0: None} | {number: number - 1 for number in range(1, 1000)}

    assert owner_of(MAX_GENERATIONS, parents) == 1
    with pytest.raises(WorkspaceNotAssigned):
        owner_of(MAX_GENERATIONS + 1, parents)


@pytest.mark.req("TWS-01.1", "TWS-01.3", "TWS-01.5", "TWS-08.1")
@CASES
@given(path=paths, content=contents)
def test_two_children_of_root_have_different_workspaces(data_folder: DataFolder, path: str, content: bytes) -> None:
    (mine, here), (_, there) = data_folder.new(), data_folder.new()

    here.write(mine, path, content)

    assert (data_folder.folder(mine) / path).read_bytes() == content
    assert there.list().entries == []
    with pytest.raises(FileMissing):
        there.read(path)
    with pytest.raises(OutsideWorkspace):
        there.read(f"../{mine}/{path}")


# Lazy creation


@pytest.mark.req("TWS-02.1", "TWS-02.2", "TWS-05.2", "TWS-08.1")
@CASES
@given(path=paths)
def test_only_a_write_creates_the_folder(data_folder: DataFolder, path: str) -> None:
    owner, workspace = data_folder.new()

    assert workspace.list().entries == []
    assert workspace.list(recursive=True).entries == []
    assert workspace.info() == Info()
    for ask in (workspace.read, workspace.list):
        with pytest.raises(FileMissing):
            ask(path)
    assert not data_folder.folder(owner).exists()

    workspace.write(owner, path, b"first")

    assert data_folder.folder(owner).is_dir()


# Round trip


@pytest.mark.req("TWS-03.1", "TWS-03.2", "TWS-08.1")
@CASES
@given(path=paths, content=contents, later=contents)
def test_content_is_read_back_as_written(data_folder: DataFolder, path: str, content: bytes, later: bytes) -> None:
    owner, workspace = data_folder.new()

    for data, is_new in ((content, True), (later, False)):
        written = workspace.write(owner, path, data)

        assert (written.size, written.is_new) == (len(data), is_new)
        assert workspace.read(path).data == data
    assert (data_folder.folder(owner) / path).parent.is_dir()


@pytest.mark.req("TWS-05.2", "TWS-08.1")
@CASES
@given(st.dictionaries(paths, st.binary(max_size=100), max_size=3))
def test_info_counts_files_folders_and_bytes(data_folder: DataFolder, files: dict[str, bytes]) -> None:
    owner, workspace = data_folder.new()

    for path, content in files.items():
        try:
            workspace.write(owner, path, content)
        except WriteFailed:  # a name that is a folder in one path and a file in another
            continue

    on_disk = [path for path in data_folder.folder(owner).rglob("*") if path.is_file()]
    info = workspace.info()
    assert info.file_count == len(on_disk)
    assert info.dir_count == sum(path.is_dir() for path in data_folder.folder(owner).rglob("*"))
    assert info.total_size == sum(path.stat().st_size for path in on_disk)
    newest = max((path.stat().st_mtime for path in on_disk), default=None)
    assert (info.last_modified and info.last_modified.timestamp()) == (newest and pytest.approx(newest, abs=1e-5))


# Path traversal


@pytest.mark.req("TWS-04.1", "TWS-08.1")
@CASES
@given(path=traversals)
def test_path_traversal_is_blocked_and_changes_nothing(tmp_path_factory: pytest.TempPathFactory, path: str) -> None:
    here = DataFolder(tmp_path_factory.getbasetemp() / "closed")
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
@given(name=names, below=paths, kind=st.sampled_from(["absolute", "relative", "neighbour", "dangling", "chain"]))
def test_links_to_the_outside_are_blocked(data_folder: DataFolder, name: str, below: str, kind: str) -> None:
    owner, workspace = data_folder.new()
    neighbour, theirs = data_folder.new()
    theirs.write(neighbour, "secret", b"theirs")
    workspace.write(owner, "own/file", b"mine")
    target = {
        "absolute": str(data_folder.folder(neighbour)),
        "relative": "../" * 3,
        "neighbour": f"../{neighbour}",
        "dangling": "/nowhere/at/all",
        "chain": "own/out",
    }[kind]
    (data_folder.folder(owner) / "own" / "out").symlink_to(data_folder.data_dir)
    assume(not (data_folder.folder(owner) / name).exists())
    (data_folder.folder(owner) / name).symlink_to(target)

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
@given(path=st.text(max_size=40) | odd_texts)
def test_errors_never_disclose_the_data_folder(data_folder: DataFolder, path: str) -> None:
    owner, workspace = data_folder.new()

    for attempt in (
        lambda: workspace.write(owner, path, b"x"),
        lambda: workspace.read(path),
        lambda: workspace.list(path),
    ):
        assert str(data_folder.data_dir) not in _error_message(attempt)


def _error_message(attempt: Callable[[], object]) -> str:
    """Return the error message of a call, or an empty string if it succeeds."""
    try:
        attempt()
    except PathError as refused:
        return refused.message
    return ""


# Quota


@given(st.lists(st.tuples(paths, st.integers(0, 40)), max_size=12))
@settings(max_examples=by_depth(50, 300))
def test_no_sequence_of_writes_exceeds_the_quota(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[str, int]]
) -> None:
    quota = Quota(total_bytes=100, files=8, file_bytes=30)
    here = DataFolder(tmp_path_factory.getbasetemp() / "quota", quota)
    owner, workspace = here.new()

    for path, size in writes:
        before = workspace.info()
        if _error_message(partial(workspace.write, owner, path, b"x" * size)):
            assert workspace.info() == before
        info = workspace.info()
        assert info.total_size <= quota.total_bytes
        assert info.file_count + info.dir_count <= quota.files


def test_replacing_a_file_counts_only_the_difference(tmp_path: Path) -> None:
    here = DataFolder(tmp_path, Quota(total_bytes=100, files=3, file_bytes=90))
    owner, workspace = here.new()
    workspace.write(owner, "a/b", b"x" * 60)

    workspace.write(owner, "a/b", b"y" * 90)

    with pytest.raises(QuotaExceeded, match="may hold 100 bytes, and would have 101"):
        workspace.write(owner, "c", b"x" * 11)
    workspace.write(owner, "c", b"x" * 10)
    with pytest.raises(QuotaExceeded, match="3 files and folders"):
        workspace.write(owner, "d", b"")
    with pytest.raises(QuotaExceeded, match="more than the 90 allowed"):
        workspace.write(owner, "c", b"x" * 91)
    assert workspace.info().total_size == 100


def test_refused_calls_leave_nothing_on_disk(tmp_path: Path) -> None:
    here = DataFolder(tmp_path, Quota(files=2))
    owner, workspace = here.new()
    workspace.write(owner, "file", b"x")
    before = here.snapshot()

    for number in range(20):
        with pytest.raises(WriteFailed):
            workspace.write(owner, f"file/{number}", b"x")
        with pytest.raises(QuotaExceeded):
            workspace.write(owner, f"other{number}/x", b"x")
        with pytest.raises(FileMissing):
            workspace.read(f"nothing{number}", owner)

    assert here.snapshot() == before


# Lost updates: agents can't overwrite content that they have not seen


def test_sibling_must_read_before_it_overwrites(tmp_path: Path) -> None:
    _, workspace = DataFolder(tmp_path).new()
    ada, bob = 100, 101
    workspace.write(ada, "plan", b"by Ada")

    with pytest.raises(
        ChangedSinceRead, match=r"^./plan was changed by another agent since you last read it. Read it again"
    ):
        workspace.write(bob, "./plan", b"by Bob")
    assert workspace.read("plan", bob).data == b"by Ada"
    workspace.write(bob, "plan", b"by Bob")

    with pytest.raises(ChangedSinceRead):
        workspace.write(ada, "plan", b"by Ada again")
    assert workspace.read("plan").data == b"by Bob"  # read by the user, who never writes
    with pytest.raises(ChangedSinceRead):
        workspace.write(ada, "plan", b"by Ada again")


def test_external_change_is_detected(tmp_path: Path) -> None:
    here = DataFolder(tmp_path)
    owner, workspace = here.new()
    workspace.write(owner, "plan", b"mine")
    (here.folder(owner) / "plan").write_bytes(b"the operator's")

    with pytest.raises(ChangedSinceRead):
        workspace.write(owner, "plan", b"mine again")

    (here.folder(owner) / "plan").unlink()
    assert workspace.write(owner, "plan", b"new").is_new


def test_stamps_are_persistent_and_a_damaged_one_requires_reading_again(tmp_path: Path) -> None:
    here = DataFolder(tmp_path)
    owner, workspace = here.new()
    workspace.write(owner, "plan", b"one")
    DataFolder(tmp_path).all.of(owner).write(owner, "plan", b"two")

    for stamp in (tmp_path / "workspace-stamps" / str(owner)).iterdir():
        stamp.write_text('{"sha256": "tor')

    with pytest.raises(ChangedSinceRead):
        workspace.write(owner, "plan", b"three")
    workspace.read("plan", owner)
    workspace.write(owner, "plan", b"three")


@settings(max_examples=by_depth(50, 300))
@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from("ab"), st.booleans()), max_size=20))
def test_siblings_never_overwrite_unseen_content(data_folder: DataFolder, steps: list[tuple[int, str, bool]]) -> None:
    _, workspace = data_folder.new()
    content: dict[str, bytes] = {}
    seen: dict[tuple[int, str], bytes] = {}

    for number, (member, path, is_write) in enumerate(steps):
        if is_write:
            data = str(number).encode()
            if path not in content or seen.get((member, path)) == content[path]:
                workspace.write(member, path, data)
                content[path] = seen[member, path] = data
            else:
                with pytest.raises(ChangedSinceRead):
                    workspace.write(member, path, data)
        elif path in content:
            seen[member, path] = workspace.read(path, member).data
            assert seen[member, path] == content[path]
        else:
            with pytest.raises(FileMissing):
                workspace.read(path, member)


def test_concurrent_threads_lose_no_update_and_respect_the_quota(tmp_path: Path) -> None:
    here = DataFolder(tmp_path, Quota(files=30))
    _, workspace = here.new()

    def work(member: int) -> int:
        made = 0
        for number in range(10):
            try:
                workspace.write(member, f"{member}/{number}", b"x")
                made += 1
            except QuotaExceeded:
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


def test_concurrent_writes_do_not_exceed_the_file_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, workspace = DataFolder(tmp_path, Quota(files=1)).new()
    both_have_checked = threading.Barrier(2)
    require_room = TaskWorkspace._require_room

    def check_and_wait(self: TaskWorkspace, parts: Parts, size: int) -> None:
        require_room(self, parts, size)
        with suppress(threading.BrokenBarrierError):  # expected: the other one waits for the lock
            both_have_checked.wait(0.3)

    monkeypatch.setattr(TaskWorkspace, "_require_room", check_and_wait)
    with ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda name: _error_message(partial(workspace.write, 1, name, b"x")), "ab")

    assert sorted(map(bool, done)) == [False, True]
    assert workspace.info().file_count == 1


def _append(workspace: TaskWorkspace, member: int) -> None:
    """Append a line to a shared file as an agent does: read, write, and retry if it was changed."""
    while True:
        try:
            old = workspace.read("log", member).data
        except FileMissing:
            old = b""
        try:
            workspace.write(member, "log", old + b"%d\n" % member)
        except (ChangedSinceRead, QuotaExceeded):
            continue
        return


_PROCESS = """
import sys
from pathlib import Path
from artel.task_workspaces.service import TaskWorkspaces
from tests.unit.test_task_workspace import _append
workspace = TaskWorkspaces(Path(sys.argv[1])).of(7)
for _ in range(20):
    _append(workspace, int(sys.argv[2]))
"""


def test_concurrent_processes_lose_no_update(tmp_path: Path) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", _PROCESS, str(tmp_path), str(member)], cwd=Path(__file__).parents[2])
        for member in (1, 2, 3)
    ]

    assert [process.wait(60) for process in running] == [0, 0, 0]

    lines = DataFolder(tmp_path).all.of(7).read("log").data.split()
    assert sorted(lines) == [b"1"] * 20 + [b"2"] * 20 + [b"3"] * 20


def test_lock_timeout_raises_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamps, "LOCK_SECONDS", 0.05)
    owner, workspace = DataFolder(tmp_path).new()
    workspace.write(owner, "a", b"x")
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with workspace._stamps.lock_workspace():
            held.set()
            done.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert held.wait(30)
        with pytest.raises(WorkspaceBusy):
            workspace.write(owner, "a", b"y")
    finally:
        done.set()
        holder.join(30)
    workspace.write(owner, "a", b"y")


# Removal and errors


def test_remove_deletes_everything_and_follows_no_link(tmp_path: Path) -> None:
    here = DataFolder(tmp_path / "data")
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


def test_folder_that_can_not_be_created_is_an_error_without_its_path(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    owner, workspace = DataFolder(tmp_path / "data").new()

    with pytest.raises(WriteFailed) as refused:
        workspace.write(owner, "plan", b"x")

    assert str(tmp_path) not in refused.value.message


def test_file_can_be_read_if_its_stamp_can_not_be_stored(tmp_path: Path) -> None:
    here = DataFolder(tmp_path)
    owner, workspace = here.new()
    (here.folder(owner)).mkdir(parents=True)
    (here.folder(owner) / "plan").write_bytes(b"x")
    (tmp_path / "workspace-stamps").write_text("a file where the folder should be")

    assert workspace.read("plan", owner).data == b"x"
