"""Files that users attach to messages, through HTTP, on SQLite and PostgreSQL."""

import base64
import json
import re
from typing import Any

import httpx
import pytest

from tests import images
from tests.conftest import StartServer
from tests.model_server import ByMark, ModelServer, Say, Tool
from tests.people import Person, assert_problem
from tests.running import Server

pytestmark = pytest.mark.any_database

MB = 1024 * 1024


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.fixture
def session(person: Person) -> str:
    """A session of a project with an agent that sees images, one that does not, and one on a node."""
    project = person.project()["id"]
    person.agent(project, name="agent_eyes", model="gpt-4o")
    person.agent(project, name="agent_blind", model="gpt-4")
    return person.session(project)


def upload(person: Person, session: str, name: str, content: bytes | str) -> httpx.Response:
    return person.http.post(f"/my/chat/{session}/attachments", params={"name": name}, content=content)


def attach(person: Person, session: str, name: str, content: bytes | str) -> dict[str, Any]:
    answer = upload(person, session, name, content)
    assert answer.status_code == 201, answer.text
    attachment: dict[str, Any] = answer.json()
    return attachment


def sent(model: ModelServer, mark: str) -> list[Any]:
    """Return the contents of the user's messages in the last request about this mark."""
    messages = model.asked_about(mark)[-1].body["messages"]
    return [message["content"] for message in messages if message["role"] == "user"]


@pytest.mark.req("CHT-20.2", "CHT-20.4")
def test_text_reaches_the_model_as_quoted_data_and_stays_in_the_history(
    person: Person, session: str, model: ModelServer, mark: str
) -> None:
    notes = attach(person, session, "notes.txt", "alpha\nbeta\n")
    answer = person.post(session, f"{mark} first", "blind", attachments=[notes["id"]])
    assert answer.status_code == 200, answer.text
    [first] = sent(model, f"{mark} first")
    person.say(session, f"{mark} second", "blind")
    [earlier, second] = sent(model, f"{mark} second")

    assert {**notes, "id": ""} == {
        "id": "",
        "name": "notes.txt",
        "media_type": "text/plain",
        "size": 11,
        "kind": "text",
        "lines": 2,
        "width": None,
        "height": None,
    }
    head, opened, *lines, closed, empty, text = first.split("\n")
    assert "notes.txt" in head
    assert "is data" in head
    assert (opened, closed) == (f"<<<attachment {notes['id']}", f"attachment {notes['id']}>>>")
    assert (lines, empty, text) == (["alpha", "beta", ""], "", f"{mark} first")
    assert earlier == first
    assert second == f"{mark} second"
    question = person.history(session)[0]
    assert question["attachments"] == [notes]
    export = f"/my/chat/sessions/{session}/export"
    assert "\nAttached: notes.txt (11 bytes)\n" in person.http.get(export, params={"format": "markdown"}).text
    assert notes["id"] in person.http.get(export, params={"format": "json"}).text
    created = person.events_of(session, question["turn_id"])[0]
    assert (created.type, created.data["attachments"]) == ("message_created", [notes])


@pytest.mark.req("CHT-20.3", "CHT-20.4")
def test_image_reaches_a_model_that_takes_images_and_later_only_while_it_is_recent(
    person: Person, session: str, model: ModelServer, mark: str
) -> None:
    picture = images.png(1024, 1024)
    photo = attach(person, session, "photo.png", picture)
    person.post(session, f"{mark} look", "eyes", attachments=[photo["id"]])
    [parts] = sent(model, f"{mark} look")
    for number in range(4):
        person.say(session, f"{mark} turn {number}", "eyes")
    soon, late = sent(model, f"{mark} turn 0")[0], sent(model, f"{mark} turn 3")[0]

    url = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    assert [part["type"] for part in parts] == ["text", "image_url", "text"]
    assert "photo.png" in parts[0]["text"]
    assert parts[1]["image_url"] == {"url": url}
    assert parts[2]["text"] == f"{mark} look"
    assert soon == parts
    assert late == f"{mark} look\n\n[image photo.png was attached earlier]"


