"""Undo restores exactly what agents changed, and never touches the user's own changes."""

import errno
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from artel.connector.undo import Undo
from artel.connector.undo_store import KEPT_SECONDS, UndoStore
from artel.paths.beneath import Beneath
from tests.depth import by_depth

NAMES = ("a", "b", "folder/c")


class Agent:
    """Writes as the connector does: the old content is stored first."""

    def __init__(self, folder: Path, store: UndoStore) -> None:
        (folder / "folder").mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.files = Beneath(folder)
        self.store = store

    def write(self, turn: str, name: str, content: bytes | None) -> None:
        now = self.snapshot().get(name)
        if content is None:
            if now is not None:
                self.files.delete(name, before_delete=lambda parts: self.store.record(turn, "/".join(parts), now, ""))
            return
        sha256 = self.store.put_content(content)
        self.files.write(
            name, content, before_replace=lambda parts, _: self.store.record(turn, "/".join(parts), now, sha256)
        )

    def snapshot(self) -> dict[str, bytes]:
        return {name: (self.folder / name).read_bytes() for name in NAMES if (self.folder / name).exists()}


class Undoing(RuleBasedStateMachine):
    """An agent, a user and undo in any order, compared with a model."""

    def __init__(self) -> None:
        super().__init__()
        self._temporary = tempfile.TemporaryDirectory()
        folder = Path(self._temporary.name)
        self._agent = Agent(folder / "work", UndoStore(folder / "undo"))
        self._turn = 0
        self._before: dict[str, bytes] = {}
        self._touched: dict[str, bytes | None] = {}  # what the running turn wrote last
        self._reload = folder / "undo"

    def teardown(self) -> None:
        self._agent.files.close()
        self._temporary.cleanup()

    @rule()
    def another_turn(self) -> None:
        self._turn += 1
        self._before, self._touched = self._agent.snapshot(), {}

    @rule(name=st.sampled_from(NAMES), content=st.none() | st.sampled_from([b"", b"1", b"22", b"333"]))
    def agent_writes(self, name: str, content: bytes | None) -> None:
        if not self._turn:
            self.another_turn()
        if content is None and name not in self._agent.snapshot():
            return
        self._agent.write(f"t{self._turn}", name, content)
        self._touched[name] = content

    @rule(name=st.sampled_from(NAMES), content=st.sampled_from([b"user 1", b"user 2"]))
    def user_writes(self, name: str, content: bytes) -> None:
        (self._agent.folder / name).write_bytes(content)

    @rule()
    def undo_and_redo_the_running_turn(self) -> None:
        now = self._agent.snapshot()
        mine = {name for name, content in self._touched.items() if now.get(name) == content}
        had_user = self._had_user(mine)
        undo = Undo(self._agent.files, UndoStore(self._reload))  # as another process does
        undo.undo(f"t{self._turn}")
        undone = self._agent.snapshot()

        for name in NAMES:
            if name not in mine:
                assert undone.get(name) == now.get(name), "the user's stays"
        if not had_user:
            assert {name: undone.get(name) for name in mine} == {name: self._before.get(name) for name in mine}
        if mine:
            undo.undo(f"t{self._turn}")
        assert self._agent.snapshot() == now

    def _had_user(self, names: set[str]) -> bool:
        """Return whether the user wrote to a file before the turn first did: then undo restores that."""
        changes = {change.path: change for change in self._agent.store.changes() if change.turn == f"t{self._turn}"}
        return any(self._agent.store.content(changes[name].before) in (b"user 1", b"user 2") for name in names)


Undoing.TestCase.settings = settings(max_examples=by_depth(50, 200), stateful_step_count=20, deadline=None)
test_undo_is_exact_and_can_be_undone = Undoing.TestCase


def test_undo_store_is_bounded_in_bytes_and_age(tmp_path: Path) -> None:
    now = 1000.0
    store = UndoStore(tmp_path / "undo", lambda: now, max_total_bytes=1000)
    agent = Agent(tmp_path / "work", store)
    for number in range(30):
        agent.write(f"t{number}", "a", bytes([number]) * 100)

    contents = [path for path in (tmp_path / "undo").iterdir() if path.name != "changes.jsonl"]

    assert [change.turn for change in store.changes()] == [f"t{number}" for number in range(29, 19, -1)]
    assert sum(path.stat().st_size for path in contents) <= 1200
    now += KEPT_SECONDS + 1
    agent.write("new", "a", b"new")
    assert [change.turn for change in store.changes()] == ["new"]
    agent.files.close()


def test_undo_without_a_stored_content_leaves_the_file(tmp_path: Path) -> None:
    store = UndoStore(tmp_path / "undo")
    agent = Agent(tmp_path / "work", store)
    agent.write("t1", "a", b"x")
    agent.write("t2", "b", b"y")
    store.record("t3", "a", None, store.put_content(b"x"), is_kept=False)

    undo = Undo(agent.files, store)

    assert [file.outcome for file in undo.undo("t3")] == ["not_kept"]
    assert [file.outcome for file in undo.undo()] == ["not_kept"]
    assert agent.snapshot() == {"a": b"x", "b": b"y"}
    assert [file.outcome for file in undo.undo("t2")] == ["removed"]
    agent.files.close()


def test_history_that_could_not_be_read_once_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Agent(tmp_path / "work", UndoStore(tmp_path / "undo")).write("t1", "a", b"1")
    store = UndoStore(tmp_path / "undo")

    def fail(_: Path) -> bytes:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", fail)
        with pytest.raises(OSError, match="too many"):
            store.changes()

    assert [change.path for change in store.changes()] == ["a"]
