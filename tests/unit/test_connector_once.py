"""Idempotency of writes, for any order of calls, repeats and crashes."""

import hashlib
import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from artel.connector.decisions import Decider
from artel.connector.errors import CallRefused, Deadline
from artel.connector.file_writer import FileWriter
from artel.connector.grants import Grants
from artel.connector.journal import KEPT_SECONDS, MAX_BYTES, Journal, fingerprint
from artel.connector.rules import Rules
from artel.connector.state_folder import StateFolder
from artel.connector.undo_store import UndoStore
from artel.contract.connector import Call, CallResult, WriteCall
from artel.paths.beneath import Beneath, Written
from tests.depth import by_depth

POINTS = ("made", "before_started", "started", "renamed", "before_done", "done")


class Crash(BaseException):
    """The process ends here."""


class CrashPoint:
    """The point at which the next crash happens."""

    def __init__(self) -> None:
        self.point: str | None = None

    def reached(self, point: str) -> None:
        if self.point == point:
            self.point = None
            raise Crash


class CrashingJournal(Journal):
    crash: CrashPoint

    def record_temporary(self, *change: Any) -> None:
        super().record_temporary(*change)
        self.crash.reached("made")

    def record_start(self, *change: Any) -> None:
        self.crash.reached("before_started")
        super().record_start(*change)
        self.crash.reached("started")

    def record_result(self, call: Call, result: CallResult) -> CallResult:
        self.crash.reached("before_done")
        recorded = super().record_result(call, result)
        self.crash.reached("done")
        return recorded


class CountedFiles(Beneath):
    crash: CrashPoint
    written: list[bytes]

    def write(self, path: str, data: bytes, *args: Any, **options: Any) -> Written:
        written = super().write(path, data, *args, **options)
        self.written.append(data)
        self.crash.reached("renamed")
        return written


class Process:
    """The part of a connector that writes, from its start to a crash."""

    def __init__(self, folder: Path, crash: CrashPoint, written: list[bytes]) -> None:
        self._stack = ExitStack()
        state = StateFolder(folder / "state", "c", "s", 1, folder / "work")
        files = self._stack.enter_context(CountedFiles(folder / "work"))
        files.crash, files.written = crash, written
        journal = CrashingJournal(folder / "state" / "journal.jsonl", files)
        journal.crash = crash
        self._stack.callback(journal.close)
        grants = Grants(folder / "state" / "grants.json")
        journal.remove_temporary_files()
        decider = Decider("yes", grants, lambda _: None, lambda _: None)
        undo_store = UndoStore(folder / "state" / "undo")
        self._writer = FileWriter(state, files, Rules(files), decider, grants, journal, undo_store)

    def write(self, call: WriteCall) -> CallResult:
        try:
            return self._writer.carry_out(call, Deadline(60))
        except CallRefused as refused:
            return CallResult(success=False, code=refused.code, error=refused.message)

    def end(self) -> None:
        self._stack.close()


class AtMostOnce(RuleBasedStateMachine):
    """Five calls to two files, each repeated at will, with a user who changes the files, and crashes at every point."""

    def __init__(self) -> None:
        super().__init__()
        self._temporary = tempfile.TemporaryDirectory()
        self._folder = Path(self._temporary.name)
        for name in ("work", "state"):
            (self._folder / name).mkdir()
        self._crash, self._written = CrashPoint(), list[bytes]()
        self._process = Process(self._folder, self._crash, self._written)
        self._answers: dict[int, CallResult] = {}
        self._already_there: set[int] = set()  # calls whose text the user had written before

    def teardown(self) -> None:
        self._process.end()
        self._temporary.cleanup()

    @rule(number=st.integers(0, 4), point=st.none() | st.sampled_from(POINTS))
    def call(self, number: int, point: str | None) -> None:
        self._crash.point = point
        call = WriteCall(
            call_id=f"call-{number}",
            user_id=1,
            timeout_ms=1000,
            path=f"file-{number % 2}",
            content=f"written by {number}",
            turn_id="t",
        )
        file = self._folder / "work" / call.path
        if file.exists() and file.read_text() == call.content:
            self._already_there.add(number)
        try:
            result = self._process.write(call)
        except Crash:
            self._process.end()
            self._process = Process(self._folder, self._crash, self._written)
            return
        finally:
            self._crash.point = None
        if number in self._answers:
            again, first = (
                answer.model_dump(exclude={"timestamp", "diff", "holds", "grant"})  # which the journal does not keep
                for answer in (result, self._answers[number])
            )
            assert again == first
        elif result.success:
            assert number in self._already_there or call.content.encode() in self._written
            self._answers[number] = result
        else:
            assert result.code == "unknown"

    @rule(number=st.integers(0, 1), content=st.sampled_from(["the user's", "written by 0", "written by 3", ""]))
    def user_writes(self, number: int, content: str) -> None:
        (self._folder / "work" / f"file-{number}").write_text(content)

    @invariant()
    def no_call_has_written_twice(self) -> None:
        assert len(self._written) == len(set(self._written))

    @invariant()
    def no_temporary_files_are_left(self) -> None:
        assert {path.name for path in (self._folder / "work").iterdir()} <= {"file-0", "file-1"}


