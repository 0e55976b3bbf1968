"""Carries out the calls that change files: write, edit, delete, undo and redo; and shows what an undo would change."""

import hashlib
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from artel.connector.decisions import Allowed, Decider, ProposedAction, Subject
from artel.connector.diffs import diff
from artel.connector.errors import CallRefused, Deadline
from artel.connector.grants import Grant, Grants, glob_for
from artel.connector.journal import Journal
from artel.connector.rules import Rules, WriteRule
from artel.connector.state_folder import StateFolder
from artel.connector.undo import Undo
from artel.connector.undo_store import Change, UndoStore
from artel.contract.connector import (
    DIFF_BYTES,
    Call,
    CallResult,
    CompareCall,
    DeleteCall,
    EditCall,
    RedoCall,
    UndoCall,
    WriteCall,
    lost_for_good,
)
from artel.paths.beneath import Beneath
from artel.paths.errors import FileChanged, FileMissing, PathError, WriteFailed
from artel.paths.policy import Parts, split_path

MAX_NAMED = 3  # files that the question about an undo names
NOTHING_TO_UNDO = "There is nothing to undo"


class _Old:
    """A file before it is changed; `sha256` is "" if there is no file, None if it is too big or can't be read.

    In the latter case it is neither shown nor stored for undo, and `unseen_bytes` is its size.
    """

    def __init__(self, files: Beneath, path: str, rule: WriteRule) -> None:
        self.content: bytes | None = None
        self.sha256: str | None = ""
        self.mode: int | None = None
        self.unseen_bytes: int | None = None
        try:
            read = files.read(path, rule)
            self.content, self.sha256, self.mode = read.data, read.sha256, read.mode
        except FileMissing:
            return
        except PathError:
            self.sha256 = None
            self.unseen_bytes = files.stat(path, rule).size

    def lost(self, verb: str) -> str:
        """Return the warning if replacing or deleting the file can't be undone, else ""."""
        return "" if self.unseen_bytes is None else lost_for_good(verb, self.unseen_bytes)


