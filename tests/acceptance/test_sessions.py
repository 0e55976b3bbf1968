"""Chat sessions over HTTP, on SQLite and PostgreSQL."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from artel.db.tables import metadata
from tests.conftest import Rows
from tests.people import Person, assert_problem

pytestmark = pytest.mark.any_database


@pytest.mark.req("CHT-04.1")
@pytest.mark.parametrize("path", ["/my/chat/sessions/", "/my/chat/sessions"])
def test_every_new_session_has_a_unique_id(person: Person, path: str) -> None:
    project = person.project()

    answers = [person.http.post(path, json={"project_id": project["id"], "title": "A question"}) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [201] * 3
    ids = {answer.json()["session_id"] for answer in answers}
    assert len(ids) == 3
    assert {uuid.UUID(one).version for one in ids} == {7}
    assert answers[0].json()["project_id"] == project["id"]
    assert answers[0].json()["title"] == "A question"


@pytest.mark.req("CHT-04.2")
def test_sessions_are_listed_most_recently_used_first(person: Person) -> None:
    made = [person.http.post("/my/chat/sessions", json={"title": f"Session {n}"}).json() for n in range(3)]
    renamed = person.http.patch(f"/my/chat/sessions/{made[0]['session_id']}", json={"title": "Used again"}).json()

    listed = person.http.get("/my/chat/sessions/").json()

    assert listed["total"] == 3
    assert listed["items"] == [renamed, made[2], made[1]]
    page = person.http.get("/my/chat/sessions", params={"limit": 1, "offset": 1}).json()
    assert page["items"] == [made[2]]


@pytest.mark.req("CHT-10.4")
def test_sessions_are_filtered_by_project(person: Person, other: Person) -> None:
    mine, second = person.project(), person.project("Shop")
    made = [person.session(project["id"]) for project in (mine, second, mine)]

    listed = person.get("/my/chat/sessions", project_id=mine["id"], limit=1)
    rest = person.get("/my/chat/sessions", project_id=mine["id"], limit=1, offset=1)

    assert [one["session_id"] for page in (listed, rest) for one in page["items"]] == [made[2], made[0]]
    assert (listed["total"], rest["total"]) == (2, 2)
    for asking, project_id in ((other, mine["id"]), (person, 2**40)):
        foreign = asking.http.get("/my/chat/sessions", params={"project_id": project_id})
        assert_problem(foreign, 404, "project_not_found")


def test_default_project_is_created_once_for_sessions_without_a_project(person: Person) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: person.http.post("/my/chat/sessions", json={}).json(), range(8)))

    projects = person.http.get("/my/projects").json()["items"]
    assert [(project["is_default"], project["name"]) for project in projects] == [(True, "My project")]
    assert {session["project_id"] for session in made} == {projects[0]["id"]}
    assert len(person.http.get(f"/my/projects/{projects[0]['id']}").json()["agents"]) == 4


@pytest.mark.req("CHT-04.4")
def test_deleting_a_session_deletes_its_messages(person: Person, rows: Rows) -> None:
    session, kept_session = person.session(), person.session()
    url = f"/my/chat/sessions/{session}"
    for session_id in (session, kept_session):
        person.say(session_id, "Hello")
    # Usage rows outlive the session; they contain no message text.
    tables = [table.name for table in metadata.sorted_tables if "session_id" in table.c and table.name != "usage"]

    def stored(session_id: str) -> dict[str, int]:
        counts = {name: f"SELECT count(*) FROM {name} WHERE session_id = :id" for name in tables}  # noqa: S608
        return {name: rows(count, id=session_id)[0][0] for name, count in counts.items()}

    assert stored(session)["messages"] == 2
    before = stored(kept_session)

    assert person.http.delete(url).status_code == 204

    assert set(stored(session).values()) == {0}
    assert stored(kept_session) == before
    assert_problem(person.http.get(f"/my/chat/{session}/messages"), 404, "session_not_found")
    assert_problem(person.http.get(url), 404, "session_not_found")
    assert_problem(person.http.delete(url), 404, "session_not_found")
    assert_problem(person.http.patch(url, json={"title": "x"}), 404, "session_not_found")
    assert [listed["session_id"] for listed in person.get("/my/chat/sessions")["items"]] == [kept_session]


def test_deleting_a_project_deletes_its_sessions(person: Person) -> None:
    project = person.project()
    session = person.http.post("/my/chat/sessions", json={"project_id": project["id"]}).json()

    person.http.delete(f"/my/projects/{project['id']}")

    assert_problem(person.http.get(f"/my/chat/sessions/{session['session_id']}"), 404, "session_not_found")


@pytest.mark.req("CHT-04.5")
def test_sessions_of_others_can_be_neither_seen_nor_reached(person: Person, other: Person) -> None:
    session = person.http.post("/my/chat/sessions", json={"title": "Private"}).json()
    url = f"/my/chat/sessions/{session['session_id']}"

    assert other.http.get("/my/chat/sessions").json()["total"] == 0
    assert_problem(other.http.get(url), 404, "session_not_found")
    assert_problem(other.http.patch(url, json={"title": "Mine"}), 404, "session_not_found")
    assert_problem(other.http.delete(url), 404, "session_not_found")
    foreign = {"project_id": session["project_id"]}
    assert_problem(other.http.post("/my/chat/sessions", json=foreign), 404, "project_not_found")
    assert person.http.get(url).json() == session | {"last_event": 0, "messages": []}


@pytest.mark.parametrize("body", [{"title": ""}, {"title": " "}, {"title": "x" * 201}, {"project_id": "1"}, {"x": 1}])
def test_a_bad_session_is_refused(person: Person, body: dict[str, object]) -> None:
    assert_problem(person.http.post("/my/chat/sessions", json=body), 422, "invalid_request")

    assert person.http.get("/my/chat/sessions").json()["total"] == 0
    assert person.http.get("/my/projects").json()["total"] == 0


@pytest.mark.req("CHT-10.4")
def test_session_is_created_once_for_an_idempotency_key(person: Person, other: Person) -> None:
    project, second = person.project()["id"], person.project("Shop")["id"]
    new = {"project_id": project, "idempotency_key": "first words", "plan_mode": "ask"}

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: person.http.post("/my/chat/sessions", json=new), range(4)))

    assert {answer.status_code for answer in answers} == {201}
    [session] = {answer.json()["session_id"] for answer in answers}
    assert [each["session_id"] for each in person.get("/my/chat/sessions")["items"]] == [session]
    reused = person.http.post("/my/chat/sessions", json=new | {"project_id": second})
    assert_problem(reused, 422, "idempotency_key_reused")
    theirs = other.http.post("/my/chat/sessions", json={"idempotency_key": "first words"}).json()
    assert theirs["session_id"] != session
    assert len({person.session(project), person.session(project), session}) == 3