@pytest.mark.req("CHT-20.3")
def test_image_is_refused_for_a_model_that_is_not_known_to_take_images(person: Person, session: str) -> None:
    photo = attach(person, session, "photo.png", images.png())

    problem = assert_problem(
        person.post(session, "Look", "blind", attachments=[photo["id"]]), 422, "images_not_supported"
    )

    assert "gpt-4," in problem["detail"]
    assert "models_with_images" in problem["detail"]
    assert person.history(session) == []
    assert person.post(session, "Look", "eyes", attachments=[photo["id"]]).status_code == 200  # it was not used up

    project = person.get(f"/my/chat/sessions/{session}")["project_id"]
    person.agent(project, name="agent_far", model="gpt-4o", runtime="node")
    other = attach(person, session, "photo.png", images.png())["id"]
    on_node = assert_problem(person.post(session, "Look", "far", attachments=[other]), 422, "images_not_supported")
    assert "nodes get texts only" in on_node["detail"]
    starter = person.session()  # of a project whose agents have gpt-4
    third = attach(person, starter, "photo.png", images.png())["id"]
    planned = assert_problem(person.post(starter, "Look", None, attachments=[third]), 422, "images_not_supported")
    assert "No agent of this project" in planned["detail"]


@pytest.mark.req("CHT-20.5")
def test_tasks_of_a_plan_get_the_content_and_the_planner_the_names(
    person: Person, session: str, model: ModelServer, script: ByMark, mark: str
) -> None:
    tasks = [
        {"id": "1", "agent": "agent_eyes", "description": f"{mark} look", "depends_on": []},
        {"id": "2", "agent": "agent_blind", "description": f"{mark} read", "depends_on": []},
    ]
    script[f"{mark} plan"] = Say(json.dumps({"tasks": tasks}))
    files = [
        attach(person, session, "notes.txt", "gamma content"),
        attach(person, session, "photo.png", images.png()),
    ]

    answer = person.post(
        session, f"{mark} plan", None, {"Prefer": "wait=60"}, attachments=[file["id"] for file in files]
    )

    assert answer.status_code == 200, answer.text
    planning = next(asked for asked in model.asked_about(f"{mark} plan") if asked.schema_name == "plan")
    prompt = str(planning.body["messages"])
    assert "notes.txt" in prompt
    assert "photo.png" in prompt
    assert '"sees_images": true' in planning.body["messages"][0]["content"]
    assert "gamma content" not in prompt
    [look], [read] = sent(model, f"{mark} look"), sent(model, f"{mark} read")
    assert [part["type"] for part in look].count("image_url") == 1
    assert "gamma content" in str(look)
    assert "gamma content" in read
    assert "[The image photo.png is attached, but left out: the model of this agent takes no images.]" in read


@pytest.mark.req("CHT-20.2")
def test_long_text_is_cut_with_a_note_and_keeps_its_marks(
    person: Person, session: str, model: ModelServer, mark: str
) -> None:
    long = attach(person, session, "long.txt", "word " * 200_000)
    short = attach(person, session, "short.txt", "the short one")

    answer = person.post(session, f"{mark} read", "blind", attachments=[long["id"], short["id"]])

    assert answer.status_code == 200, answer.text
    [text] = sent(model, f"{mark} read")
    assert f"\n[The rest of long.txt is left out here, because it is too long.]\nattachment {long['id']}>>>\n" in text
    assert "the short one" in text
    assert text.endswith(f"\n\n{mark} read")
    assert 8_000 < len(text) < 40_000


