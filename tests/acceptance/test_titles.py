"""Titles of sessions, made by a model after the first answer, through HTTP, on SQLite and PostgreSQL."""

import pytest

from tests.conftest import StartServer, with_model
from tests.deadlines import eventually
from tests.model_server import ByMark, Fail, Hold, ModelRequest, ModelServer, Say
from tests.people import Person
from tests.running import Server

pytestmark = pytest.mark.any_database

TITLE = "Write a title"


@pytest.fixture(scope="session")
def server(start_shared_server: StartServer, model: ModelServer) -> Server:
    return start_shared_server(**with_model(model), ARTEL_AUTO_TITLES="true")


def _asked(model: ModelServer, mark: str) -> list[ModelRequest]:
    """Return the requests for a title."""
    asked = [request for request in model.asked.copy() if TITLE in (request.body["messages"][0]["content"] or "")]
    return [request for request in asked if mark in request.text]


@pytest.mark.req("CHT-12.3", "CHT-12.2")
def test_model_makes_a_title_after_the_first_answer(
    person: Person, script: ByMark, model: ModelServer, mark: str
) -> None:
    script[mark] = [Say("Sunny."), Say('\n"**The weather** of `tomorrow`:"\nIt is about rain.', tokens=(1_000, 100))]
    project = person.project()["id"]
    session = person.session(project)
    url = f"/my/chat/sessions/{session}"

    answer = person.say(session, f"{mark} weather?", "writer")
    assert person.get(url)["title"] == f"{mark} weather?"
    with person.follow_project(project, 0) as following:
        while person.get(url)["title"] == f"{mark} weather?":
            following.until("session_changed")

    shown = person.get(url)
    assert (shown["title"], shown["title_source"]) == ("The weather of tomorrow", "auto")
    [asked] = _asked(model, mark)
    assert "Sunny." in asked.text
    report = person.get("/my/usage", group_by="model")
    assert report["sum"]["calls"] == 2
    assert shown["cost_usd"] == report["sum"]["cost_usd"] > answer["usage"]["cost_usd"]
    person.say(session, f"{mark} again")
    script[mark] = Say("Never mind.")
    last = person.session(project)
    person.say(last, mark)
    eventually(lambda: person.get(f"/my/chat/sessions/{last}")["title"] == "Never mind")
    assert len(_asked(model, mark)) == 2  # one for each session


@pytest.mark.req("CHT-12.3")
def test_title_of_the_user_stays_and_a_failure_keeps_the_words(
    person: Person, script: ByMark, model: ModelServer, mark: str
) -> None:
    script[mark] = [Say("Yes."), Fail(400)]
    named, unnamed, last = person.session(title="Mine"), person.session(), person.session()
    person.say(named, "Hello")
    person.say(unnamed, f"{mark} two")
    eventually(lambda: _asked(model, f"{mark} two"))
    script[mark] = Say("Something else")
    person.say(unnamed, f"{mark} three")  # no second attempt
    person.say(last, f"{mark} four")
    eventually(lambda: person.get(f"/my/chat/sessions/{last}")["title"] == "Something else")

    titles = [person.get(f"/my/chat/sessions/{session}")["title"] for session in (named, unnamed)]
    assert titles == ["Mine", f"{mark} two"]
    assert not _asked(model, f"{mark} three")


@pytest.mark.req("CHT-12.3")
def test_title_given_during_generation_is_not_replaced(
    person: Person, script: ByMark, model: ModelServer, mark: str
) -> None:
    script[f"{mark} one"] = [Say("Yes."), hold := Hold("A title")]
    script[f"{mark} two"] = script[f"{mark} three"] = [Say("Yes."), Say("Another title")]
    held, queued, last = person.session(), person.session(), person.session()
    person.say(held, f"{mark} one")
    eventually(lambda: hold.arrived)
    person.say(queued, f"{mark} two")
    for session in (held, queued):
        assert person.http.patch(f"/my/chat/sessions/{session}", json={"title": "Mine"}).status_code == 200
    hold.release()
    person.say(last, f"{mark} three")
    eventually(lambda: person.get(f"/my/chat/sessions/{last}")["title"] == "Another title")  # titles are made in turn

    assert [person.get(f"/my/chat/sessions/{session}")["title"] for session in (held, queued)] == ["Mine", "Mine"]
    assert not _asked(model, f"{mark} two")


@pytest.mark.req("CHT-12.3")
def test_title_is_paid_from_the_monthly_budget(person: Person, script: ByMark, model: ModelServer, mark: str) -> None:
    script[mark] = [Say("Yes.", tokens=(10, 10)), Say("A title", tokens=(100, 10))]
    project = person.project()["id"]
    settings = {"settings": {"monthly_budget_usd": 5}}
    assert person.http.patch(f"/my/projects/{project}", json=settings).status_code == 200
    session = person.session(project)
    person.say(session, f"{mark} one")
    eventually(lambda: person.get(f"/my/chat/sessions/{session}")["title"] == "A title")
    spent = person.get("/my/usage", group_by="model")["sum"]["cost_usd"]
    # What the title did not cost was given back; a budget of what was spent leaves nothing for another one.
    settings = {"settings": {"monthly_budget_usd": spent + 0.0001}}
    assert person.http.patch(f"/my/projects/{project}", json=settings).status_code == 200
    refused = person.post(session, f"{mark} two").json()
    assert f"of ${spent + 0.0001:.2f} is left" in refused["detail"]
    assert "$0.0001" in refused["detail"]
    assert len(_asked(model, mark)) == 1
