"""Undo and redo of agents' changes, file by file; files that were changed since are left alone."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from artel.connector.undo_store import Change, UndoStore
from artel.paths.beneath import Beneath, Rule, allow_all
from artel.paths.errors import FileMissing, PathError, WriteFailed

UndoOutcome = Literal["restored", "removed", "changed_since", "not_kept", "failed"]
OUTCOME_TEXTS: dict[UndoOutcome, str] = {
    "restored": "was put back",
    "removed": "was removed",
    "changed_since": "was changed since, and stays",
    "not_kept": "could not be kept, and stays",
}
REDO_TEXTS: dict[UndoOutcome, str] = {"restored": "has the agent's text again", "removed": "is deleted again"}


@dataclass(frozen=True, slots=True)
class UndoResult:
    """The outcome of an undo or redo for one file."""

    path: str
    turn: str
    outcome: UndoOutcome
    error: str | None = None
    is_again: bool = False  # whether it is a redo

    @property
    def text(self) -> str:
        text = (REDO_TEXTS.get(self.outcome) if self.is_again else None) or OUTCOME_TEXTS.get(self.outcome)
        return f"{self.path} {text or self.error}"


class Undo:
    """Undoes and redoes changes; the caller holds the state folder's change lock."""

    def __init__(self, files: Beneath, store: UndoStore, rule: Callable[[str], Rule] = lambda _: allow_all) -> None:
        self._files = files
        self._store = store
        self._rule = rule

    def undo(self, turn: str | None = None, path: str | None = None, *, again: bool = True) -> list[UndoResult]:
        """Undo a turn, the newest change of a file, or the newest turn; return each file's outcome."""
        return self.carry_out(self.find(turn, path, again=again))

    def redo(self, turn: str | None = None, path: str | None = None) -> list[UndoResult]:
        """Redo what was undone of a turn, of a file, or of the newest turn; return each file's outcome."""
        return self.carry_out(self.find_undone(turn, path))

    def find_undone(self, turn: str | None = None, path: str | None = None) -> list[Change]:
        """Return the changes to redo."""
        undone = [change for change in self._store.changes() if change.is_undone and path in (None, change.path)]
        turn = turn or next((change.turn for change in undone), None)
        return [change for change in undone if change.turn == turn]

    def find(self, turn: str | None = None, path: str | None = None, *, again: bool = True) -> list[Change]:
        """Return the changes to undo; with `again` those to redo if nothing can be undone."""
        changes = [change for change in self._store.changes() if path in (None, change.path)]
        if turn is None:
            turn = next((change.turn for change in changes if not change.is_undone), None)
        if turn is None and path is not None:
            turn = next((change.turn for change in changes), None)
        to_undo = [change for change in changes if change.turn == turn and not change.is_undone]
        undone = [change for change in changes if change.turn == turn and change.is_undone]
        return undone if again and undone and not any(map(self._is_untouched, to_undo)) else to_undo

    def carry_out(self, changes: list[Change], if_match: str | None = None) -> list[UndoResult]:
        """Undo changes, or redo those that are undone; return each file's outcome.

        A file that was changed since is left alone, unless it has the hash `if_match`.
        """
        undone = []
        for change in changes:
            try:
                outcome = self._swap(change, if_match)
                undone.append(UndoResult(change.path, change.turn, outcome, is_again=change.is_undone))
            except PathError as error:
                undone.append(UndoResult(change.path, change.turn, "failed", error.message))
        return undone

    def _is_untouched(self, change: Change) -> bool:
        """Return whether a file is still as the agent left it."""
        try:
            return (self._files.read(change.path, self._rule(change.path)).sha256 or "") in change.after
        except FileMissing:
            return "" in change.after
        except PathError:
            return False

    def contents(self, change: Change) -> tuple[bytes | None, bytes | None]:
        """Return a file's content now and the one that is put back, each None if there is no file.

        Raise WriteFailed if the earlier content was not stored.
        """
        now = None
        with suppress(FileMissing):
            now = self._files.read(change.path, self._rule(change.path)).data
        before = self._store.content(change.before) if change.before != "" else None
        if before is None and change.before != "":
            raise WriteFailed(f"The earlier content of {change.path} was not kept")
        return now, before

    def _swap(self, change: Change, if_match: str | None) -> UndoOutcome:
        rule = self._rule(change.path)
        now, mode = None, change.mode
        with suppress(FileMissing):
            read = self._files.read(change.path, rule)
            now, mode = read.data, read.mode
        current = self._store.put_content(now)
        if current not in change.after and current != if_match:
            return "changed_since"
        if change.before == "":
            if now is not None:
                self._files.delete(change.path, rule, if_match=current)
            outcome: UndoOutcome = "removed"
        else:
            content = self._store.content(change.before)
            if content is None:
                return "not_kept"
            self._files.write(change.path, content, rule, if_match=current, mode=change.mode)
            outcome = "restored"
        self._store.record_swap(replace(change, mode=mode), current)
        return outcome
