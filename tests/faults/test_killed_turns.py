"""Servers killed at a kill point under load: no accepted message is lost or answered twice.

`make faults` kills at each point 20 times; the usual run does it less often.
"""

import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Row

from tests.conftest import JWT_SECRET
from tests.faults.kill_points import KILLS, MORTAL, TERMINAL_EVENTS, Assassin, Deadly, Rows, arm, data_of, points_of
from tests.faults.points import TURN_POINTS
from tests.model_server import ModelServer
from tests.people import Person, client
from tests.running import Server, clean_environment
from tests.services import until

POINTS_AT_THE_MODEL = ("model_called", "streaming")
SESSIONS = 3
QUEUED = 5
DYING_SECONDS = 180.0
RECOVERY_SECONDS = 180.0


@dataclass
class Sent:
    """A message that was sent: its response, or None if the connection was lost."""

    session_id: str
    body: dict[str, Any]
    status: int | None = None
    answer: dict[str, Any] = field(default_factory=dict)


class Sender(threading.Thread):
    """Sends messages to a session until the server is gone: waiting for answers, after a few that queue, or cancelling.

    Fewer than eleven are ever unfinished in a session, so that none is refused.
    """

    def __init__(self, http: httpx.Client, session_id: str, agent_id: int, number: int) -> None:
        super().__init__(name=f"sender-{number}")
        self._http, self._session_id, self._agent_id, self._number = http, session_id, agent_id, number
        self.sent: list[Sent] = []
        self.problem = ""

    def run(self) -> None:
        try:
            while not self.problem:
                self._send(f"{self._session_id} {self._number} {len(self.sent)} please say all of this again")
        except httpx.HTTPError:
            return

    def _send(self, content: str) -> None:
        body = {"content": content, "target_agent": self._agent_id, "idempotency_key": content}
        sent = Sent(self._session_id, body)
        self.sent.append(sent)
        queues = self._number == 1 and len(self.sent) <= QUEUED
        headers = {"Prefer": "respond-async"} if queues or self._number == 2 else {}
        answer = self._http.post(f"/my/chat/{self._session_id}/message", json=body, headers=headers)
        sent.answer, sent.status = answer.json(), answer.status_code
        if sent.status != (202 if headers else 200):
            self.problem = answer.text
        elif self._number == 2:
            self._cancel(sent.answer["turn_id"])

    def _cancel(self, turn_id: str) -> None:
        answer = self._http.post(f"/my/chat/{self._session_id}/turns/{turn_id}/cancel")
        if answer.status_code != 200:
            self.problem = answer.text


class Reader(threading.Thread):
    """Follows a session until the server is gone; remembers the numbers of the events that it was shown."""

    def __init__(self, http: httpx.Client, session_id: str) -> None:
        super().__init__(name="reader")
        self._http, self._session_id = http, session_id
        self.numbers: list[int] = []

    def run(self) -> None:
        try:
            with self._http.stream("GET", f"/my/chat/{self._session_id}/events?after=0") as stream:
                for line in stream.iter_lines():
                    if line.startswith("id: "):
                        self.numbers.append(int(line.removeprefix("id: ")))
        except httpx.HTTPError:
            return


class Victim:
    """A server that is killed and restarted, with its model and a user."""

    def __init__(self, backend: str, database: str, folder: Path, model: ModelServer, assassin: Assassin) -> None:
        self._folder, self._assassin, self._model = folder, assassin, model
        self._armed = folder / "armed"
        self.rows = Rows(database)
        self._env = clean_environment(
            folder,
            ARTEL_DATABASE_URL=database,
            ARTEL_JWT_SECRET=JWT_SECRET,
            ARTEL_LOG_LEVEL="warning",
            ARTEL_HOST_LEASE_SECONDS="2",
            OPENAI_BASE_URL=model.url,
            OPENAI_API_KEY="none",
            MORTAL_FILE=str(self._armed),
        )
        self._chance = random.Random(backend)
        self.server = self._start()
        person = Person.register(self.server.url)
        self._token = person.token
        self._project_id = person.project()["id"]
        self._agent_id = person.agent(self._project_id, name="echo", memory=False, concurrency_limit=2)["id"]

    def _start(self) -> Server:
        return Server.start(self._folder, self._env, module=MORTAL)

    def _client(self) -> httpx.Client:
        return client(self.server.url, self._token)

    def die_at(self, point: str) -> tuple[list[Sent], Reader]:
        """Put the server under load and kill it at a passage of the kill point; return the sent messages."""
        if self.server.process.poll() is not None:  # the point before has failed
            self.server = self._start()
        http = self._client()
        made = [http.post("/my/chat/sessions", json={"project_id": self._project_id}) for _ in range(SESSIONS)]
        sessions = [answer.json()["session_id"] for answer in made]
        senders = [
            Sender(self._client(), session_id, self._agent_id, number) for session_id in sessions for number in range(3)
        ]
        reader = Reader(self._client(), sessions[0])
        passage = self._chance.randint(2, 9)
        if point in POINTS_AT_THE_MODEL:
            self._assassin.arm(point, passage, self.server.process.pid)
        else:
            arm(self._armed, point, passage)
        for thread in (reader, *senders):
            thread.start()
        assert self.server.process.wait(DYING_SECONDS) == -signal.SIGKILL, f"{point} was not passed"
        self.server.kill()  # closes its output
        self._armed.unlink(missing_ok=True)
        for thread in (reader, *senders):
            thread.join(DYING_SECONDS)
            assert not thread.is_alive()
        assert [sender.problem for sender in senders if sender.problem] == []
        return [sent for sender in senders for sent in sender.sent], reader

    def come_back(self, sent: list[Sent]) -> None:
        """Restart, repeat requests without a response, and wait until every turn has ended."""
        self.server = self._start()
        http = self._client()
        for request in sent:
            if request.status is None:
                self._repeat(http, request)
        sessions = sorted({request.session_id for request in sent})
        assert until(lambda: all(turn.finished_at for turn in self.rows.of("turns", sessions)), RECOVERY_SECONDS), [
            turn for turn in self.rows.of("turns", sessions) if not turn.finished_at
        ]

    def _repeat(self, http: httpx.Client, request: Sent) -> None:
        path, wish = f"/my/chat/{request.session_id}/message", {"Prefer": "respond-async"}

        answer = http.post(path, json=request.body, headers=wish)
        request.status, request.answer = answer.status_code, answer.json()
        assert request.status == 202, request.answer

    def asked(self, sent: list[Sent]) -> Counter[str]:
        """Return the number of model calls per message."""
        contents = {one.body["content"] for one in sent}
        return Counter(asked.text for asked in list(self._model.asked) if asked.text in contents)


