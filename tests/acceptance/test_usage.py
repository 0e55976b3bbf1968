"""What a user's calls to models took, through HTTP and the command line, on SQLite and PostgreSQL."""

import itertools
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conftest import Write
from tests.deadlines import eventually
from tests.model_server import ByMark, Fail, Hold, Say
from tests.people import Person, assert_problem
from tests.running import Server, artel

pytestmark = pytest.mark.any_database

GROUPS = ("day", "project", "agent", "model")
SUMMED = ("calls", "input_tokens", "output_tokens")


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


def plan(*agents: str) -> Say:
    tasks = [
        {"id": str(number), "agent": agent, "description": f"Part {number}", "depends_on": []}
        for number, agent in enumerate(agents)
    ]
    return Say(json.dumps({"tasks": tasks}), tokens=(11, 7))


def used(person: Person, sessions: list[str]) -> dict[str, float]:
    """Return the sum of what the turns of some sessions say they used."""
    sums: dict[str, float] = dict.fromkeys((*SUMMED, "cost_usd"), 0)
    for session in sessions:
        for turn_id in {one["turn_id"] for one in person.history(session, limit=100)}:
            usage = person.turn(session, turn_id)["usage"] or {}
            for name in sums:
                sums[name] += usage.get(name) or 0
    return sums


@pytest.mark.req("CHT-10.5")
def test_the_sums_by_day_project_agent_and_model_are_what_the_turns_used(
    person: Person, other: Person, script: ByMark, mark: str
) -> None:
    projects = [person.project(name)["id"] for name in ("Website", "Shop")]
    sessions = [person.session(project) for project in projects]
    script[f"{mark} direct"] = [Say("One", tokens=(100, 10)), Say("Two", tokens=(50, 5)), Fail(400)]
    script[f"{mark} plan"] = [plan("agent_coder", "agent_writer"), Say("Part", tokens=(20, 3))]
    script[f"{mark} stop"] = hold = Hold(word="Well, ")
    for session, agent in ((sessions[0], "coder"), (sessions[1], "writer")):
        person.say(session, f"{mark} direct", agent)
    person.post(sessions[0], f"{mark} direct")
    planned = person.post(sessions[0], f"{mark} plan", None, {"Prefer": "wait=30"}).json()
    if approval := planned.get("approval_id"):  # gpt-4 is dear
        person.http.post(f"/my/approvals/{approval}/confirm", json={"decision": "approve"})
    eventually(lambda: person.turn(sessions[0], planned["turn_id"])["status"] == "completed", 30)
    stopped = person.submit(sessions[1], f"{mark} stop")
    eventually(lambda: hold.arrived)
    person.http.post(f"/my/chat/{sessions[1]}/turns/{stopped}/cancel")
    eventually(lambda: person.turn(sessions[1], stopped)["usage"])
    expected = used(person, sessions)

    for count in range(1, len(GROUPS) + 1):
        for group in itertools.combinations(GROUPS, count):
            report = person.get("/my/usage", group=",".join(group), limit=100)
            for name in SUMMED:
                assert sum(item[name] for item in report["items"]) == report["sum"][name] == expected[name], group
            assert report["sum"]["cost_usd"] == pytest.approx(expected["cost_usd"], abs=2e-5)

    by_agent = Counter[str]()  # both projects have agents of these names
    for item in person.get("/my/usage", group="agent")["items"]:
        by_agent[item["agent"]] += item["input_tokens"]
    cut_off = person.turn(sessions[1], stopped)["usage"]["input_tokens"]
    # Planning and merging are the orchestrator's, which has no name.
    assert by_agent == {"agent_coder": 100 + 20 + cut_off, "agent_writer": 50 + 20, "": 11 + 20}
    by_project = {item["project_id"]: item["calls"] for item in person.get("/my/usage", group="project")["items"]}
    assert set(by_project) == set(projects)
    assert person.get("/my/usage", project_id=projects[0])["sum"]["calls"] == by_project[projects[0]]
    assert other.get("/my/usage")["sum"]["calls"] == 0
    assert_problem(other.http.get("/my/usage", params={"project_id": projects[0]}), 404, "project_not_found")

    person.http.delete(f"/my/chat/sessions/{sessions[0]}")
    coder = next(agent for agent in person.get(f"/my/projects/{projects[1]}")["agents"] if "coder" in agent["name"])
    person.http.delete(f"/my/projects/{projects[1]}/agents/{coder['id']}")
    left = person.get("/my/usage", group="agent")
    assert {name: left["sum"][name] for name in SUMMED} == {name: expected[name] for name in SUMMED}
    assert "agent_coder" in {item["agent"] for item in left["items"]}