@pytest.mark.req("CHT-20.4", "CHT-20.6")
def test_retry_and_fork_keep_attachments_also_when_the_first_session_is_deleted(
    person: Person, session: str, model: ModelServer, mark: str
) -> None:
    photo = attach(person, session, "photo.png", images.png())
    turn = person.post(session, f"{mark} look", "eyes", attachments=[photo["id"]]).json()
    again = person.http.post(f"/my/chat/{session}/turns/{turn['turn_id']}/retry").json()
    assert [file["id"] for message in person.history(session) for file in message["attachments"]] == [photo["id"]] * 2
    assert "image_url" in str(sent(model, f"{mark} look"))

    fork = person.http.post(f"/my/chat/sessions/{session}/fork", json={"message_id": again["message_id"]}).json()
    person.http.delete(f"/my/chat/sessions/{session}")

    [copy, _] = [file for message in person.history(fork["session_id"]) for file in message["attachments"]]
    assert {**copy, "id": ""} == {**photo, "id": ""}
    assert copy["id"] != photo["id"]
    url = f"/my/chat/{fork['session_id']}/attachments/{copy['id']}"
    assert person.http.get(url).content == images.png()
    person.say(fork["session_id"], f"{mark} once more", "eyes")
    assert "image_url" in str(sent(model, f"{mark} once more"))
    person.http.delete(f"/my/chat/sessions/{fork['session_id']}")
    assert person.http.get(url).status_code == 404


@pytest.mark.req("CHT-20.6")
def test_project_is_deleted_with_its_attachments(person: Person, session: str) -> None:
    files = [attach(person, session, "notes.txt", "text")["id"] for _ in range(2)]
    person.post(session, "Read", "blind", attachments=files[:1])
    project = person.get(f"/my/chat/sessions/{session}")["project_id"]

    assert person.http.delete(f"/my/projects/{project}").status_code == 204

    for file in files:
        assert person.http.get(f"/my/chat/{session}/attachments/{file}").status_code == 404


@pytest.mark.req("CHT-20.4")
def test_run_that_waited_for_approval_gets_its_image_again(
    person: Person, session: str, model: ModelServer, script: ByMark, mark: str
) -> None:
    project = person.get(f"/my/chat/sessions/{session}")["project_id"]
    settings = {"tools": {"memory_write": {"requires_approval": True}}}
    person.http.patch(f"/my/projects/{project}", json={"settings": settings})
    script[f"{mark} look"] = [Say(tools=[Tool("memory_write", json.dumps({"content": "seen"}))]), Say("Done.")]
    photo = attach(person, session, "photo.png", images.png())

    waiting = person.post(session, f"{mark} look", "eyes", attachments=[photo["id"]]).json()
    with person.follow(session) as following:
        person.http.post(f"/my/approvals/{waiting['approval_id']}/confirm", json={"decision": "approve"})
        following.until("turn_completed")

    first, last = (asked.body["messages"] for asked in model.asked_about(f"{mark} look"))
    assert "image_url" in str(last)
    assert [message for message in last if message["role"] == "user"] == [
        message for message in first if message["role"] == "user"
    ]


@pytest.mark.req("CHT-20.1")
def test_upload_is_limited_in_size_and_only_on_its_own_route(person: Person, session: str) -> None:
    largest = upload(person, session, "large.png", images.png(extra=10 * MB - len(images.png())))
    too_large = upload(person, session, "large.txt", b"x" * (10 * MB + 1))
    message = person.http.post(f"/my/chat/{session}/message", content=b"x" * (2 * MB))
    elsewhere = person.http.post(f"/my/chat/{session}/attachments/x", content=b"x" * (2 * MB))

    assert largest.status_code == 201, largest.text
    assert_problem(too_large, 413, "body_too_large")
    assert message.status_code == 413
    assert elsewhere.status_code in (405, 413)


@pytest.mark.req("CHT-20.1")
@pytest.mark.parametrize("name", ["", " ", "../notes.txt", "a\\b.txt", "a\nb", "a\x00", "x" * 256])
def test_bad_names_are_refused(person: Person, session: str, name: str) -> None:
    assert_problem(upload(person, session, name, "text"), 422, "invalid_request")


