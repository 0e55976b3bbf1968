r"""Untrusted text in a terminal: hidden characters are shown escaped, nothing is dropped.

Text of models, file names and files can contain characters that move the cursor, hide text, reverse its direction, or
have no width. They are replaced by `\x9d`, `\u202e`, `\U000e0041`, so that the user reads and approves the actual text.
The page does the same (`static/visible.js`).
"""

import json
import re
from typing import Any

from artel.client.hidden_characters import HIDDEN_PATTERN, count_hidden, hidden_characters, is_emoji_style
from artel.text import one_line as in_one_line


def visible(text: str, keep: str = "\n\t") -> str:
    r"""Return the text with hidden characters escaped, except those in `keep` (`keep=""` for a name or a path)."""
    return HIDDEN_PATTERN.sub(lambda found: _shown(found, keep), text)


def one_line(text: str, most: int | None = None) -> str:
    """Return the text in one line with hidden characters escaped, cut to `most` characters."""
    shown = visible(text.replace("\r\n", "\n"))
    return in_one_line(shown, len(shown) if most is None else most)


def announcement(what: str, *texts: str) -> str:
    r"""Return a warning to print above texts with hidden characters ("The diff has 1 hidden character …"), else ""."""
    counted = count_hidden(what, *texts)
    if not counted:
        return ""
    found = next(character for text in texts for character in hidden_characters(text))
    are = "it is" if " has 1 hidden character (" in counted else "they are"
    return f"{counted}; {are} shown as {escaped(found)}."


def escaped(character: str) -> str:
    r"""Return a character as a Python escape: `\x9d`, `\u202e`, `\U000e0041`."""
    return character.encode("unicode_escape").decode()


def json_text(data: Any, indent: int | None = 2) -> str:
    """Return data as JSON with hidden characters escaped."""
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    return HIDDEN_PATTERN.sub(lambda found: found[0] if found[0] == "\n" else json.dumps(found[0])[1:-1], text)


def _shown(found: re.Match[str], keep: str) -> str:
    return found[0] if found[0] in keep or is_emoji_style(found) else escaped(found[0])
