"""What was typed before, to be found again with the arrow keys; kept in a file that only its owner can read."""

import os
from pathlib import Path
from typing import Self

MAX_LINES = 1000

try:
    import readline
except ImportError:  # not everywhere; lines can be typed without it
    readline = None  # type: ignore[assignment]


class LineHistory:
    """The history of `input()` while it is open; two chats at once both keep their lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = 0

    def __enter__(self) -> Self:
        if readline is not None:
            readline.clear_history()
            try:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(os.open(self._path, os.O_CREAT | os.O_RDONLY, 0o600))
                readline.read_history_file(self._path)
            except OSError:  # a history that can't be read is an empty one
                pass
            self._known = readline.get_current_history_length()
        return self

    def __exit__(self, *exit_details: object) -> None:
        if readline is not None:
            try:
                readline.set_history_length(MAX_LINES)
                readline.append_history_file(readline.get_current_history_length() - self._known, self._path)
                self._path.chmod(0o600)
            except (OSError, AttributeError):  # not every readline can append; nor is it worth an error when leaving
                pass
