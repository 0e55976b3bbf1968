"""The difference between two contents, as it is shown to whoever decides."""

import difflib

MAX_LINES = 3_000  # to compare; more would take too long
MAX_CHARACTERS = 20_000  # to show


def diff(path: str, old: bytes | None, new: bytes) -> str:
    """Answer a unified diff, cut if it is long; of what is too long to compare, or no text, only how long it is."""
    before, after = _lines(old or b""), _lines(new)
    if before is None or after is None:
        was = "nothing" if old is None else f"{len(old)} bytes"
        return f"{path}: {was} before, {len(new)} bytes now; too long to compare, or no text\n"
    there = f"a/{path}" if old is not None else "/dev/null"
    text = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(before, after, there, f"b/{path}")
    )
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
