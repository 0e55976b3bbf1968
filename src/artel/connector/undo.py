"""Putting back what agents have changed, file by file, where nobody has touched the file since."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from artel.connector.undo_store import Change, UndoStore
from artel.paths.beneath import Beneath, Rule, everything
from artel.paths.errors import FileMissing, PathError

Outcome = Literal["restored", "removed", "changed_since", "not_kept", "failed"]
WORDS: dict[Outcome, str] = {
    "restored": "was put back",
    "removed": "was removed",
    "changed_since": "was changed since, and stays",
    "not_kept": "could not be kept, and stays",
}
AGAIN_WORDS: dict[Outcome, str] = {"restored": "has the agent's text again", "removed": "is deleted again"}


@dataclass(frozen=True, slots=True)
class Undone:
    """What became of a file."""

    path: str
    turn: str
    outcome: Outcome
    error: str | None = None
    is_again: bool = False  # what was undone before was done again

    @property
    def words(self) -> str:
        """Return the outcome in words."""
        words = (AGAIN_WORDS.get(self.outcome) if self.is_again else None) or WORDS.get(self.outcome)
        return f"{self.path} {words or self.error}"


class Undo:
    """Takes changes back; to be used while the state folder's lock is held."""

    def __init__(self, files: Beneath, store: UndoStore, rule: Callable[[str], Rule] = lambda _: everything) -> None:
        self._files = files
        self._store = store
        self._rule = rule

    def undo(self, turn: str | None = None, path: str | None = None, *, again: bool = True) -> list[Undone]:
        """Take back what a turn has done, or the newest change of a file, or the newest turn; answer file by file."""
        return self.carry_out(self.find(turn, path, again=again))

    def redo(self, turn: str | None = None, path: str | None = None) -> list[Undone]:
        """Do again what was undone of a turn, of a file, or of the newest turn; return the outcome of each file."""
        undone = [one for one in self._store.changes() if one.is_undone and path in (None, one.path)]
        turn = turn or next((one.turn for one in undone), None)
        return self.carry_out([one for one in undone if one.turn == turn])

    def find(self, turn: str | None = None, path: str | None = None, *, again: bool = True) -> list[Change]:
        """Return what is to be taken back; when nothing can be any more, with `again` what is to be done again."""
        changes = self._store.changes()
        if turn is None:
            turn = next((one.turn for one in changes if path in (None, one.path) and not one.is_undone), None)
        if turn is None and path is not None:
            turn = next((one.turn for one in changes if one.path == path), None)
        asked = [one for one in changes if one.turn == turn and path in (None, one.path)]
        to_undo, undone = [one for one in asked if not one.is_undone], [one for one in asked if one.is_undone]
        return undone if again and undone and not any(map(self._is_as_left, to_undo)) else to_undo

    def carry_out(self, changes: list[Change]) -> list[Undone]:
        """Take changes back, or do them again; answer file by file."""
        return [self._turn(change) for change in changes]

    def _is_as_left(self, change: Change) -> bool:
        try:
            return (self._files.read(change.path, self._rule(change.path)).sha256 or "") in change.after
        except FileMissing:
            return "" in change.after
        except PathError:
            return False

    def _turn(self, change: Change) -> Undone:
        try:
            return Undone(change.path, change.turn, self._put_back(change), is_again=change.is_undone)
        except PathError as error:
            return Undone(change.path, change.turn, "failed", error.message)

    def _put_back(self, change: Change) -> Outcome:
        rule = self._rule(change.path)
        now, mode = None, change.mode
        with suppress(FileMissing):
            read = self._files.read(change.path, rule)
            now, mode = read.data, read.mode
        current = self._store.hold(now)
        if current not in change.after:
            return "changed_since"
        if change.before == "":
            if now is not None:
                self._files.delete(change.path, rule, if_match=current)
            outcome: Outcome = "removed"
        else:
            content = self._store.content(change.before)
            if content is None:
                return "not_kept"
            self._files.write(change.path, content, rule, if_match=current, mode=change.mode)
            outcome = "restored"
        self._store.turned(replace(change, mode=mode), current)
        return outcome
