"""Named commands: run exactly as the user defined them, without a shell and without arguments from agents."""

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

from artel.connector.decisions import Decider, ProposedAction, Subject
from artel.connector.errors import CallRefused, Deadline
from artel.connector.grants import Grant, Grants
from artel.connector.journal import Journal
from artel.connector.state_folder import StateFolder
from artel.contract.connector import CallResult, RunCall
from artel.errors import ConfigurationInvalid
from artel.paths.beneath import Beneath

MAX_COMMANDS = 50
MAX_AT_ONCE = 2
HEAD_BYTES, TAIL_BYTES = 16_000, 48_000  # the end of an output matters more than its beginning
SPARE_SECONDS = 0.5  # of the call's time, left to send the answer
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
# What programs need to work; all other variables, above all credentials, are not passed on.
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
        """Parse `name='command with words'`."""
        name, equals, command = text.partition("=")
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise ConfigurationInvalid(f"--run {text}: {error}") from None
        if not equals or not _NAME.fullmatch(name) or not words:
            raise ConfigurationInvalid(f"--run {text}: write NAME='command', such as test='pytest -q'")
        return cls(name, words)

    @property
    def line(self) -> str:
        return shlex.join(self.words)


class Output:
    """The beginning and the end of what a command prints."""

    def __init__(self) -> None:
        self._head, self._tail, self._size = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        self._size += len(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        del self._tail[:-TAIL_BYTES]

    @property
    def is_cut(self) -> bool:
        return self._size > len(self._head) + len(self._tail)

    @property
    def text(self) -> str:
        """The head and the tail, with a note where a part is missing."""
        missing = self._size - len(self._head) - len(self._tail)
        gap = f"\n… {missing} bytes are left out …\n".encode() if missing else b""
        return (bytes(self._head) + gap + bytes(self._tail)).decode(errors="replace")


class NamedCommands:
    """Carries out `workspace/run`."""

    def __init__(
        self,
        commands: list[NamedCommand],
        state: StateFolder,
        files: Beneath,
        decider: Decider,
        grants: Grants,
        journal: Journal,
    ) -> None:
        self._commands = {command.name: command for command in commands}
        self._state = state
        self._files = files
        self._decider = decider
        self._grants = grants
        self._journal = journal
        self._free = threading.BoundedSemaphore(MAX_AT_ONCE)
        self._running: set[int] = set()
        if len(commands) > MAX_COMMANDS or len(self._commands) < len(commands):
            raise ConfigurationInvalid(f"--run: at most {MAX_COMMANDS} commands, each with a name of its own")

    def run(self, call: RunCall, deadline: Deadline) -> CallResult:
        """Run a command until it ends or the deadline passes."""
        command = self._commands.get(call.name)
        if command is None:
            names = ", ".join(self._commands) or "none"
            raise CallRefused("no_command", f"There is no named command {call.name}. There are: {names}")
        if not self._free.acquire(blocking=False):
            raise CallRefused("failed", f"{MAX_AT_ONCE} commands are running already. Wait until one has ended.")
        try:
            with self._state.change_lock():
                earlier = self._journal.find_result(call)
                if earlier is not None:
                    return earlier
                sha256 = hashlib.sha256(command.line.encode()).hexdigest()
                subject, offer = Subject("run", command.name, sha256, call.turn_id), Grant("run", command.line)
                is_granted = self._grants.may_run(command.line)
                proposal = ProposedAction(subject, call.agent, f"$ {command.line}\n", offer, is_granted)
                self._decider.decide(proposal, call.approval)
                self._files.stat(".")  # raises if the folder was moved
                deadline.require()
                self._journal.record_start(call)
            result = self._result(command, deadline)
            with self._state.change_lock():
                return self._journal.record_result(call, result)
        finally:
            self._free.release()

    def stop(self) -> None:
        for group in list(self._running):
            _kill(group)

    def _result(self, command: NamedCommand, deadline: Deadline) -> CallResult:
        passed_on = {name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith("LC_")}
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own command, and no shell
                command.words,
                cwd=self._state.workspace,
                env=passed_on | {"TERM": "dumb"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return CallResult(success=False, code="failed", error=f"{command.line} can't be started: {error.strerror}")
        self._running.add(process.pid)
        try:
            output = _read_all(process, deadline)
            is_over = process.poll() is not None
        finally:
            _kill(process.pid)  # also its child processes
            code = process.wait()
            self._running.discard(process.pid)
        fields = {"name": command.name, "output": output.text, "is_cut": output.is_cut}
        if not is_over:
            return CallResult(
                success=False, code="too_late", error=f"{command.name} took too long and was killed", **fields
            )
        return CallResult(success=True, exit_code=code, **fields)


def _read_all(process: subprocess.Popen[bytes], deadline: Deadline) -> Output:
    """Read a process's output until it ends or the deadline passes."""
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
        while data := stdout.read(65536):  # the rest in the pipe
            output.add(data)
            if output.is_cut and not deadline.left:
                break
    return output


def _kill(group: int) -> None:
    with suppress(OSError):
        os.killpg(group, signal.SIGKILL)
