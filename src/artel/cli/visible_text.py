r"""Text of others for a terminal: characters that can't be seen are shown escaped, and nothing is left out.

A model, a file name or a file can hold characters that move the cursor, hide what follows, change the order in which
a line reads, or have no width. A terminal gets none of them: they are replaced by `\x9d`, `\u202e`, `\U000e0041`, so
that what a person reads and approves is what there is. The page does the same (`static/visible.js`).
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

# Control characters (C0, DEL, C1), line and paragraph separators, bidirectional controls, and everything that Unicode
# lets a program leave out of a rendered text (Default_Ignorable_Code_Point), a blank Braille sign, lone surrogates.
# static/visible.js has the same list.
HIDDEN = (
    "\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U00013440\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HIDDEN = re.compile(f"[{HIDDEN}]")
_EMOJI_STYLE = "\ufe0f"
MAX_NAMED = 5  # code points in an announcement


def visible(text: str, keep: str = "\n\t") -> str:
    r"""Return the text with its hidden characters escaped, but for those in `keep` (`keep=""` for a name or a path)."""
    return _HIDDEN.sub(lambda found: _shown(found, keep), text)


def one_line(text: str, most: int | None = None) -> str:
    """Return the text in one line, with its hidden characters escaped; cut to `most` characters."""
    line = " ".join(visible(text.replace("\r\n", "\n")).split())
    return line if most is None or len(line) <= most else f"{line[: most - 1].rstrip()}…"


def hidden_characters(text: str) -> list[str]:
    r"""Return the hidden characters of the text in their order; line ends (\n, \r\n) and tabs are none."""
    return list(_hidden(text))


def announcement(what: str, *texts: str) -> str:
    r"""Return a sentence for above texts with hidden characters ("The diff has 1 hidden character …"), else ""."""
    found = [character for text in texts for character in _hidden(text)]
    if not found:
        return ""
    names = list(dict.fromkeys(f"U+{ord(character):04X}" for character in found))
    named = ", ".join(names[:MAX_NAMED]) + (", …" if len(names) > MAX_NAMED else "")
    if len(found) == 1:
        return f"{what} has 1 hidden character ({named}); it is shown as {escaped(found[0])}."
    return f"{what} has {len(found)} hidden characters ({named}); they are shown as {escaped(found[0])}."


def escaped(character: str) -> str:
    r"""Return a character as Python writes it in a string: `\x9d`, `\u202e`, `\U000e0041`."""
    return character.encode("unicode_escape").decode()


def json_text(data: Any, indent: int | None = 2) -> str:
    """Return data as JSON that a terminal can be given: hidden characters are escaped as JSON does."""
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    return _HIDDEN.sub(lambda found: found[0] if found[0] == "\n" else json.dumps(found[0])[1:-1], text)


def _shown(found: re.Match[str], keep: str) -> str:
    return found[0] if found[0] in keep or _is_emoji_style(found) else escaped(found[0])


def _hidden(text: str) -> Iterator[str]:
    for found in _HIDDEN.finditer(text):
        ends_line = found[0] == "\r" and text[found.end() : found.end() + 1] == "\n"
        if not (found[0] in "\n\t" or ends_line or _is_emoji_style(found)):
            yield found[0]


def _is_emoji_style(found: re.Match[str]) -> bool:
    """Return whether the character only makes the symbol before it an emoji, as in most warning signs.

    The symbols of ASCII (`=`, `|`, `~` …) are never emoji: after one of them it would go unseen in code.
    """
    before = found.string[found.start() - 1 : found.start()]
    return found[0] == _EMOJI_STYLE and before > "\x7f" and unicodedata.category(before) in ("So", "Sm")
