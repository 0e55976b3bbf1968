"""`artel serve --workers N`: starts, watches and stops server processes that share one listening socket.

The parent imports no server. Each worker is `artel serve` with a data folder of its own; its standard input is a socket
to the parent, on which it says that it is ready, and which ends with the parent, also if that is killed.
"""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from artel.auth.secret import load_or_make_secret
from artel.cli.command_line import ExitCode
from artel.data_folder import DataFolder
from artel.errors import ConfigurationInvalid
from artel.logs import get_logger
from artel.retry import Backoff
from artel.settings import Settings, config_file

START_SECONDS = 60.0
STOP_SECONDS = 20.0  # a server hands its projects over within 15
STABLE_SECONDS = 60.0  # a worker that ran for so long is restarted at once
MAX_STARTS = 8  # of a worker that ended, over half a minute
BACKOFF = Backoff(first=0.5, longest=15.0)

log = get_logger(__name__)


class WorkerFailed(Exception):
    """A worker ended before it was ready; its own error message is on standard error."""

    def __init__(self, worker: int, returncode: int | None) -> None:
        end = "could not be started" if returncode is None else f"ended with {returncode} before it was ready"
        super().__init__(f"Worker {worker} {end}.")
        self.exit_code = returncode if returncode and returncode > 0 else ExitCode.FAILED


def require_shareable(settings: Settings) -> None:
    """Raise if several processes can't share what is configured."""
    if settings.is_embedded:
        raise ConfigurationInvalid(
            "--workers needs PostgreSQL, because only one process can use a SQLite database. "
            "Set ARTEL_DATABASE_URL to postgresql://…, or start without --workers."
        )
    if settings.memory_provider != "qdrant" or settings.qdrant_url is None:
        raise ConfigurationInvalid(
            "--workers needs a Qdrant server, because a memory index in the process finds only what that process has "
            "indexed. Set ARTEL_QDRANT_URL to http://… (and leave ARTEL_MEMORY_PROVIDER at qdrant)."
        )
    if settings.nodes_dir is not None:
        raise ConfigurationInvalid(
            "--workers runs no nodes, because a node may run only once. Start them with `artel node run`, and leave "
            "out --nodes and ARTEL_NODES_DIR."
        )


@dataclass(slots=True)
class Worker:
    """One worker: its command, and its process while it has one."""

    number: int
    command: Sequence[str]
    env: dict[str, str]
    listener: socket.socket
    _process: asyncio.subprocess.Process | None = None
    _link: socket.socket | None = None  # to its standard input
    _ready_at: float = 0.0

    async def start(self) -> None:
        """Start the process and wait until it is ready; raise WorkerFailed if it ends before that."""
        self._close_link()
        self._link, theirs = socket.socketpair()
        self._link.setblocking(False)
        with theirs:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self.command,
                    env=self.env,
                    stdin=theirs.fileno(),
                    pass_fds=[self.listener.fileno()],
                    start_new_session=True,  # Ctrl-C reaches the parent only, which stops all workers in the same way
                )
            except OSError as failure:  # no memory, or too many processes
                raise WorkerFailed(self.number, None) from failure
        is_ready = b""
        with suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                is_ready = await asyncio.get_running_loop().sock_recv(self._link, 1)
                if not is_ready:
                    await self._process.wait()
        if not is_ready:
            self.send_signal(signal.SIGKILL)  # if it has not ended by itself, but hangs
            raise WorkerFailed(self.number, await self._process.wait())
        self._ready_at = time.monotonic()
        log.info("worker_ready", worker=self.number, pid=self._process.pid)

    async def keep_running(self) -> None:
        """Restart the process whenever it ends; raise WorkerFailed if it can't be started any more."""
        quick_ends = 0
        while self._process is not None:
            returncode = await self._process.wait()
            log.error("worker_ended", worker=self.number, pid=self._process.pid, returncode=returncode)
            quick_ends = 0 if time.monotonic() - self._ready_at > STABLE_SECONDS else quick_ends + 1
            await self._restart(quick_ends)

    async def _restart(self, earlier_ends: int) -> None:
        for attempt in range(MAX_STARTS):
            pauses = earlier_ends + attempt
            await asyncio.sleep(BACKOFF.seconds(pauses - 1) if pauses else 0)
            try:
                return await self.start()
            except WorkerFailed as failure:
                last = failure
            log.error("worker_not_restarted", worker=self.number, attempt=attempt + 1, detail=str(last))
        raise last

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, if it runs."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)  # Popen.send_signal would reap it, and asyncio lose its exit code

    async def stop(self) -> bool:
        """Stop the process, kill it after STOP_SECONDS, and return whether it ended by itself."""
        if self._process is None:
            return True
        self.send_signal(signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._process.wait()
        ended = self._process.returncode is not None
        if not ended:
            log.error("worker_killed", worker=self.number, pid=self._process.pid, seconds=STOP_SECONDS)
            self.send_signal(signal.SIGKILL)
            await self._process.wait()
        self._close_link()
        return ended

    def _close_link(self) -> None:
        if self._link is not None:
            self._link.close()


@dataclass(slots=True)
class Workers:
    """All workers of a listening socket."""

    workers: Sequence[Worker]
    listener: socket.socket
    _serving: "asyncio.Future[None] | None" = field(default=None, init=False)
    _is_stopping: bool = field(default=False, init=False)

    async def run(self, ready: Callable[[], None]) -> int:
        """Start the workers, call `ready`, keep them running until a signal, stop them, and return the exit code."""
        loop = asyncio.get_running_loop()
        self._serving = asyncio.ensure_future(self._serve(ready))
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled, number)
        failed: WorkerFailed | None = None
        try:
            await self._serving
        except asyncio.CancelledError:  # by a signal
            pass
        except WorkerFailed as failure:
            failed = failure
        finally:
            self.listener.close()
            ended = await asyncio.gather(*(worker.stop() for worker in self.workers))
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        if failed is not None:
            log.error("workers_stopped", detail=f"{failed} Its own log says why. All workers were stopped.")
            return failed.exit_code
        return ExitCode.OK if all(ended) else ExitCode.FAILED

    async def _serve(self, ready: Callable[[], None]) -> None:
        first, *others = self.workers
        await first.start()  # alone, so that a mistake in the settings is reported once
        await _together(worker.start() for worker in others)
        ready()
        await _together(worker.keep_running() for worker in self.workers)

    def _signalled(self, number: int) -> None:
        """Begin to stop; a second Ctrl-C ends the workers' requests at once, as it does without workers."""
        if self._serving is not None and not self._is_stopping:
            self._is_stopping = True
            self._serving.cancel()
            return
        for worker in self.workers:
            worker.send_signal(number)