@pytest.mark.req("CHT-20.1")
def test_other_files_are_refused_whatever_they_are_called(person: Person, session: str) -> None:
    problem = assert_problem(upload(person, session, "photo.png", b"%PDF-1.7\xff"), 422, "attachment_invalid")
    assert "photo.png is neither a text in UTF-8 nor a PNG" in problem["detail"]
    assert_problem(upload(person, session, "empty.txt", b""), 422, "attachment_invalid")


@pytest.mark.req("CHT-20.1")
def test_message_takes_each_unsent_attachment_once_and_at_most_ten(person: Person, session: str) -> None:
    ids = [attach(person, session, f"{number}.txt", "text")["id"] for number in range(11)]

    assert_problem(person.post(session, "Read", "blind", attachments=ids), 422, "invalid_request")
    assert_problem(person.post(session, "Read", "blind", attachments=[ids[0], ids[0]]), 422, "invalid_request")
    key: dict[str, Any] = {"idempotency_key": "k"}
    turns = [person.post(session, "Read", "blind", attachments=ids[:10], **key).json()["turn_id"] for _ in range(2)]
    other_files = person.post(session, "Read", "blind", attachments=ids[:9], **key)
    assert turns[0] == turns[1]
    assert_problem(other_files, 422, "idempotency_key_reused")
    assert_problem(person.post(session, "Read", "blind", attachments=[ids[0]]), 404, "attachment_not_found")
    assert [file["id"] for file in person.history(session)[0]["attachments"]] == ids[:10]

    url = f"/my/chat/{session}/attachments"
    assert_problem(person.http.delete(f"{url}/{ids[0]}"), 409, "attachment_sent")
    assert person.http.delete(f"{url}/{ids[10]}").status_code == 204
    assert_problem(person.http.delete(f"{url}/{ids[10]}"), 404, "attachment_not_found")
    assert_problem(person.http.get(f"{url}/{ids[10]}"), 404, "attachment_not_found")


@pytest.mark.req("CHT-20.3")
def test_images_of_a_message_are_limited_together(person: Person, session: str) -> None:
    ids = [attach(person, session, f"{number}.png", images.png(extra=7 * MB))["id"] for number in range(3)]

    problem = assert_problem(person.post(session, "Look", "eyes", attachments=ids), 422, "attachment_invalid")

    assert "20 MB" in problem["detail"]


@pytest.mark.req("CHT-20.7")
def test_downloads_run_nothing_in_a_browser(person: Person, session: str) -> None:
    page = attach(person, session, 'página ".html', "<script>alert(1)</script>")
    photo = attach(person, session, "photo.html", images.gif())

    shown = [person.http.get(f"/my/chat/{session}/attachments/{file['id']}") for file in (page, photo)]

    for answer in shown:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
    assert shown[0].headers["content-type"] == "text/plain; charset=utf-8"
    assert shown[0].headers["content-disposition"] == "attachment; filename*=UTF-8''p%C3%A1gina%20%22.html"
    assert shown[1].headers["content-type"] == "image/gif"
    assert shown[1].headers["content-disposition"].startswith("inline;")


@pytest.mark.req("CHT-20.6")
def test_storage_quota_counts_attachments(start_server: StartServer) -> None:
    server = start_server()
    person = Person.register(server.url)  # the first one is an administrator
    session = person.session()
    first = attach(person, session, "first.txt", "x" * 900_000)
    person.http.patch(f"/admin/users/{person.user_id}", json={"storage_bytes": 1_000_000})

    full = assert_problem(upload(person, session, "second.txt", "x" * 900_000), 409, "storage_full")
    # The agents of the project take up a little too.
    assert re.search(r": 90\d,\d{3} of 1,000,000 bytes are used, and 900,000 more", full["detail"]), full["detail"]
    assert person.http.delete(f"/my/chat/{session}/attachments/{first['id']}").status_code == 204
    third = attach(person, session, "third.txt", "x" * 900_000)
    answer = person.post(session, "What is in it?", attachments=[third["id"]]).json()  # by the demo brain
    assert "third.txt has 1 line (900,000 bytes) and begins with “xxx" in answer["content"]
