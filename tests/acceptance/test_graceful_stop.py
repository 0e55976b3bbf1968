"""A server that is asked to stop: short turns finish, long ones fail once, queued ones wait for the next start."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.actors.cluster import ClusterUser
from tests.conftest import JWT_SECRET
from tests.model_server import Hang, ModelServer, Say
from tests.people import Person
from tests.running import STOP_SECONDS, Server, clean_environment
from tests.services import until

pytestmark = pytest.mark.any_database

PATIENCE = 120.0


class Call(threading.Thread):
    """A message whose sender waits for the answer."""

    def __init__(self, user: ClusterUser, session_id: str, content: str) -> None:
        super().__init__(name="call")
        self._talk, self._session_id, self._content = user, session_id, content
        self.answer: httpx.Response | None = None
        self.start()

    def run(self) -> None:
        self.answer = self._talk.send(self._session_id, self._content)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer().running_in_thread() as model:
        yield model


def server_environment(folder: Path, database_url: str, model: ModelServer) -> dict[str, str]:
    """Return the environment of a server that calls the scripted model."""
    return clean_environment(
        folder,
        ARTEL_DATABASE_URL=database_url,
        ARTEL_JWT_SECRET=JWT_SECRET,
        ARTEL_HOST_LEASE_SECONDS="5",  # long enough for a busy machine to renew it
        OPENAI_BASE_URL=model.url,
        OPENAI_API_KEY="none",
    )


def test_stopped_server_loses_no_turn_and_answers_waiting_requests(
    upgraded_database: Callable[[], str], model: ModelServer, tmp_path: Path
) -> None:
    env = server_environment(tmp_path, upgraded_database(), model)
    server = Server.start(tmp_path, env)
    person = Person.register(server.url)
    project = person.project()["id"]
    user = ClusterUser(
        person.http, project, person.agent(project, name="echo", memory=False, concurrency_limit=2)["id"]
    )
    short, long = user.session(), user.session()
    follower = user.follow(long)
    hang = Hang("half")
    model.script(hang)
    interrupted = Call(user, long, "For ever")
    assert until(hang.begun.is_set, PATIENCE)
    queued = [user.begin(long, f"Queued {number}") for number in range(2)]
    waits = Call(user, long, "Queued 2")
    model.script(Say(pause=0.3))
    finishes = Call(user, short, "Just a few words")
    assert until(lambda: len(model.asked) == 2, PATIENCE)
    slotless = user.session()
    queued_for_a_slot = user.begin(slotless, "Waits for a slot")
    assert until(lambda: user.http.get(f"/my/chat/{long}/messages").json()["total"] == 4, PATIENCE)

    server.process.send_signal(signal.SIGTERM)
    began = time.monotonic()

    follower.join(3)
    assert not follower.is_alive(), "a reader is kept"
    assert server.process.wait(STOP_SECONDS) == 0
    assert time.monotonic() - began < STOP_SECONDS
    for call in (interrupted, waits, finishes):
        call.join(5)
    assert finishes.answer is not None
    assert finishes.answer.status_code == 200, finishes.answer.text
    assert finishes.answer.json()["content"] == "You said: Just a few words"
    assert interrupted.answer is not None
    assert (interrupted.answer.status_code, interrupted.answer.json()["code"]) == (502, "agent_failed")
    assert waits.answer is not None
    assert (waits.answer.status_code, waits.answer.json()["status"]) == (202, "queued")
    server.kill()  # closes its output
    assert len(model.asked) == 2, "something was begun although the server was stopping"

    server = Server.start(tmp_path, env)
    user = ClusterUser(httpx.Client(base_url=server.url, headers=person.http.headers), project, user.agent_id)
    with user.http:
        assert_turns_are_finished(user, long, queued, slotless, queued_for_a_slot)
        assert sorted(request.text for request in model.asked) == [
            "For ever",
            "Just a few words",
            "Queued 0",
            "Queued 1",
            "Queued 2",
            "Waits for a slot",
        ]
        assert server.stop() == 0


def assert_turns_are_finished(user: ClusterUser, long: str, queued: list[str], slotless: str, for_a_slot: str) -> None:
    """Wait until the next server has finished what was queued, each turn once and without a lost event."""
    followed = user.follow(long)
    assert until(lambda: followed.kinds.count("turn_completed") == 3, PATIENCE), followed.kinds
    assert [kind for kind in followed.kinds if kind.startswith("turn_")] == ["turn_failed", *["turn_completed"] * 3]
    assert followed.numbers == list(range(1, len(followed.numbers) + 1))
    assert [user.turn(long, turn)["status"] for turn in queued] == ["completed", "completed"]
    assert until(lambda: user.turn(slotless, for_a_slot)["status"] == "completed", PATIENCE)
