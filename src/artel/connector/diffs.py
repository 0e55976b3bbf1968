"""Diffs as they are shown to the user who decides."""

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from artel.client.hidden_characters import count_hidden

MAX_LINES = 3_000  # to compare; more would take too long
MAX_CHARACTERS = 20_000  # to show


class Diff(NamedTuple):
    """A diff as it is shown; `notice` is about hidden characters in the part that is not shown, else ""."""

    text: str
    notice: str = ""


def diff(path: str, old: bytes | None, new: bytes, unseen_bytes: int | None = None) -> Diff:
    """Return a unified diff, cut if it is long; only the sizes if the contents are too long to compare or not text.

    `unseen_bytes` is the size of an old content that can't be read: then only the new content is shown.
    """
    before, after = _lines(old or b""), _lines(new)
    if after is not None and unseen_bytes is not None:
        header = [f"--- a/{path} ({unseen_bytes:,} bytes, not shown)\n", f"+++ b/{path}\n"]
        return _text(header + [f"+{line}" for line in after])
    if before is None or after is None:
        size = len(old) if old is not None else unseen_bytes
        was = "nothing" if size is None else f"{size} bytes"
        text = f"{path}: {was} before, {len(new)} bytes now; too long to compare, or no text\n"
        return Diff(text, _notice(new.decode(errors="replace")))
    there = f"a/{path}" if old is not None else "/dev/null"
    return _text(difflib.unified_diff(before, after, there, f"b/{path}"))


def _text(lines: Iterable[str]) -> Diff:
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    if len(text) <= MAX_CHARACTERS:
        return Diff(text)
    end = max(text.rfind("\n", 0, MAX_CHARACTERS), 0)
    cut = f"\n… cut, {len(text)} characters in all\n"
    return Diff(text[:end] + cut, _notice(text[end:]))


def _notice(text: str) -> str:
    counted = count_hidden("What is not shown", text)
    return f"{counted}." if counted else ""


def _lines(content: bytes) -> list[str] | None:
    try:
        # Not splitlines(): it also splits at characters that editors and compilers do not treat as line ends.
        lines = [f"{line}\n" for line in content.decode().split("\n")]
    except UnicodeDecodeError:
        return None
    last = lines.pop().removesuffix("\n")
    lines += [last] if last else []
    return lines if len(lines) <= MAX_LINES else None
