"""Runs a program that an agent wrote in a sandbox of bubblewrap: without network, files or environment of the machine.

The program sees the system's programs (read-only), an empty home and a work folder. It is limited in time, memory,
processes, size of files and output. When it is stopped, or when this process ends, everything that it started ends too.
"""

import asyncio
import hashlib
import os
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from artel.errors import ArtelError, Kind
from artel.logs import get_logger
from artel.tools.sandbox_usage import (
    MAX_FILE_BYTES,
    MAX_PROCESSES,
    MAX_WORK_BYTES,
    MAX_WORK_ENTRIES,
    SCRATCH,
    is_full,
    used_by,
)
from artel.tools.system_calls import system_call_filter
from artel.tools.tool import ToolResult, in_thread

MAX_RUNS = 16  # at the same time
MAX_OPEN_FILES = 256
SCRATCH_BYTES = 16_000_000  # of /tmp, the home and shared memory, each
KEPT_SECONDS = 24 * 3600.0  # that a work folder lives after its last use: a task may wait for an approval
MAX_WORK_FOLDERS = 100
LOOK_SECONDS = 0.05
PROBE_SECONDS = 10.0
FIRST_USER, USERS = 62_000, 3_000

_PROGRAMS = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/run/current-system/sw/bin"
_PATH = "/usr/local/bin:/usr/bin:/bin"
_SCRIPT = "/run/program"
_PYTHON = "/opt/python"
_NAMESPACES = ("ipc", "pid", "net", "uts")
# If the machine runs out of memory, the kernel ends the program first. That is set outside, since the program may not
# write in /proc: it could take it back.
_FIRST_TO_END = '{ echo 1000 > /proc/self/oom_score_adj; } 2>/dev/null; exec "$@"'
# Sets the limits inside the sandbox, where its processes are counted apart from those of the user, and then becomes the
# program. The node's heartbeats come first.
_START = """
import os, resource, sys
os.nice(10)
for name, wanted in (pair.split("=") for pair in sys.argv[1].split(",")):
    kind = getattr(resource, "RLIMIT_" + name)
    hard = resource.getrlimit(kind)[1]
    value = int(wanted) if hard == resource.RLIM_INFINITY else min(int(wanted), hard)
    resource.setrlimit(kind, (value, value))
if sys.argv[2]:
    user = int(sys.argv[2])
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
os.chdir("/work")
os.execv(sys.argv[3], sys.argv[3:])
"""

# Not the threads of plugins, whose calls may never end.
_runs = threading.BoundedSemaphore(MAX_RUNS)

log = get_logger(__name__)


