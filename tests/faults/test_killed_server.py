"""Servers killed at any moment lose no confirmed write and restart without repair."""

import random
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.conftest import JWT_SECRET
from tests.depth import by_depth
from tests.people import Person, client
from tests.running import ARTEL, Server, artel, clean_environment

# PostgreSQL is not killed with our server, so it is asked less often.
KILLS = {"sqlite": by_depth(6, 50), "postgres": by_depth(2, 10)}
WRITERS = 4


class Writer(threading.Thread):
    """Creates, changes and deletes projects until the server is gone; remembers what was confirmed."""

    def __init__(self, url: str, token: str, when_writing: threading.Event) -> None:
        super().__init__()
        self._http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=10)
        self._when_writing = when_writing
        self.kept: dict[int, str] = {}
        self.deleted: set[int] = set()
        self.unclear: set[int] = set()

    def run(self) -> None:
        try:
            with self._http:
                while True:
                    self._write()
        except httpx.HTTPError:
            return

    def _write(self) -> None:
        made = self._http.post("/my/projects", json={"name": "first"})
        assert made.status_code == 201, made.text
        number = made.json()["id"]
        self.kept[number] = "first"
        self._when_writing.set()
        self.unclear.add(number)
        renamed = self._http.patch(f"/my/projects/{number}", json={"name": "second"})
        assert renamed.status_code == 200, renamed.text
        self.unclear.remove(number)
        self.kept[number] = "second"
        if number % 3 == 0:
            self.unclear.add(number)
            assert self._http.delete(f"/my/projects/{number}").status_code == 204
            self.unclear.remove(number)
            del self.kept[number]
            self.deleted.add(number)


@pytest.mark.timeout(900)
def test_server_killed_while_writing_restarts_without_data_loss(
    backend: str, upgraded_database: Callable[[], str], tmp_path: Path
) -> None:
    database = upgraded_database()
    env = clean_environment(
        tmp_path,
        ARTEL_DATABASE_URL=database,
        ARTEL_JWT_SECRET=JWT_SECRET,
        ARTEL_LOG_LEVEL="warning",
        ARTEL_MAX_PROJECTS_PER_USER="1000000",
    )
    server = Server.start(tmp_path, env)
    person = Person.register(server.url)
    chance = random.Random(1)

    for _ in range(KILLS[backend]):
        writing = threading.Event()
        writers = [Writer(server.url, person.token, writing) for _ in range(WRITERS)]
        for writer in writers:
            writer.start()
        assert writing.wait(30)
        threading.Event().wait(chance.uniform(0, 0.03))  # the moment of death is the input of this test
        server.kill()
        for writer in writers:
            writer.join(30)
            assert not writer.is_alive()

        server = Server.start(tmp_path, env)
        check(server.url, person.token, writers)

    assert server.stop() == 0
    if backend == "sqlite":
        with sqlite3.connect(database.removeprefix("sqlite:///")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        connection.close()


def check(url: str, token: str, writers: list[Writer]) -> None:
    http = client(url, token)
    for writer in writers:
        for number, name in writer.kept.items():
            answer = http.get(f"/my/projects/{number}")
            if number in writer.unclear:
                assert answer.status_code in (200, 404)
                continue
            assert answer.status_code == 200, f"project {number} was confirmed and is lost"
            project = answer.json()
            assert project["name"] == name
            assert len(project["agents"]) == 4, "half a project"
        for number in writer.deleted:
            assert http.get(f"/my/projects/{number}").status_code == 404


@pytest.mark.usefixtures("started_for_real")
def test_a_server_killed_during_its_first_start_starts_the_next_time(tmp_path: Path) -> None:
    env = clean_environment(tmp_path)
    chance = random.Random(2)
    for attempt in range(by_depth(2, 6)):
        folder = tmp_path / f"try{attempt}"
        env |= {"ARTEL_DATA_DIR": str(folder / "data")}
        with (tmp_path / "log").open("a") as log:
            process = subprocess.Popen([ARTEL, "up", "--port", "0"], env=env, stdout=log, stderr=log)
        try:
            process.wait(chance.uniform(0.4, 1.6))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

        server = Server.start(folder, env, "up")
        assert len(client(server.url, server.ready["token"]).get("/my/projects/1").json()["agents"]) == 4
        assert server.stop() == 0
        assert artel("doctor", "--json", env=env).returncode == 0
