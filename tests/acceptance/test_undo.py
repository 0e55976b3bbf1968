"""The user takes back through the server what agents have changed in the folder."""

from pathlib import Path
from typing import Any

import pytest

from tests.actors.coder_user import CoderUser
from tests.actors.file_server import serving
from tests.folders import connected_folder
from tests.model_server import ModelServer
from tests.people import Person, assert_problem
from tests.running import Server

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


@pytest.mark.any_database
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
def test_what_the_connector_says_instead_is_told(user: CoderUser, answer: dict[str, Any], words: str) -> None:
    with serving(user.person, user.project, lambda *_: answer) as calls:
        problem = assert_problem(undo(user), 409, "undo_refused")

    assert words in problem["detail"]
    [call] = calls
    assert (call["method"], call["user_id"], call["agent"]) == ("workspace/undo", user.person.user_id, "the user")
    assert (call["of_turn"], call["path"], call["again"]) == (None, None, False)


@pytest.mark.parametrize("wanted", [{"turn_id": "a b"}, {"turn_id": ""}, {"path": ""}, {"path": "a\0b"}, {"all": True}])
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
