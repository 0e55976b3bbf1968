"""Diffs as they are sent to the server, and shown to the user who decides."""

import difflib
import json
import re
from collections.abc import Iterable, Iterator

from artel.client.diff_text import Diff, cut_diff, hidden_notice
from artel.contract.connector import DIFF_BYTES

MAX_COMPARED = 9_000_000  # lines before times lines after the change, without those that are the same at both ends
MAX_CHANGED_LINES = 50_000
CONTEXT_LINES = 3
_ESCAPED = 6  # bytes that a control character takes in JSON
_HUNK = re.compile(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


def diff(
    path: str, old: bytes | None, new: bytes, unseen_bytes: int | None = None, most_bytes: int = DIFF_BYTES
) -> Diff:
    """Return a unified diff, cut if it is long; only the sizes if the contents are too long to compare or not text.

    `unseen_bytes` is the size of an old content that can't be read: then only the new content is shown.
    """
    before, after = _lines(old or b""), _lines(new)
    if after is not None and unseen_bytes is not None:
        header = [f"--- a/{path} ({unseen_bytes:,} bytes, not shown)\n", f"+++ b/{path}\n"]
        return _text(header + [f"+{line}" for line in after], most_bytes)
    there = f"a/{path}" if old is not None else "/dev/null"
    lines = None if before is None or after is None else _compared(before, after, there, f"b/{path}")
    if lines is None:
        size = len(old) if old is not None else unseen_bytes
        was = "nothing" if size is None else f"{size} bytes"
        text = f"{path}: {was} before, {len(new)} bytes now; too long to compare, or no text\n"
        return Diff(text, hidden_notice(new.decode(errors="replace")))
    return _text(lines, most_bytes)


def _compared(before: list[str], after: list[str], there: str, here: str) -> Iterable[str] | None:
    """Return the lines of a unified diff; None if the changed parts are too long.

    Only what lies between the first and the last difference is compared: a small change of a long file is cheap.
    """
    shortest = min(len(before), len(after))
    first = next((number for number in range(shortest) if before[number] != after[number]), shortest)
    ends = range(1, shortest - first + 1)
    same_end = next((number - 1 for number in ends if before[-number] != after[-number]), len(ends))
    start, left = max(0, first - CONTEXT_LINES), max(0, same_end - CONTEXT_LINES)
    changed, changed_to = before[start : len(before) - left], after[start : len(after) - left]
    if len(changed) * len(changed_to) > MAX_COMPARED or max(len(changed), len(changed_to)) > MAX_CHANGED_LINES:
        return None
    return _moved(difflib.unified_diff(changed, changed_to, there, here, n=CONTEXT_LINES), start)


def _moved(lines: Iterable[str], start: int) -> Iterator[str]:
    """Yield the lines of a diff whose first line is line `start` of the file, counted from 0."""
    for number, line in enumerate(lines):
        is_header = number > 1 and line.startswith("@@")
        yield _HUNK.sub(lambda found: _hunk(found, start), line, count=1) if is_header else line


def _hunk(found: re.Match[str], start: int) -> str:
    old, new = int(found[1]) + start, int(found[3]) + start
    return f"@@ -{old}{found[2] or ''} +{new}{found[4] or ''} @@"


def _text(lines: Iterable[str], most_bytes: int) -> Diff:
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    most = len(text.encode()[:most_bytes].decode(errors="ignore"))
    if len(json.dumps(text[:most], ensure_ascii=False).encode()) > 2 * most_bytes:  # full of control characters
        most = most_bytes // _ESCAPED
    return cut_diff(text, most)


def _lines(content: bytes) -> list[str] | None:
    try:
        # Not splitlines(): it also splits at characters that editors and compilers do not treat as line ends.
        lines = [f"{line}\n" for line in content.decode().split("\n")]
    except UnicodeDecodeError:
        return None
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines
