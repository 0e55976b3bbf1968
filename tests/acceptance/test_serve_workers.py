"""`artel serve --workers`: several processes on one port and one PostgreSQL database."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.actors.cluster import Cluster, ClusterUser
from tests.conftest import JWT_SECRET
from tests.connector import connected
from tests.model_server import Hang, ModelServer, Say, Tool
from tests.people import Person
from tests.running import artel, clean_environment
from tests.services import ServiceRun, until

pytestmark = pytest.mark.req("OPS-01.4")

WAIT_SECONDS = 120.0
NO_LOGIN = {"Authorization": ""}  # refused without a query: the other worker may be stopped with a lock on a row
NO_QDRANT = "http://127.0.0.1:1"  # the agents of these tests have no memory


class Team:
    """A server with two workers, and its user at each."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.server = cluster.start("--workers", "2")

    def pid(self, worker: int) -> int:
        """Return the process that the worker has now."""
        return self.starts(worker)[-1]

    def starts(self, worker: int) -> list[int]:
        ready = [line for line in self.server.log_lines() if line["event"] == "worker_ready"]
        return [line["pid"] for line in ready if line["worker"] == worker]

    def turns_ended(self) -> list[int]:
        """Return the worker of each turn that has ended."""
        return [line["worker"] for line in self.server.log_lines() if line["event"] == "turn_ended"]

    @contextmanager
    def only(self, worker: int) -> Iterator[None]:
        """Let only this worker accept connections: the other one is stopped meanwhile."""
        other = self.pid(3 - worker)
        os.kill(other, signal.SIGSTOP)
        try:
            assert until(lambda: state(other) == "T", WAIT_SECONDS)
            yield
        finally:
            os.kill(other, signal.SIGCONT)

    def at(self, worker: int) -> ClusterUser:
        """Return the user with a connection to this worker, which is used again while it is idle."""
        user = self.cluster.at(self.server)
        with self.only(worker):
            refused = user.http.get("/auth/me", headers=NO_LOGIN)
        assert refused.status_code == 401, refused.text
        assert self.worker_of(refused) == worker
        return user

    def connect(self, worker: int) -> socket.socket:
        """Return a connection to this worker."""
        url = httpx.URL(self.server.url)
        with self.only(worker):
            connection = socket.create_connection((url.host, url.port), timeout=WAIT_SECONDS)
            connection.sendall(f"GET /healthz HTTP/1.1\r\nHost: {url.host}\r\n\r\n".encode())
            received = b""
            while not received.endswith(b"}"):
                received += connection.recv(4096)
        return connection

    def worker_of(self, answer: httpx.Response) -> int:
        """Return the worker that logged a request."""
        found: list[int] = []

        def is_logged() -> bool:
            request = answer.headers["x-request-id"]
            found[:] = [line["worker"] for line in self.server.log_lines() if line.get("request_id") == request]
            return bool(found)

        assert until(is_logged, WAIT_SECONDS)
        return found[0]


