"""Commands that the user has named: exactly these, without a shell and without arguments of anybody else's."""

import hashlib
import io
import os
import re
import selectors
import shlex
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from artel.connector.deadline import Deadline
from artel.connector.decisions import Decider, Wanted
from artel.connector.errors import CallRefused
from artel.connector.grants import Grant, Grants
from artel.connector.idempotency import Once
from artel.connector.questions import Subject
from artel.connector.state_folder import StateFolder
from artel.contract.connector import Result, RunCall
from artel.errors import ConfigurationInvalid
from artel.paths.beneath import Beneath

MAX_COMMANDS = 50
MAX_AT_ONCE = 2
HEAD_BYTES, TAIL_BYTES = 16_000, 48_000  # the end of an output says more than its beginning
SPARE_SECONDS = 0.5  # of the call's time, to send what came
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
# What programs need to work; everything else stays with the user, above all what opens doors.
_PASSED_ON = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "SSL_CERT_FILE"}
)


@dataclass(frozen=True, slots=True)
class NamedCommand:
    """A command and the name that agents call it by."""

    name: str
    words: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "NamedCommand":
        """Read `name='command with words'`."""
        name, equals, command = text.partition("=")
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise ConfigurationInvalid(f"--run {text}: {error}") from None
        if not equals or not _NAME.fullmatch(name) or not words:
            raise ConfigurationInvalid(f"--run {text}: say it as NAME='command', such as test='pytest -q'")
        return cls(name, words)

    @property
    def line(self) -> str:
        """The command as one would type it."""
        return shlex.join(self.words)


class Output:
    """The beginning and the end of what a command prints."""

    def __init__(self) -> None:
        self._head, self._tail, self._size = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        """Take what came."""
        self._size += len(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        del self._tail[:-TAIL_BYTES]

    @property
    def is_cut(self) -> bool:
        """Whether there was more."""
        return self._size > len(self._head) + len(self._tail)

    @property
    def text(self) -> str:
        """What is kept, with a note where something is missing."""
        missing = self._size - len(self._head) - len(self._tail)
        gap = f"\n… {missing} bytes are left out …\n".encode() if missing else b""
        return (bytes(self._head) + gap + bytes(self._tail)).decode(errors="replace")


class Commands:
    """Return `workspace/run`."""

    def __init__(
        self,
        commands: list[NamedCommand],
        state: StateFolder,
        files: Beneath,
        decider: Decider,
        grants: Grants,
        once: Once,
    ) -> None:
        self._commands = {command.name: command for command in commands}
        self._state = state
        self._files = files
        self._decider = decider
        self._grants = grants
        self._once = once
        self._free = threading.BoundedSemaphore(MAX_AT_ONCE)
        self._running: set[int] = set()
        if len(commands) > MAX_COMMANDS or len(self._commands) < len(commands):
            raise ConfigurationInvalid(f"--run: at most {MAX_COMMANDS} commands, each with a name of its own")

    def run(self, call: RunCall, deadline: Deadline) -> Result:
        """Run a command to its end, or to the end of the call's time."""
        command = self._commands.get(call.name)
        if command is None:
            known = ", ".join(self._commands) or "none"
            raise CallRefused("no_command", f"The user has not named a command {call.name}. There are: {known}")
        if not self._free.acquire(blocking=False):
            raise CallRefused("failed", f"{MAX_AT_ONCE} commands run already. Wait for them.")
        try:
            with self._state.changing():
                earlier = self._once.earlier(call)
                if earlier is not None:
                    return earlier
                self._decider.decide(self._wanted(call, command), call.approval)
                self._files.stat(".")  # raises if the folder is not where it was
                deadline.require()
                self._once.attempt(call).started()
            result = self._result(command, deadline)
            with self._state.changing():
                self._once.done(call, result)
            return result
        finally:
            self._free.release()

    def stop(self) -> None:
        """End everything that runs."""
        for group in list(self._running):
            _kill(group)

    def _wanted(self, call: RunCall, command: NamedCommand) -> Wanted:
        sha256 = hashlib.sha256(command.line.encode()).hexdigest()
        subject = Subject("run", command.name, sha256, call.turn_id)
        shown = f"$ {command.line}\n"
        return Wanted(subject, call.agent, shown, Grant("run", command.line), self._grants.may_run(command.line))

    def _result(self, command: NamedCommand, deadline: Deadline) -> Result:
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own words, and no shell
                command.words,
                cwd=self._state.workspace,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return Result(success=False, code="failed", error=f"{command.line} can't be started: {error.strerror}")
        self._running.add(process.pid)
        try:
            output = _read_all(process, deadline)
            is_over = process.poll() is not None
        finally:
            _kill(process.pid)  # also what it has left behind
            code = process.wait()
            self._running.discard(process.pid)
        said = {"name": command.name, "output": output.text, "is_cut": output.is_cut}
        if not is_over:
            return Result(success=False, code="too_late", error=f"{command.name} took too long and was ended", **said)
        return Result(success=True, exit_code=code, **said)


def _read_all(process: subprocess.Popen[bytes], deadline: Deadline) -> Output:
    """Read what a process prints until it ends, or the time does."""
    output = Output()
    stdout = cast("io.BufferedReader", process.stdout)
    with stdout, selectors.DefaultSelector() as selector:
        os.set_blocking(stdout.fileno(), False)
        selector.register(stdout, selectors.EVENT_READ)
        while (left := deadline.left - SPARE_SECONDS) > 0 and process.poll() is None:
            if selector.select(min(left, 0.05)):
                data = stdout.read(65536)
                if data == b"":
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(left)
                    break
                output.add(data or b"")
        while data := stdout.read(65536):  # what is in the pipe when it has ended
            output.add(data)
            if output.is_cut and not deadline.left:
                break
    return output


def _environment() -> dict[str, str]:
    passed_on = {name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith("LC_")}
    return passed_on | {"TERM": "dumb"}


def _kill(group: int) -> None:
    with suppress(OSError):
        os.killpg(group, signal.SIGKILL)
