"""Typed answers to a question that may be decided elsewhere at the same time."""

import os
import select
import sys
from collections import deque
from collections.abc import Callable

from artel.cli.visible_text import visible

POLL_SECONDS = 2.0
MAX_BYTES = 4096  # the longest line of a terminal


class Settled(Exception):
    """The question was decided elsewhere, or has expired."""


class InputClosed(Exception):
    """The user pressed Ctrl-D, to decide elsewhere."""


def can_ask() -> bool:
    """Return whether the user can see and answer a question here."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def is_smart_terminal() -> bool:
    """Return whether input and output are a terminal that can move its cursor and show styles."""
    is_dumb = os.environ.get("TERM", "dumb") in ("", "dumb", "unknown")
    return sys.stdin.isatty() and sys.stdout.isatty() and not is_dumb


class TypedLines:
    """Asks on standard error, and polls whether the question is still open."""

    def __init__(self, is_open: Callable[[], bool]) -> None:
        self._is_open = is_open
        self._lines: deque[str] = deque()
        _discard_typed()

    def ask(self, prompt: str) -> str:
        """Return the next line; raise Settled or InputClosed if there is none."""
        try:
            sys.stderr.write(prompt)
            sys.stderr.flush()
            while not self._lines:
                self._wait()
        except (Settled, InputClosed, KeyboardInterrupt):
            sys.stderr.write("\n")  # end the line of the prompt
            raise
        return self._lines.popleft()

    def _wait(self) -> None:
        if select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
            data = os.read(sys.stdin.fileno(), MAX_BYTES)
            if not data:
                raise InputClosed
            self._lines.extend(visible(line).strip() for line in data.decode(errors="replace").splitlines())
        elif not self._is_open():
            raise Settled


def _discard_typed() -> None:
    """Discard input that was typed before the question was shown."""
    import termios  # not available on every system

    termios.tcflush(sys.stdin, termios.TCIFLUSH)