AtMostOnce.TestCase.settings = settings(max_examples=by_depth(50, 200), stateful_step_count=25, deadline=None)
test_call_writes_at_most_once = AtMostOnce.TestCase


DONE = CallResult(success=True)


def a_call(number: int) -> WriteCall:
    return WriteCall(call_id=f"id-{number}", user_id=1, timeout_ms=1000, path="path", content="x")


class Record:
    """A journal in a folder, and the files whose changes it records."""

    def __init__(self, folder: Path) -> None:
        self.work, self.path = folder / "work", folder / "journal"
        self.work.mkdir(exist_ok=True)
        self.now = 1000.0

    @contextmanager
    def open(self, max_bytes: int = MAX_BYTES) -> Iterator[Journal]:
        with Beneath(self.work) as files:
            journal = Journal(self.path, files, lambda: self.now, max_bytes)
            yield journal
            journal.close()


def start(journal: Journal, number: int, temporary: str | None = None) -> None:
    sha256 = hashlib.sha256(b"x").hexdigest()
    if temporary is not None:
        journal.record_temporary(a_call(number), sha256, ("path",), temporary)
    journal.record_start(a_call(number), sha256, ("path",), temporary)


def is_known(journal: Journal, number: int) -> bool:
    """Return whether a call was started before; then it is not carried out again."""
    try:
        return journal.find_result(a_call(number)) is not None
    except CallRefused as refused:
        return refused.code == "unknown"


def test_journal_drops_entries_after_a_day_and_not_before(tmp_path: Path) -> None:
    record = Record(tmp_path)
    with record.open() as journal:
        start(journal, 1)
        journal.record_result(a_call(1), DONE)
        record.now += KEPT_SECONDS - 1
        start(journal, 2)

    with record.open() as before_expiry:
        assert is_known(before_expiry, 1)
    record.now += 2
    with record.open() as later:
        assert not is_known(later, 1)
        assert is_known(later, 2)
        assert not is_known(later, 3)


def test_journal_is_bounded_and_keeps_the_newest_entries(tmp_path: Path) -> None:
    record = Record(tmp_path)
    large = CallResult.model_validate({"success": True, "output": "x" * 200})
    with record.open(max_bytes=100_000) as journal:
        for number in range(3000):
            start(journal, number)
            journal.record_result(a_call(number), large)
            assert record.path.stat().st_size < 120_000

        assert not is_known(journal, 0)
        assert is_known(journal, 2999)


@given(st.integers(0, 2000), st.binary(max_size=40))
def test_damaged_journal_is_read_as_far_as_possible(cut: int, garbage: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        record = Record(Path(folder))
        with record.open() as journal:
            for number in range(5):
                start(journal, number)
                journal.record_result(a_call(number), CallResult.model_validate({"success": True, "n": number}))
        whole = record.path.read_bytes()
        record.path.write_bytes(whole[:cut] + garbage)

        with record.open() as again:
            start(again, 9)
        with record.open() as last:
            for number in range(5):
                done = whole.find(json.dumps({"success": True, "n": number}).encode())
                if done >= 0 and cut > done + 60:
                    found = last.find_result(a_call(number))
                    assert found is not None
                    assert found.model_extra == {"n": number}
            assert is_known(last, 9)


def test_temporary_files_are_removed_unless_the_call_is_done(tmp_path: Path) -> None:
    record, names = Record(tmp_path), [f".artel-{number}.tmp" for number in (1, 2, 3)]
    with record.open() as journal:
        journal.record_temporary(a_call(1), "", ("path",), names[0])
        start(journal, 2, names[1])
        start(journal, 3, names[2])
        journal.record_result(a_call(3), DONE)
    for name in names:
        (record.work / name).write_text("x")

    with record.open() as again:
        again.remove_temporary_files()

    assert [path.name for path in record.work.iterdir()] == [names[2]]
    for name in names[:2]:
        (record.work / name).write_text("the user's own file, with the name of one that was removed")
    with record.open() as last:
        last.remove_temporary_files()
        assert not is_known(last, 1)
        assert is_known(last, 2)
    assert len(list(record.work.iterdir())) == 3


def test_journal_raises_if_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    record = Record(tmp_path)
    with record.open() as journal:
        write = os.write
        monkeypatch.setattr(os, "write", lambda file, data: write(file, data[: len(data) // 2]))
        with pytest.raises(OSError, match="No space"):
            start(journal, 1)
        monkeypatch.undo()

        assert not is_known(journal, 1)
        start(journal, 2)
    with record.open() as again:
        assert not is_known(again, 1)
        assert is_known(again, 2)


def test_journal_is_read_from_and_written_for_an_earlier_version(tmp_path: Path) -> None:
    call = WriteCall(call_id="1", user_id=1, timeout_ms=1000, path="a.py", content="x")
    entry = {"call_id": "1", "what": fingerprint(call), "is_started": True, "result": {"success": True}, "at": 1.0}
    path = tmp_path / "journal.jsonl"
    path.write_text(json.dumps(entry) + "\n")
    with Beneath(tmp_path) as files:
        journal = Journal(path, files, clock=lambda: 2.0)
        result = journal.find_result(call)
        journal.close()
    assert result is not None
    assert result.success
    [rewritten] = [json.loads(line) for line in path.read_text().splitlines() if line]
    assert rewritten == entry | {"path": ""}
