"""The agent cache: what comes from it, what invalidates it, in memory and in Redis."""

import json
import os
from collections.abc import Iterator

import pytest
import redis
import sqlalchemy

from tests.conftest import StartServer, with_model
from tests.deadlines import eventually
from tests.model_server import ByMark, Hold, ModelServer
from tests.people import Person, assert_problem
from tests.running import Server
from tests.services import ServiceRun

pytestmark = pytest.mark.any_database


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


def prompt_behind_the_servers_back(server: Server, agent_id: int, prompt: str) -> None:
    url = server.env["ARTEL_DATABASE_URL"].replace("postgresql:", "postgresql+psycopg:")
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        change = sqlalchemy.text("UPDATE agents SET system_prompt = :prompt WHERE id = :id")
        assert connection.execute(change, {"prompt": prompt, "id": agent_id}).rowcount == 1
    engine.dispose()


class Subject:
    """An agent whose prompt says which version of it was asked."""

    def __init__(self, person: Person, model: ModelServer, mark: str) -> None:
        self.person = person
        self.model = model
        self.mark = mark
        self.project = person.project()
        self.agent = person.agent(self.project["id"], name="subject", system_prompt="old", memory=False, tools=[])
        self.url = f"/my/projects/{self.project['id']}/agents/{self.agent['id']}"
        self.space = f"/my/projects/{self.project['id']}/space"
        self.session = person.session(self.project["id"])
        self.asked = 0

    def prompt(self) -> str:
        """Talk to the agent and return the prompt that the model was given."""
        self.asked += 1
        self.person.say(self.session, f"{self.mark} {self.asked}.", "subject")
        prompt: str = self.model.asked_about(f"{self.mark} {self.asked}.")[0].body["messages"][0]["content"]
        return prompt


@pytest.fixture
def subject(person: Person, model: ModelServer, mark: str) -> Subject:
    return Subject(person, model, mark)


@pytest.mark.req("UWS-04.1", "UWS-04.2")
def test_an_agent_is_read_once_and_then_comes_from_the_cache(subject: Subject, server: Server) -> None:
    subject.person.http.delete(f"{subject.space}/cache")
    empty = subject.person.get(subject.space)["cache_size"]
    first = subject.prompt()

    prompt_behind_the_servers_back(server, subject.agent["id"], "new")

    assert (empty, subject.person.get(subject.space)["cache_size"]) == (0, 1)
    assert (first, subject.prompt(), subject.prompt()) == ("old", "old", "old")


@pytest.mark.req("UWS-11.1", "UWS-11.2", "UWS-13.3")
def test_an_invalidated_agent_is_read_anew_and_registered_anew(subject: Subject, server: Server) -> None:
    subject.prompt()
    prompt_behind_the_servers_back(server, subject.agent["id"], "new")
    before = len(_events(server, subject))

    answer = subject.person.http.post(f"{subject.url}/invalidate")

    assert answer.status_code == 200
    assert answer.json()["registered"] is True
    assert subject.prompt() == "new"
    assert set(_events(server, subject)[before:]) >= {"agent_invalidated", "agent_deregistered", "agent_registered"}


@pytest.mark.req("UWS-11.2")
def test_an_invalidated_agent_is_off_the_bus_until_its_task_is_over_and_then_goes_on(
    person: Person, model: ModelServer, script: ByMark, mark: str
) -> None:
    script[f"{mark} long"] = hold = Hold("Finished.")
    project = person.project()
    agent = person.agent(project["id"], name="subject", concurrency_limit=2)
    url, space = f"/my/projects/{project['id']}/agents/{agent['id']}", f"/my/projects/{project['id']}/space"
    sessions = [person.session(project["id"]) for _ in range(2)]
    turns = [person.submit(sessions[0], f"{mark} long", "subject")]
    eventually(lambda: hold.arrived)

    invalidated = person.http.post(f"{url}/invalidate").json()
    turns.append(person.submit(sessions[1], f"{mark} next", "subject"))
    eventually(lambda: person.get(f"{url}/status")["queued_tasks"] == 1)

    assert (invalidated["registered"], invalidated["active_tasks"]) == (False, 1)
    assert person.get(f"{url}/status")["registered"] is False
    assert person.get(space)["active_agents"] == 4
    assert not model.asked_about(f"{mark} next")  # there is a free slot, and the agent is off the bus
    hold.release()
    places = list(zip(sessions, turns, strict=True))
    eventually(lambda: [person.turn(*place)["status"] for place in places] == ["completed"] * 2)
    assert person.history(sessions[0])[-1]["content"] == "Finished."
    assert person.get(f"{url}/status")["registered"] is True
    assert person.get(space)["active_agents"] == 5


@pytest.mark.req("UWS-04.3")
def test_an_update_through_the_api_holds_at_once(subject: Subject) -> None:
    prompts = [subject.prompt()]
    for version in ("second", "third"):
        answer = subject.person.http.patch(subject.url, json={"system_prompt": version, "concurrency_limit": 9})
        assert answer.status_code == 200
        prompts.append(subject.prompt())

    assert prompts == ["old", "second", "third"]
    assert subject.person.get(f"{subject.url}/status")["concurrency_limit"] == 9


