"""Reading: files, or lines of them; folders; what is at a path."""

from contextlib import suppress
from datetime import datetime

from artel.connector.deadline import Deadline
from artel.connector.errors import CallRefused
from artel.connector.rules import Rules
from artel.contract.connector import MAX_CONTENT_BYTES, ListCall, ReadCall, Result, StatCall
from artel.paths.beneath import Beneath, Content, Entry, Rule
from artel.paths.errors import PathError
from artel.paths.policy import matches, split_path

MAX_PATTERN = 1_000
PART_BYTES = 1_000_000  # of a file that is too big to be read as a whole, and for each step through it
MAX_SKIPPED_BYTES = 500_000_000
SNIFFED_BYTES = 8_000


class Reader:
    """Return the calls that change nothing."""

    def __init__(self, files: Beneath, rules: Rules) -> None:
        self._files = files
        self._rules = rules

    def read(self, call: ReadCall, deadline: Deadline) -> Result:
        """Return a text file, or some of its lines."""
        rule = self._rules.reading(call, call.path)
        beginning = self._files.read(call.path, rule, most=SNIFFED_BYTES)
        if b"\0" in beginning.data:
            raise _binary(call.path, beginning)
        if beginning.size > MAX_CONTENT_BYTES:
            return self._part(call, beginning, deadline)
        content = self._files.read(call.path, rule)
        text = _text(call.path, content)
        lines = text.split("\n")
        total = len(lines) - (not lines[-1])  # what follows the last end of line is no line if it is nothing
        first = max(1, call.first_line or 1)
        most = total if call.lines is None else max(0, call.lines)
        is_whole = first == 1 and most >= total
        return Result(
            success=True,
            content=text if is_whole else "\n".join(lines[first - 1 : first - 1 + most]),
            size=content.size,
            sha256=content.sha256,
            modified=said(content.modified),
            first_line=first,
            total_lines=total,
            is_cut=not is_whole,
        )

    def stat(self, call: StatCall, _deadline: Deadline) -> Result:
        """Return what is at a path."""
        entry = self._files.stat(call.path, self._rules.reading(call, call.path, is_folder=True))
        result = Result(success=True, **described(entry))
        if call.with_sha256 and entry.type == "file":
            with suppress(PathError):  # too big, for one
                sha256 = self._files.read(call.path, self._rules.reading(call, call.path)).sha256
                return result.model_copy(update={"sha256": sha256})
        return result

    def list(self, call: ListCall, deadline: Deadline) -> Result:
        """Return what is in a folder: files and folders, also those that a link in it leads to.

        `left_out` names what is neither (a link that leads out or nowhere, a socket); `unreadable` are folders that
        could not be looked into.
        """
        rule = self._rules.reading(call, call.path, is_folder=True)
        listing = self._files.list(
            call.path,
            rule,
            recursive=call.recursive,
            hidden=self._rules.hidden(deadline, recursive=call.recursive),
            keep=Pattern(call.path, call.pattern),
        )
        files: list[dict[str, str | int]] = []
        left_out: list[dict[str, str]] = []
        for entry in listing.entries:
            deadline.require()
            target = self._target(entry, rule)
            if target.type in ("file", "directory"):
                files.append(described(target) | {"path": entry.path})
            else:
                left_out.append({"path": entry.path})
        unreadable = [{"path": path} for path in listing.unread]
        return Result(success=True, files=files, is_cut=listing.is_cut, left_out=left_out, unreadable=unreadable)

    def _target(self, entry: Entry, rule: Rule) -> Entry:
        """Return what a link leads to, if that is inside and may be read; else the entry as it is."""
        if entry.type == "link":
            with suppress(PathError):
                return self._files.stat(entry.path, rule)
        return entry

    def _part(self, call: ReadCall, beginning: Content, deadline: Deadline) -> Result:
        """Return lines of a file that is too big to be read as a whole: as many as fit, from the first asked for."""
        first, at = max(1, call.first_line or 1), 0
        rule, to_skip = self._rules.reading(call, call.path), first - 1
        while to_skip:
            deadline.require()
            chunk = self._files.read(call.path, rule, offset=at, most=PART_BYTES).data
            ends = chunk.count(b"\n")
            if not chunk or at > MAX_SKIPPED_BYTES:
                raise CallRefused("read_failed", f"{call.path} is too big to find line {first} in it")
            if ends < to_skip:
                to_skip, at = to_skip - ends, at + len(chunk)
                continue
            place = -1
            for _ in range(to_skip):
                place = chunk.index(b"\n", place + 1)
            to_skip, at = 0, at + place + 1
        found = self._files.read(call.path, rule, offset=at, most=PART_BYTES)
        whole_lines, newline, rest = found.data.rpartition(b"\n")
        data = whole_lines + newline or rest
        if call.lines is not None:
            data = b"\n".join(data.split(b"\n")[: max(0, call.lines)])
        if b"\0" in data:
            raise _binary(call.path, beginning)
        return Result(
            success=True,
            content=data.decode(errors="replace"),
            size=found.size,
            modified=said(found.modified),
            first_line=first,
            is_cut=True,
        )


class Pattern:
    """Says whether an entry has a name that a glob means; one with folders in it counts from the folder listed."""

    def __init__(self, folder: str, glob: str | None) -> None:
        if glob is not None and len(glob) > MAX_PATTERN:
            raise CallRefused("failed", "The pattern is too long")
        self._glob = glob
        self._depth = len(split_path(folder))

    def __call__(self, entry: Entry) -> bool:
        if not self._glob:
            return True
        parts = tuple(entry.path.split("/"))
        return matches(parts, (self._glob,)) or matches(parts[self._depth :], (self._glob,))


def said(moment: datetime) -> str:
    """Return a moment as it is sent."""
    return moment.isoformat()


def described(entry: Entry) -> dict[str, str | int]:
    """Return something in a folder as it is sent."""
    return {"path": entry.path, "type": entry.type, "size": entry.size, "modified": said(entry.modified)}


def _text(path: str, content: Content) -> str:
    try:
        if b"\0" not in content.data:
            return content.data.decode()
    except UnicodeDecodeError:
        pass
    raise _binary(path, content)


def _binary(path: str, content: Content) -> CallRefused:
    return CallRefused(
        "read_failed",
        f"{path} is a binary file of {content.size} bytes, no text in UTF-8",
        size=content.size,
        modified=said(content.modified),
        is_binary=True,
    )
