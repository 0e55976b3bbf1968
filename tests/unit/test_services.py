"""The private servers of a test run start once, answer, and never outlive the run."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import aio_pika
import psycopg
import pytest
import redis

from tests.services import ServiceRun, ServiceUnavailable, until
from tests.services.installed import Program, Programs
from tests.services.launch import free_ports
from tests.services.process import Process
from tests.services.run_folder import Record

ROOT = Path(__file__).parents[2]
JOIN_AND_START_REDIS = """
import sys
from pathlib import Path
from tests.services import ServiceRun
print(ServiceRun.join(Path(sys.argv[1])).redis())
"""
CONTROL_A_RUN = """
import sys
from tests.services import ServiceRun
run = ServiceRun.create()
run.redis()
print(run.folder, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def run() -> Iterator[ServiceRun]:
    """A run of its own, whatever services the rest of the tests use."""
    run = ServiceRun.create()
    yield run
    run.stop()


def processes_of(run: ServiceRun, name: str) -> tuple[Process, ...]:
    return Record.read(run.folder / f"{name}.json").processes


def fake_server(folder: Path, script: str) -> Path:
    """A program that a run takes for the server it looks for."""
    program = folder / "server"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


async def declared_queue(url: str) -> str:
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("hello", auto_delete=True)
        return queue.name


def test_every_service_answers_its_client_and_is_gone_after_stop(run: ServiceRun) -> None:
    names = ("postgres", "redis", "rabbitmq")
    with ThreadPoolExecutor(3) as pool:
        urls = dict(zip(names, pool.map(lambda name: getattr(run, name)(), names), strict=True))

    with psycopg.connect(urls["postgres"], autocommit=True) as connection:
        connection.execute("CREATE DATABASE other")
    with redis.Redis.from_url(urls["redis"]) as client:
        assert client.ping()
    assert asyncio.run(declared_queue(urls["rabbitmq"])) == "hello"

    counts = {name: len(processes_of(run, name)) for name in (*names, "reaper")}
    assert counts == {"postgres": 1, "redis": 1, "rabbitmq": 2, "reaper": 1}, "RabbitMQ's second one is epmd"
    processes = [process for name in counts for process in processes_of(run, name)]
    assert all(process.alive() for process in processes)

    run.stop()

    assert not any(process.alive() for process in processes)
    assert not run.folder.exists()


def test_threads_that_ask_at_once_share_one_server(run: ServiceRun) -> None:
    with ThreadPoolExecutor(4) as pool:
        urls = set(pool.map(lambda _: ServiceRun.join(run.folder).redis(), range(4)))

    assert len(urls) == 1
    assert len(list(run.folder.glob("redis-*"))) == 1


def test_processes_that_ask_at_once_share_one_server(run: ServiceRun) -> None:
    command = [sys.executable, "-c", JOIN_AND_START_REDIS, str(run.folder)]
    workers = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    urls = {worker.communicate(timeout=30)[0].strip() for worker in workers}

    assert urls == {run.redis()}
    assert len(list(run.folder.glob("redis-*"))) == 1


def test_server_keeps_away_from_the_terminal_of_the_tests(run: ServiceRun) -> None:
    run.redis()
    [server] = processes_of(run, "redis")

    assert os.getsid(server.pid) == server.pid, "Ctrl-C reaches every process of a terminal's session"


def test_services_end_when_the_controller_is_killed() -> None:
    command = [sys.executable, "-c", CONTROL_A_RUN]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as controller:
        assert controller.stdout is not None
        run = ServiceRun.join(Path(controller.stdout.readline().strip()))
        [server], [reaper] = processes_of(run, "redis"), processes_of(run, "reaper")
        assert server.alive()
        assert reaper.alive()
        controller.send_signal(signal.SIGKILL)

    assert until(lambda: not server.alive() and not reaper.alive(), 15)
    assert not run.folder.exists()


def test_process_with_a_reused_pid_is_left_alone() -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        recorded = replace(Process.of(stranger.pid), started="1")
        recorded.send(signal.SIGKILL)
        assert not recorded.alive()
        assert stranger.poll() is None
        stranger.kill()


def test_port_taken_before_the_server_binds_it_is_replaced(run: ServiceRun) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        taken = stranger.getsockname()[1]
        choices = iter([[taken], free_ports(1)])
        unlucky = replace(run, choose_ports=lambda _: next(choices))
        url = unlucky.redis()

    assert f":{taken}/" not in url
    with redis.Redis.from_url(url) as client:
        assert client.ping()


def test_server_that_fails_is_reported_with_its_log_and_not_tried_again(run: ServiceRun, tmp_path: Path) -> None:
    program = fake_server(tmp_path, "echo no such option; exit 1")
    broken = replace(run, programs=Programs(run.folder, search=lambda _: program))

    for each in (broken, ServiceRun.join(run.folder)):
        with pytest.raises(ServiceUnavailable, match=r"redis ended while starting(.|\n)*no such option"):
            each.redis()


def test_missing_program_names_the_line_to_type_unless_root(run: ServiceRun) -> None:
    poor = replace(run, programs=Programs(run.folder, uid=1000, search=lambda _: None, apt_get="/usr/bin/apt-get"))

    with pytest.raises(ServiceUnavailable) as refusal:
        poor.postgres()

    assert str(refusal.value) == ("PostgreSQL is needed by the tests. Install it with: sudo apt-get install postgresql")


def test_root_installs_a_missing_program_once(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    apt_get = fake_server(tmp_path, f'echo "$@" >>{calls}; [ "$1" = update ] || touch {tmp_path}/$4')

    def search(program: Program) -> Path | None:
        path = tmp_path / program.package
        return path if path.exists() else None

    programs = Programs(tmp_path, uid=0, search=search, apt_get=str(apt_get), policy=tmp_path / "policy-rc.d")
    found = [programs.find(Program("Any", package, ("any",))) for package in ("one", "two", "one")]

    assert found == [tmp_path / "one", tmp_path / "two", tmp_path / "one"]
    assert calls.read_text().splitlines() == [
        "update",
        "install -y --no-install-recommends one",
        "install -y --no-install-recommends two",
    ]
    assert not (tmp_path / "policy-rc.d").exists()
