"""Lines that somebody types as answers to a question which may settle itself meanwhile."""

import os
import select
import sys
from collections import deque
from collections.abc import Callable

from artel.cli.visible_text import visible

LOOK_SECONDS = 2.0
MAX_BYTES = 4096  # a terminal gives no longer line


class Settled(Exception):
    """The question needs no answer any more."""


class NobodyAnswers(Exception):
    """The user has pressed Ctrl-D: somebody decides elsewhere."""


def can_ask() -> bool:
    """Return whether somebody is there who sees a question and can type an answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def is_smart_terminal() -> bool:
    """Return whether somebody sits at a terminal that can move its cursor and show styles."""
    is_dumb = os.environ.get("TERM", "dumb") in ("", "dumb", "unknown")
    return sys.stdin.isatty() and sys.stdout.isatty() and not is_dumb


class TypedLines:
    """Asks on standard error; looks now and then whether the question is still open."""

    def __init__(self, is_open: Callable[[], bool]) -> None:
        self._is_open = is_open
        self._lines: deque[str] = deque()
        _forget_what_was_typed()

    def ask(self, prompt: str) -> str:
        """Return the next line; raise Settled or NobodyAnswers if there won't be any."""
        try:
            sys.stderr.write(prompt)
            sys.stderr.flush()
            while not self._lines:
                self._wait()
        except (Settled, NobodyAnswers, KeyboardInterrupt):
            sys.stderr.write("\n")  # the line of the prompt is not ended by an answer
            raise
        return self._lines.popleft()

    def _wait(self) -> None:
        if select.select([sys.stdin], [], [], LOOK_SECONDS)[0]:
            data = os.read(sys.stdin.fileno(), MAX_BYTES)
            if not data:
                raise NobodyAnswers
            self._lines.extend(visible(line).strip() for line in data.decode(errors="replace").splitlines())
        elif not self._is_open():
            raise Settled


def _forget_what_was_typed() -> None:
    """Drop what was typed before there was a question: it is no answer to it."""
    import termios  # not on every system, and nobody needs it without a question

    termios.tcflush(sys.stdin, termios.TCIFLUSH)
