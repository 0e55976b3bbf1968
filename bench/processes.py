"""The processes of a benchmark: Artel, the baseline, the model server and the client."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.people import Person
from tests.running import ARTEL, clean_environment

ROOT = Path(__file__).parents[1]
STOP_SECONDS = 30
CLIENT_SECONDS = 120


@dataclass(frozen=True)
class Running:
    """A server under measurement."""

    url: str
    pid: int
    ready_seconds: float = 0

    @property
    def port(self) -> int:
        """The port of the server."""
        return httpx.URL(self.url).port or 0

    def megabytes(self) -> float:
        """Return the resident memory of the process."""
        status = dict(text.split(":", 1) for text in Path(f"/proc/{self.pid}/status").read_text().splitlines())
        return int(status["VmRSS"].split()[0]) / 1024

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process so far, over all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def settle(self) -> None:
        """Wait until the process is idle, for at most a minute."""
        deadline, before = time.monotonic() + 60, -1.0
        while time.monotonic() < deadline and self.cpu_seconds() - before > 0.05:
            before = self.cpu_seconds()
            time.sleep(1)


class Model(Running):
    """A model server with OpenAI's API that records when each request arrived."""

    def arrivals(self) -> dict[str, float]:
        """Return and clear the arrival time of each text."""
        response = httpx.delete(f"http://127.0.0.1:{self.port}/asked", timeout=30)
        return {request["text"]: request["arrived"] for request in response.json()}


def allow_many_files() -> None:
    """Raise the limit of open files of this process and its children to the maximum."""
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))


@contextmanager
def artel(model: Running | None = None, **variables: str) -> Iterator[Running]:
    """Run `artel serve` with its own data folder and default settings, including logs and limits."""
    with tempfile.TemporaryDirectory() as folder:
        models = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "none"} if model else {}
        limits = {"ARTEL_MAX_PROJECTS_PER_USER": "1000000"}
        env = clean_environment(Path(folder), **models, **limits, **variables)
        with _started([ARTEL, "serve", "--port", "0", "--json"], env, Path(folder) / "log") as running:
            yield running


@contextmanager
def baseline_server(model: Running | None = None) -> Iterator[Running]:
    """Run the baseline: FastAPI, two rows in SQLite, one call to the model."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.baseline", f"{folder}/bare.db", model.url if model else ""]
        with _started(command, dict(os.environ), Path(folder) / "log") as running:
            yield running


@contextmanager
def model_server(
    delay_ms: float = 0, words: int | None = None, tool: str | None = None, plan: int | None = None
) -> Iterator[Model]:
    """Run a model server; it can request one tool call first (`tool`), and make plans of `plan` tasks."""
    command = [sys.executable, "-m", "tests.model_server", "--port", "0", "--delay-ms", str(delay_ms)]
    if words is not None:
        command += ["--words", str(words)]
    if tool is not None:
        command += ["--tool", tool]
    if plan is not None:
        command += ["--plan", str(plan)]
    with tempfile.TemporaryDirectory() as folder, _started(command, dict(os.environ), Path(folder) / "log") as running:
        yield Model(running.url, running.pid)


@contextmanager
def artel_and_baseline(delay_ms: float = 0, **variables: str) -> Iterator[tuple[Running, Running, Model]]:
    """Run Artel and the baseline with the same model server."""
    with ExitStack() as stack:
        model = stack.enter_context(model_server(delay_ms))
        server, baseline = stack.enter_context(artel(model, **variables)), stack.enter_context(baseline_server(model))
        yield server, baseline, model


def client(task: str, server: Running, **arguments: Any) -> dict[str, Any]:
    """Run a task of `bench.client` in a separate process; return its measurements."""
    request = json.dumps({"port": server.port} | arguments)
    command = [sys.executable, "-m", "bench.client", task]
    done = subprocess.run(
        command, input=request, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT, timeout=CLIENT_SECONDS
    )
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


@contextmanager
def started(command: list[str], env: dict[str, str] | None) -> Iterator[Running]:
    """Run a program that prints one line of JSON with its URL when it is ready; without `env`, in ours."""
    with tempfile.TemporaryDirectory() as folder, _started(command, env, Path(folder) / "log") as running:
        yield running


def stop(process: "subprocess.Popen[Any]") -> None:
    """End a process gracefully, or kill it if it takes too long."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _started(command: list[str], env: dict[str, str] | None, log: Path) -> Iterator[Running]:
    """Run a server that prints one line of JSON with its URL when it is ready."""
    started = time.perf_counter()
    with log.open("a") as stderr:
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=ROOT)
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert line, f"{command} did not start"
        yield Running(json.loads(line)["url"], process.pid, time.perf_counter() - started)
    except BaseException:
        sys.stderr.write(log.read_text()[-2000:])
        raise
    finally:
        stop(process)
        if process.stdout:
            process.stdout.close()


@dataclass(frozen=True)
class Team:
    """A user with a project, and agents with ten slots each."""

    person: Person
    project_id: int
    agents: list[dict[str, Any]]

    @classmethod
    def make(cls, server: Running, agents: int, *, memory: bool = False) -> "Team":
        """Register a user and create a project with this many agents."""
        person = Person.register(server.url)
        number = person.project("Bench")["id"]
        made = [
            person.agent(number, name=f"bench_{n}", memory=memory, tools=[], concurrency_limit=10)
            for n in range(agents)
        ]
        return cls(person, number, made)

    def session(self, project_id: int | None = None) -> str:
        """Create a session and return its id."""
        response = self.person.http.post("/my/chat/sessions", json={"project_id": project_id or self.project_id})
        assert response.status_code == 201, response.text
        return str(response.json()["session_id"])

    def targets(self, count: int) -> list[dict[str, str]]:
        """Return targets for messages: one new session each, distributed over the agents."""
        return [
            {"path": f"/my/chat/{self.session()}/message", "agent": self.agents[n % len(self.agents)]["name"]}
            for n in range(count)
        ]

    def client_arguments(self, count: int) -> dict[str, Any]:
        """Return the arguments of the client to send messages to this many targets."""
        return {"token": self.person.token, "targets": self.targets(count)}


def baseline_arguments(count: int) -> dict[str, Any]:
    """Return the arguments of the client to send messages to the baseline."""
    return {"token": "", "targets": [{"path": "/message", "agent": ""}] * count}
