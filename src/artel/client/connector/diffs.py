"""The difference between two contents, as it is shown to whoever decides."""

import difflib
from collections.abc import Iterable

MAX_LINES = 3_000  # to compare; more would take too long
MAX_CHARACTERS = 20_000  # to show


def diff(path: str, old: bytes | None, new: bytes, unseen_bytes: int | None = None) -> str:
    """Answer a unified diff, cut if it is long; of what is too long to compare, or no text, only how long it is.

    `unseen_bytes` is the size of an old content that can't be read: then only the new one is shown.
    """
    before, after = _lines(old or b""), _lines(new)
    if after is not None and unseen_bytes is not None:
        header = [f"--- a/{path} ({unseen_bytes:,} bytes, not shown)\n", f"+++ b/{path}\n"]
        return _text(header + [f"+{line}" for line in after])
    if before is None or after is None:
        size = len(old) if old is not None else unseen_bytes
        was = "nothing" if size is None else f"{size} bytes"
        return f"{path}: {was} before, {len(new)} bytes now; too long to compare, or no text\n"
    there = f"a/{path}" if old is not None else "/dev/null"
    return _text(difflib.unified_diff(before, after, there, f"b/{path}"))


def _text(lines: Iterable[str]) -> str:
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    if len(text) > MAX_CHARACTERS:
        text = text[:MAX_CHARACTERS].rpartition("\n")[0] + f"\n… cut, {len(text)} characters in all\n"
    return text


def _lines(content: bytes) -> list[str] | None:
    try:
        # Not splitlines(): it also breaks at characters that editors and compilers take for part of a line.
        lines = [f"{line}\n" for line in content.decode().split("\n")]
    except UnicodeDecodeError:
        return None
    last = lines.pop().removesuffix("\n")
    lines += [last] if last else []
    return lines if len(lines) <= MAX_LINES else None
