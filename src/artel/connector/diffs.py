"""The difference between two contents, as it is shown to whoever decides."""

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from artel.client.hidden_characters import count_hidden

MAX_LINES = 3_000  # to compare; more would take too long
MAX_CHARACTERS = 20_000  # to show


class Diff(NamedTuple):
    """A diff as it is shown; `notice` says which hidden characters are in what is not shown, "" if none are."""

    text: str
    notice: str = ""


def diff(path: str, old: bytes | None, new: bytes, unseen_bytes: int | None = None) -> Diff:
    """Return a unified diff, cut if it is long; of what is too long to compare, or no text, only how long it is.

    `unseen_bytes` is the size of an old content that can't be read: then only the new one is shown.
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
        # Not splitlines(): it also breaks at characters that editors and compilers take for part of a line.
        lines = [f"{line}\n" for line in content.decode().split("\n")]
    except UnicodeDecodeError:
        return None
    last = lines.pop().removesuffix("\n")
    lines += [last] if last else []
    return lines if len(lines) <= MAX_LINES else None
