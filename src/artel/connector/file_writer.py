"""Writing: files as a whole, a text in a file, removing a file, and taking all that back."""

import hashlib
from typing import Any

from artel.connector.deadline import Deadline
from artel.connector.decisions import Decider, Wanted
from artel.connector.diffs import diff
from artel.connector.errors import CallRefused
from artel.connector.file_reader import said
from artel.connector.grants import Grant, Grants, glob_for
from artel.connector.idempotency import Once
from artel.connector.questions import Subject
from artel.connector.rules import Rules, WriteRule
from artel.connector.state_folder import StateFolder
from artel.connector.undo import Undo
from artel.connector.undo_store import Change, UndoStore
from artel.contract.connector import Approval, Call, DeleteCall, EditCall, Result, UndoCall, WriteCall, lost_for_good
from artel.paths.beneath import Beneath
from artel.paths.errors import FileChanged, FileMissing, PathError, WriteFailed
from artel.paths.policy import Parts, split_path

MAX_NAMED = 3  # files that the question about an undo names in its first line


class _Old:
    """What a file is before it is changed; `sha256` is "" if it is not there, None if it is too big to be kept.

    A file that is too big, or can't be read, is neither shown nor kept for undo; `unseen_bytes` is its size.
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
        """Return what to tell the user if replacing or deleting the file can't be undone, else ""."""
        return "" if self.unseen_bytes is None else lost_for_good(verb, self.unseen_bytes)