async def _together(calls: Iterable[Awaitable[None]]) -> None:
    """Wait for all; cancel the others when one fails."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def make_workers(settings: Settings, count: int, listener: socket.socket) -> Workers:
    """Return the workers of these settings; create their data folders and the secret that all share."""
    DataFolder.open(settings.data_dir)
    secret = settings.jwt_secret.get_secret_value() if settings.jwt_secret else load_or_make_secret(settings.data_dir)
    file = config_file(settings.data_dir)
    # Agents may write to the current folder: Python must not import modules from it (-P; PYTHONSAFEPATH for children).
    shared = os.environ | {
        "PYTHONSAFEPATH": "1",
        "ARTEL_JWT_SECRET": secret,
        "ARTEL_WORKSPACES_DIR": str((settings.workspaces_dir or settings.data_dir).absolute()),
        **({"ARTEL_CONFIG": str(file.absolute())} if file.is_file() else {}),
    }
    command = [sys.executable, "-P", "-m", "artel", "serve", "--host", settings.host, "--role", settings.role]
    address = ["--port", str(listener.getsockname()[1]), "--listener", str(listener.fileno())]
    workers = []
    for number in range(1, count + 1):
        folder = _worker_folder(settings.data_dir.absolute(), number)
        env = shared | {"ARTEL_DATA_DIR": str(folder)}
        workers.append(Worker(number, [*command, *address, "--worker", str(number)], env, listener))
    return Workers(workers, listener)


def _worker_folder(data_dir: Path, number: int) -> Path:
    """Return a worker's data folder, with a link to the embedding models that were installed for all."""
    folder = data_dir / "workers" / str(number)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        (folder / "embeddings").symlink_to(data_dir / "embeddings")
    return folder


class ParentLink:
    """A worker's side: its standard input is the socket to the parent."""

    def __init__(self) -> None:
        self._socket = socket.socket(fileno=os.dup(0))
        with Path(os.devnull).open() as nothing:  # child processes of the worker must not keep the socket open
            os.dup2(nothing.fileno(), 0)
        asyncio.get_running_loop().add_reader(self._socket, self._parent_ended)

    def ready(self) -> None:
        """Report to the parent that the worker accepts requests."""
        with suppress(OSError):  # it has ended, which the reader finds
            self._socket.send(b"r")

    def _parent_ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        log.error("parent_ended")
        signal.alarm(int(STOP_SECONDS))  # ends this process if it does not stop by then
        os.kill(os.getpid(), signal.SIGTERM)


def inherited_listener(descriptor: int) -> socket.socket:
    """Return the listening socket that the parent has opened."""
    listener = socket.socket(fileno=descriptor)
    listener.set_inheritable(False)
    return listener
