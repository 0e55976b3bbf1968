"""What a connector keeps between two runs, outside the workspace: one folder per server, project and workspace."""

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

LEAVE_SIGNAL = signal.SIGUSR1  # sent to the connector that another one of this folder takes over from
MAX_HOLDER_BYTES = 1_000
PS_SECONDS = 5.0
# Set by `artel up` for the connector that it starts: without that server there is nobody to come back to.
PARENT_VARIABLE = "ARTEL_CONNECT_PARENT"
# Set for a connector that another command starts: its standard input is a pipe, and it ends when that does.
STDIN_VARIABLE = "ARTEL_CONNECT_UNTIL_STDIN_ENDS"


def parent_pid() -> int | None:
    """Return the process of the `artel up` that started this connector, if one did."""
    number = os.environ.get(PARENT_VARIABLE, "")
    return int(number) if number.isascii() and number.isdecimal() else None


@dataclass(frozen=True, slots=True)
class StateFolder:
    """Where the state of one connector lies, and whose it is."""

    path: Path
    connector_id: str
    server: str
    project_id: int
    workspace: Path

    @classmethod
    def of(cls, server: str, project_id: int, workspace: Path) -> "StateFolder":
        """Return the state of a connector; a connector that was never there before gets an id."""
        workspace = workspace.resolve()
        _require_apart(workspace)
        key = hashlib.sha256(json.dumps([server, project_id, str(workspace)]).encode()).hexdigest()[:24]
        path = states_folder() / key
        known = _read(path)
        if known is None:
            known = cls(path, secrets.token_hex(16), server, project_id, workspace)
            about = {"connector_id": known.connector_id, "server": server, "project_id": project_id}
            write_private(path / "connector.json", json.dumps(about | {"workspace": str(workspace)}, indent=2))
        return known

    @classmethod
    def all(cls) -> "list[StateFolder]":
        """Return every connector that was ever started here, by the path of its workspace."""
        try:
            found = [_read(path) for path in sorted(states_folder().iterdir())]
        except OSError:
            return []
        return sorted((state for state in found if state is not None), key=lambda state: state.workspace)

    @classmethod
    def serving(cls, place: Path) -> "list[StateFolder]":
        """Return the connectors of the nearest workspace that a place is in."""
        place = place.resolve()
        around = [state for state in cls.all() if place.is_relative_to(state.workspace)]
        nearest = max((state.workspace for state in around), key=lambda path: len(path.parts), default=None)
        return [state for state in around if state.workspace == nearest]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the only connector with this state."""
        descriptor = os.open(self.path / "connect.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise AlreadyConnected(
                f"{self.workspace} is connected to project {self.project_id} already, by {self._holder_words()}. "
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
        """Return which connector holds this state, in words; None if none does."""
        return self._holder_words() if self.is_held() else None

    def is_held(self) -> bool:
        """Return whether the connector that wrote itself down last still runs."""
        return self._holder()["pid"] is not None

    def ask_holder_to_leave(self) -> bool:
        """Signal the connector that holds this state to end; return whether there is one that can be signalled."""
        holder = self._holder()
        try:
            if holder["pid"]:
                os.kill(holder["pid"], LEAVE_SIGNAL)
                return True
        except OSError:  # it has just ended, or belongs to somebody else
            pass
        return False

    def _holder_words(self) -> str:
        holder = self._holder()
        if holder["parent"]:
            return f"`artel up` (process {holder['parent']})"
        return f"`artel connect` (process {holder['pid']})" if holder["pid"] else "another `artel connect` here"

    def _holder(self) -> dict[str, int | None]:
        """Return the process that wrote itself down as the holder, if it still runs; None where that is not known.

        One that was killed has left its number behind, which may be another process's by now: it must have started
        at the time that was written down.
        """
        try:
            with (self.path / "connect.lock").open("rb") as file:
                about = json.loads(file.read(MAX_HOLDER_BYTES))
            numbers = {name: about.get(name) for name in ("pid", "parent")}
            started = about.get("started")
        except (OSError, ValueError, AttributeError):
            numbers, started = {}, None
        pid, parent = (
            number if isinstance(number := numbers.get(name), int) and number > 1 else None
            for name in ("pid", "parent")
        )
        is_same = pid is not None and started is not None and started == _start_of(pid)
        return {"pid": pid, "parent": parent} if is_same else {"pid": None, "parent": None}

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Be the only one that changes files of the workspace, among all threads, and `artel undo`."""
        descriptor = os.open(self.path / "change.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def states_folder() -> Path:
    """Return the folder of all states: beside the other files of the command line if those have been moved."""
    import platformdirs  # here, because most find ARTEL_CONFIG_DIR or never ask

    if os.environ.get("ARTEL_CONFIG_DIR"):
        return config_folder() / "connectors"
    return platformdirs.user_state_path("artel", appauthor=False) / "connectors"


def _start_of(pid: int) -> str | None:
    """Return when a process started, in the system's own terms; None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[19]  # in clock ticks since the machine started
    except (OSError, IndexError):
        pass  # systems other than Linux have no such file
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    plain = {**os.environ, "LC_ALL": "C"}
    try:
        printed = subprocess.run(  # noqa: S603 - the only thing that varies is a number
            command, capture_output=True, timeout=PS_SECONDS, check=False, env=plain
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return printed.stdout.decode(errors="replace").strip() or None


def _read(path: Path) -> StateFolder | None:
    try:
        about = json.loads((path / "connector.json").read_text(encoding="utf-8"))
        return StateFolder(path, about["connector_id"], about["server"], about["project_id"], Path(about["workspace"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _require_apart(workspace: Path) -> None:
    """Raise if agents could reach our own files through the workspace."""
    for ours in (states_folder().resolve(), config_folder().resolve()):
        if ours.is_relative_to(workspace) or workspace.is_relative_to(ours):
            raise FolderUnsuitable(
                f"{workspace} holds the files of Artel itself ({ours}). Connect a folder of a project instead."
            )
