"""Detection of invisible characters in texts."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

from artel.text import HIDDEN_PATTERN

_EMOJI_STYLE = "\ufe0f"
MAX_NAMED = 5  # code points named in a message


def hidden_characters(text: str) -> Iterator[str]:
    r"""Yield the hidden characters of the text in order; line ends (\n, \r\n) and tabs do not count."""
    for found in HIDDEN_PATTERN.finditer(text):
        ends_line = found[0] == "\r" and text[found.end() : found.end() + 1] == "\n"
        if not (found[0] in "\n\t" or ends_line or is_emoji_style(found)):
            yield found[0]


def count_hidden(what: str, *texts: str) -> str:
    """Return a count such as "The diff has 1 hidden character (U+202E)", or "" if there are none."""
    found = Counter(character for text in texts for character in hidden_characters(text))
    if not found:
        return ""
    names = [f"U+{ord(character):04X}" for character in found]
    count = found.total()
    named = ", ".join(names[:MAX_NAMED]) + (", …" if len(names) > MAX_NAMED else "")
    return f"{what} has {'1 hidden character' if count == 1 else f'{count} hidden characters'} ({named})"


def is_emoji_style(found: re.Match[str]) -> bool:
    """Return whether the character is a variation selector that makes the symbol before it an emoji.

    ASCII symbols (`=`, `|`, `~` …) are never emoji: after one of them it would be invisible in code.
    """
    before = found.string[found.start() - 1 : found.start()]
    return found[0] == _EMOJI_STYLE and before > "\x7f" and unicodedata.category(before) in ("So", "Sm")
