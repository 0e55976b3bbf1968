"""The state of a connector between runs, outside the workspace: one folder per server, project and workspace."""

import fcntl
import hashlib
import json
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from artel.client.credentials import config_folder, write_private
from artel.connector.errors import AlreadyConnected, FolderUnsuitable

LEAVE_SIGNAL = signal.SIGUSR1  # sent by a connector that takes over
MAX_HOLDER_BYTES = 1_000
PS_SECONDS = 5.0
# Set by `artel up` for the connector that it starts: the connector ends when that server is gone.
PARENT_VARIABLE = "ARTEL_CONNECT_PARENT"
# Set for a connector that another command starts: it ends when the pipe to its standard input is closed.
STDIN_VARIABLE = "ARTEL_CONNECT_UNTIL_STDIN_ENDS"


def parent_pid() -> int | None:
    """Return the process id of the `artel up` that started this connector, if one did."""
    number = os.environ.get(PARENT_VARIABLE, "")
    return int(number) if number.isascii() and number.isdecimal() else None


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The state folder of one connector."""

    path: Path
    connector_id: str
    server: str
    project_id: int
    workspace: Path

    @classmethod
    def of(cls, server: str, project_id: int, workspace: Path) -> "StateFolder":
        """Return the state of a connector; create it with a new connector id if there is none."""
        workspace = workspace.resolve()
        for own_folder in (states_folder().resolve(), config_folder().resolve()):  # agents must not reach these
            if own_folder.is_relative_to(workspace) or workspace.is_relative_to(own_folder):
                raise FolderUnsuitable(
                    f"{workspace} contains Artel's own files ({own_folder}). Connect the folder of a project instead."
                )
        key = hashlib.sha256(json.dumps([server, project_id, str(workspace)]).encode()).hexdigest()[:24]
        path = states_folder() / key
        state = _read(path)
        if state is None:
            state = cls(path, secrets.token_hex(16), server, project_id, workspace)
            about = {"connector_id": state.connector_id, "server": server, "project_id": project_id}
            write_private(path / "connector.json", json.dumps(about | {"workspace": str(workspace)}, indent=2))
        return state

    @classmethod
    def all(cls) -> "list[StateFolder]":
        """Return the states of all connectors on this machine, ordered by workspace."""
        try:
            found = [_read(path) for path in sorted(states_folder().iterdir())]
        except OSError:
            return []
        return sorted((state for state in found if state is not None), key=lambda state: state.workspace)

    @classmethod
    def serving(cls, path: Path) -> "list[StateFolder]":
        """Return the connectors of the innermost workspace that contains a path."""
        path = path.resolve()
        around = [state for state in cls.all() if path.is_relative_to(state.workspace)]
        nearest = max((state.workspace for state in around), key=lambda workspace: len(workspace.parts), default=None)
        return [state for state in around if state.workspace == nearest]

    @contextmanager
    def connector_lock(self) -> Iterator[None]:
        """Hold the lock of the only connector with this state; raise AlreadyConnected if another one holds it."""
        descriptor = os.open(self.path / "connect.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            holder = self.holder() or "another `artel connect` here"
            raise AlreadyConnected(
                f"{self.workspace} is connected to project {self.project_id} already, by {holder}. "
                "End it there, or take over: --take-over"
            ) from None
        try:
            os.ftruncate(descriptor, 0)
            about = {"pid": os.getpid(), "parent": parent_pid(), "started": _start_of(os.getpid())}
            os.pwrite(descriptor, json.dumps(about).encode(), 0)
            yield
        finally:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)  # while nobody else can have written to it
            os.close(descriptor)

    def holder(self) -> str | None:
        """Return a description of the connector that holds this state; None if none does."""
        pid, parent = self._holder()
        if parent:
            return f"`artel up` (process {parent})"
        return f"`artel connect` (process {pid})" if pid else None

    def signal_holder_to_leave(self) -> bool:
        """Signal the connector that holds this state to end; return whether the signal was sent."""
        pid, _ = self._holder()
        with suppress(OSError):  # it has just ended, or belongs to another user
            if pid:
                os.kill(pid, LEAVE_SIGNAL)
                return True
        return False

    def _holder(self) -> tuple[int | None, int | None]:
        """Return the connector's process id in the lock file and its parent's, if it is still running; else None.

        The id of a killed connector may have been reused, so the process's start time must match the file's.
        """
        try:
            with (self.path / "connect.lock").open("rb") as file:
                about = json.loads(file.read(MAX_HOLDER_BYTES))
            numbers, started = [about.get("pid"), about.get("parent")], about.get("started")
        except (OSError, ValueError, AttributeError):
            return None, None
        pid, parent = (number if isinstance(number, int) and number > 1 else None for number in numbers)
        is_same = pid is not None and started is not None and started == _start_of(pid)
        return (pid, parent) if is_same else (None, None)

    @contextmanager
    def change_lock(self) -> Iterator[None]:
        """Hold the lock for changes to the workspace, shared by all threads and `artel undo`."""
        descriptor = os.open(self.path / "change.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def states_folder() -> Path:
    """Return the folder of all state folders; inside ARTEL_CONFIG_DIR if that is set."""
    import platformdirs  # not needed by most commands

    if os.environ.get("ARTEL_CONFIG_DIR"):
        return config_folder() / "connectors"
    return platformdirs.user_state_path("artel", appauthor=False) / "connectors"


def _start_of(pid: int) -> str | None:
    """Return an opaque start time of a process; None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[19]  # in clock ticks since the machine started
    except (OSError, IndexError):
        pass  # not Linux
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        completed = subprocess.run(  # noqa: S603 - only a number varies
            command, capture_output=True, timeout=PS_SECONDS, check=False, env=environment
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return completed.stdout.decode(errors="replace").strip() or None


def _read(path: Path) -> StateFolder | None:
    try:
        about = json.loads((path / "connector.json").read_text(encoding="utf-8"))
        return StateFolder(path, about["connector_id"], about["server"], about["project_id"], Path(about["workspace"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