class SandboxUnavailable(ArtelError, kind=Kind.UNAVAILABLE, code="sandbox_unavailable"):
    """There is no sandbox on this machine, so nothing is run."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits of one run; `memory_mb` is for each process, and for all of them together."""

    seconds: float = 30.0
    memory_mb: int = 512
    output_bytes: int = 65_536


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended: `stopped` is why it was stopped, None if it ended by itself."""

    exit_code: int
    output: bytes
    is_cut: bool
    stopped: str | None = None


class Sandbox:
    """The sandbox of one node; `folder` is where it keeps the work folders of tasks."""

    def __init__(self, folder: Path, bwrap: str | None = None) -> None:
        self._folder = folder
        self._bwrap = bwrap or shutil.which("bwrap", path=_PROGRAMS)
        self._filter = system_call_filter(os.uname().machine)
        self._probing = asyncio.Lock()
        self._problem: str | None = "unknown"

    async def require(self) -> None:
        """Raise SandboxUnavailable if nothing can be run; that is tried once."""
        async with self._probing:
            if self._problem == "unknown":
                self._problem = await self._probe()
        if self._problem is not None:
            raise SandboxUnavailable(self._problem)

    async def run(self, task: str, program: Sequence[str], script: str, limits: SandboxLimits) -> Finished:
        """Run a program with a script, whose path is appended, in the work folder of a task, named TENANT/TASK."""
        await self.require()
        return await self._run(_folder_name(task), program, script, limits)

    async def forget(self, task: str) -> None:
        """Remove the work folder of a task that is over."""
        folder = self._folder / _folder_name(task)
        if folder.exists():
            await asyncio.to_thread(_remove, folder)

    async def forget_all(self, tenant: str) -> None:
        """Remove the work folders of all tasks of a tenant."""
        for folder in list(self._folder.glob(f"{tenant}.*")):
            await asyncio.to_thread(_remove, folder)

    async def _probe(self) -> str | None:
        advice = (
            "Nothing is run without a sandbox. The operator can install bubblewrap (bwrap) and start the node again."
        )
        if self._bwrap is None:
            return f"There is no sandbox on the machine of this node: bubblewrap is not installed. {advice}"
        if self._filter is None:
            return f"There is no sandbox for the processor of this node: {os.uname().machine}. Nothing is run without."
        limits = SandboxLimits(PROBE_SECONDS)
        try:
            finished = await self._run("probe", ("/bin/sh",), "echo works", limits)
        except OSError as failure:
            return f"The sandbox does not work on the machine of this node: {failure.strerror}. {advice}"
        if finished.output.strip() == b"works":
            return None
        reason = finished.output.decode(errors="replace").strip()[:300] or finished.stopped or "it printed nothing"
        log.warning("sandbox_does_not_work", reason=reason)
        return f"The sandbox does not work on the machine of this node: {reason}. {advice}"

    async def _run(self, name: str, program: Sequence[str], script: str, limits: SandboxLimits) -> Finished:
        stop = threading.Event()
        try:
            finished = await in_thread(lambda: self._run_here(name, program, script, limits, stop), _runs)
        except asyncio.CancelledError:
            stop.set()
            raise
        if isinstance(finished, ToolResult):  # too many threads are busy
            raise SandboxUnavailable(str(finished.error))
        result: Finished = finished
        return result

    def _run_here(
        self, name: str, program: Sequence[str], script: str, limits: SandboxLimits, stop: threading.Event
    ) -> Finished:
        """Run the program in this thread; the sandbox ends with the thread."""
        work = self._work_folder(name)
        with _in_memory(script.encode()) as text, _in_memory(self._filter or b"") as calls:
            options = [*_options(work, text), "--seccomp", str(calls), "--"]
            inside = [*_limited(limits, _user(name)), *program, _SCRIPT]
            process = subprocess.Popen(  # noqa: S603 - bubblewrap, with the program as arguments
                ["/bin/sh", "-c", _FIRST_TO_END, "sh", str(self._bwrap), *options, *inside],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd="/",
                env={"PATH": _PATH, "HOME": "/home", "LANG": "C.UTF-8"},
                pass_fds=(text, calls),
                start_new_session=True,
            )
        with process:
            return _Watch(process, work, limits, stop).finish()

    def _work_folder(self, name: str) -> Path:
        """Return the work folder of a task, a new one if it has none; drop those that nobody used for long.

        If there are too many, the tenant with the most loses the oldest. A work folder is in one of our own, which
        says when it was last used: a program can't change that.
        """
        own = self._folder / name
        work = own / "work"
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
        others = sorted((path for path in self._folder.iterdir() if path != own), key=_used_at)
        dropped = [path for path in others if _used_at(path) < time.time() - KEPT_SECONDS]
        remaining = [path for path in others if path not in dropped]
        while len(remaining) >= MAX_WORK_FOLDERS:
            [(crowded, _)] = Counter(path.stem for path in remaining).most_common(1)
            dropped.append(next(path for path in remaining if path.stem == crowded))
            remaining.remove(dropped[-1])
        for path in dropped:
            _remove(path)
        if _is_root():
            os.chown(work, _user(name), _user(name))
        os.utime(own)
        return work


class _Watch:
    """Waits for a program, collects its output and stops it at a limit."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", work: Path, limits: SandboxLimits, stop: threading.Event
    ) -> None:
        self._process = process
        self._work = work
        self._limits = limits
        self._stop = stop
        self._deadline = time.monotonic() + limits.seconds
        self._output = bytearray()
        self._is_cut = False

    def finish(self) -> Finished:
        """Return how the program ended."""
        assert self._process.stdout is not None  # noqa: S101 - for mypy: it is a pipe
        stopped, next_look = None, 0.0
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            try:
                while self._process.poll() is None and stopped is None:
                    self._read(selector)
                    began = time.monotonic()
                    if began >= next_look:
                        stopped = self._reason_to_stop()
                        ended = time.monotonic()
                        next_look = ended + max(LOOK_SECONDS, ended - began)  # other work of the node needs time too
            finally:
                _kill(self._process)
            code = self._process.wait()
            until = time.monotonic() + 1  # for what is left in the pipe
            while selector.get_map() and time.monotonic() < until:
                self._read(selector)
        if stopped is None:
            stopped = self._full()
        return Finished(code, bytes(self._output), self._is_cut, stopped)

    def _read(self, selector: selectors.BaseSelector) -> None:
        if not selector.get_map():  # it closed its output and runs on
            time.sleep(LOOK_SECONDS)
        for key, _ in selector.select(LOOK_SECONDS):
            data = os.read(key.fd, 65_536)
            if not data:
                selector.unregister(key.fileobj)
            room = self._limits.output_bytes - len(self._output)
            self._is_cut = self._is_cut or len(data) > room
            self._output += data[:room]

    def _reason_to_stop(self) -> str | None:
        if self._stop.is_set():
            return "it was cancelled"
        if time.monotonic() >= self._deadline:
            return f"it took longer than {self._limits.seconds:g} seconds"
        used = used_by(self._process.pid)
        if used is None:
            return (
                "its memory can't be measured: it shares /dev/zero, has too many mappings or open files, "
                "runs a program that can't be read, or leaves files in a socket"
            )
        if used.memory > self._limits.memory_mb * 1024 * 1024:
            return f"it used more than {self._limits.memory_mb} MB of memory"
        if used.deleted > MAX_WORK_BYTES:
            return f"it kept more than {MAX_WORK_BYTES} bytes of deleted files"
        return self._full()

    def _full(self) -> str | None:
        if is_full(self._work):
            return f"its folder has more than {MAX_WORK_BYTES} bytes or {MAX_WORK_ENTRIES} files, or can't be measured"
        return None


