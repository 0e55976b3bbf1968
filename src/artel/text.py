"""Cutting and checking of text."""

import re

# Control characters (C0, DEL, C1), line and paragraph separators, bidirectional controls, everything with the Unicode
# property Default_Ignorable_Code_Point, the blank Braille pattern, lone surrogates.
# web/src/state/visible.ts has the same list.
HIDDEN = (
    "\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U00013440\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
HIDDEN_PATTERN = re.compile(f"[{HIDDEN}]")


def shorten(text: str, most: int) -> str:
    """Return the text cut to `most` characters, the last one an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def one_line(text: str, most: int) -> str:
    """Return the text in one line, with every whitespace as a single space, cut to `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def is_encodable(text: str) -> bool:
    """Return whether the text can be encoded as UTF-8, that is, has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_storable(text: str) -> bool:
    """Return whether PostgreSQL can store the text, that is, it has neither NUL nor a lone surrogate."""
    return "\x00" not in text and is_encodable(text)


def encodable(text: str) -> str:
    """Replace lone surrogates, which a model or a client may send."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def storable(text: str) -> str:
    """Remove NUL and replace lone surrogates, which PostgreSQL can't store."""
    return encodable(text.replace("\x00", ""))