class FileWriter:
    """Carries out calls that change files, one at a time."""

    def __init__(
        self,
        state: StateFolder,
        files: Beneath,
        rules: Rules,
        decider: Decider,
        grants: Grants,
        journal: Journal,
        undo_store: UndoStore,
        diff_bytes: Callable[[], int] = lambda: DIFF_BYTES,
    ) -> None:
        """`diff_bytes` returns the size of a diff that the server accepts."""
        self._state = state
        self._files = files
        self._rules = rules
        self._decider = decider
        self._grants = grants
        self._journal = journal
        self._undo_store = undo_store
        self._diff_bytes = diff_bytes

    def carry_out(
        self, call: WriteCall | EditCall | DeleteCall | UndoCall | RedoCall, deadline: Deadline
    ) -> CallResult:
        """Carry out a call at most once: a repeated one gets the same result again."""
        with self._state.change_lock():
            earlier = self._journal.find_result(call)
            if earlier is not None:
                return earlier
            deadline.require()  # the lock may have taken all the time
            self._decider.require_not_read_only()
            match call:
                case WriteCall():
                    return self._replace(call, call.content, call.if_match, deadline, create_dirs=call.create_dirs)
                case EditCall():
                    return self._edit(call, deadline)
                case DeleteCall():
                    return self._delete(call, deadline)
                case UndoCall() | RedoCall():
                    return self._swap(call, deadline)

    def compare(self, call: CompareCall, deadline: Deadline) -> CallResult:
        """Return the diff from a file as it is now to what an undo puts back, and the hash of the file now."""
        with self._state.change_lock():
            deadline.require()
            undo = Undo(self._files, self._undo_store, self._rules.restoring)
            changes = undo.find(call.of_turn, "/".join(split_path(call.path)), again=False)
            if not changes:
                raise CallRefused("file_not_found", NOTHING_TO_UNDO)
            now, before = undo.contents(changes[0])
        shown = diff(changes[0].path, now, before or b"", most_bytes=self._diff_bytes())
        sha256 = "" if now is None else hashlib.sha256(now).hexdigest()
        return CallResult(success=True, diff=shown.text, notice=shown.notice or None, sha256=sha256)

    def _edit(self, call: EditCall, deadline: Deadline) -> CallResult:
        """Replace a text that occurs exactly once in a file."""
        content = self._files.read(call.path, self._rules.reading(call, call.path))
        if call.if_match is not None and call.if_match != content.sha256:
            raise FileChanged(call.path)
        try:
            text = content.data.decode()
        except UnicodeDecodeError:
            raise WriteFailed(f"{call.path} is not UTF-8 text") from None
        count = text.count(call.old) if call.old else 0
        if count != 1:
            raise CallRefused("not_unique", f"The text to replace occurs {count} times in {call.path}, not once")
        return self._replace(call, text.replace(call.old, call.new), content.sha256, deadline)

    def _delete(self, call: DeleteCall, deadline: Deadline) -> CallResult:
        """Delete a file that the user has approved to delete."""
        if call.approval is None:
            raise CallRefused("approval_needed", f"Deleting {call.path} needs the user's approval")
        rule = self._rules.writing(call, call.path, is_approved=True)
        self._files.require_writable(call.path, rule, if_match=call.if_match)
        if len(rule.names) > 1:
            raise CallRefused("refused", f"{call.path} is reached through a link. Use the path of the file itself")
        old = _Old(self._files, call.path, rule)
        if old.sha256 == "":
            raise FileMissing(call.path)
        shown = diff(call.path, old.content, b"", old.unseen_bytes, self._diff_bytes())
        subject, warning = Subject("delete", "/".join(split_path(call.path)), "", call.turn_id), old.lost("delete")
        self._decide(
            call,
            ProposedAction(subject, call.agent, shown.text, None, False, old.sha256, warning, shown.notice),
            must_confirm=True,
        )
        with self._journal.recording_failure(call):
            self._files.delete(
                call.path,
                rule.again,
                if_match=old.sha256 or None,
                before_delete=partial(self._before_change, call, old, "", deadline),
            )
        return _with_diff(self._journal.record_result(call, CallResult(success=True)), shown.text)

    def _swap(self, call: UndoCall | RedoCall, deadline: Deadline) -> CallResult:
        """Undo the changes of a turn, or redo them."""
        path = None if call.path is None else "/".join(split_path(call.path))
        undo = Undo(self._files, self._undo_store, self._rules.restoring)
        if isinstance(call, RedoCall):
            changes, if_match = undo.find_undone(call.of_turn, path), None
        else:
            changes, if_match = undo.find(call.of_turn, path, again=call.again), call.if_match
        if changes:
            self._decider.confirm(_swap_proposal(call, changes))
        deadline.require()
        self._journal.record_start(call)
        undone = undo.carry_out(changes, if_match)
        files = [{"path": file.path, "turn_id": file.turn, "outcome": file.outcome} for file in undone]
        failed = [file.text for file in undone if file.outcome not in ("restored", "removed")]
        outcome: dict[str, Any] = {"success": bool(undone) and not failed, "files": files}
        if not undone:
            nothing = "There is nothing to redo" if isinstance(call, RedoCall) else NOTHING_TO_UNDO
            outcome |= {"error": nothing, "code": "file_not_found"}
        elif failed:
            outcome |= {"error": "; ".join(failed), "code": "file_changed"}
        return self._journal.record_result(call, CallResult(**outcome))

    def _replace(
        self,
        call: WriteCall | EditCall,
        content: str,
        if_match: str | None,
        deadline: Deadline,
        *,
        create_dirs: bool = False,
    ) -> CallResult:
        """Check all rules, decide, and write a file; one that has this content already is not asked about."""
        path, data = call.path, content.encode()
        sha256 = hashlib.sha256(data).hexdigest()
        rule = self._rules.writing(call, path, is_approved=call.approval is not None)
        self._files.require_writable(path, rule, create_dirs=create_dirs, if_match=if_match)
        old = _Old(self._files, path, rule)
        if old.sha256 == sha256 and not rule.is_protected:
            entry = self._files.stat(path, rule.again)
            self._journal.record_start(call, sha256, rule.names[-1])
            unchanged = _written(entry.size, sha256, entry.modified, is_new=False, unchanged=True)
            return self._journal.record_result(call, unchanged)
        glob, warning = glob_for(rule.names[-1]), old.lost("replace")
        shown = diff(path, old.content, data, old.unseen_bytes, self._diff_bytes())
        offer = Grant("write", glob) if glob is not None and len(rule.names) == 1 and not warning else None
        subject = Subject("write", "/".join(split_path(path)), sha256, call.turn_id)
        granted = self._grants.for_write(rule.names)
        about = granted is not None, old.sha256, warning, shown.notice
        proposal = ProposedAction(subject, call.agent, shown.text, offer, *about)
        # For a protected file only an approval for exactly this call counts, no grant and no mode.
        allowed = self._decide(call, proposal, must_confirm=rule.is_protected)
        with self._journal.recording_failure(call):
            written = self._files.write(
                path,
                data,
                rule.again,
                create_dirs=create_dirs,
                if_match=old.sha256,
                before_temporary=partial(self._journal.record_temporary, call, sha256),
                before_replace=partial(self._before_change, call, old, sha256, deadline),
            )
        result = _written(written.size, written.sha256, written.modified, is_new=written.is_new)
        why: dict[str, str | None] = {}
        if allowed.is_unasked:  # because of a grant, or of the mode "yes"
            why = {"holds": granted[0], "grant": granted[1].text} if granted else {"holds": "yes"}
        return _with_diff(self._journal.record_result(call, result), shown.text, **why)

    def _decide(
        self, call: WriteCall | EditCall | DeleteCall, proposal: ProposedAction, *, must_confirm: bool
    ) -> Allowed:
        """Decide a change; raise FileChanged if the file differs from what the user was shown, wherever that was."""
        if not must_confirm:
            allowed = self._decider.decide(proposal, call.approval)
        elif call.approval is not None and not call.approval.is_for(proposal.old_sha256, proposal.subject.sha256):
            raise FileChanged(call.path)
        else:
            allowed = self._decider.confirm(proposal)
        if allowed.sha256 is not None and allowed.sha256 != proposal.old_sha256:
            raise FileChanged(call.path)
        return allowed

    def _before_change(
        self, call: Call, old: _Old, sha256: str, deadline: Deadline, parts: Parts, temporary: str | None = None
    ) -> None:
        """Store the old content, and record that the change is made now."""
        deadline.require()
        turn, path = call.turn_id or call.call_id, "/".join(parts)
        self._undo_store.record(turn, path, old.content, sha256, is_kept=old.sha256 is not None, mode=old.mode)
        self._journal.record_start(call, sha256, parts, temporary)


