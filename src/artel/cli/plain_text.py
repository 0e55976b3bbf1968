"""Text of others, made safe for a terminal: what moves the cursor, paints, or sets the title is left out."""

import re

# C0 but for newline and tab, DEL, C1, and the marks that make text read in another order than it is written in.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_STRING_BEGINNINGS = frozenset("P]X^_")
_C1 = {"\x9b": "[", "\x90": "P", "\x9d": "]", "\x98": "X", "\x9e": "^", "\x9f": "_"}


class PlainText:
    """Strips control characters and whole escape sequences from text that comes in pieces."""

    def __init__(self) -> None:
        self._state = ""  # what a sequence that is not over yet began with

    def feed(self, text: str) -> str:
        """Answer what may be shown of the next piece."""
        if not self._state and not _UNSAFE.search(text):
            return text
        return "".join(character for character in text if self._shown(character))

    def _shown(self, character: str) -> bool:
        if character in _C1:
            self._state = _C1[character]
            return False
        if character == "\x1b":
            self._state = "\x1b"
            return False
        if self._state and not self._ends_by(character):
            return False
        return not _UNSAFE.match(character)

    def _ends_by(self, character: str) -> bool:
        """Move on in the sequence; say whether the character is no part of it."""
        if character == "\n" or (self._state not in _STRING_BEGINNINGS and not " " <= character <= "~"):
            self._state = ""  # sequences that are broken off, or never end, eat no more than their line
            return True
        if self._state in _STRING_BEGINNINGS:
            if character in "\x07\x9c":
                self._state = ""
        elif self._state == "[":
            if character >= "@":
                self._state = ""
        elif self._state == "\x1b" and (character == "[" or character in _STRING_BEGINNINGS):
            self._state = character
        elif character >= "0":
            self._state = ""
        return False


def plain(text: str) -> str:
    """Answer a whole text as it may be shown."""
    return PlainText().feed(text)
