"""The parent of `artel serve --workers`, with small programs as workers."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from artel.cli import workers
from artel.cli.workers import Worker, Workers, make_workers
from artel.retry import Backoff
from artel.settings import Settings, load_settings
from tests.services import until

pytestmark = [pytest.mark.anyio, pytest.mark.req("OPS-01.5")]

NOTE = "import os, signal, sys; open(sys.argv[1], 'a').write(f'{os.getpid()}\\n');"
READY = f"{NOTE} os.write(0, b'r'); signal.pause()"
FAILS = f"{NOTE} sys.exit(3)"
FAILS_SLOWLY = f"{NOTE} os.close(0); import asyncio; sys.exit(3)"  # after the parent has seen the end of the socket
HANGS = f"{NOTE} signal.pause()"
DEAF = f"{NOTE} signal.signal(signal.SIGTERM, signal.SIG_IGN); os.write(0, b'r'); signal.pause()"
STUBBORN = f"""{NOTE}
signal.signal(signal.SIGTERM, lambda *_: open(sys.argv[1], 'a').write('0\\n'))
os.write(0, b'r')
while True: signal.pause()
"""
READY_ONCE = f"{NOTE} len(open(sys.argv[1]).readlines()) > 1 and sys.exit(4); os.write(0, b'r')"
WAIT_SECONDS = 60


class Team:
    """Workers that run programs, and what they wrote down: a process id per start."""

    def __init__(self, folder: Path, listener: socket.socket, *programs: str) -> None:
        self._files = [folder / f"worker{number}" for number in range(1, len(programs) + 1)]
        started = zip(self._files, programs, strict=True)
        commands = [[sys.executable, "-c", program, str(file)] for file, program in started]
        env = dict(os.environ)
        listed = [Worker(number, command, env, listener) for number, command in enumerate(commands, 1)]
        self.workers, self.ready = Workers(listed, listener), asyncio.Event()

    def pids(self, worker: int) -> list[int]:
        file = self._files[worker - 1]
        return [int(line) for line in file.read_text().splitlines()] if file.exists() else []

    async def run(self) -> int:
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.workers.run(self.ready.set)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "BACKOFF", Backoff(first=0.001))


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_signal_stops_all_workers(tmp_path: Path, listener: socket.socket) -> None:
    team = Team(tmp_path, listener, READY, READY)
    running = asyncio.ensure_future(team.run())
    await team.ready.wait()
    pids = team.pids(1) + team.pids(2)
    assert len(pids) == 2
    assert all(map(runs, pids))

    os.kill(os.getpid(), signal.SIGTERM)

    assert await running == 0
    assert not any(map(runs, pids))


async def test_worker_that_ends_is_restarted(tmp_path: Path, listener: socket.socket) -> None:
    team = Team(tmp_path, listener, READY, READY)
    running = asyncio.ensure_future(team.run())
    await team.ready.wait()
    [first], [killed] = team.pids(1), team.pids(2)

    os.kill(killed, signal.SIGKILL)

    assert await asyncio.to_thread(until, lambda: len(team.pids(2)) == 2, WAIT_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0
    assert team.pids(1) == [first]
    assert not runs(team.pids(2)[-1])


async def test_mistake_at_the_first_start_ends_all_with_its_exit_code(tmp_path: Path, listener: socket.socket) -> None:
    team = Team(tmp_path, listener, FAILS, READY)

    assert await team.run() == 3

    assert not team.ready.is_set()
    assert len(team.pids(1)) == 1
    assert team.pids(2) == [], "the others were started too"


async def test_failing_worker_may_end_by_itself(tmp_path: Path, listener: socket.socket) -> None:
    assert await Team(tmp_path, listener, FAILS_SLOWLY).run() == 3


async def test_worker_that_fails_at_every_restart_ends_all(tmp_path: Path, listener: socket.socket) -> None:
    team = Team(tmp_path, listener, READY, READY_ONCE)

    assert await team.run() == 4

    assert team.ready.is_set()
    assert len(team.pids(2)) == 1 + workers.MAX_STARTS
    assert not runs(team.pids(1)[0])


async def test_worker_that_ignores_sigterm_is_killed(
    tmp_path: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "STOP_SECONDS", 0.1)
    team = Team(tmp_path, listener, DEAF)
    running = asyncio.ensure_future(team.run())
    await team.ready.wait()

    os.kill(os.getpid(), signal.SIGTERM)

    assert await running == 1
    assert not runs(team.pids(1)[0])


async def test_second_ctrl_c_reaches_workers_that_have_not_stopped(tmp_path: Path, listener: socket.socket) -> None:
    team = Team(tmp_path, listener, STUBBORN)
    running = asyncio.ensure_future(team.run())
    await team.ready.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    assert await asyncio.to_thread(until, lambda: len(team.pids(1)) == 2, WAIT_SECONDS), "it got no SIGTERM"

    os.kill(os.getpid(), signal.SIGINT)

    assert await running == 0, "it was killed"


async def test_worker_that_hangs_at_its_start_is_killed(
    tmp_path: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "START_SECONDS", 0.1)
    team = Team(tmp_path, listener, HANGS)

    assert await team.run() == 1

    assert not team.ready.is_set()
    assert not any(map(runs, team.pids(1)))


@pytest.mark.req("OPS-01.4")
async def test_workers_share_a_secret_that_is_made_once(tmp_path: Path, listener: socket.socket) -> None:
    settings = Settings(data_dir=tmp_path / "data", workspaces_dir=tmp_path / "shared")

    made = [make_workers(settings, 2, listener) for _ in range(2)]

    given = [worker.env for started in made for worker in started.workers]
    [secret] = {env["ARTEL_JWT_SECRET"] for env in given}
    assert len(secret) >= 32
    assert {env["ARTEL_WORKSPACES_DIR"] for env in given} == {str(tmp_path / "shared")}
    assert len({env["ARTEL_DATA_DIR"] for env in given}) == 2


@pytest.mark.req("OPS-01.4")
async def test_workers_read_the_settings_file_of_the_server(
    tmp_path: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTEL_CONFIG_DIR", str(tmp_path / "none"))
    monkeypatch.delenv("ARTEL_CONFIG", raising=False)
    file = tmp_path / "artel.yaml"
    file.write_text("log_level: error\n")

    [worker] = make_workers(load_settings(data_dir=tmp_path), 1, listener).workers

    assert worker.env["ARTEL_CONFIG"] == str(file)


def test_parent_imports_no_server() -> None:
    code = "import sys, artel.cli.workers, artel.api.listener; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not {"artel.container", "uvicorn", "fastapi", "sqlalchemy", "numpy"} & set(done.stdout.split())
