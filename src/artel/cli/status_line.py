"""A line at the bottom of a terminal that shows what is being waited for."""

import shutil
import sys
import threading
import time
from typing import TextIO

from artel.text import one_line

DELAY_SECONDS = 1.0
CLEAR = "\r\x1b[K"
RESERVED = 14  # columns for the dots before the text and the seconds after it


class StatusLine:
    """Shows its text after a second without output; shows nothing without a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()
        self._text = ""
        self._started = 0.0
        self._drawn = ""
        self._wake = threading.Event()
        self.enabled = self._stream.isatty()
        if self.enabled:
            threading.Thread(target=self._run, name="status-line", daemon=True).start()

    def wait_for(self, text: str) -> None:
        """Set the text, which is shown after a second without output."""
        with self._lock:
            if not self._text:
                self._started = time.monotonic()
            self._text = text
        self._wake.set()

    def clear(self) -> None:
        """Remove the line, before something is printed."""
        with self._lock:
            self._text = ""
            self._wake.clear()
            if self._drawn:
                self._write(CLEAR)
                self._drawn = ""

    def _run(self) -> None:
        while True:
            self._wake.wait()
            with self._lock:
                seconds = time.monotonic() - self._started
                line = f"{CLEAR}\x1b[2m… {_fitting(self._text)} ({seconds:.0f} s)\x1b[0m"
                if self._text and seconds >= DELAY_SECONDS and line != self._drawn:
                    self._write(line)
                    self._drawn = line
            time.sleep(0.2)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal was closed: the next print fails
            return


def _fitting(text: str) -> str:
    """Return the text cut to one line, because only one line can be removed."""
    return one_line(text, max(RESERVED, shutil.get_terminal_size().columns - RESERVED))