def _written(size: int, sha256: str, at: datetime, **more: bool) -> CallResult:
    return CallResult.model_validate(
        {"success": True, "size": size, "sha256": sha256, "timestamp": at.isoformat(), **more}
    )


def _with_diff(result: CallResult, diff: str, **why: str | None) -> CallResult:
    """Return a result for the server: the journal, which is small, has neither the diff nor why nobody was asked."""
    return result.model_copy(update={"diff": diff, **why})


def _swap_proposal(call: UndoCall | RedoCall, changes: list[Change]) -> ProposedAction:
    """Return the proposal to undo or redo exactly these changes."""
    is_redo = isinstance(call, RedoCall)
    remove, restore = ("delete again", "write again") if is_redo else ("remove", "put back")
    shown = "".join(f"{remove if change.before == '' else restore} {change.path}\n" for change in changes)
    states = "".join(f"{change.number} {change.before} {change.after}\n" for change in changes)
    if isinstance(call, UndoCall) and call.if_match is not None:
        shown, states = f"{shown}although it was changed since\n", f"{states}{call.if_match}\n"
    paths = sorted({change.path for change in changes})
    more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
    name = ", ".join(paths[:MAX_NAMED]) + more
    subject = Subject("redo" if is_redo else "undo", name, hashlib.sha256(states.encode()).hexdigest())
    return ProposedAction(subject, call.agent, shown, None, is_granted=False)