def state(pid: int) -> str:
    """Return the state of a process: T if it is stopped; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def has_ended(pid: int) -> bool:
    return state(pid) in ("", "Z", "X")


def is_completed(user: ClusterUser, session: str, turn: str) -> bool:
    return bool(user.turn(session, turn)["status"] == "completed")


NewTeam = Callable[..., Team]


@pytest.fixture(scope="module")
def new_team(services: ServiceRun, model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewTeam]:
    clusters: list[Cluster] = []

    def make(**variables: str) -> Team:
        settings = {"ARTEL_QDRANT_URL": NO_QDRANT} | variables
        clusters.append(Cluster.make(tmp_path_factory.mktemp("workers"), services.postgres(), model, **settings))
        return Team(clusters[-1])

    yield make
    for cluster in clusters:
        cluster.stop()


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer().running_in_thread() as model:
        yield model


@pytest.fixture(scope="module")
def team(new_team: NewTeam) -> Team:
    """A server whose worker spaces stay where they are, although workers are stopped for a moment."""
    return new_team(ARTEL_HOST_LEASE_SECONDS="120")


def test_all_workers_are_ready_when_the_address_is_printed(team: Team) -> None:
    assert team.server.ready == {"url": team.server.url, "workers": 2}
    assert len({team.pid(1), team.pid(2), team.server.process.pid}) == 3


def test_message_to_one_worker_is_streamed_by_the_other(team: Team) -> None:
    first, second = team.at(1), team.at(2)
    session = first.session()
    follower = second.follow(session)

    sent = first.send(session, "Hello")

    assert sent.json()["content"] == "You said: Hello"
    assert team.worker_of(sent) == 1
    assert until(lambda: follower.saw("turn_completed"), WAIT_SECONDS), follower.kinds
    assert follower.numbers == list(range(1, len(follower.numbers) + 1))
    seen = second.http.get(f"/my/chat/{session}/messages")
    assert [message["content"] for message in seen.json()["items"]] == ["Hello", "You said: Hello"]


def test_files_are_reached_through_the_worker_with_the_connector(team: Team) -> None:
    user = team.at(1)
    tools = {"tools": ["tool_read_file"]}
    assert user.http.patch(user.space(f"/agents/{user.agent_id}"), json=tools).status_code == 200
    session = user.session()
    user.say(session, "Take the worker space")
    spaces = team.cluster.rows("SELECT owner, epoch FROM spaces")
    person = Person("", user.http.get("/auth/me").json()["user_id"], team.cluster.token, user.http)
    for worker in (1, 2):  # one of them has the worker space
        with connected(person, team.cluster.project_id, team.connect(worker)) as connector:
            read = Say(tools=[Tool("tool_read_file", '{"path": "a"}')])
            team.cluster.model.script(read, Say("Read."), about=f"Read at {worker}")
            turn = user.begin(session, f"Read at {worker}")
            connector.answer(connector.hear(), content="inside", size=6)
            assert until(partial(is_completed, user, session, turn), WAIT_SECONDS)

    assert team.cluster.rows("SELECT owner, epoch FROM spaces") == spaces, "the worker space moved"


@pytest.mark.req("OPS-01.5")
def test_killed_worker_loses_nothing_and_is_restarted(new_team: NewTeam) -> None:
    team = new_team()
    users = {worker: team.at(worker) for worker in (1, 2)}
    users[1].say(users[1].session(), "Hello")
    assert until(lambda: bool(team.turns_ended()), WAIT_SECONDS)
    [killed] = team.turns_ended()
    other = 3 - killed
    user = users[other]
    session = user.session()
    hang = Hang("half")
    team.cluster.model.script(hang, about="Mortal message 0")
    turns = [user.begin(session, f"Mortal message {number}") for number in range(3)]
    assert until(hang.begun.is_set, WAIT_SECONDS)

    os.kill(team.pid(killed), signal.SIGKILL)

    ends = {"completed", "failed"}
    assert until(lambda: all(user.turn(session, turn)["status"] in ends for turn in turns), WAIT_SECONDS)
    ended = [user.turn(session, turn) for turn in turns]
    assert [turn["status"] for turn in ended] == ["failed", "completed", "completed"]
    assert ended[0]["error_code"] == "interrupted"
    assert until(lambda: len(team.starts(killed)) == 2, WAIT_SECONDS), "it was not restarted"
    assert len(team.starts(other)) == 1
    restarted = team.at(killed)
    assert restarted.say(restarted.session(), "Are you back?") == "You said: Are you back?"

    pids = [team.pid(1), team.pid(2)]
    assert team.server.stop() == 0
    assert all(map(has_ended, pids))


@pytest.mark.req("OPS-01.5")
def test_workers_end_when_the_parent_is_killed(new_team: NewTeam) -> None:
    team = new_team()
    pids = [team.pid(1), team.pid(2)]

    team.server.kill()

    assert until(lambda: all(map(has_ended, pids)), WAIT_SECONDS)


@pytest.mark.parametrize(
    ("variables", "advice"),
    [
        ({}, "Set ARTEL_DATABASE_URL to postgresql://"),
        ({"ARTEL_DATABASE_URL": "postgresql://app@127.0.0.1:1/none"}, "Set ARTEL_QDRANT_URL to http://"),
        (
            {
                "ARTEL_DATABASE_URL": "postgresql://app@127.0.0.1:1/none",
                "ARTEL_QDRANT_URL": NO_QDRANT,
                "ARTEL_MEMORY_PROVIDER": "chroma",
            },
            "leave ARTEL_MEMORY_PROVIDER at qdrant",
        ),
        (
            {
                "ARTEL_DATABASE_URL": "postgresql://app@127.0.0.1:1/none",
                "ARTEL_QDRANT_URL": NO_QDRANT,
                "ARTEL_NODES_DIR": "/none",
            },
            "artel node run",
        ),
    ],
    ids=["SQLite", "memory in the process", "Chroma", "nodes"],
)
def test_what_workers_can_not_share_is_refused(tmp_path: Path, variables: dict[str, str], advice: str) -> None:
    refused = artel("serve", "--workers", "2", "--port", "0", env=clean_environment(tmp_path, **variables))

    assert refused.returncode == 2
    assert advice in " ".join(refused.stderr.split())
    assert refused.stdout == ""


def test_failure_of_the_first_start_is_reported_once(tmp_path: Path) -> None:
    env = clean_environment(
        tmp_path, ARTEL_DATABASE_URL="postgresql://app@127.0.0.1:1/none", ARTEL_QDRANT_URL=NO_QDRANT
    )

    failed = artel("serve", "--workers", "2", "--port", "0", env=env)

    assert failed.returncode == 6
    assert failed.stderr.count("artel: ") == 1
    assert failed.stdout == ""


def test_workers_share_secret_and_task_workspaces_and_nothing_else(team: Team) -> None:
    folder = Path(team.server.env["ARTEL_DATA_DIR"])
    environments = [variables(team.pid(worker)) for worker in (1, 2)]

    assert [given["ARTEL_DATA_DIR"] for given in environments] == [f"{folder}/workers/1", f"{folder}/workers/2"]
    assert [given["ARTEL_WORKSPACES_DIR"] for given in environments] == [str(folder)] * 2
    assert [given["ARTEL_JWT_SECRET"] for given in environments] == [JWT_SECRET] * 2


def variables(pid: int) -> dict[str, str]:
    """Return the environment of a process."""
    listed = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(variable.split("=", 1) for variable in listed if variable)
