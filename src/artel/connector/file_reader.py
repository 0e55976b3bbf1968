"""Carries out `workspace/read`, `workspace/stat` and `workspace/list`."""

from collections.abc import Callable
from contextlib import suppress

from artel.connector.errors import CallRefused, Deadline
from artel.connector.rules import Rules
from artel.contract.connector import MAX_CONTENT_BYTES, CallResult, ListCall, ReadCall, StatCall
from artel.paths.beneath import Beneath, Content, Entry
from artel.paths.errors import PathError
from artel.paths.policy import matches, split_path

MAX_PATTERN = 1_000
PART_BYTES = 1_000_000  # chunk size for files that are too big to be read as a whole
MAX_SKIPPED_BYTES = 500_000_000
SNIFFED_BYTES = 8_000


class FileReader:
    """Carries out calls that read files and folders."""

    def __init__(self, files: Beneath, rules: Rules) -> None:
        self._files = files
        self._rules = rules

    def read(self, call: ReadCall, deadline: Deadline) -> CallResult:
        """Return a text file, or some of its lines."""
        rule = self._rules.reading(call, call.path)
        beginning = self._files.read(call.path, rule, most=SNIFFED_BYTES)
        if b"\0" in beginning.data:
            raise _binary(call.path, beginning)
        if beginning.size > MAX_CONTENT_BYTES:
            return self._part(call, beginning, deadline)
        content = self._files.read(call.path, rule)
        try:
            text = content.data.decode()
        except UnicodeDecodeError:
            raise _binary(call.path, content) from None
        if "\0" in text:
            raise _binary(call.path, content)
        lines = text.split("\n")
        total = len(lines) - (not lines[-1])  # a trailing newline does not start another line
        first = max(1, call.first_line or 1)
        most = total if call.lines is None else max(0, call.lines)
        is_whole = first == 1 and most >= total
        return CallResult(
            success=True,
            content=text if is_whole else "\n".join(lines[first - 1 : first - 1 + most]),
            size=content.size,
            sha256=content.sha256,
            modified=content.modified.isoformat(),
            first_line=first,
            total_lines=total,
            is_cut=not is_whole,
        )

    def stat(self, call: StatCall, _deadline: Deadline) -> CallResult:
        entry = self._files.stat(call.path, self._rules.reading(call, call.path, is_folder=True))
        result = CallResult(success=True, **_fields(entry))
        if call.with_sha256 and entry.type == "file":
            with suppress(PathError):  # for example too big
                sha256 = self._files.read(call.path, self._rules.reading(call, call.path)).sha256
                return result.model_copy(update={"sha256": sha256})
        return result

    def list(self, call: ListCall, deadline: Deadline) -> CallResult:
        """Return the files and folders in a folder, including targets of links.

        `left_out` are entries of other types (dangling or outside links, sockets), `unreadable` folders that can't be
        listed.
        """
        rule = self._rules.reading(call, call.path, is_folder=True)
        listing = self._files.list(
            call.path,
            rule,
            recursive=call.recursive,
            hidden=self._rules.hidden(deadline, recursive=call.recursive),
            keep=pattern_filter(call.path, call.pattern),
        )
        files: list[dict[str, str | int]] = []
        left_out: list[dict[str, str]] = []
        for entry in listing.entries:
            deadline.require()
            target = entry
            if entry.type == "link":
                with suppress(PathError):  # it leads out of the folder, is dangling or not readable
                    target = self._files.stat(entry.path, rule)
            if target.type in ("file", "directory"):
                files.append(_fields(target) | {"path": entry.path})
            else:
                left_out.append({"path": entry.path})
        unreadable = [{"path": path} for path in listing.unread]
        return CallResult(success=True, files=files, is_cut=listing.is_cut, left_out=left_out, unreadable=unreadable)

    def _part(self, call: ReadCall, beginning: Content, deadline: Deadline) -> CallResult:
        """Return as many lines as fit, from `first_line` on, of a file that is too big to be read as a whole."""
        first, offset = max(1, call.first_line or 1), 0
        rule, to_skip = self._rules.reading(call, call.path), first - 1
        while to_skip:
            deadline.require()
            chunk = self._files.read(call.path, rule, offset=offset, most=PART_BYTES).data
            newlines = chunk.count(b"\n")
            if not chunk or offset > MAX_SKIPPED_BYTES:
                raise CallRefused("read_failed", f"{call.path} is too big to find line {first} in it")
            if newlines < to_skip:
                to_skip, offset = to_skip - newlines, offset + len(chunk)
                continue
            rest = chunk.split(b"\n", to_skip)[-1]
            to_skip, offset = 0, offset + len(chunk) - len(rest)
        found = self._files.read(call.path, rule, offset=offset, most=PART_BYTES)
        whole_lines, newline, rest = found.data.rpartition(b"\n")
        data = whole_lines + newline or rest
        if call.lines is not None:
            data = b"\n".join(data.split(b"\n")[: max(0, call.lines)])
        if b"\0" in data:
            raise _binary(call.path, beginning)
        return CallResult(
            success=True,
            content=data.decode(errors="replace"),
            size=found.size,
            modified=found.modified.isoformat(),
            first_line=first,
            is_cut=True,
        )


def pattern_filter(folder: str, glob: str | None) -> Callable[[Entry], bool]:
    """Return a filter of entries by a glob, matched from the workspace or from the listed folder."""
    if glob is not None and len(glob) > MAX_PATTERN:
        raise CallRefused("failed", "The pattern is too long")
    depth = len(split_path(folder))

    def is_match(entry: Entry) -> bool:
        parts = tuple(entry.path.split("/"))
        return not glob or matches(parts, (glob,)) or matches(parts[depth:], (glob,))

    return is_match


def _fields(entry: Entry) -> dict[str, str | int]:
    return {"path": entry.path, "type": entry.type, "size": entry.size, "modified": entry.modified.isoformat()}


def _binary(path: str, content: Content) -> CallRefused:
    return CallRefused(
        "read_failed",
        f"{path} is a binary file of {content.size} bytes, not UTF-8 text",
        size=content.size,
        modified=content.modified.isoformat(),
        is_binary=True,
    )
