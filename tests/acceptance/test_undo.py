"""The user takes back through the server what agents have changed in the folder."""

from pathlib import Path
from typing import Any

import pytest

from tests.actors.coder_user import CoderUser
from tests.actors.file_server import serving
from tests.deadlines import eventually
from tests.folders import connected_folder
from tests.model_server import ModelServer
from tests.people import Person, assert_problem
from tests.running import Server

pytestmark = pytest.mark.any_database

OLD = {"changed.txt": b"old\n", "gone.txt": b"here\n"}
NEW = {"changed.txt": b"new\n", "made.txt": b"made\n"}


@pytest.fixture
def person(chat_server: Server) -> Person:
    return Person.register(chat_server.url)


@pytest.fixture
def user(person: Person, model: ModelServer, mark: str) -> CoderUser:
    return CoderUser(person, person.project()["id"], model, mark)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    for name, content in OLD.items():
        (tmp_path / "work" / name).write_bytes(content)
    return tmp_path / "work"


def changed(user: CoderUser) -> str:
    """Let a turn change the folder; return its id."""
    user.script(
        ("tool_edit_file", {"path": "changed.txt", "old": "old", "new": "new"}),
        ("tool_write_file", {"path": "made.txt", "content": "made\n"}),
        ("tool_delete_file", {"path": "gone.txt"}),
    )
    waiting = user.ask()
    user.decide(waiting["approval_id"], decision="approve")
    assert user.ended(waiting["turn_id"])["status"] == "completed"
    turn_id: str = waiting["turn_id"]
    return turn_id


def undo(user: CoderUser, **wanted: Any) -> Any:
    return user.person.http.post(f"/my/projects/{user.project}/undo", json=wanted)


def redo(user: CoderUser, **wanted: Any) -> Any:
    return user.person.http.post(f"/my/projects/{user.project}/redo", json=wanted)


def compare(user: CoderUser, **wanted: Any) -> Any:
    return user.person.get(f"/my/projects/{user.project}/undo", **wanted)


def undone(user: CoderUser) -> dict[str, bool]:
    """Return which changes are undone: the timeline and the list of changes agree on it."""
    [turn] = user.person.get(f"/my/projects/{user.project}/changes")["items"]
    changes = [item["file_change"] for item in timeline(user) if item["file_change"]]
    told = {change["path"]: change["undone"] for change in changes if change["action"] not in ("undo", "redo")}
    assert {file["path"]: file["undone"] for file in turn["files"]} == told
    return told


def timeline(user: CoderUser) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = user.person.get(f"/my/chat/{user.session}/timeline", limit=100)["items"]
    return items


def outcomes(answer: Any) -> dict[str, str]:
    assert answer.status_code == 200, answer.text
    return {file["path"]: file["outcome"] for file in answer.json()["files"]}


def test_what_a_turn_has_changed_is_put_back_once(user: CoderUser, work: Path) -> None:
    with connected_folder(work.parent, user.person, user.project, "--yes") as folder:
        turn = changed(user)
        assert folder.files() == NEW
        newer = user.ask()["turn_id"]  # which changes nothing
        assert_problem(undo(user, turn_id=newer), 409, "undo_refused")

        answer = undo(user, turn_id=turn)

        assert outcomes(answer) == {"changed.txt": "restored", "made.txt": "removed", "gone.txt": "restored"}
        assert {file["turn_id"] for file in answer.json()["files"]} == {turn}
        assert folder.files() == OLD
        problem = assert_problem(undo(user, turn_id=turn), 409, "undo_refused")  # as a browser does that asks again
        assert problem["detail"] == "There is nothing to undo"
        assert folder.files() == OLD

    noted = [one for one in user.audit() if one["tool"] == "undo"]
    assert [one["status"] for one in noted] == ["failed", "done", "failed"]
    assert (noted[1]["turn_id"], noted[1]["session_id"], noted[1]["agent_id"]) == (turn, user.session, None)
    assert (noted[1]["agent"], noted[1]["arguments"]["turn_id"]) == ("", turn)


def test_what_the_user_changed_since_stays_and_is_named(user: CoderUser, work: Path) -> None:
    with connected_folder(work.parent, user.person, user.project, "--yes") as folder:
        changed(user)
        (work / "changed.txt").write_text("mine")

        problem = assert_problem(undo(user, path="changed.txt"), 409, "undo_refused")
        assert problem["detail"] == "changed.txt was changed since, and stays"
        assert outcomes(undo(user, path="made.txt")) == {"made.txt": "removed"}
        assert outcomes(undo(user)) == {"changed.txt": "changed_since", "gone.txt": "restored"}

        assert folder.files() == {"changed.txt": b"mine", "gone.txt": b"here\n"}
        for path in ("../outside", "/etc/passwd", "nothing.txt"):
            assert_problem(undo(user, path=path), 409, "undo_refused")


def test_without_the_folder_or_the_right_to_write_nothing_is_put_back(user: CoderUser, work: Path) -> None:
    with connected_folder(work.parent, user.person, user.project, "--yes") as folder:
        turn = changed(user)
        folder.disconnect()
        problem = assert_problem(undo(user, turn_id=turn), 503, "connector_offline")
        assert "artel connect" in problem["detail"]

        folder.connect("--read-only")
        problem = assert_problem(undo(user, turn_id=turn), 409, "undo_refused")
        assert "read-only" in problem["detail"]
        assert folder.files() == NEW


