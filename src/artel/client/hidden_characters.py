"""Detection of invisible characters in texts."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

# Control characters (C0, DEL, C1), line and paragraph separators, bidirectional controls, everything with the Unicode
# property Default_Ignorable_Code_Point, the blank Braille pattern, lone surrogates.
# web/src/state/visible.ts has the same list.
HIDDEN = (
    "\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U00013440\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
HIDDEN_PATTERN = re.compile(f"[{HIDDEN}]")
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
