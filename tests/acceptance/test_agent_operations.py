"""What a worker space does with its agents: registration, deregistration, deletion, queues."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.deadlines import eventually
from tests.model_server import ByMark, Hold
from tests.people import Person, assert_problem
from tests.running import Server

pytestmark = pytest.mark.any_database


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


class Worker:
    """An agent of a project, with the address of what is done with it."""

    def __init__(self, person: Person, **fields: object) -> None:
        self.person = person
        self.project = person.project()
        self.agent = person.agent(self.project["id"], name="worker", **fields)
        self.url = f"/my/projects/{self.project['id']}/agents/{self.agent['id']}"

    def status(self) -> dict[str, object]:
        return self.person.get(f"{self.url}/status")


def logged(server: Server, event: str, agent_id: int) -> int:
    return sum(line["event"] == event and line.get("agent_id") == agent_id for line in server.log_lines())


@pytest.mark.req("UWS-15.1", "UWS-15.2", "UWS-16.1")
def test_an_agent_off_the_bus_takes_no_task_until_it_is_registered_again(person: Person, server: Server) -> None:
    worker = Worker(person, concurrency_limit=4)
    agent_id = worker.agent["id"]
    session = person.session(worker.project["id"])
    space = f"/my/projects/{worker.project['id']}/space"
    registered = logged(server, "agent_registered", agent_id)

    off = person.http.post(f"{worker.url}/deregister")

    assert (off.status_code, off.json()["registered"]) == (200, False)
    assert person.get(space)["active_agents"] == 4
    assert logged(server, "agent_deregistered", agent_id) == 1
    assert_problem(person.post(session, "Hello", "worker"), 503, "agent_not_registered")
    assert person.history(session) == []
    assert person.say(session, "Hello", "coder")["agent"] == "agent_coder"

    on = person.http.post(f"{worker.url}/register").json()

    assert (on["registered"], on["status"], on["concurrency_limit"]) == (True, "idle", 4)
    assert person.get(space)["active_agents"] == 5
    assert logged(server, "agent_registered", agent_id) == registered + 1
    assert person.say(session, "Hello", "worker")["agent"] == "worker"


@pytest.mark.req("UWS-16.1", "UWS-16.2", "UWS-04.4")
@pytest.mark.parametrize("end", ["deregister", "delete"])
def test_an_agent_that_leaves_finishes_what_it_does_and_starts_nothing_more(
    person: Person, script: ByMark, mark: str, end: str
) -> None:
    script[mark] = hold = Hold("Finished.")
    worker = Worker(person, concurrency_limit=1)
    busy, waiting = person.session(worker.project["id"]), person.session(worker.project["id"])
    running = person.submit(busy, f"{mark} running", "worker")
    eventually(lambda: hold.arrived)
    queued = person.submit(waiting, f"{mark} queued", "worker")
    eventually(lambda: worker.status()["queued_tasks"] == 1)

    with ThreadPoolExecutor(1) as threads:
        if end == "delete":
            leaving = threads.submit(person.http.delete, worker.url)
        else:
            leaving = threads.submit(person.http.post, f"{worker.url}/deregister")
        eventually(lambda: person.turn(waiting, queued)["status"] == "failed")
        assert not leaving.done()  # it waits for the task
        assert person.turn(busy, running)["status"] == "running"
        assert_problem(person.post(waiting, f"{mark} late", "worker"), 503, "agent_not_registered")
        hold.release()
        assert leaving.result().status_code in (200, 204)

    eventually(lambda: person.turn(busy, running)["status"] == "completed")
    assert person.history(busy)[-1]["content"] == "Finished."
    assert len(hold.arrived) == 1
    assert person.turn(waiting, queued)["error_code"] == "agent_not_registered"
    if end == "delete":
        assert_problem(person.http.get(worker.url), 404, "agent_not_found")
        assert_problem(person.http.get(f"{worker.url}/context"), 404, "agent_not_found")
        assert_problem(person.post(waiting, "Hello?", "worker"), 404, "agent_not_found")
        assert [message["agent"] for message in person.history(busy)] == [None, "worker"]


def test_a_hundred_tasks_wait_for_an_agent_and_the_next_is_refused(person: Person, script: ByMark, mark: str) -> None:
    script[mark] = hold = Hold()
    worker = Worker(person, concurrency_limit=1, memory=False)
    sessions = [person.session(worker.project["id"]) for _ in range(11)]
    first = person.submit(sessions[0], mark, "worker")
    eventually(lambda: person.turn(sessions[0], first)["status"] == "running")
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: person.submit(sessions[number % 10], mark, "worker"), range(100)))

    answer = person.post(sessions[10], mark, "worker")

    assert_problem(answer, 503, "agent_queue_full")
    assert int(answer.headers["retry-after"]) > 0
    assert person.history(sessions[10]) == []
    assert person.say(sessions[10], "Somebody else", "coder")["agent"] == "agent_coder"
    assert person.http.post(f"/my/projects/{worker.project['id']}/space/reset").status_code == 200
    hold.release()
    assert person.say(sessions[10], f"{mark} now", "worker")["agent"] == "worker"
