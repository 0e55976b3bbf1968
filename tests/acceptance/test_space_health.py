"""What is wrong with a worker space: over HTTP, as health, as figures and as alerts."""

from typing import Any

import pytest

from tests.conftest import StartServer, with_model
from tests.deadlines import eventually
from tests.model_server import ByMark, Fail, Hold, ModelServer
from tests.people import Person, assert_problem
from tests.running import Server

# What is tested has nothing to do with the database.
pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True, scope="session")


@pytest.fixture(scope="session")
def server(start_shared_server: StartServer, model: ModelServer) -> Server:
    """A server on which little is needed for an alert."""
    return start_shared_server(
        **with_model(model),
        ARTEL_AGENT_CACHE_SIZE="4",
        ARTEL_ALERT_QUEUED_TASKS="1",
        ARTEL_ALERT_ERROR_RATE="0.7",
        ARTEL_SPACE_RESET_AFTER_SECONDS="1",
    )


class Space:
    """The worker space of a new project."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.project = person.project()
        self.url = f"/my/projects/{self.project['id']}"
        self.agents = {agent["name"]: agent["id"] for agent in self.project["agents"]}

    def keep_only(self, name: str) -> None:
        for other in self.agents.keys() - {name}:
            assert self.person.http.delete(f"{self.url}/agents/{self.agents[other]}").status_code == 204

    def health(self) -> tuple[str, dict[str, Any]]:
        health = self.person.get(f"{self.url}/space/health")
        return health["status"], {detail["part"]: detail for detail in health["details"]}

    def fail(self, session: str, mark: str) -> None:
        """Let agent_coder fail so often that it is in error."""
        for _ in range(5):
            assert_problem(self.person.post(session, mark), 502, "agent_failed")

    def is_healthy(self) -> bool:
        healthy: bool = self.person.get(f"{self.url}/space")["is_healthy"]
        return healthy

    def alert(self, kind: str) -> dict[str, Any]:
        """Wait for an alert of this kind that is not over."""

        def look() -> list[dict[str, Any]]:
            alerts = self.person.get(f"{self.url}/alerts")["items"]
            return [one for one in alerts if one["kind"] == kind and one["resolved_at"] is None]

        return eventually(look)[0]

    def is_over(self, kind: str) -> bool:
        alerts = self.person.get(f"{self.url}/alerts")["items"]
        return not [one for one in alerts if one["kind"] == kind and one["resolved_at"] is None]


@pytest.fixture
def space(person: Person) -> Space:
    return Space(person)


@pytest.mark.req("UWS-10.2", "UWS-10.4", "UWS-25.1")
def test_missing_agents_are_named_and_without_any_the_space_is_unhealthy(space: Space) -> None:
    assert (space.health(), space.is_healthy()) == (("healthy", {}), True)
    ids = space.agents

    for name in ("agent_coder", "agent_writer"):
        space.person.http.post(f"{space.url}/agents/{ids[name]}/deregister")
    status, details = space.health()
    assert (status, space.is_healthy()) == ("degraded", True)
    assert "2 of 4 agents are not on the bus: agent_coder, agent_writer." in details["agents_missing"]["message"]
    assert space.alert("agents_missing")["severity"] == "warning"

    for name in ("agent_analyzer", "agent_researcher"):
        space.person.http.post(f"{space.url}/agents/{ids[name]}/deregister")
    status, details = space.health()
    assert (status, space.is_healthy()) == ("unhealthy", False)
    assert details["agents_missing"]["severity"] == "critical"

    for agent_id in ids.values():
        space.person.http.post(f"{space.url}/agents/{agent_id}/register")
    assert (space.health(), space.is_healthy()) == (("healthy", {}), True)
    eventually(lambda: space.is_over("agents_missing"))


@pytest.mark.req("UWS-10.2", "UWS-25.1")
def test_a_space_whose_agents_all_fail_is_unhealthy(chat_server: Server, script: ByMark, mark: str) -> None:
    script[mark] = Fail(400)
    space = Space(Person.register(chat_server.url))  # which the server does not reset so soon
    space.keep_only("agent_coder")

    space.fail(space.person.session(space.project["id"]), mark)

    status, details = space.health()
    assert (status, space.is_healthy()) == ("unhealthy", False)
    assert details["no_agent_works"]["severity"] == "critical"


@pytest.mark.req("UWS-08.5", "UWS-10.3")
def test_the_system_resets_a_space_none_of_whose_agents_works_and_that_is_audited(
    space: Space, script: ByMark, mark: str
) -> None:
    script[mark] = Fail(400)
    space.keep_only("agent_coder")
    session = space.person.session(space.project["id"])

    space.fail(session, mark)

    def audited() -> list[dict[str, Any]]:
        items = space.person.get(f"{space.url}/audit")["items"]
        return [one for one in items if one["tool"] == "space_reset" and one["status"] == "done"]

    [reset] = eventually(audited)
    assert (reset["agent"], reset["arguments"]) == ("system", {"initiator": "system", "user_id": None})
    assert (space.health(), space.is_healthy()) == (("healthy", {}), True)
    eventually(lambda: space.is_over("no_agent_works"))
    assert space.person.say(session, "And now?")["content"] == "You said: And now?"


@pytest.mark.req("UWS-14.2", "UWS-25.2")
def test_an_error_rate_above_the_threshold_raises_an_alert(space: Space, script: ByMark, mark: str) -> None:
    script[f"{mark} fails"] = Fail(400)
    session = space.person.session(space.project["id"])
    for number in range(10):  # never five in a row, which is another alert
        space.person.post(session, f"{mark} works" if number % 5 == 4 else f"{mark} fails")

    alert = space.alert("error_rate")

    assert alert["message"] == f"Agent {space.agents['agent_coder']} fails 80% of its tasks."
    assert (space.health()[0], [*space.health()[1]]) == ("degraded", ["error_rate"])
    for _ in range(2):
        space.person.say(session, f"{mark} works")  # 8 of 12 are less than 70 %
    eventually(lambda: space.is_over("error_rate"))


@pytest.mark.req("UWS-10.3", "UWS-25.2")
def test_a_long_queue_raises_an_alert(space: Space, script: ByMark, mark: str) -> None:
    script[mark] = hold = Hold()
    agent = space.person.agent(space.project["id"], name="single", concurrency_limit=1)
    for number in range(3):
        space.person.submit(space.person.session(space.project["id"]), f"{mark} {number}", "single")

    alert = space.alert("long_queue")

    assert alert["message"] == f"Agent {agent['id']} has 2 tasks waiting."
    hold.release()
    eventually(lambda: space.is_over("long_queue"))


@pytest.mark.req("UWS-10.3", "UWS-25.2")
def test_a_cache_that_is_too_small_raises_an_alert(space: Space, mark: str) -> None:
    session = space.person.session(space.project["id"])
    space.person.agent(space.project["id"], name="fifth")
    for name in ("fifth", "coder", "writer", "analyzer"):
        space.person.say(session, mark, name)
    assert space.health() == ("healthy", {})

    space.person.say(session, mark, "researcher")

    assert "ARTEL_AGENT_CACHE_SIZE" in space.alert("cache_overflow")["message"]
    assert space.person.get(f"{space.url}/space")["cache_size"] == 4
    space.person.http.delete(f"{space.url}/space/cache")
    eventually(lambda: space.is_over("cache_overflow"))
