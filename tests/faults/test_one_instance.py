"""Processes with one agent name: the second ends, and after the death of the first another one starts at once."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from artel.contract.agent_file import AgentFile
from tests import running
from tests.depth import IS_DEEP, by_depth
from tests.nodes import agent_file, conflict_lines
from tests.nursery import Child
from tests.services import ServiceRun

SOON = 60.0
ROOT = Path(__file__).parents[2]
EXAMPLE = "agent.writer.001"


@dataclass
class Instance:
    """A process of an agent."""

    process: Child
    log: Path

    def is_ready(self) -> bool:
        """Wait until it works; return False if the process ended before."""
        assert self.process.stdout
        return self.process.stdout.readline().startswith('{"nodes"')

    def lines(self, level: str) -> list[str]:
        """Return the texts of its log."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line["event"] for line in lines if line.get("level") == level and line["event"].startswith("[")]


class Instances:
    """The processes of one agent."""

    def __init__(self, url: str, file: AgentFile, folder: Path) -> None:
        path = folder / "agent.yaml"
        path.write_text(json.dumps({"agent": file.model_dump(exclude_none=True)}))  # JSON is YAML
        self._arguments = [running.ARTEL, "node", "run", str(path), "--bus", url, "--json"]
        self._env = running.clean_environment(folder)
        self._folder = folder
        self.all: list[Instance] = []

    def start(self) -> Instance:
        """Start another one."""
        assert running.nursery
        log = self._folder / f"{len(self.all)}.log"
        read, write = os.pipe()
        with log.open("w") as stderr, Path(os.devnull).open() as nothing:
            files = nothing.fileno(), write, stderr.fileno()
            child = running.nursery.fork(self._arguments, self._env, files, stdout=os.fdopen(read))
        os.close(write)
        self.all.append(Instance(child, log))
        return self.all[-1]


@pytest.fixture
def file() -> AgentFile:
    return agent_file()


@pytest.fixture
def instances(services: ServiceRun, file: AgentFile, tmp_path: Path) -> Iterator[Instances]:
    instances = Instances(services.rabbitmq(), file, tmp_path)
    yield instances
    for instance in instances.all:
        instance.process.kill()
        instance.process.wait(SOON)
        assert instance.process.stdout
        instance.process.stdout.close()


@pytest.mark.req("AGT-10.5", "AGT-10.6", "AGT-10.8", "AGT-10.9")
def test_second_process_ends_is_found_by_the_page_and_a_killed_one_is_replaced_at_once(
    instances: Instances, file: AgentFile, services: ServiceRun
) -> None:
    page = (ROOT / "docs" / "how-to" / "operate-nodes.md").read_text(encoding="utf-8").replace(EXAMPLE, file.name)
    first = instances.start()
    assert first.is_ready()
    second = instances.start()
    assert second.process.wait(SOON) == 5
    assert second.lines("error") == conflict_lines(file.name)
    assert second.lines("info") == []
    refusal = f"Agent '{file.name}' is already running. Stop the existing instance before starting a new one."
    assert refusal in second.log.read_text()

    assert "\n".join(conflict_lines(file.name)) in page
    searches = re.findall(r"^grep (?=.*SINGLETON).+$", page, re.MULTILINE)
    assert len(searches) == 2
    for search in searches:
        found = _run(search.replace("/var/log/artel", str(second.log.parent)), os.environ)
        assert len(found.splitlines()) == 1
        assert f"Agent '{file.name}' already running!" in found
    if IS_DEEP:  # each command starts an Erlang machine
        _query_broker(page, file.name, services)

    last = first
    for _ in range(by_depth(1, 10)):
        last.process.kill()
        last.process.wait(SOON)
        last = instances.start()
        assert last.is_ready(), last.log.read_text()
    last.process.send_signal(signal.SIGTERM)
    assert last.process.wait(SOON) == 0
    assert last.lines("info") == [
        f"[{file.name}] Singleton lock acquired (queue: singleton.{file.name})",
        f"[{file.name}] Singleton lock released (graceful shutdown)",
    ]


def _query_broker(page: str, name: str, services: ServiceRun) -> None:
    """Run the commands of the page for the broker while an instance holds the lock."""
    broker = _broker_environment(services)
    commands = re.findall(r"^rabbitmqctl .+$", page, re.MULTILINE)
    policy, queues, lock, connections = (_run(command, broker) for command in commands)
    assert "artel-nodes" in policy
    assert "mindbus.dead_letters" in queues
    [line] = [line for line in lock.splitlines() if name in line]
    queue, exclusive, owner = line.split()
    assert (queue, exclusive) == (f"singleton.{name}", "true")
    [connection] = [line for line in connections.splitlines() if owner in line]
    assert name in connection


def _run(command: str, env: Mapping[str, str]) -> str:
    done = subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, timeout=SOON, check=False)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def _broker_environment(services: ServiceRun) -> dict[str, str]:
    """Return the environment of the broker, with which `rabbitmqctl` finds it."""
    port = str(urlsplit(services.rabbitmq()).port).encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            variables = dict(
                line.split(b"=", 1) for line in (process / "environ").read_bytes().split(b"\0") if b"=" in line
            )
            if variables.get(b"RABBITMQ_NODE_PORT") == port:
                server = {name.decode(): value.decode() for name, value in variables.items()}
                return server | {"PATH": f"/usr/lib/rabbitmq/bin:{os.environ['PATH']}"}
    raise AssertionError("no process of the broker was found")