class Writer:
    """Return the calls that change files, one at a time."""

    def __init__(
        self,
        state: StateFolder,
        files: Beneath,
        rules: Rules,
        decider: Decider,
        grants: Grants,
        once: Once,
        kept: UndoStore,
    ) -> None:
        self._state = state
        self._files = files
        self._rules = rules
        self._decider = decider
        self._grants = grants
        self._once = once
        self._kept = kept

    def write(self, call: WriteCall, deadline: Deadline) -> Result:
        """Replace a file, or make it."""
        with self._state.changing():
            earlier = self._once.earlier(call)
            if earlier is not None:
                return earlier
            return self._replace(call, call.path, call.content, call.if_match, deadline, create_dirs=call.create_dirs)

    def edit(self, call: EditCall, deadline: Deadline) -> Result:
        """Replace a text that is in a file exactly once."""
        with self._state.changing():
            earlier = self._once.earlier(call)
            if earlier is not None:
                return earlier
            self._decider.require_not_read_only()
            content = self._files.read(call.path, self._rules.reading(call, call.path))
            if call.if_match is not None and call.if_match != content.sha256:
                raise FileChanged(call.path)
            try:
                text = content.data.decode()
            except UnicodeDecodeError:
                raise WriteFailed(f"{call.path} is no text in UTF-8") from None
            times = text.count(call.old) if call.old else 0
            if times != 1:
                raise CallRefused("not_unique", f"The text to replace is in {call.path} {times} times, not once")
            return self._replace(call, call.path, text.replace(call.old, call.new), content.sha256, deadline)

    def delete(self, call: DeleteCall, deadline: Deadline) -> Result:
        """Remove a file that the user has agreed to lose."""
        with self._state.changing():
            earlier = self._once.earlier(call)
            if earlier is not None:
                return earlier
            self._decider.require_not_read_only()
            if call.approval is None:
                raise CallRefused("approval_needed", f"Deleting {call.path} needs an approval of the user's own")
            rule = self._rules.writing(call, call.path, is_approved=True)
            self._files.require_writable(call.path, rule, if_match=call.if_match)
            if len(rule.names) > 1:
                raise CallRefused("refused", f"{call.path} is reached through a link: name the file itself")
            old = _Old(self._files, call.path, rule)
            if old.sha256 == "":
                raise FileMissing(call.path)
            shown = diff(call.path, old.content, b"", old.unseen_bytes)
            subject = Subject("delete", "/".join(split_path(call.path)), "", call.turn_id)
            wanted = Wanted(subject, call.agent, shown.text, None, False, old.sha256, old.lost("delete"), shown.notice)
            self._confirm(call.approval, wanted, call.path)
            attempt = self._once.attempt(call, "")

            def before(parts: Parts) -> None:
                deadline.require()
                self._keep(call, parts, old, "")
                attempt.started(parts)

            def act() -> Result:
                self._files.delete(call.path, rule.again, if_match=old.sha256 or None, before=before)
                return Result(success=True)

            return self._once.carried_out(call, act)

    def undo(self, call: UndoCall, deadline: Deadline) -> Result:
        """Put back what a turn has changed."""
        with self._state.changing():
            earlier = self._once.earlier(call)
            if earlier is not None:
                return earlier
            self._decider.require_not_read_only()
            path = None if call.path is None else "/".join(split_path(call.path))
            undo = Undo(self._files, self._kept, self._rules.restoring)
            changes = undo.find(call.of_turn, path, again=call.again)
            if changes:
                self._decider.confirm(_undoing(call, changes))
            deadline.require()
            self._once.attempt(call).started()
            undone = undo.carry_out(changes)
            files = [{"path": one.path, "turn_id": one.turn, "outcome": one.outcome} for one in undone]
            failed = [one.words for one in undone if one.outcome not in ("restored", "removed")]
            outcome: dict[str, Any] = {"success": bool(undone) and not failed, "files": files}
            if not undone:
                outcome |= {"error": "There is nothing to undo", "code": "file_not_found"}
            elif failed:
                outcome |= {"error": "; ".join(failed), "code": "file_changed"}
            result = Result(**outcome)
            self._once.done(call, result)
            return result

    def _replace(
        self,
        call: Call,
        path: str,
        content: str,
        if_match: str | None,
        deadline: Deadline,
        *,
        create_dirs: bool = False,
    ) -> Result:
        """Write a file once everything that can be said against it was said."""
        self._decider.require_not_read_only()
        data = content.encode()
        sha256 = hashlib.sha256(data).hexdigest()
        rule = self._rules.writing(call, path, is_approved=call.approval is not None)
        self._files.require_writable(path, rule, create_dirs=create_dirs, if_match=if_match)
        old = _Old(self._files, path, rule)
        if old.sha256 == sha256 and not rule.is_protected:
            return self._unchanged(call, path, sha256, rule)
        wanted = self._wanted(call, path, data, sha256, rule, old)
        if rule.is_protected:  # then the approval is for this very call, and nothing else counts
            self._confirm(call.approval, wanted, path)
        else:
            seen = self._decider.decide(wanted, call.approval)
            if seen is not None and seen != old.sha256:
                raise FileChanged(path)
        attempt = self._once.attempt(call, sha256)

        def before(parts: Parts, temporary: str) -> None:
            deadline.require()
            self._keep(call, parts, old, sha256)
            attempt.started(parts, temporary)

        def act() -> Result:
            written = self._files.write(
                path,
                data,
                rule.again,
                create_dirs=create_dirs,
                if_match=old.sha256,
                making=attempt.making,
                before=before,
            )
            return Result(
                success=True,
                size=written.size,
                sha256=written.sha256,
                timestamp=said(written.modified),
                is_new=written.is_new,
            )

        return self._once.carried_out(call, act)

    def _unchanged(self, call: Call, path: str, sha256: str, rule: WriteRule) -> Result:
        """Record and return that the file already has this content: there is nothing to ask, to write or to undo."""
        about = self._files.stat(path, rule.again)
        self._once.attempt(call, sha256).started(rule.names[-1])
        result = Result(
            success=True,
            size=about.size,
            sha256=sha256,
            timestamp=said(about.modified),
            is_new=False,
            unchanged=True,
        )
        self._once.done(call, result)
        return result

    def _confirm(self, approval: Approval | None, wanted: Wanted, path: str) -> None:
        """Raise unless the file is what it was when the user approved this, on the server and maybe here."""
        if approval is not None and not approval.is_for(wanted.old_sha256, wanted.subject.sha256):
            raise FileChanged(path)
        seen = self._decider.confirm(wanted)
        if seen is not None and seen != wanted.old_sha256:
            raise FileChanged(path)

    def _wanted(self, call: Call, path: str, data: bytes, sha256: str, rule: WriteRule, old: _Old) -> Wanted:
        glob = glob_for(rule.names[-1])
        warning = old.lost("replace")
        shown = diff(path, old.content, data, old.unseen_bytes)
        offered = Grant("write", glob) if glob is not None and len(rule.names) == 1 and not warning else None
        return Wanted(
            Subject("write", "/".join(split_path(path)), sha256, call.turn_id),
            call.agent,
            shown.text,
            offered,
            self._grants.may_write(rule.names),
            old.sha256,
            warning,
            shown.notice,
        )

    def _keep(self, call: Call, parts: Parts, old: _Old, sha256: str) -> None:
        turn, path = call.turn_id or call.call_id, "/".join(parts)
        self._kept.keep(turn, path, old.content, sha256, is_kept=old.sha256 is not None, mode=old.mode)


def _undoing(call: UndoCall, changes: list[Change]) -> Wanted:
    """Return the question whether changes are to be undone: exactly these."""
    shown = "".join(f"{'remove' if change.before == '' else 'put back'} {change.path}\n" for change in changes)
    states = "".join(f"{change.number} {change.before} {change.after}\n" for change in changes)
    paths = sorted({change.path for change in changes})
    more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
    name = ", ".join(paths[:MAX_NAMED]) + more
    subject = Subject("undo", name, hashlib.sha256(states.encode()).hexdigest())
    return Wanted(subject, call.agent, shown, None, is_granted=False)