@pytest.fixture(scope="module")
def victim(
    backend: str, upgraded_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Victim]:
    assassin = Assassin()
    model = ModelServer(Deadly(delay=0.01, pause=0.004, assassin=assassin))
    with model.running_in_thread():
        victim = Victim(backend, upgraded_database(), tmp_path_factory.mktemp("victim"), model, assassin)
        yield victim
        victim.rows.close()
        if victim.server.process.poll() is None:
            assert victim.server.stop() == 0


@pytest.mark.timeout(1200)
def test_turns_are_consistent_after_server_is_killed(victim: Victim, backend: str, subtests: pytest.Subtests) -> None:
    for point in points_of([*TURN_POINTS, *POINTS_AT_THE_MODEL], backend):
        with subtests.test(point=point):
            kill_and_check(victim, point)


def kill_and_check(victim: Victim, point: str) -> None:
    """Kill the server at a kill point repeatedly and check the data each time."""
    for _ in range(KILLS):
        sent, reader = victim.die_at(point)
        sessions = sorted({one.session_id for one in sent})
        before = {turn.id: turn for turn in victim.rows.of("turns", sessions)}
        shown = victim.rows.of("events", [reader._session_id])
        assert reader.numbers == list(range(1, len(reader.numbers) + 1)), "a reader missed an event"
        assert len(reader.numbers) <= len(shown), "a reader was shown an event that was not stored"

        victim.come_back(sent)

        check_messages(victim, sent, sessions)
        check_turns(victim, before, sessions)
        check_events(victim, sessions)
        assert set(victim.asked(sent).values()) <= {1}, "the model was asked twice for one message"


def check_messages(victim: Victim, sent: list[Sent], sessions: list[str]) -> None:
    """Assert that every accepted message is stored once and answers are kept."""
    turns = {turn.idempotency_key: turn for turn in victim.rows.of("turns", sessions)}
    messages = victim.rows.of("messages", sessions)
    copies = Counter(message.content for message in messages if message.role == "user")
    for message_sent in sent:
        content = message_sent.body["content"]
        assert copies[content] == 1, f"{message_sent.status}: {content} is there {copies[content]} times"
        assert turns[content].id == message_sent.answer["turn_id"]
        if message_sent.status == 200:
            assert turns[content].status == "completed"
            assert message_sent.answer["message_id"] in {message.id for message in messages}
    assert len(turns) == len(sent)


def check_turns(victim: Victim, before: dict[str, Row[Any]], sessions: list[str]) -> None:
    """Assert that every turn ended according to its state at the kill, with one answer in the history.

    What was saved of an answer before the kill, on a slow machine, is there too and marked as cut off.
    """
    answers: dict[str, list[Row[Any]]] = {}
    cut_off: dict[str, str] = {}
    for message in victim.rows.of("messages", sessions):
        if message.status == "cut_off":
            cut_off[message.turn_id] = message.content
        elif message.role != "user":
            answers.setdefault(message.turn_id, []).append(message)
    for turn in victim.rows.of("turns", sessions):
        was = before[turn.id].status if turn.id in before else "queued"
        if was == "running":
            assert (turn.status, turn.error_code) == ("failed", "interrupted")
        elif was == "queued":
            assert turn.status == "completed", (turn.status, turn.error_code)
        else:
            assert turn == before[turn.id], "a turn that had ended was changed"
        [answer] = answers[turn.id]
        if turn.status == "completed":
            assert (answer.role, answer.status) == ("assistant", "ok")
            assert answer.content == f"You said: {turn.idempotency_key}"
            assert turn.id not in cut_off
        else:
            assert f"You said: {turn.idempotency_key}".startswith(cut_off.get(turn.id, ""))
            assert (answer.role, answer.status) == ("system", "failed")


def check_events(victim: Victim, sessions: list[str]) -> None:
    """Assert event numbers without gaps, and one start, one answer and one end per turn."""
    numbers: dict[str, list[int]] = {session: [] for session in sessions}
    types_by_turn: dict[str, Counter[str]] = {}
    for event in victim.rows.of("events", sessions):
        numbers[event.session_id].append(event.number)
        is_cut_off = event.type == "message_completed" and data_of(event)["status"] == "cut_off"
        types_by_turn.setdefault(event.turn_id, Counter())["cut_off" if is_cut_off else event.type] += 1
    for session in victim.rows.of("sessions", sessions):
        assert sorted(numbers[session.id]) == list(range(1, session.last_event + 1)), "numbers have holes"
    for turn in victim.rows.of("turns", sessions):
        types = types_by_turn[turn.id]
        assert types["message_created"] == types["message_completed"] == 1, types
        assert sum(types[kind] for kind in TERMINAL_EVENTS) == 1, types
        assert types["direct_agent_call"] == (turn.started_at is not None), types
