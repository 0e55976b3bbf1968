"""Idempotency of writes, for any order of calls, repeats and crashes."""

import hashlib
import json
import tempfile
from contextlib import ExitStack
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
from artel.connector.journal import KEPT_SECONDS, IdempotentCalls, Journal, JournalEntry
from artel.connector.rules import Rules
from artel.connector.state_folder import StateFolder
from artel.connector.undo_store import UndoStore
from artel.contract.connector import CallResult, WriteCall
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

    def record_temporary(self, entry: JournalEntry, temporary: str) -> None:
        super().record_temporary(entry, temporary)
        self.crash.reached("made")

    def record_start(self, entry: JournalEntry, temporary: str | None = None) -> None:
        self.crash.reached("before_started")
        super().record_start(entry, temporary)
        self.crash.reached("started")

    def record_result(self, call_id: str, result: dict[str, Any]) -> None:
        self.crash.reached("before_done")
        super().record_result(call_id, result)
        self.crash.reached("done")


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
        journal = CrashingJournal(folder / "state" / "journal.jsonl")
        journal.crash = crash
        self._stack.callback(journal.close)
        calls, grants = IdempotentCalls(files, journal), Grants(folder / "state" / "grants.json")
        calls.remove_temporary_files()
        decider = Decider("yes", grants, lambda _: None, lambda _: None)
        undo_store = UndoStore(folder / "state" / "undo")
        self._writer = FileWriter(state, files, Rules(files), decider, grants, calls, undo_store)

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
            assert result.model_dump(exclude={"timestamp"}) == self._answers[number].model_dump(exclude={"timestamp"})
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


def entry(number: int) -> JournalEntry:
    return JournalEntry(f"id-{number}", "what", "path", hashlib.sha256(b"x").hexdigest())


def test_journal_drops_entries_after_a_day_and_not_before(tmp_path: Path) -> None:
    now = 1000.0
    journal = Journal(tmp_path / "journal", lambda: now)
    journal.record_start(entry(1))
    journal.record_result("id-1", {"success": True})
    now += KEPT_SECONDS - 1
    journal.record_start(entry(2))
    journal.close()

    before_expiry = Journal(tmp_path / "journal", lambda: now)
    assert before_expiry.find("id-1") is not None
    before_expiry.close()
    now += 2
    later = Journal(tmp_path / "journal", lambda: now)

    assert later.find("id-1") is None
    assert later.find("id-2") is not None
    assert later.find("id-3") is None
    later.close()


def test_journal_is_bounded_and_keeps_the_newest_entries(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", max_bytes=100_000)
    for number in range(3000):
        journal.record_start(entry(number))
        journal.record_result(f"id-{number}", {"success": True, "output": "x" * 200})
        assert (tmp_path / "journal").stat().st_size < 120_000

    assert journal.find("id-0") is None
    assert journal.find("id-2999") is not None
    journal.close()


@given(st.integers(0, 2000), st.binary(max_size=40))
def test_damaged_journal_is_read_as_far_as_possible(cut: int, garbage: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal")
        journal = Journal(path)
        for number in range(5):
            journal.record_start(entry(number))
            journal.record_result(f"id-{number}", {"success": True, "n": number})
        journal.close()
        whole = path.read_bytes()
        path.write_bytes(whole[:cut] + garbage)

        again = Journal(path)
        again.record_start(entry(9))
        again.close()
        last = Journal(path)

        for number in range(5):
            found = last.find(f"id-{number}")
            done = whole.find(json.dumps({"success": True, "n": number}).encode())
            if done >= 0 and cut > done + 60:
                assert found is not None
                assert found.result == {"success": True, "n": number}
        assert last.find("id-9") is not None
        last.close()


def test_temporary_files_are_listed_until_the_call_is_done(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.record_temporary(entry(1), "a/.artel-1.tmp")
    journal.record_temporary(entry(2), "a/.artel-2.tmp")
    journal.record_start(entry(2), "a/.artel-2.tmp")
    journal.record_temporary(entry(3), "a/.artel-3.tmp")
    journal.record_start(entry(3), "a/.artel-3.tmp")
    journal.record_result("id-3", {"success": True})
    journal.close()

    again = Journal(tmp_path / "journal")

    assert again.temporary_files() == ["a/.artel-1.tmp", "a/.artel-2.tmp"]
    assert again.find("id-1") is None
    again.forget_temporary_files()
    assert again.temporary_files() == []
    assert again.find("id-2") is not None
    again.close()


def test_journal_raises_if_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    journal = Journal(tmp_path / "journal")
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[: len(data) // 2]))
    with pytest.raises(OSError, match="No space"):
        journal.record_start(entry(1))
    monkeypatch.undo()

    assert journal.find("id-1") is None
    journal.record_start(entry(2))
    journal.close()
    again = Journal(tmp_path / "journal")
    assert again.find("id-1") is None
    assert again.find("id-2") is not None
    again.close()
