"""The activity of a project over time, through HTTP, on SQLite and PostgreSQL."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from artel.ids import first_id_since
from tests.conftest import Write
from tests.model_server import ByMark, Fail, Say
from tests.people import Person, assert_problem
from tests.running import Server

pytestmark = pytest.mark.any_database

FIGURES = ("messages", "failed", "cost_usd", "tokens")


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


def activity(person: Person, project_id: int, **query: Any) -> dict[str, Any]:
    return person.get(f"/my/projects/{project_id}/activity", **query)


@pytest.mark.req("UWS-25.2")
def test_activity_counts_messages_failures_cost_and_agents(
    person: Person, other: Person, script: ByMark, mark: str
) -> None:
    project = person.project()["id"]
    assert activity(person, project)["totals"] == {
        **dict.fromkeys(("messages", "failed", "tokens"), 0),
        "cost_usd": 0.0,
        "p50_ms": None,
        "p95_ms": None,
    }
    session, gone = person.session(project), person.session(project)
    script[f"{mark} ok"] = Say("Fine", tokens=(100, 10))
    script[f"{mark} bad"] = Fail(400)
    plan = [{"id": "a", "agent": "agent_writer", "description": "Write", "depends_on": []}]
    script[f"{mark} plan"] = [Say(json.dumps({"tasks": plan}), tokens=(11, 7)), Say("Part", tokens=(20, 3))]
    for _ in range(2):
        person.say(session, f"{mark} ok")
    person.say(gone, f"{mark} ok")
    person.post(session, f"{mark} bad")
    planned = person.post(session, f"{mark} plan", None, {"Prefer": "wait=30"}).json()
    if approval := planned.get("approval_id"):  # gpt-4 is dear
        person.http.post(f"/my/approvals/{approval}/confirm", json={"decision": "approve"})
        person.events_of(session, planned["turn_id"])
    person.http.delete(f"/my/chat/sessions/{gone}")
    used = person.get("/my/usage", group="agent", project_id=project)

    for wanted, count, seconds in (("24h", 24, 3_600), ("7d", 28, 21_600), ("30d", 30, 86_400)):
        report = activity(person, project, range=wanted)
        totals, buckets = report["totals"], report["buckets"]
        assert (report["range"], report["bucket_seconds"], len(buckets)) == (wanted, seconds, count)
        assert (totals["messages"], totals["failed"]) == (4, 1)
        assert totals["tokens"] == used["sum"]["input_tokens"] + used["sum"]["output_tokens"]
        assert totals["cost_usd"] == pytest.approx(used["sum"]["cost_usd"])
        assert 0 <= totals["p50_ms"] <= totals["p95_ms"] < 120_000
        for name in FIGURES:
            assert sum(bucket[name] for bucket in buckets) == pytest.approx(totals[name])
        starts = [datetime.fromisoformat(bucket["at"]) for bucket in buckets]
        assert {later - start for start, later in pairwise(starts)} == {timedelta(seconds=seconds)}
        assert starts[-1] <= datetime.now(UTC) < starts[-1] + 2 * timedelta(seconds=seconds)
        assert starts[-1].timestamp() % seconds == 0
    by_agent = {item["agent"]: item for item in report["by_agent"]}
    assert {name: (item["messages"], item["failed"]) for name, item in by_agent.items()} == {
        "agent_coder": (3, 1),
        "agent_writer": (1, 0),
        "": (1, 0),
    }
    costs = {item["agent"]: item["cost_usd"] for item in used["items"]}
    assert {name: item["cost_usd"] for name, item in by_agent.items()} == pytest.approx(costs)
    assert all(datetime.fromisoformat(item["last_used_at"]) <= datetime.now(UTC) for item in by_agent.values())
    assert report["month"] == {"spent_usd": pytest.approx(used["sum"]["cost_usd"]), "limit_usd": None}
    person.http.patch(f"/my/projects/{project}", json={"settings": {"monthly_budget_usd": 20}})
    assert activity(person, project)["month"] == {"spent_usd": 0.0, "limit_usd": 20.0}
    person.say(session, f"{mark} ok")
    assert activity(person, project)["month"]["spent_usd"] > 0
    assert_problem(other.http.get(f"/my/projects/{project}/activity"), 404, "project_not_found")
    assert_problem(person.http.get(f"/my/projects/{project}/activity?range=1y"), 422, "invalid_request")


TURNS = """
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 200)
INSERT INTO turns (id, user_id, project_id, session_id, number, mode, agent_id, status, request_hash, created_at,
                   started_at, finished_at)
SELECT :mark || n, :user_id, :project_id, :session_id, 1000 + n, 'direct', :agent_id, :status, '', :start, :start, :end
FROM numbers WHERE n > :after AND n <= :until
"""


@pytest.mark.req("UWS-25.2")
def test_percentiles_and_intervals_are_exact(person: Person, write: Write, mark: str) -> None:
    project = person.project()
    session = person.session(project["id"])
    two_hours_ago = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    end = two_hours_ago + timedelta(minutes=59, seconds=59, microseconds=999_000)
    owner = {"mark": mark, "user_id": person.user_id, "project_id": project["id"], "session_id": session}
    owner["agent_id"] = project["agents"][0]["id"]
    # 50 answers in 1 s, 45 in 2 s, 5 in 90 s; more failures, which took no time; and what is too old.
    for after, until, seconds, status in ((0, 50, 1, "completed"), (50, 95, 2, "partial"), (95, 100, 90, "completed")):
        write(TURNS, **owner, after=after, until=until, status=status, start=end - timedelta(seconds=seconds), end=end)
    owner["mark"] = f"{mark}x"
    write(TURNS.replace("1000 +", "2000 +"), **owner, after=0, until=110, status="failed", start=end, end=end)
    owner["mark"] = f"{mark}y"
    old = two_hours_ago - timedelta(hours=22, microseconds=1)
    write(TURNS.replace("1000 +", "3000 +"), **owner, after=0, until=7, status="completed", start=old, end=old)
    row = "INSERT INTO usage VALUES (:id, :user_id, :project_id, '', '', NULL, '', 'm', :day, 1, 7, 5, :micros)"
    for at, micros in ((two_hours_ago + timedelta(minutes=30), 250_000), (old, 9_000_000)):
        identifier = f"{first_id_since(at)}-7000-8000-{mark[-12:]}"
        write(
            row,
            id=identifier,
            user_id=person.user_id,
            project_id=project["id"],
            day=at.date().isoformat(),
            micros=micros,
        )

    report = activity(person, project["id"])

    [busy] = [bucket for bucket in report["buckets"] if bucket["messages"] or bucket["tokens"]]
    assert datetime.fromisoformat(busy["at"]) == two_hours_ago
    assert busy == {
        "at": busy["at"],
        "messages": 210,
        "failed": 110,
        "p50_ms": 1000,
        "p95_ms": 2000,
        "cost_usd": 0.25,
        "tokens": 12,
    }
    assert {name: value for name, value in busy.items() if name != "at"} == report["totals"]
    by_agent = [(item["agent"], item["messages"], item["cost_usd"]) for item in report["by_agent"]]
    assert by_agent == [("", 0, 0.25), ("agent_coder", 210, 0.0)]
    assert activity(person, project["id"], range="7d")["totals"]["messages"] == 217