@pytest.mark.req("DEC-02.6")
def test_what_was_put_back_is_changed_again_once(user: CoderUser, work: Path) -> None:
    with connected_folder(work.parent, user.person, user.project, "--yes") as folder:
        turn = changed(user)
        assert_problem(redo(user, turn_id=turn), 409, "undo_refused")
        assert folder.files() == NEW
        undo(user, turn_id=turn)
        assert undone(user) == {"changed.txt": True, "made.txt": True, "gone.txt": True}

        assert outcomes(redo(user, turn_id=turn, path="made.txt")) == {"made.txt": "restored"}
        assert undone(user) == {"changed.txt": True, "made.txt": False, "gone.txt": True}
        (work / "changed.txt").write_text("mine")
        assert outcomes(redo(user, turn_id=turn)) == {"changed.txt": "changed_since", "gone.txt": "removed"}

        assert folder.files() == {"changed.txt": b"mine", "made.txt": b"made\n"}
        assert undone(user) == {"changed.txt": True, "made.txt": False, "gone.txt": False}
        problem = assert_problem(redo(user, turn_id=turn, path="gone.txt"), 409, "undo_refused")
        assert problem["detail"] == "There is nothing to redo"
        assert outcomes(undo(user, turn_id=turn, path="gone.txt")) == {"gone.txt": "restored"}
        assert undone(user)["gone.txt"]

        folder.disconnect()
        folder.connect("--read-only")
        problem = assert_problem(redo(user, turn_id=turn, path="gone.txt"), 409, "undo_refused")
        assert "read-only" in problem["detail"]

    eventually(lambda: not folder.is_online())
    assert_problem(redo(user, turn_id=turn), 409, "connector_offline")
    assert_problem(redo(user, turn_id="nothing"), 404, "turn_not_found")
    texts = [item["text"] for item in timeline(user) if item["file_change"] and item["file_change"]["action"] == "redo"]
    assert texts[1:3] == [
        "made.txt was changed again.",
        "gone.txt was deleted again. changed.txt was changed since, and stays.",
    ]


@pytest.mark.req("DEC-02.6")
def test_a_file_that_was_changed_since_is_put_back_only_as_it_was_compared(user: CoderUser, work: Path) -> None:
    with connected_folder(work.parent, user.person, user.project, "--yes") as folder:
        turn = changed(user)
        (work / "changed.txt").write_text("mine\n")
        assert_problem(undo(user, turn_id=turn, path="changed.txt"), 409, "undo_refused")
        seen = compare(user, turn_id=turn, path="changed.txt")
        assert seen["diff"].splitlines()[-2:] == ["-mine", "+old"]

        (work / "changed.txt").write_text("mine, and more\n")  # after it was compared
        again = {"turn_id": turn, "path": "changed.txt", "if_match": seen["sha256"]}
        assert_problem(undo(user, **again), 409, "undo_refused")
        assert folder.files() == {**NEW, "changed.txt": b"mine, and more\n"}
        again |= {"if_match": compare(user, turn_id=turn, path="changed.txt")["sha256"]}
        assert outcomes(undo(user, **again)) == {"changed.txt": "restored"}
        assert folder.files() == {**NEW, "changed.txt": b"old\n"}

        assert outcomes(redo(user, turn_id=turn, path="changed.txt")) == {"changed.txt": "restored"}
        assert folder.files() == {**NEW, "changed.txt": b"mine, and more\n"}  # the user's text, which is never lost
        (work / "made.txt").unlink()
        gone = compare(user, turn_id=turn, path="made.txt")
        assert (gone["sha256"], gone["diff"]) == ("", "")


@pytest.mark.req("DEC-02.6")
def test_an_older_connector_is_never_asked_to_redo(user: CoderUser) -> None:
    with serving(user.person, user.project, lambda *_: {"files": []}, features=["undo"]) as calls:
        turn = user.ask()["turn_id"]
        assert_problem(redo(user, turn_id=turn), 409, "connector_too_old")
        answer = user.person.http.get(f"/my/projects/{user.project}/undo", params={"turn_id": turn, "path": "a"})
        assert_problem(answer, 409, "connector_too_old")

    assert calls == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"success": False, "code": "asks", "error": "asked", "ask_id": "q1"}, "terminal"),
        ({"success": False, "code": "refused", "error": "The user said no"}, "The user said no"),
        ({"files": "all"}, "not understood"),
        ({"files": [{"path": "a"}]}, "not understood"),
        ({"files": [7]}, "not understood"),
        ({"files": 7}, "not understood"),
        ({}, "nothing to undo"),
    ],
)
def test_problem_reported_by_the_connector_is_in_the_error(user: CoderUser, answer: dict[str, Any], words: str) -> None:
    with serving(user.person, user.project, lambda *_: answer) as calls:
        problem = assert_problem(undo(user), 409, "undo_refused")

    assert words in problem["detail"]
    [call] = calls
    assert (call["method"], call["user_id"], call["agent"]) == ("workspace/undo", user.person.user_id, "the user")
    assert (call["of_turn"], call["path"], call["again"], call["if_match"]) == (None, None, False, None)


@pytest.mark.parametrize(
    "wanted", [{"turn_id": "a b"}, {"turn_id": ""}, {"path": ""}, {"path": "a\0b"}, {"all": True}, {"if_match": ""}]
)
def test_a_wish_that_makes_no_sense_is_refused(user: CoderUser, wanted: dict[str, Any]) -> None:
    assert_problem(undo(user, **wanted), 422, "invalid_request")
    assert user.audit() == []


def test_only_turns_of_the_project_are_taken_back(user: CoderUser, work: Path) -> None:
    other = user.person.project("Other")["id"]
    with connected_folder(work.parent, user.person, user.project, "--yes") as folder:
        turn = changed(user)
        elsewhere = user.person.http.post(f"/my/projects/{other}/undo", json={"turn_id": turn})
        assert_problem(elsewhere, 404, "turn_not_found")
        assert_problem(undo(user, turn_id="nothing"), 404, "turn_not_found")
        assert folder.files() == NEW
