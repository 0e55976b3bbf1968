"""Several server processes on one PostgreSQL database, and a user who can talk to each."""

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.conftest import JWT_SECRET
from tests.model_server import ModelServer
from tests.people import Person, client
from tests.running import Server, artel, clean_environment

LEASE_SECONDS = 2


@dataclass
class Cluster:
    """Processes that share a database and a model; each has a data folder of its own."""

    folder: Path
    database: str
    model: ModelServer
    variables: dict[str, str]
    servers: list[Server] = field(default_factory=list)
    token: str = ""
    project_id: int = 0
    agent_id: int = 0

    @classmethod
    def make(cls, folder: Path, admin: str, model: ModelServer, **variables: str) -> "Cluster":
        """Create a cluster with an empty database and no processes."""
        name = f"team_{os.getpid()}_{folder.name}".replace("-", "_").lower()
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        cluster = cls(folder, admin.rsplit("/", 1)[0] + f"/{name}", model, variables)
        upgraded = artel("db", "upgrade", env=cluster._env("upgrade"))
        assert upgraded.returncode == 0, upgraded.stderr
        return cluster

    def start(self, *options: str, name: str = "", **variables: str) -> Server:
        """Start a process; register the user with the first one that serves HTTP."""
        name = name or f"server{len(self.servers)}"
        server = Server.start(self.folder / name, self._env(name) | variables, "serve", *options)
        self.servers.append(server)
        if not self.token and "host" not in options:
            person = Person.register(server.url)
            self.token = person.token
            self.project_id = person.project()["id"]
            self.agent_id = person.agent(self.project_id, name="echo", memory=False)["id"]
        return server

    def at(self, server: Server) -> "ClusterUser":
        """Return the user at one of the processes."""
        return ClusterUser(client(server.url, self.token), self.project_id, self.agent_id)

    def stop(self) -> None:
        """Stop every running process."""
        for server in self.servers:
            if server.process.poll() is None:
                server.stop()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with psycopg.connect(self.database) as connection:
            return connection.execute(query).fetchall()

    def _env(self, name: str) -> dict[str, str]:
        return clean_environment(
            self.folder / name,
            ARTEL_DATABASE_URL=self.database,
            ARTEL_JWT_SECRET=JWT_SECRET,
            OPENAI_BASE_URL=self.model.url,
            OPENAI_API_KEY="none",
            **{"ARTEL_HOST_LEASE_SECONDS": str(LEASE_SECONDS)} | self.variables,
        )


@dataclass
class ClusterUser:
    """The user of the cluster, at one of its processes."""

    http: httpx.Client
    project_id: int
    agent_id: int

    def session(self) -> str:
        answer = self.http.post("/my/chat/sessions", json={"project_id": self.project_id})
        assert answer.status_code == 201, answer.text
        session_id: str = answer.json()["session_id"]
        return session_id

    def send(self, session_id: str, content: str, **headers: str) -> httpx.Response:
        body = {"content": content, "target_agent": self.agent_id}
        return self.http.post(f"/my/chat/{session_id}/message", json=body, headers=headers)

    def say(self, session_id: str, content: str) -> str:
        """Send a message and return the answer."""
        answer = self.send(session_id, content)
        assert answer.status_code == 200, answer.text
        said: str = answer.json()["content"]
        return said

    def begin(self, session_id: str, content: str) -> str:
        """Send a message without waiting; return the turn."""
        answer = self.send(session_id, content, Prefer="respond-async")
        assert answer.status_code == 202, answer.text
        turn_id: str = answer.json()["turn_id"]
        return turn_id

    def turn(self, session_id: str, turn_id: str) -> dict[str, Any]:
        answer = self.http.get(f"/my/chat/{session_id}/turns/{turn_id}")
        assert answer.status_code == 200, answer.text
        turn: dict[str, Any] = answer.json()
        return turn

    def space(self, path: str) -> str:
        return f"/my/projects/{self.project_id}{path}"

    def follow(self, session_id: str, after: int = 0) -> "Follower":
        """Follow the session's events in a thread."""
        follower = Follower(self.http, f"/my/chat/{session_id}/events?after={after}")
        follower.start()
        assert follower.connected.wait(30)
        return follower


class Follower(threading.Thread):
    """Reads a stream of events until it ends."""

    def __init__(self, http: httpx.Client, path: str) -> None:
        super().__init__(name="follower")
        self._http, self._path = http, path
        self.connected = threading.Event()
        self.frames: list[tuple[int | None, str, dict[str, Any]]] = []

    def run(self) -> None:
        try:
            with self._http.stream("GET", self._path) as stream:
                for frame in _frames(stream.iter_lines()):
                    self.connected.set()
                    if "event" in frame:
                        number = int(frame["id"]) if "id" in frame else None
                        self.frames.append((number, frame["event"], json.loads(frame["data"])))
        except httpx.HTTPError:
            return

    def saw(self, kind: str) -> bool:
        return kind in self.kinds

    @property
    def kinds(self) -> list[str]:
        return [kind for _, kind, _ in list(self.frames)]

    @property
    def numbers(self) -> list[int]:
        return [number for number, _, _ in list(self.frames) if number is not None]


def _frames(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    frame: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            frame[name] = value
        else:
            yield frame
            frame = {}