@pytest.mark.req("UWS-12.1", "UWS-12.2")
def test_a_cleared_cache_is_empty_and_the_agents_stay_on_the_bus(subject: Subject, server: Server) -> None:
    subject.prompt()
    prompt_behind_the_servers_back(server, subject.agent["id"], "new")
    before = subject.person.get(subject.space)

    assert subject.person.http.delete(f"{subject.space}/cache").status_code == 204

    after = subject.person.get(subject.space)
    assert (before["cache_size"], after["cache_size"]) == (1, 0)
    assert before["active_agents"] == after["active_agents"] == 5
    assert subject.prompt() == "new"


@pytest.mark.req("UWS-04.4", "UWS-05.3")
def test_a_deleted_agent_leaves_the_cache_and_the_bus(subject: Subject) -> None:
    subject.prompt()
    before = subject.person.get(subject.space)

    assert subject.person.http.delete(subject.url).status_code == 204

    after = subject.person.get(subject.space)
    assert (before["cache_size"] - after["cache_size"], before["active_agents"] - after["active_agents"]) == (1, 1)
    for path in ("status", "metrics"):
        assert_problem(subject.person.http.get(f"{subject.url}/{path}"), 404, "agent_not_found")
    for path in ("register", "deregister", "invalidate"):
        assert_problem(subject.person.http.post(f"{subject.url}/{path}"), 404, "agent_not_found")
    assert_problem(subject.person.post(subject.session, "Hello?", "subject"), 404, "agent_not_found")


@pytest.fixture(scope="session")
def redis_server(start_shared_server: StartServer, services: ServiceRun, model: ModelServer, backend: str) -> Server:
    # Servers with databases of their own have the same ids: each needs a part of Redis for itself.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    part = (2 * worker + (backend == "postgres")) % 16
    return start_shared_server(**with_model(model), ARTEL_REDIS_URL=f"{services.redis().rpartition('/')[0]}/{part}")


@pytest.fixture
def keys(redis_server: Server) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_server.env["ARTEL_REDIS_URL"], decode_responses=True) as connection:
        yield connection


@pytest.mark.req("UWS-04.1", "UWS-04.4", "UWS-11.1", "UWS-12.1", "UWS-12.2")
def test_agents_are_kept_in_redis_under_the_prefix_of_their_space(
    redis_server: Server, keys: redis.Redis, model: ModelServer, mark: str
) -> None:
    subject = Subject(Person.register(redis_server.url), model, mark)
    person = subject.person
    other = person.project("other")
    prefix = person.get(subject.space)["user_prefix"]
    key = f"{prefix}:agent:{subject.agent['id']}"
    person.say(person.session(other["id"]), "Hello")
    others = f"{person.get('/my/projects/' + str(other['id']) + '/space')['user_prefix']}:agent:*"

    subject.prompt()
    assert json.loads(keys.get(key) or "null")["agent"]["system_prompt"] == "old"
    assert 240_000 < keys.pttl(key) <= 300_000
    person.http.delete(f"{subject.space}/cache")
    assert list(keys.scan_iter(f"{prefix}:agent:*")) == []
    assert len(list(keys.scan_iter(others))) == 1
    assert person.get(subject.space)["active_agents"] == 5

    prompt_behind_the_servers_back(redis_server, subject.agent["id"], "new")
    assert subject.prompt() == "new"
    prompt_behind_the_servers_back(redis_server, subject.agent["id"], "newer")
    assert subject.prompt() == "new"
    person.http.post(f"{subject.url}/invalidate")
    assert subject.prompt() == "newer"
    assert json.loads(keys.get(key) or "null")["agent"]["system_prompt"] == "newer"
    person.http.delete(subject.url)
    assert keys.get(key) is None


@pytest.mark.req("UWS-04.2")
@pytest.mark.parametrize("is_ours", [True, False])
def test_agent_cache_is_shared_by_processes_of_one_installation_only(
    redis_server: Server, keys: redis.Redis, model: ModelServer, mark: str, is_ours: bool
) -> None:
    subject = Subject(Person.register(redis_server.url), model, mark)
    subject.prompt()
    key = f"{subject.person.get(subject.space)['user_prefix']}:agent:{subject.agent['id']}"
    entry = json.loads(keys.get(key) or "null")
    keys_before = entry["agent"] | {"system_prompt": "from Redis"}
    subject.person.http.post(f"{subject.space}/cleanup")  # it forgets what is in memory, and in Redis
    version = int(keys.get(key.split(":", maxsplit=1)[0] + ":agents_version") or 0)
    whose = {} if is_ours else {"installation": "another, with the same numbers"}
    keys.set(key, json.dumps(entry | {"version": version, "agent": keys_before} | whose), ex=300)

    assert (subject.prompt() == "from Redis") is is_ours


def _events(server: Server, subject: Subject) -> list[str]:
    return [line["event"] for line in server.log_lines() if line.get("agent_id") == subject.agent["id"]]
