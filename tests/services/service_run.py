"""The services of one test run: each started once, by whoever asks first, and ended with the run."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from .browser import CHROMIUM
from .installed import Programs, ServiceUnavailable
from .launch import EndedWhileStarting, Launch, free_ports
from .postgres import start_postgres
from .process import end, spawn
from .rabbitmq import start_rabbitmq, virtual_host
from .redis import start_redis
from .run_folder import Record, locked

ATTEMPTS = 3
REPOSITORY = Path(__file__).parents[2]
SERVICES: dict[str, Callable[[Launch], str]] = {
    "postgres": start_postgres,
    "redis": start_redis,
    "rabbitmq": start_rabbitmq,
}


@dataclass(frozen=True)
class ServiceRun:
    """The services of one test run, found by every process of it through one folder."""

    folder: Path
    programs: Programs
    choose_ports: Callable[[int], list[int]] = free_ports

    @classmethod
    def create(cls) -> "ServiceRun":
        """Begin a run that lasts until stop(), and no longer than the calling process."""
        folder = Path(tempfile.mkdtemp(prefix="artel-"))
        folder.chmod(0o711)  # PostgreSQL's own user must reach its folder
        command = [sys.executable, "-m", f"{__package__}.reaper", str(folder), str(os.getpid())]
        reaper = spawn(command, folder=REPOSITORY, log=folder / "reaper.log")
        Record((reaper,)).write(folder / "reaper.json")
        return cls.join(folder)

    @classmethod
    def join(cls, folder: Path) -> "ServiceRun":
        """Take part in a run that another process has begun."""
        return cls(folder, Programs(folder))

    def postgres(self) -> str:
        """Return the URL of the admin database; its user may create others."""
        return self._url("postgres")

    def redis(self) -> str:
        """Return the URL of Redis."""
        return self._url("redis")

    def rabbitmq(self) -> str:
        """Return the URL of RabbitMQ."""
        return self._url("rabbitmq")

    def own_rabbitmq(self) -> str:
        """Return the URL of a virtual host of RabbitMQ that nobody else uses: installations share no queues."""
        url, counter = self.rabbitmq(), self.folder / "virtual-hosts"
        with locked(self.folder / "virtual-hosts.lock"):
            number = int(counter.read_text()) if counter.exists() else 0
            counter.write_text(str(number + 1))
        return url + virtual_host(number)

    def chromium(self) -> str:
        """Return the path of the browser."""
        return str(self.programs.find(CHROMIUM))

    def stop(self) -> None:
        """End every process of the run and remove its folder."""
        if not self.folder.is_dir():
            return
        with ExitStack() as locks:
            for name in SERVICES:  # a start under way ends first; one that comes later finds no folder
                locks.enter_context(locked(self.folder / f"{name}.lock"))
            end([process for name in SERVICES for process in Record.read(self._record(name)).processes])
            reapers = Record.read(self._record("reaper")).processes
            end([reaper for reaper in reapers if reaper.pid != os.getpid()])
            shutil.rmtree(self.folder)

    def _record(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _url(self, name: str) -> str:
        with locked(self.folder / f"{name}.lock"):
            record = Record.read(self._record(name))
            if record.failure:
                raise ServiceUnavailable(record.failure)
            return record.url or self._start(name)

    def _start(self, name: str, attempts: int = ATTEMPTS) -> str:
        record = self._record(name)
        launch = Launch(
            name=name,
            folder=Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder)),
            programs=self.programs,
            choose_ports=self.choose_ports,
            record=lambda processes: Record(tuple(processes)).write(record),
        )
        try:
            url = SERVICES[name](launch)
        except ServiceUnavailable as failure:
            end(launch.processes)
            if isinstance(failure, EndedWhileStarting) and attempts > 1:  # not by its log: epmd says nothing
                return self._start(name, attempts - 1)
            Record(failure=str(failure)).write(record)
            raise
        Record(tuple(launch.processes), url=url).write(record)
        return url