def _options(work: Path, script: int) -> list[str]:
    """Return the options of bubblewrap, for a work folder and an open script."""
    options = [f"--unshare-{name}" for name in _NAMESPACES]
    options += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if _is_root():  # the program becomes another user after the start
        options += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        options += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
    options += ["--hostname", "sandbox", "--ro-bind", "/usr", "/usr"]
    for name in ("/etc", "/opt"):  # else only root could look into them
        options += ["--perms", "0755", "--dir", name]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            options += ["--symlink", str(path.readlink()), str(path)]
        else:
            options += ["--ro-bind-try", str(path), str(path)]
    for path in (Path("/etc/alternatives"), Path("/etc/ld.so.cache")):
        options += ["--ro-bind-try", str(path), str(path)]
    options += ["--proc", "/proc", "--dev", "/dev"]
    for name in SCRATCH:
        options += ["--perms", "1777", "--size", str(SCRATCH_BYTES), "--tmpfs", f"/{name}"]
    if python().startswith(_PYTHON):
        options += ["--ro-bind", str(Path(sys.base_prefix).resolve()), _PYTHON]
    options += ["--bind", str(work), "/work", "--chdir", "/"]
    options += ["--perms", "0444", "--ro-bind-data", str(script), _SCRIPT]
    return [*options, "--remount-ro", "/dev", "--remount-ro", "/proc", "--remount-ro", "/"]


def _limited(limits: SandboxLimits, user: int) -> list[str]:
    """Return the command that sets the limits of processes, and then becomes the program and maybe another user."""
    memory, seconds = limits.memory_mb * 1024 * 1024, int(limits.seconds) + 1
    values = {"AS": memory, "NPROC": MAX_PROCESSES, "FSIZE": MAX_FILE_BYTES, "CPU": seconds, "CORE": 0}
    pairs = ",".join(f"{name}={value}" for name, value in (values | {"NOFILE": MAX_OPEN_FILES}).items())
    return [python(), "-I", "-S", "-c", _START, pairs, str(user) if _is_root() else ""]


def python() -> str:
    """Return the path in the sandbox of the Python that runs this, without its virtual environment."""
    path, folder = Path(sys.executable).resolve(), Path(sys.base_prefix).resolve()
    if path.is_relative_to("/usr"):
        return str(path)
    return f"{_PYTHON}/{path.relative_to(folder)}" if path.is_relative_to(folder) else "/usr/bin/python3"


def _is_root() -> bool:
    return os.geteuid() == 0


def _user(name: str) -> int:
    """Return the user of a work folder if this process is root, as a number that no account has.

    The kernel does not limit the processes of root; those of another user it counts together, hence one for each task.
    """
    return FIRST_USER + int(hashlib.sha256(name.encode()).hexdigest(), 16) % USERS


@contextmanager
def _in_memory(data: bytes) -> Iterator[int]:
    """Yield the descriptor of a file with these bytes, to be read from its start."""
    descriptor = os.memfd_create("program")
    try:
        os.write(descriptor, data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End bubblewrap; the kernel then ends every process of the sandbox."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _folder_name(task: str) -> str:
    return f"{task.partition('/')[0]}.{hashlib.sha256(task.encode()).hexdigest()[:32]}"


def _used_at(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def _remove(folder: Path) -> None:
    """Remove a folder with what a program left in it, however deep and whatever its modes are."""
    for command in (["chmod", "-R", "u+rwX", "--", str(folder)], ["rm", "-rf", "--", str(folder)]):
        done = subprocess.run(command, capture_output=True, check=False, env={"PATH": _PATH})  # noqa: S603
    if done.returncode:
        log.warning("work_folder_not_removed", folder=folder.name, error=done.stderr[:300].decode(errors="replace"))
