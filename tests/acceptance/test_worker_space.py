"""Worker spaces: life cycle, metrics, alerts and isolation."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import sqlalchemy

from tests.conftest import StartServer, with_model
from tests.deadlines import eventually
from tests.folders import connected_folder
from tests.model_server import ByMark, Fail, Hold, ModelServer, Say, Tool
from tests.people import Person, assert_problem, client
from tests.running import Server

pytestmark = pytest.mark.any_database


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


def initialised(server: Server, project_id: int) -> list[dict[str, object]]:
    lines = server.log_lines()
    return [line for line in lines if line["event"] == "space_initialised" and line["project_id"] == project_id]


@pytest.mark.req("UWS-02.2", "UWS-03.1", "UWS-06.1", "UWS-25.1")
def test_new_project_has_ready_space(person: Person, server: Server) -> None:
    project = person.project()
    # Nothing else was asked for yet: when the call returns, the space has begun, with all agents on the bus.
    assert [line["agents"] for line in initialised(server, project["id"])] == [4]

    space = person.get(f"/my/projects/{project['id']}/space")

    assert space["user_prefix"] == f"user{person.user_id}_project{project['id']}"
    assert (space["user_id"], space["project_id"]) == (person.user_id, project["id"])
    assert (space["active_agents"], space["cache_size"]) == (4, 0)
    assert (space["queued_tasks"], space["active_tasks"], space["total_tasks_processed"]) == (0, 0, 0)
    assert space["is_healthy"] is True
    assert space["uptime"] >= 0
    assert len(initialised(server, project["id"])) == 1
    for agent in project["agents"]:
        url = f"/my/projects/{project['id']}/agents/{agent['id']}"
        status = person.get(f"{url}/status")
        assert (status["status"], status["registered"], status["concurrency_limit"]) == ("idle", True, 3)
        stats = person.get(f"{url}/context/stats")
        assert stats["collection"] == f"{space['user_prefix']}_{agent['name']}_context"
        assert (stats["count"], stats["index_ok"]) == (0, True)
    assert person.say(person.session(project["id"]), "Ready?")["content"] == "You said: Ready?"


@pytest.mark.req("UWS-03.1", "UWS-03.2", "UWS-03.3")
def test_fifty_concurrent_first_requests_create_one_space(person: Person, server: Server) -> None:
    project = person.project()
    url = f"/my/projects/{project['id']}/space"
    assert person.http.post(f"{url}/cleanup").status_code == 204  # so that the next request is the first
    before = len(initialised(server, project["id"]))
    sessions = [person.session(project["id"]) for _ in range(10)]

    def ask(number: int) -> int:
        if number % 5 == 0:
            return person.post(sessions[number // 5], f"Message {number}").status_code
        return person.http.get(url).status_code

    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(ask, range(50)))

    assert answers == [200] * 50
    assert len(initialised(server, project["id"])) == before + 1
    assert person.get(url)["direct_calls_count"] == 10


@pytest.mark.req("UWS-09.1")
def test_space_of_another_user_is_not_found(person: Person, other: Person) -> None:
    theirs = other.project()

    for project_id in (theirs["id"], 2**40, 0):
        for path in ("space", "space/health", "alerts"):
            assert_problem(person.http.get(f"/my/projects/{project_id}/{path}"), 404, "project_not_found")
        for path in ("reset", "cleanup"):
            answer = person.http.post(f"/my/projects/{project_id}/space/{path}")
            assert_problem(answer, 404, "project_not_found")


@pytest.mark.req("UWS-02.3", "UWS-15.2")
def test_a_new_agent_joins_the_space_at_once(person: Person) -> None:
    project = person.project()
    space = f"/my/projects/{project['id']}/space"
    before = person.get(space)["active_agents"]

    agent = person.agent(project["id"], name="newcomer", concurrency_limit=7)

    assert person.get(space)["active_agents"] == before + 1
    status = person.get(f"/my/projects/{project['id']}/agents/{agent['id']}/status")
    assert (status["registered"], status["concurrency_limit"]) == (True, 7)
    assert person.say(person.session(project["id"]), "Welcome", "newcomer")["agent"] == "newcomer"


@pytest.mark.req("UWS-08.1", "UWS-05.3")
def test_cleanup_lets_tasks_finish_and_queued_turns_run_in_next_space(
    person: Person, script: ByMark, server: Server, mark: str
) -> None:
    script[f"{mark} long"] = hold = Hold("Finished.")
    project = person.project()
    agent = person.agent(project["id"], name="single", concurrency_limit=1)
    url = f"/my/projects/{project['id']}/space"
    sessions = [person.session(project["id"]) for _ in range(2)]
    first = person.submit(sessions[0], f"{mark} long", agent["id"])
    eventually(lambda: hold.arrived)
    second = person.submit(sessions[1], f"{mark} next", agent["id"])
    eventually(lambda: person.get(url)["queued_tasks"] == 1)

    with ThreadPoolExecutor(1) as threads:
        ending = threads.submit(person.http.post, f"{url}/cleanup")
        eventually(ending.running)
        assert person.turn(sessions[0], first)["status"] == "running"
        hold.release()
        assert ending.result().status_code == 204

    assert person.turn(sessions[0], first)["status"] == "completed"
    assert person.history(sessions[0])[-1]["content"] == "Finished."
    eventually(lambda: person.turn(sessions[1], second)["status"] == "completed")
    assert not hold.abandoned.is_set()
    events = [line["event"] for line in server.log_lines() if line.get("project_id") == project["id"]]
    assert events.count("space_cleaned_up") == 1


@pytest.mark.req("UWS-08.1", "UWS-05.3")
def test_idle_space_is_cleaned_up_and_created_again(start_server: StartServer, model: ModelServer) -> None:
    started = start_server(**with_model(model), ARTEL_SPACE_IDLE_SECONDS="1")
    person = Person.register(started.url)
    project = person.project()

    def events() -> list[str]:
        return [line["event"] for line in started.log_lines() if line.get("project_id") == project["id"]]

    eventually(lambda: "space_cleaned_up" in events())

    assert person.say(person.session(project["id"]), "Back again")["content"] == "You said: Back again"
    assert events().count("space_initialised") == 2


@pytest.mark.req("UWS-08.2")
def test_reset_cancels_every_task_and_creates_new_space(
    person: Person, script: ByMark, server: Server, mark: str
) -> None:
    script[mark] = hold = Hold(word="Well, ")
    project = person.project()
    url = f"/my/projects/{project['id']}/space"
    session = person.session(project["id"])
    person.say(session, "Remember the milk")
    used = person.get(url)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(person.post, session, mark)
        eventually(lambda: hold.arrived)
        queued = person.submit(session, f"{mark} queued")

        answer = person.http.post(f"{url}/reset")

        assert answer.status_code == 200
        assert_problem(waiting.result(timeout=60), 409, "cancelled")
    assert hold.abandoned.wait(10)
    state = answer.json()
    assert (state["active_tasks"], state["queued_tasks"], state["active_agents"]) == (0, 0, 4)
    assert (used["cache_size"], used["direct_calls_count"], used["total_tasks_processed"]) == (1, 1, 1)
    assert (state["cache_size"], state["direct_calls_count"], state["total_tasks_processed"]) == (0, 0, 0)
    assert state["direct_average_ms"] == 0
    assert {sample["at"] for sample in state["history"]}.isdisjoint(sample["at"] for sample in used["history"])
    assert state["uptime"] < (datetime.now(UTC) - datetime.fromisoformat(used["history"][-1]["at"])).total_seconds()
    assert person.turn(session, queued)["status"] == "cancelled"
    assert person.turn(session, queued)["error_code"] == "space_reset"
    assert len(initialised(server, project["id"])) == 2
    coder = project["agents"][0]
    assert person.get(f"/my/projects/{project['id']}/agents/{coder['id']}/context/stats")["count"] == 1
    assert person.say(session, "And now?")["content"] == "You said: And now?"
    assert len(hold.arrived) == 1
    [audited] = person.get(f"/my/projects/{project['id']}/audit")["items"]
    assert (audited["agent"], audited["tool"], audited["status"]) == ("user", "space_reset", "done")
    assert audited["arguments"] == {"initiator": "user", "user_id": person.user_id}


@pytest.mark.req("UWS-08.5")
def test_an_administrator_may_reset_any_space_and_that_is_audited(
    person: Person, other: Person, server: Server, script: ByMark, mark: str
) -> None:
    script[mark] = hold = Hold(word="Well, ")
    project = other.project()
    session = other.session(project["id"])
    turn = other.submit(session, mark)
    eventually(lambda: hold.arrived)
    url = f"/admin/projects/{project['id']}/space/reset"
    make_administrator(server, person, is_admin=False)

    assert_problem(person.http.post(url), 403, "administrator_only")
    assert_problem(other.http.post(url), 403, "administrator_only")  # though the project is theirs
    assert other.turn(session, turn)["status"] == "running"
    assert httpx.post(f"{server.url}{url}", timeout=30).status_code == 401
    make_administrator(server, person)
    assert_problem(person.http.post("/admin/projects/0/space/reset"), 404, "project_not_found")
    assert person.http.post(url).status_code == 204

    assert hold.abandoned.wait(10)
    ended = other.turn(session, turn)
    assert (ended["status"], ended["error_code"]) == ("cancelled", "space_reset")
    [audited] = other.get(f"/my/projects/{project['id']}/audit")["items"]
    assert (audited["agent"], audited["tool"], audited["status"]) == ("administrator", "space_reset", "done")
    assert audited["arguments"] == {"initiator": "administrator", "user_id": person.user_id}
    assert_problem(person.http.get(f"/my/projects/{project['id']}/audit"), 404, "project_not_found")
    [line] = [
        one
        for one in server.log_lines()
        if one["event"] == "space_reset_started" and one["project_id"] == project["id"]
    ]
    assert (line["initiator"], line["by_user_id"]) == ("administrator", person.user_id)


def make_administrator(server: Server, person: Person, *, is_admin: bool = True) -> None:
    url = server.env["ARTEL_DATABASE_URL"].replace("postgresql:", "postgresql+psycopg:")
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        change = sqlalchemy.text("UPDATE users SET is_admin = :is_admin WHERE id = :id")
        connection.execute(change, {"is_admin": is_admin, "id": person.user_id})
    engine.dispose()


@pytest.mark.req("UWS-08.4")
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True, scope="session")
def test_cleanup_reset_and_crash_leave_user_folder_unchanged(
    start_server: StartServer, model: ModelServer, script: ByMark, mark: str, tmp_path: Path
) -> None:
    started = start_server(**with_model(model))
    person = Person.register(started.url)
    project = person.project()
    work = tmp_path / "work"
    (work / "src" / "empty").mkdir(parents=True)
    (work / "src" / "main.py").write_bytes(b"print('mine')\r\n\x00")
    (work / ".hidden").write_text(mark)
    (work / "run.sh").touch(0o755)
    (work / "link").symlink_to("src/main.py")

    def everything() -> dict[str, object]:
        return {str(path.relative_to(work)): _file_state(path) for path in (work, *work.rglob("*"))}

    before = everything()
    space = f"/my/projects/{project['id']}/space"
    with connected_folder(tmp_path, person, project["id"], "--yes"):
        session = person.session(project["id"])

        def read_and_hold(name: str) -> Hold:
            """Let an agent read a file of the folder, and work on."""
            script[f"{mark} {name}"] = [
                Say(tools=[Tool("tool_read_file", json.dumps({"path": ".hidden"}))]),
                hold := Hold("Read."),
            ]
            person.submit(session, f"{mark} {name}")
            eventually(lambda: hold.arrived)
            assert mark in model.asked_about(f"{mark} {name}")[-1].body["messages"][-1]["content"]
            return hold

        hold = read_and_hold("cleaned up")
        with ThreadPoolExecutor(1) as threads:
            ending = threads.submit(person.http.post, f"{space}/cleanup")
            eventually(ending.running)
            hold.release()
            assert ending.result().status_code == 204
        assert everything() == before
        read_and_hold("reset")
        assert person.http.post(f"{space}/reset").status_code == 200
        assert everything() == before
        read_and_hold("killed")
        started.kill()
        assert everything() == before
        again = Server.start(started.log.parent, started.env)
        try:
            back = Person(person.email, person.user_id, person.token, client(again.url, person.token))
            eventually(lambda: back.history(session)[-1]["status"] == "failed", 30)
            assert everything() == before
        finally:
            again.stop()
    assert everything() == before


def _file_state(path: Path) -> object:
    found = path.lstat()
    content = path.read_bytes() if path.is_file() else None
    return stat.filemode(found.st_mode), found.st_mtime_ns, path.is_symlink() and path.readlink(), content


@pytest.mark.req("AGT-02.9")
def test_cleanup_and_reset_keep_tool_call_rate_limit(
    person: Person, model: ModelServer, script: ByMark, mark: str
) -> None:
    project, second = person.project(), person.project()
    space = f"/my/projects/{project['id']}/space"

    def call_tools(name: str, count: int, project_id: int = project["id"]) -> list[bool]:
        """Make an agent call a tool this many times at once; return which calls were made."""
        calls = [Tool("get_workspace_info", "{}", f"call_{number}") for number in range(count)]
        script[f"{mark} {name}"] = [Say(tools=calls), Say("Done.")]
        person.say(person.session(project_id), f"{mark} {name}")
        told = model.asked_about(f"{mark} {name}")[-1].body["messages"]
        results = [json.loads(one["content"]) for one in told if one["role"] == "tool"]
        assert all(one["success"] or "60 tool calls were made in the last minute" in one["error"] for one in results)
        return [one["success"] for one in results]

    made = [call_tools(f"turn {number}.", 10) for number in range(6)]
    assert made == [[True] * 10] * 6
    assert call_tools("before", 1) == [False]

    assert person.http.post(f"{space}/cleanup").status_code == 204
    assert call_tools("cleaned", 1) == [False]
    assert person.http.post(f"{space}/reset").status_code == 200
    assert call_tools("reset", 1) == [False]
    assert call_tools("elsewhere", 1, second["id"]) == [True]


@pytest.mark.req("UWS-10.1", "UWS-05.1", "UWS-05.2", "UWS-13.1", "UWS-13.2", "CHT-02.1")
def test_agent_runs_no_more_tasks_than_its_limit(person: Person, model: ModelServer, script: ByMark, mark: str) -> None:
    script[mark] = hold = Hold()
    project = person.project()
    agent = person.agent(project["id"], name="pair", concurrency_limit=2)
    status = f"/my/projects/{project['id']}/agents/{agent['id']}/status"
    sessions = [person.session(project["id"]) for _ in range(5)]
    seen = [person.get(status)["status"]]
    turns = [person.submit(sessions[0], f"{mark} 0", "pair")]
    eventually(lambda: hold.arrived)
    seen.append(person.get(status)["status"])
    turns += [person.submit(session, f"{mark} {number}", "pair") for number, session in enumerate(sessions[1:], 1)]
    eventually(lambda: person.get(status)["queued_tasks"] == 3)
    now = person.get(status)
    space = person.get(f"/my/projects/{project['id']}/space")
    eventually(lambda: len(model.asked_about(mark)) >= 2)  # a slot is taken before the model is called
    calls_before_release = len(model.asked_about(mark))

    hold.release()

    assert seen == ["idle", "processing"]
    assert (now["status"], now["active_tasks"], now["queued_tasks"]) == ("at_capacity", 2, 3)
    assert (space["active_tasks"], space["queued_tasks"], space["active_agents"]) == (2, 3, 5)
    assert calls_before_release == 2
    pairs = list(zip(sessions, turns, strict=True))
    eventually(lambda: {person.turn(*pair)["status"] for pair in pairs} == {"completed"})
    done = person.get(status)
    assert (done["status"], done["active_tasks"], done["queued_tasks"]) == ("idle", 0, 0)


@pytest.mark.req("UWS-25.1", "CHT-06.4")
def test_a_space_counts_its_turns_by_mode_and_how_long_they_take(person: Person) -> None:
    project = person.project()
    session = person.session(project["id"])
    took = [person.say(session, "Hello")["duration_ms"] for _ in range(2)]
    took_all = person.post(session, "Hello all", None, {"Prefer": "wait=30"}).json()["duration_ms"]

    space = person.get(f"/my/projects/{project['id']}/space")

    assert (space["direct_calls_count"], space["orchestrated_calls_count"]) == (2, 1)
    assert space["direct_average_ms"] == pytest.approx(sum(took) / 2, abs=1)
    assert space["orchestrated_average_ms"] == pytest.approx(took_all, abs=1)
    assert space["total_tasks_processed"] == 3


@pytest.mark.req("UWS-25.1", "CHT-06.4")
@pytest.mark.parametrize("mode", ["direct", "orchestrated"])
def test_duration_of_turns_is_without_the_time_that_the_user_thinks(
    person: Person, script: ByMark, mark: str, mode: str
) -> None:
    project = person.project()
    agent, *others = project["agents"]
    for other in others:  # a project with one agent needs no planner
        person.http.delete(f"/my/projects/{project['id']}/agents/{other['id']}").raise_for_status()
    rules = {"tools": {"memory_read": {"requires_approval": True}}}
    person.http.patch(f"/my/projects/{project['id']}", json={"settings": rules}).raise_for_status()
    script[mark] = [Say(tools=[Tool("memory_read", json.dumps({"query": "anything"}))]), Say("Done.")]
    session = person.session(project["id"])
    turn_id = person.submit(session, mark, agent["name"] if mode == "direct" else None)
    [approval] = eventually(lambda: person.get("/my/approvals", status="pending")["items"])
    eventually(lambda: datetime.now(UTC) - datetime.fromisoformat(approval["created_at"]) > timedelta(seconds=0.5))

    person.http.post(f"/my/approvals/{approval['id']}/confirm", json={"decision": "approve"}).raise_for_status()

    eventually(lambda: person.turn(session, turn_id)["status"] == "completed")
    decided = person.get(f"/my/approvals/{approval['id']}")
    times = [datetime.fromisoformat(decided[name]) for name in ("created_at", "decided_at")]
    duration = person.history(session)[-1]["duration_ms"]
    space = eventually(
        lambda: (found := person.get(f"/my/projects/{project['id']}/space"))[f"{mode}_calls_count"] and found
    )
    waited = (times[1] - times[0]).total_seconds() * 1000
    assert waited > 400
    assert space[f"{mode}_average_ms"] == pytest.approx(duration - waited, abs=2)


@pytest.mark.req("UWS-10.2", "UWS-10.3", "UWS-13.1", "UWS-13.3", "UWS-14.2", "CHT-08.4")
@pytest.mark.parametrize("cure", ["register", "invalidate"])
def test_five_failures_in_a_row_are_an_error_an_alert_and_503_until_cured(
    person: Person, model: ModelServer, script: ByMark, mark: str, cure: str
) -> None:
    script[f"{mark} fails"] = Fail(400)
    project = person.project()
    coder = next(agent["id"] for agent in project["agents"] if agent["name"] == "agent_coder")
    base = f"/my/projects/{project['id']}"
    session = person.session(project["id"])
    seen = []
    for number in range(5):
        seen.append(person.get(f"{base}/agents/{coder}/status")["status"])
        assert_problem(person.post(session, f"{mark} fails {number}"), 502, "agent_failed")

    assert seen == ["idle"] * 5
    assert person.get(f"{base}/agents/{coder}/status")["status"] == "error"
    calls_before = len(model.asked_about(mark))
    turned_away = person.post(session, f"{mark} once more")
    assert "Try again" in assert_problem(turned_away, 503, "agent_in_error")["detail"]
    assert 1 <= int(turned_away.headers["retry-after"]) <= 30
    assert len(model.asked_about(mark)) == calls_before
    assert not [message for message in person.history(session) if "once more" in message["content"]]
    assert person.say(session, "Somebody else?", "writer")["agent"] == "agent_writer"
    health = person.get(f"{base}/space/health")
    assert (health["status"], [detail["part"] for detail in health["details"]]) == ("degraded", ["agent_error"])
    with person.follow_project(project["id"], 0) as following:
        alert = following.until("alert")[-1]
    assert (alert.data["kind"], alert.data["severity"]) == ("agent_error", "warning")
    [raised] = person.get(f"{base}/alerts")["items"]
    assert (raised["kind"], raised["resolved_at"], raised["id"]) == ("agent_error", None, alert.data["alert_id"])

    cured = person.http.post(f"{base}/agents/{coder}/{cure}").json()

    assert (cured["status"], cured["registered"]) == ("idle", True)
    assert person.say(session, f"{mark} works")["content"] == f"You said: {mark} works"
    eventually(lambda: person.get(f"{base}/alerts")["items"][0]["resolved_at"])
    assert person.get(f"{base}/space/health")["status"] == "healthy"
    figures = person.get(f"{base}/agents/{coder}/metrics")
    assert (figures["tasks_processed"], figures["tasks_failed"]) == (6, 5)
    assert figures["error_rate"] == pytest.approx(5 / 6)


def test_success_resets_failure_count(person: Person, script: ByMark, mark: str) -> None:
    script[f"{mark} fails"] = Fail(400)
    session = person.session()

    for text in ("fails", "fails", "fails", "fails", "works", "fails"):
        person.post(session, f"{mark} {text}")

    assert person.post(session, f"{mark} works").status_code == 200


@pytest.mark.req("UWS-14.1")
def test_agent_metrics_follow_its_work(person: Person, script: ByMark, mark: str) -> None:
    script[f"{mark} fails"] = Fail(400)
    project = person.project()
    url = f"/my/projects/{project['id']}/agents/{project['agents'][0]['id']}/metrics"
    fresh = person.get(url)
    session = person.session(project["id"])

    person.say(session, f"{mark} one")
    person.say(session, f"{mark} two")
    person.post(session, f"{mark} fails")

    figures = person.get(url)
    assert fresh == {
        "agent_id": project["agents"][0]["id"],
        "tasks_processed": 0,
        "tasks_failed": 0,
        "avg_processing_time": 0.0,
        "last_activity": None,
        "error_rate": 0.0,
    }
    assert (figures["tasks_processed"], figures["tasks_failed"]) == (3, 1)
    assert figures["error_rate"] == pytest.approx(1 / 3)
    assert 0 < figures["avg_processing_time"] < 30
    assert figures["last_activity"] > project["created_at"]


@pytest.mark.req("UWS-14.2")
def test_prometheus_metrics_contain_no_tenant_names(person: Person, server: Server, mark: str) -> None:
    project = person.project(f"Project {mark}")
    agent = person.agent(project["id"], name=f"agent_{mark}")
    session = person.session(project["id"])
    person.say(session, f"Hello {mark}", agent["id"])

    text = httpx.get(f"{server.url}/metrics", timeout=30).text

    assert 'artel_turns_total{mode="direct",status="completed"}' in text
    assert 'artel_turn_seconds_count{mode="direct"}' in text
    for tenant in (mark, session, person.email, str(project["id"]) + "/"):
        assert tenant not in text
    assert "user_id" not in text
    assert "project_id=" not in text


@pytest.mark.req("UWS-01.1", "UWS-09.1", "UWS-09.2", "UWS-09.3")
def test_spaces_share_nothing(person: Person, other: Person, model: ModelServer, server: Server, mark: str) -> None:
    secret = f"secret{mark}"
    mine, second, theirs = person.project("mine"), person.project("second"), other.project("theirs")
    session = person.session(mine["id"])
    person.say(session, f"The password is {secret}")
    eventually(lambda: person.get(f"/my/projects/{mine['id']}/agents/{mine['agents'][0]['id']}/context")["total"] == 1)
    prefixes = set()

    for number, (who, project) in enumerate([(person, second), (other, theirs)]):
        space = who.get(f"/my/projects/{project['id']}/space")
        prefixes.add(space["user_prefix"])
        assert (space["total_tasks_processed"], space["direct_calls_count"]) == (0, 0)
        elsewhere = who.session(project["id"])
        answer = who.say(elsewhere, f"{mark} {number}: what is the password that was told?")
        assert answer["context"] == []
        [request] = model.asked_about(f"{mark} {number}")
        assert secret not in json.dumps(request.body)
        texts = [
            json.dumps([event.data for event in who.events_of(elsewhere, answer["turn_id"])]),
            *(
                who.http.get(f"/my/projects/{project['id']}/{path}").text
                for path in (
                    "space",
                    "space/health",
                    "alerts",
                    "archives",
                    f"agents/{project['agents'][0]['id']}/context",
                )
            ),
            who.http.post(
                f"/my/projects/{project['id']}/agents/{project['agents'][0]['id']}/context/search",
                json={"query": "password"},
            ).text,
            other.http.get("/my/search", params={"q": "secret"}).text,
            other.http.get(f"/my/chat/{session}/messages").text,
        ]
        assert not [text for text in texts if secret in text]
    assert len({*prefixes, person.get(f"/my/projects/{mine['id']}/space")["user_prefix"]}) == 3
    lines = server.log_lines()
    assert not [line for line in lines if secret in json.dumps(line)]
    of_other = [line for line in lines if line.get("user_id") == other.user_id]
    assert not [line for line in of_other if line.get("project_id") in (mine["id"], second["id"])]


@pytest.mark.req("UWS-01.2")
def test_two_projects_of_a_user_work_at_the_same_time_without_conflict(person: Person, mark: str) -> None:
    projects = [person.project(f"Project {number}") for number in range(2)]
    sessions = [person.session(project["id"]) for project in projects]

    def talk(number: int) -> list[str]:
        return [person.say(sessions[number], f"{mark} {number} {n}")["content"] for n in range(5)]

    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(talk, range(2)))

    assert answers == [[f"You said: {mark} {number} {n}" for n in range(5)] for number in range(2)]
    for number, project in enumerate(projects):
        assert person.get(f"/my/projects/{project['id']}/space")["direct_calls_count"] == 5
        assert {message["role"] for message in person.history(sessions[number])} == {"user", "assistant"}


def test_deleting_project_cancels_its_running_turns(person: Person, script: ByMark, mark: str) -> None:
    script[mark] = hold = Hold(word="Well, ")
    project = person.project()
    session = person.session(project["id"])
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(person.post, session, mark)
        eventually(lambda: hold.arrived)

        assert person.http.delete(f"/my/projects/{project['id']}").status_code == 204

        assert hold.abandoned.wait(10)
        assert waiting.result(timeout=60).status_code == 404
    assert_problem(person.http.get(f"/my/projects/{project['id']}/space"), 404, "project_not_found")
