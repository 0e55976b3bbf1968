"""Several processes on one PostgreSQL database: each answers requests, any of them runs the turns."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psycopg
import pytest
from websockets.exceptions import InvalidStatus

from tests.actors.cluster import Cluster, Follower
from tests.connector import connected, hello, socket
from tests.lines import Line
from tests.model_server import Hang, ModelServer, Say, Tool
from tests.people import Person
from tests.running import Server
from tests.services import ServiceRun, until

TERMINAL = {"completed", "failed", "cancelled", "timeout"}
SLOW = Say(" ".join(["slowly"] * 20), pause=0.1)
WAIT_SECONDS = 120.0

NewCluster = Callable[..., Cluster]


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer().running_in_thread() as model:
        yield model


@pytest.fixture(scope="module")
def new_cluster(
    services: ServiceRun, model: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NewCluster]:
    clusters: list[Cluster] = []

    def make(**variables: str) -> Cluster:
        clusters.append(Cluster.make(tmp_path_factory.mktemp("cluster"), services.postgres(), model, **variables))
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.stop()


@pytest.fixture(scope="module", params=["two that do all", "api and host"])
def pair(request: pytest.FixtureRequest, services: ServiceRun, new_cluster: NewCluster) -> tuple[Cluster, Server]:
    """A cluster whose worker space runs in one process, and another process that gets the requests."""
    # Teams with databases of their own have the same ids: each needs a part of Redis for itself.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    part = 4 + (2 * worker + (request.param == "api and host")) % 12
    redis = f"{services.redis().rpartition('/')[0]}/{part}"
    cluster = new_cluster(ARTEL_BUS_URL=services.rabbitmq(), ARTEL_REDIS_URL=redis)
    if request.param == "api and host":
        cluster.start("--role", "host")
        answering = cluster.start("--role", "api")
        cluster.at(answering).say(cluster.at(answering).session(), "Hello")
    else:
        cluster.at(running := cluster.start()).say(cluster.at(running).session(), "Hello")
        answering = cluster.start()
    return cluster, answering


def owners(cluster: Cluster) -> list[tuple[str, int]]:
    return [(owner, epoch) for owner, epoch in cluster.rows("SELECT owner, epoch FROM spaces")]


def test_message_is_answered_by_receiving_process(pair: tuple[Cluster, Server]) -> None:
    cluster, answering = pair
    owner = owners(cluster)
    user = cluster.at(answering)
    session = user.session()

    for number in range(5):
        assert user.say(session, f"Message {number}") == f"You said: Message {number}"

    assert owners(cluster) == owner, "the space moved"


@pytest.mark.req("MOD-01.1")
def test_provider_added_at_one_process_is_used_by_the_other(pair: tuple[Cluster, Server]) -> None:
    cluster, answering = pair
    user = cluster.at(answering)
    new = {"kind": "openai_compatible", "name": "Lab", "base_url": cluster.model.url, "api_key": "a-key-of-the-lab"}
    added = user.http.post("/admin/providers", json=new)
    assert added.status_code == 201, added.text
    agent = f"/my/projects/{cluster.project_id}/agents/{cluster.agent_id}"
    assert user.http.patch(agent, json={"model": "lab/gpt-4"}).status_code == 200
    session = user.session()

    def is_used() -> bool:
        user.say(session, "Who is asked?")
        return cluster.model.asked_about("Who is asked?")[-1].headers["Authorization"] == "Bearer a-key-of-the-lab"

    assert until(is_used, WAIT_SECONDS)

    assert user.http.patch(agent, json={"model": "gpt-4"}).status_code == 200
    assert user.http.delete(f"/admin/providers/{added.json()['id']}").status_code == 204


def test_events_of_remote_turn_arrive_once_and_in_order(pair: tuple[Cluster, Server]) -> None:
    cluster, answering = pair
    user = cluster.at(answering)
    session = user.session()
    follower = user.follow(session)
    cluster.model.script(SLOW, about="Tell me")

    turn_id = user.begin(session, "Tell me")
    assert until(lambda: follower.saw("turn_completed"), WAIT_SECONDS), follower.kinds

    assert follower.numbers == list(range(1, len(follower.numbers) + 1))
    completed = follower.kinds.index("message_completed")
    snapshots = [(at, data) for at, (_, kind, data) in enumerate(follower.frames) if kind == "message_snapshot"]
    assert len(snapshots) >= 3, "the answer was not shown while it was written"
    assert all(at < completed for at, _ in snapshots)
    texts = [data["text"] for _, data in snapshots]
    assert texts == sorted(texts, key=len)
    assert all(follower.frames[completed][2]["content"].startswith(text) for text in texts)
    assert {data["turn_id"] for _, data in snapshots} == {turn_id}
    later = user.follow(session, after=follower.numbers[-1])
    assert user.say(session, "And now?") == "You said: And now?"
    assert until(lambda: later.saw("turn_completed"), WAIT_SECONDS)
    assert not [data for _, kind, data in later.frames if "slowly" in str(data)], "an old answer is still shown"


def test_agent_change_applies_to_next_message(pair: tuple[Cluster, Server]) -> None:
    cluster, answering = pair
    user = cluster.at(answering)
    session = user.session()

    for number in range(20):
        changed = user.http.patch(user.space(f"/agents/{user.agent_id}"), json={"system_prompt": f"Be {number}."})
        assert changed.status_code == 200, changed.text
        user.say(session, f"After change {number}")
        assert f"Be {number}." in cluster.model.asked[-1].body["messages"][0]["content"]


def test_files_are_reached_through_process_with_connector(pair: tuple[Cluster, Server]) -> None:
    cluster, answering = pair
    user = cluster.at(answering)
    person = Person("", user.http.get("/auth/me").json()["user_id"], cluster.token, user.http)
    tools = {"tools": ["tool_read_file", "tool_delete_file"]}
    assert user.http.patch(user.space(f"/agents/{user.agent_id}"), json=tools).status_code == 200
    session = user.session()
    with connected(person, cluster.project_id) as connector:
        cluster.model.script(Say(tools=[Tool("tool_read_file", '{"path": "a"}')]), Say("Read."), about="Read it")
        turn = user.begin(session, "Read it")
        call = connector.hear()
        connector.answer(call, content="inside", size=6)
        assert until(lambda: user.turn(session, turn)["status"] == "completed", WAIT_SECONDS)

        cluster.model.script(Say(tools=[Tool("tool_delete_file", '{"path": "a"}')]), Say("Deleted."), about="Delete it")
        begun = user.begin(session, "Delete it")
        connector.answer(connector.hear(), sha256="a" * 64)  # two looks at what the user is asked about
        connector.answer(connector.hear())
        assert until(lambda: user.turn(session, begun)["status"] == "waiting", WAIT_SECONDS)
        waiting = user.http.get("/my/approvals?status=pending").json()["items"][0]
        user.http.post(f"/my/approvals/{waiting['id']}/confirm", json={"decision": "approve"})
        deleted = connector.hear()
        connector.answer(deleted)
        assert until(lambda: user.turn(session, waiting["turn_id"])["status"] == "completed", WAIT_SECONDS)

        with ThreadPoolExecutor(1) as browser:
            answer = browser.submit(user.http.post, user.space("/undo"), json={"turn_id": waiting["turn_id"]})
            undone = connector.hear()
            connector.answer(undone, files=[{"path": "a", "turn_id": waiting["turn_id"], "outcome": "restored"}])
            assert answer.result(WAIT_SECONDS).json()["files"][0]["outcome"] == "restored"

    assert (call["method"], deleted["method"]) == ("workspace/read", "workspace/delete")
    assert deleted["params"]["epoch"] == undone["params"]["epoch"] == owners(cluster)[0][1]
    assert any("inside" in str(one.body["messages"]) for one in cluster.model.asked)
    assert cluster.rows("SELECT count(*) FROM relay_calls") == [(0,)]


def test_connector_of_another_process_withdraws_question_of_finished_turn(
    pair: tuple[Cluster, Server],
) -> None:
    cluster, answering = pair
    user = cluster.at(answering)
    person = Person("", user.http.get("/auth/me").json()["user_id"], cluster.token, user.http)
    tools = {"tools": ["tool_write_file"]}
    assert user.http.patch(user.space(f"/agents/{user.agent_id}"), json=tools).status_code == 200
    session = user.session()
    with connected(person, cluster.project_id, mode="both") as connector:
        write = Say(tools=[Tool("tool_write_file", '{"path": "a", "content": "x"}')])
        cluster.model.script(write, about="Write it, and wait")
        turn = user.begin(session, "Write it, and wait")
        call = connector.hear()
        asks = {"success": False, "code": "asks", "error": "asked", "ask_id": "q1"}
        connector.say({"jsonrpc": "2.0", "id": call["id"], "result": asks})
        assert until(lambda: user.turn(session, turn)["status"] == "waiting", WAIT_SECONDS)

        assert user.http.post(user.space("/space/reset")).status_code == 200  # which another process does

        told = connector.hear()
    assert (told["method"], told["params"]["ask_id"]) == ("workspace/answered", "q1")
    assert until(lambda: cluster.rows("SELECT count(*) FROM relay_calls") == [(0,)], WAIT_SECONDS)


def test_worker_space_is_reachable_through_any_process(pair: tuple[Cluster, Server]) -> None:
    cluster, answering = pair
    user = cluster.at(answering)
    session = user.session()
    before = user.http.get(user.space("/space")).json()["total_tasks_processed"]
    user.say(session, "Count me")
    agent = f"/agents/{user.agent_id}"

    assert user.http.get(user.space("/space")).json()["total_tasks_processed"] == before + 1
    assert user.http.get(user.space(f"{agent}/status")).json()["status"] == "idle"
    assert user.http.get(user.space(f"{agent}/metrics")).json()["tasks_processed"] >= 1
    assert user.http.get(user.space("/space/health")).json()["status"] in ("healthy", "degraded")
    assert user.http.post(user.space(f"{agent}/deregister")).json()["registered"] is False
    assert user.send(session, "Are you there?").status_code in (409, 503)
    assert user.http.post(user.space(f"{agent}/register")).json()["registered"] is True
    assert user.say(session, "And now?") == "You said: And now?"
    assert user.http.get(user.space("/agents/999999/status")).status_code == 404
    assert user.http.delete(user.space("/space/cache")).status_code == 204
    assert user.http.post(user.space("/space/cleanup")).status_code == 204
    assert user.say(session, "After the cleanup") == "You said: After the cleanup"


def test_reset_through_another_process_cancels_running_turns(pair: tuple[Cluster, Server]) -> None:
    cluster, answering = pair
    user = cluster.at(answering)
    session = user.session()
    cluster.model.script(Hang(), about="Never, until the reset 0")
    turns = [user.begin(session, f"Never, until the reset {number}") for number in range(3)]
    assert until(lambda: user.turn(session, turns[0])["status"] == "running", WAIT_SECONDS)

    assert user.http.post(user.space("/space/reset")).status_code == 200

    assert [user.turn(session, turn)["status"] for turn in turns] == ["cancelled"] * 3
    assert user.say(session, "Go on") == "You said: Go on"


def test_a_turn_is_cancelled_through_another_process(pair: tuple[Cluster, Server]) -> None:
    cluster, answering = pair
    user = cluster.at(answering)
    session = user.session()
    hang = Hang()
    cluster.model.script(hang, about="Never, until it is cancelled")
    turn = user.begin(session, "Never, until it is cancelled")
    assert until(hang.begun.is_set, WAIT_SECONDS)

    cancelled = user.http.post(f"/my/chat/{session}/turns/{turn}/cancel")

    assert cancelled.json()["status"] == "cancelled"
    assert until(hang.abandoned.is_set, 5), "the model is still asked"
    assert user.say(session, "Go on") == "You said: Go on"


def test_project_events_are_followed_at_another_process(pair: tuple[Cluster, Server]) -> None:
    cluster, answering = pair
    user = cluster.at(answering)
    follower = Follower(user.http, user.space("/events"))
    follower.start()
    assert follower.connected.wait(30)

    user.say(user.session(), "Work")

    assert until(lambda: follower.kinds.count("agent_status_changed") >= 2, WAIT_SECONDS), follower.kinds


def test_another_process_takes_over_from_killed_one(new_cluster: NewCluster, services: ServiceRun) -> None:
    cluster = new_cluster(ARTEL_BUS_URL=services.rabbitmq())
    running, other = cluster.start(), cluster.start()
    user = cluster.at(other)
    cluster.at(running).say(user.session(), "Hello")
    [(owner, epoch)] = owners(cluster)
    session = user.session()
    follower = user.follow(session)
    hang = Hang("half")
    cluster.model.script(hang, about="Mortal message 0")
    turns = [user.begin(session, f"Mortal message {number}") for number in range(4)]
    assert until(hang.begun.is_set, WAIT_SECONDS)

    running.kill()

    assert until(lambda: user.turn(session, turns[-1])["status"] in TERMINAL, WAIT_SECONDS)
    ended = [user.turn(session, turn) for turn in turns]
    assert [turn["status"] for turn in ended] == ["failed", "completed", "completed", "completed"]
    assert ended[0]["error_code"] == "interrupted"
    [(new_owner, new_epoch)] = owners(cluster)
    assert new_owner != owner
    assert new_epoch == epoch + 1
    assert until(lambda: follower.kinds.count("turn_completed") == 3, WAIT_SECONDS)
    assert follower.numbers == list(range(1, len(follower.numbers) + 1))
    assert [kind for kind in follower.kinds if kind.startswith("turn_")] == ["turn_failed"] + ["turn_completed"] * 3
    said = user.http.get(f"/my/chat/{session}/messages").json()["items"]
    answers = [(one["role"], one["status"]) for one in said if one["role"] != "user"]
    if answers[0] == ("assistant", "cut_off"):  # if it had been written for long enough to be kept
        answers.pop(0)
    assert answers == [
        ("system", "failed"),
        *[("assistant", "ok")] * 3,
    ]


def test_process_with_expired_lease_writes_nothing_and_answers_once(
    new_cluster: NewCluster, services: ServiceRun
) -> None:
    cluster = new_cluster(ARTEL_BUS_URL=services.rabbitmq())
    sleeper, other = cluster.start(), cluster.start()
    user, sleepers = cluster.at(other), cluster.at(sleeper)
    sleepers.say(user.session(), "Hello")
    session = user.session()
    cluster.model.script(SLOW, about="Slowly, please")
    answers: list[httpx.Response] = []
    waiting = threading.Thread(target=lambda: answers.append(sleepers.send(session, "Slowly, please")))
    waiting.start()
    assert until(lambda: any("Slowly, please" in request.text for request in list(cluster.model.asked)), WAIT_SECONDS)

    sleeper.process.send_signal(signal.SIGSTOP)
    try:
        failed = "SELECT error_code FROM turns WHERE status = 'failed'"
        assert until(lambda: cluster.rows(failed) == [("interrupted",)], WAIT_SECONDS)
        assert user.say(session, "Somebody else?") == "You said: Somebody else?"
        before = cluster.rows("SELECT number, type FROM events ORDER BY session_id, number")
    finally:
        sleeper.process.send_signal(signal.SIGCONT)
    waiting.join(WAIT_SECONDS)

    assert [answer.status_code for answer in answers] == [502], "the one who waits at the sleeper hears how it ended"
    assert sleepers.say(session, "Awake?") == "You said: Awake?"  # it works again, through the other
    after = cluster.rows("SELECT number, type FROM events ORDER BY session_id, number")
    assert len(after) == len(before) + 7, "the sleeper has written something"
    statuses = cluster.rows("SELECT status FROM turns ORDER BY created_at")
    assert statuses == [("completed",), ("failed",), ("completed",), ("completed",)]
    through, directly = (user.http.get(user.space("/space")).json()["uptime"] for user in (sleepers, user))
    assert through <= directly, "the sleeper answers for a space that it has lost"


@pytest.mark.req("OPS-01.1")
def test_without_a_bus_processes_find_everything_in_the_database(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.start("--role", "host")
    user = cluster.at(cluster.start("--role", "api"))
    session = user.session()
    user.say(session, "Hello")
    follower = user.follow(session)

    for number in range(3):
        assert user.say(session, f"Message {number}") == f"You said: Message {number}"

    assert until(lambda: follower.kinds.count("turn_completed") == 4, WAIT_SECONDS), follower.kinds
    assert follower.numbers == list(range(1, len(follower.numbers) + 1))
    hang = Hang()
    cluster.model.script(hang, about="Never, without a bus")
    turn = user.begin(session, "Never, without a bus")
    assert until(hang.begun.is_set, WAIT_SECONDS)
    user.http.post(f"/my/chat/{session}/turns/{turn}/cancel")
    assert until(hang.abandoned.is_set, WAIT_SECONDS), "the cancelled turn goes on"
    assert user.http.get(user.space("/space")).status_code == 200


@pytest.mark.req("OPS-01.3")
def test_answer_of_another_process_is_shown_while_it_is_written_without_a_bus(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.at(running := cluster.start()).say(cluster.at(running).session(), "Hello")
    user = cluster.at(cluster.start())
    session = user.session()
    follower = user.follow(session)
    cluster.model.script(SLOW, about="Tell me without a bus")

    user.begin(session, "Tell me without a bus")
    assert until(lambda: follower.saw("turn_completed"), WAIT_SECONDS), follower.kinds

    shown = follower.kinds[: follower.kinds.index("message_completed")].count("message_snapshot")
    assert shown >= 3, "the answer was not shown while it was written"
    assert follower.numbers == list(range(1, len(follower.numbers) + 1))


@pytest.mark.req("UWS-10.2")
def test_chat_continues_while_rabbitmq_and_redis_are_down(new_cluster: NewCluster, services: ServiceRun) -> None:
    with Line(services.rabbitmq()).running() as bus, Line(services.redis()).running() as cache:
        cluster = new_cluster(ARTEL_BUS_URL=bus.url, ARTEL_REDIS_URL=cache.url)
        running, answering = cluster.start(), cluster.start()
        user = cluster.at(answering)
        session = user.session()
        cluster.at(running).say(user.session(), "Hello")
        assert user.say(session, "With them") == "You said: With them"

        def findings() -> set[str]:
            health = user.http.get(user.space("/space/health")).json()
            assert health["status"] == ("degraded" if health["details"] else "healthy")
            return {detail["part"] for detail in health["details"]}

        assert findings() == set()
        for line, parts in ((bus, {"message_bus"}), (cache, {"message_bus", "shared_cache"})):
            line.cut()
            assert user.say(session, "Without one") == "You said: Without one"
            changed = user.http.patch(user.space(f"/agents/{user.agent_id}"), json={"system_prompt": "Be brief."})
            assert changed.status_code == 200
            assert cluster.at(running).say(session, "Without one") == "You said: Without one"
            assert "Be brief." in cluster.model.asked[-1].body["messages"][0]["content"]
            assert user.http.get("/readyz").status_code == 200
            assert until(lambda: findings() == parts, WAIT_SECONDS), findings()  # noqa: B023
        bus.mend()
        cache.mend()

        lost = [line for line in answering.log_lines() if line["event"] == "bus_connection_lost"]
        assert lost
        assert until(lambda: reconnected(answering), WAIT_SECONDS)
        follower = user.follow(session)
        cluster.model.script(SLOW, about="With them again")
        user.begin(session, "With them again")
        assert until(lambda: follower.saw("message_snapshot"), WAIT_SECONDS), "hints do not flow again"
        user.http.delete(user.space("/space/cache"))  # Redis is asked again
        assert until(lambda: not findings(), WAIT_SECONDS), findings()
        cluster.stop()


def reconnected(server: Server) -> bool:
    events = [line["event"] for line in server.log_lines()]
    lost = max(at for at, event in enumerate(events) if event == "bus_connection_lost")
    return events[lost:].count("bus_connected") >= 2


@pytest.mark.parametrize("processes", [1, 2])
def test_turns_end_once_after_database_outage(new_cluster: NewCluster, services: ServiceRun, processes: int) -> None:
    cluster = new_cluster(ARTEL_HOST_LEASE_SECONDS="30")
    for _ in range(processes):
        cluster.start()
    talks = [cluster.at(server) for server in cluster.servers]
    sessions = [talks[0].session() for _ in range(4)]
    cluster.model.default = Say(pause=0.05)
    try:
        turns = [
            (session, talks[number % processes].begin(session, f"Say these few words again, please {number}"))
            for number, session in enumerate(sessions * 3)
        ]
        assert until(lambda: bool(cluster.rows("SELECT 1 FROM turns WHERE status = 'completed'")), WAIT_SECONDS)
        with away(services.postgres(), cluster.database.rsplit("/", 1)[1]):
            assert until(
                lambda: httpx.get(f"{cluster.servers[0].url}/readyz", timeout=30).status_code == 503, WAIT_SECONDS
            )
        assert until(lambda: not cluster.rows("SELECT 1 FROM turns WHERE finished_at IS NULL"), WAIT_SECONDS), (
            cluster.rows("SELECT status, error_code FROM turns")
        )
    finally:
        cluster.model.default = Say()

    ended = [talks[0].turn(*turn) for turn in turns]
    assert {turn["status"] for turn in ended} <= {"completed", "failed"}
    assert {turn["error_code"] for turn in ended} <= {None, "interrupted"}
    # A turn may fail whose start was stored just when the connection broke.
    assert [turn["status"] for turn in ended].count("completed") >= 10, "answers were lost, or queued turns"
    ends = cluster.rows("SELECT count(*) FROM events WHERE type IN ('turn_completed', 'turn_failed') GROUP BY turn_id")
    assert ends == [(1,)] * len(turns)
    for user in talks:
        assert user.say(user.session(), "Back?") == "You said: Back?"


def test_parking_run_waits_for_database(new_cluster: NewCluster, services: ServiceRun) -> None:
    cluster = new_cluster(ARTEL_HOST_LEASE_SECONDS="60")
    server = cluster.start()
    user = cluster.at(server)
    person = Person("", user.http.get("/auth/me").json()["user_id"], cluster.token, user.http)
    user.http.patch(user.space(f"/agents/{user.agent_id}"), json={"tools": ["tool_write_file"]})
    session = user.session()
    with connected(person, cluster.project_id, mode="both") as connector:
        write = Say(tools=[Tool("tool_write_file", '{"path": "a", "content": "x"}')])
        cluster.model.script(write, Say("Written."), about="Write it all the same")
        turn = user.begin(session, "Write it all the same")
        call = connector.hear()
        with away(services.postgres(), cluster.database.rsplit("/", 1)[1]):
            asks = {"success": False, "code": "asks", "error": "asked", "ask_id": "q1"}
            connector.say({"jsonrpc": "2.0", "id": call["id"], "result": asks})
            assert until(lambda: waited_for(server) >= {"note", "run"}, WAIT_SECONDS), waited_for(server)
        assert until(lambda: user.turn(session, turn)["status"] == "waiting", WAIT_SECONDS), user.turn(session, turn)
        [approval] = user.http.get("/my/approvals", params={"status": "pending"}).json()["items"]
        assert user.http.post(f"/my/approvals/{approval['id']}/confirm", json={"decision": "approve"}).is_success
        again = next(message for message in (connector.hear(), connector.hear()) if "id" in message)
        connector.answer(again, size=1)
        assert until(lambda: user.turn(session, turn)["status"] == "completed", WAIT_SECONDS)


def test_connector_gets_a_retry_code_while_database_is_down(new_cluster: NewCluster, services: ServiceRun) -> None:
    cluster = new_cluster(ARTEL_HOST_LEASE_SECONDS="60")
    server = cluster.start()
    user = cluster.at(server)
    person = Person("", user.http.get("/auth/me").json()["user_id"], cluster.token, user.http)

    with socket(person, cluster.project_id) as connector:
        with away(services.postgres(), cluster.database.rsplit("/", 1)[1]):
            connector.say(hello(person, cluster.project_id))
            code, reason = connector.close_code()
            with pytest.raises(InvalidStatus) as refused, socket(person, cluster.project_id):
                pass
        assert (code, "database" in reason) == (1013, True)
        assert refused.value.response.status_code == 503

    with connected(person, cluster.project_id):
        assert user.http.get(user.space("/connector")).json()["online"] is True
    assert "Traceback" not in server.log.read_text()
    assert not [line for line in server.log_lines() if line.get("exception")]


def waited_for(server: Server) -> set[str]:
    return {line["what"] for line in server.log_lines() if line["event"] == "database_waited_for"}


class away:  # noqa: N801 - used like a function
    """Make a database unreachable, as during a restart of PostgreSQL."""

    def __init__(self, admin: str, name: str) -> None:
        self._admin, self._name = admin, name

    def __enter__(self) -> None:
        with psycopg.connect(self._admin, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS false")
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (self._name,)
            )

    def __exit__(self, *_: object) -> None:
        with psycopg.connect(self._admin, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS true")


def test_stopping_process_releases_its_worker_spaces(new_cluster: NewCluster, services: ServiceRun) -> None:
    cluster = new_cluster(ARTEL_BUS_URL=services.rabbitmq(), ARTEL_HOST_LEASE_SECONDS="60")
    stopped, other = cluster.start(), cluster.start()
    cluster.at(stopped).say(cluster.at(other).session(), "Hello")

    assert stopped.stop() == 0

    user = cluster.at(other)
    assert user.say(user.session(), "Who is there?") == "You said: Who is there?"


@pytest.mark.req("TWS-07.1")
def test_child_agents_of_remote_host_are_visible_and_cancelled(new_cluster: NewCluster, tmp_path: Path) -> None:
    cluster = new_cluster(ARTEL_WORKSPACES_DIR=str(tmp_path), ARTEL_DRAIN_SECONDS="0")
    cluster.start("--role", "host")
    user = cluster.at(cluster.start("--role", "api"))
    agents = f"/my/projects/{cluster.project_id}/agents"
    parent = f"{agents}/{cluster.agent_id}"
    assert user.http.patch(parent, json={"tools": ["write_file", "spawn_agent"]}).status_code == 200
    hang = Hang()
    cluster.model.script(
        Say(tools=[Tool("write_file", '{"path": "plan", "content": "x"}')]),
        Say(tools=[Tool("spawn_agent", '{"role": "tester", "task_brief": {"objective": "Test."}}')]),
        hang,
    )

    user.begin(user.session(), "Begin")

    assert until(hang.begun.is_set, WAIT_SECONDS)
    assert user.http.get(f"{parent}/workspace/files/plan").text == "x"
    [child] = [agent for agent in user.http.get(agents).json()["items"] if agent["parent_agent_id"] == cluster.agent_id]
    assert user.http.get(f"{agents}/{child['id']}/status").json()["active_tasks"] == 1
    assert user.http.delete(parent).status_code == 204
    assert until(hang.abandoned.is_set, WAIT_SECONDS)
    assert user.http.get(f"{agents}/{child['id']}").status_code == 404
    assert list((tmp_path / "workspaces").iterdir()) == []
