"""A pseudo-terminal for tests: press keys, read the screen."""

import fcntl
import os
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping
from typing import Self

from tests import running

CTRL_C, CTRL_D, UP = "\x03", "\x04", "\x1b[A"
ALT_ENTER, TAB = "\x1b\r", "\t"
WAIT_SECONDS = 60.0
SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*(?:[@-~]|$)|\][^\x07\x1b]*(?:\x07|\x1b\\|$)|[()][0-9A-B]?|[=>78]|$)")


class Terminal:
    """Runs `artel …` in a pseudo-terminal.

    A dumb terminal gets plain text. For others `raw` has the escape sequences; `screen` and `until` leave them out.
    """

    def __init__(
        self,
        *arguments: str,
        env: Mapping[str, str],
        term: str = "dumb",
        columns: int = 200,
        rows: int = 40,
        folder: str = "/",
    ) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        # This terminal does not answer cursor position requests.
        environment = {**env, "TERM": term, "PROMPT_TOOLKIT_NO_CPR": "1"}
        self._is_dumb = term == "dumb"
        assert running.nursery is not None, "terminals are for tests"
        self._process = running.nursery.fork(
            [running.ARTEL, *arguments], environment, (slave, slave, slave), in_terminal=True, folder=folder
        )
        os.close(slave)
        self._read_to = 0
        self._bytes = b""
        self.raw = ""

    @property
    def screen(self) -> str:
        """Everything printed so far, without escape sequences."""
        return self.raw if self._is_dumb else SEQUENCE.sub("", self.raw)

    @property
    def _unread(self) -> str:
        return self.screen[self._read_to :]

    def paste(self, text: str) -> None:
        """Paste a text in bracketed paste mode, with carriage returns as line ends."""
        pasted = text.replace("\n", "\r")
        self.press(f"\x1b[200~{pasted}\x1b[201~")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exit_details: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(5)
        os.close(self._master)

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def type(self, line: str) -> None:
        """Type a line and press Enter."""
        self.press(f"{line}\n")

    def until(self, text: str) -> str:
        """Wait until the text is printed; return the output since the last call, up to the end of the text."""
        deadline = time.monotonic() + WAIT_SECONDS
        while text not in self._unread:
            if not self._read(deadline):
                raise AssertionError(f"{text!r} did not come; the screen:\n{self.screen}")
        found = self._unread.split(text, 1)[0] + text
        self._read_to += len(found)
        return found

    def end(self, pressing: str = "") -> tuple[int, str]:
        """Wait until the command ends; return its exit code and the output since the last call.

        Keys are pressed again after five quiet seconds: `input` can miss a Ctrl-C when it is just starting.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        self.press(pressing)
        while self._process.poll() is None and time.monotonic() < deadline:
            if not self._read(min(deadline, time.monotonic() + 5)) and self._process.poll() is None:
                self.press(pressing)
        while self._read(time.monotonic() + 0.1):
            pass
        assert time.monotonic() < deadline, f"it did not end; the screen:\n{self.screen}"
        rest = self._unread
        self._read_to += len(rest)
        return self._process.wait(5), rest

    def _read(self, deadline: float) -> bool:
        """Read available output; return whether there may be more."""
        if not select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the command has ended and closed its terminal
            return False
        self._bytes += data
        self.raw = self._bytes.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)


def without_status(text: str) -> str:
    """Return the text of a screen without status lines."""
    return re.sub(r"(?:\r\x1b\[K|\x1b\[2m… [^\x1b]*\x1b\[0m)", "", text)
