"""One line at the bottom of a terminal that says what is being waited for, and is gone when something comes."""

import shutil
import sys
import threading
import time
from typing import TextIO

PATIENCE_SECONDS = 1.0
CLEAR = "\r\x1b[K"
BESIDE = 14  # what is shown beside the text: dots before it, seconds after it


class StatusLine:
    """Shows its text once nothing has come for a second; without a terminal it shows nothing."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()
        self._text = ""
        self._begun = 0.0
        self._drawn = ""
        self._wake = threading.Event()
        self.enabled = self._stream.isatty()
        if self.enabled:
            threading.Thread(target=self._run, name="status-line", daemon=True).start()

    def wait_for(self, text: str) -> None:
        """Show the text from now on, once a second has passed without anything."""
        with self._lock:
            if not self._text:
                self._begun = time.monotonic()
            self._text = text
        self._wake.set()

    def clear(self) -> None:
        """Take the line away, because something is printed."""
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
                seconds = time.monotonic() - self._begun
                line = f"{CLEAR}\x1b[2m… {_fitting(self._text)} ({seconds:.0f} s)\x1b[0m"
                if self._text and seconds >= PATIENCE_SECONDS and line != self._drawn:
                    self._write(line)
                    self._drawn = line
            time.sleep(0.2)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone; whoever prints next finds out
            return


def _fitting(text: str) -> str:
    """Return the text so that it stays one line, which is all that can be taken away."""
    most = max(BESIDE, shutil.get_terminal_size().columns - BESIDE)
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