@pytest.mark.req("CHT-10.5")
def test_only_the_days_that_were_asked_for_count_and_bad_ranges_are_refused(person: Person) -> None:
    person.say(person.session(), "Hello")
    today = datetime.now(UTC).date()
    days = {name: (today + timedelta(days=offset)).isoformat() for name, offset in (("before", -1), ("after", 1))}

    def calls(**query: Any) -> int:
        return int(person.get("/my/usage", **query)["sum"]["calls"])

    assert calls(**{"from": days["before"], "to": days["after"]}) == 1
    assert calls(to=days["before"]) == 0
    assert calls(**{"from": days["after"], "to": days["after"]}) == 0
    for query in ({"from": days["after"], "to": days["before"]}, {"from": "2020-01-01", "to": days["after"]}):
        assert_problem(person.http.get("/my/usage", params=query), 422, "range_invalid")
    for query in (
        {"from": "yesterday"},
        {"from": "0"},
        {"to": "-86400"},
        {"to": "86400.0"},
        {"group": "user"},
        {"group": "day,"},
    ):
        assert_problem(person.http.get("/my/usage", params=query), 422, "invalid_request")


MANY = """
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 12000)
INSERT INTO usage (id, user_id, project_id, session_id, turn_id, agent, model, day, calls, input_tokens, output_tokens)
SELECT :mark || n, :user_id, :project_id, 's', 't', '', 'model ' || (100000 + n), :day, 1, 2, 3 FROM numbers
"""


@pytest.mark.req("CHT-10.5")
def test_sum_and_total_count_all_groups_however_many_there_are(person: Person, write: Write, mark: str) -> None:
    today = datetime.now(UTC).date().isoformat()
    write(MANY, mark=mark, user_id=person.user_id, project_id=person.project()["id"], day=today)

    last = person.get("/my/usage", group="model", limit=3, offset=11_998)
    beyond = person.get("/my/usage", group="model", limit=3, offset=12_000)

    assert [item["model"] for item in last["items"]] == ["model 111999", "model 112000"]
    assert beyond["items"] == []
    for report in (last, beyond):
        assert report["total"] == report["sum"]["calls"] == report["sum"]["unpriced_calls"] == 12_000
        assert (report["sum"]["input_tokens"], report["sum"]["output_tokens"]) == (24_000, 36_000)


@pytest.mark.req("CHT-10.5")
def test_the_command_prints_the_same(person: Person, server: Server) -> None:
    person.say(person.session(), "Hello")
    env = server.env | {"ARTEL_SERVER": server.url, "ARTEL_TOKEN": person.token}
    report = person.get("/my/usage", group="agent,model")

    table = artel("usage", "--group", "agent,model", env=env)
    exact = artel("usage", "--group", "agent,model", "--json", env=env)

    assert table.returncode == exact.returncode == 0, table.stderr + exact.stderr
    assert json.loads(exact.stdout)["items"] == report["items"]
    header, row, total = table.stdout.splitlines()
    assert header.split() == ["agent", "model", "calls", "input_tokens", "output_tokens", "cost_usd"]
    assert row.split()[:3] == ["agent_coder", "gpt-4", "1"]
    assert ": 1 calls, " in total
