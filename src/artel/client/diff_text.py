"""Diffs as they are shown to people: cut, with a notice about what is hidden in the part that is not shown."""

from typing import NamedTuple

from artel.client.hidden_characters import count_hidden


class Diff(NamedTuple):
    """A diff as it is shown; `notice` is about hidden characters in the part that is not shown, else ""."""

    text: str
    notice: str = ""


def cut_diff(text: str, most: int) -> Diff:
    """Return a diff cut after a line to at most so many characters."""
    if len(text) <= most:
        return Diff(text)
    end = max(text.rfind("\n", 0, most), 0)
    cut = f"\n… cut, {len(text)} characters in all\n"
    return Diff(text[:end] + cut, hidden_notice(text[end:]))


def hidden_notice(text: str) -> str:
    """Return a notice about hidden characters in a text that is not shown, "" if there are none."""
    counted = count_hidden("What is not shown", text)
    return f"{counted}." if counted else ""
