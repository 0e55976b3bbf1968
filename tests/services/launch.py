"""One attempt to start a service."""

import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from .installed import Programs, ServiceUnavailable
from .process import Process, spawn, until

START_SECONDS = 180.0  # a busy machine takes its time


class EndedWhileStarting(ServiceUnavailable):
    """A server ended before it answered, most likely because somebody else took its port meanwhile."""


def free_ports(count: int) -> list[int]:
    """Choose ports of 127.0.0.1 that nobody listens on."""
    with ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@dataclass
class Launch:
    """What a service uses to start: a fresh folder, ports, programs, and a record of its processes."""

    name: str
    folder: Path
    programs: Programs
    choose_ports: Callable[[int], list[int]]
    record: Callable[[Sequence[Process]], None]
    processes: list[Process] = field(default_factory=list)

    @property
    def log(self) -> Path:
        """The file that takes the output of all processes of this attempt."""
        return self.folder / "log"

    def prepare(self, command: Sequence[str | Path]) -> None:
        """Run a command to its end."""
        with self.log.open("ab") as log:
            try:
                subprocess.run(
                    command,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    timeout=START_SECONDS,
                    check=True,
                )
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failure:
                raise ServiceUnavailable(self._report(f"could not be prepared: {failure}")) from failure

    def spawn(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        ending: int = signal.SIGTERM,
    ) -> Process:
        """Start a server, and record it before anything else can go wrong."""
        process = spawn(command, folder=self.folder, log=self.log, environment=environment, ending=ending)
        self.processes.append(process)
        self.record(self.processes)
        return process

    def wait_for_answer(self, port: int, sent: bytes, expected: bytes) -> None:
        """Wait until the server answers what no other server on this port would."""
        if not until(lambda: self._died() or _answers(port, sent, expected), START_SECONDS):
            raise ServiceUnavailable(self._report(f"did not answer within {START_SECONDS:.0f} s"))
        if self._died():
            raise EndedWhileStarting(self._report("ended while starting"))

    def _died(self) -> bool:
        return not all(process.alive() for process in self.processes)

    def _report(self, what: str) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join([f"{self.name} {what}. Its log ends with:", *lines[-20:]])


def _answers(port: int, sent: bytes, expected: bytes) -> bool:
    received = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(sent)
            while expected not in received:
                part = connection.recv(65536)
                if not part:
                    return False
                received += part
    except OSError:
        return False
    return True
