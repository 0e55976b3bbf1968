"""The connected folder on the page: how it asks, grants, names of files, changes by turn, and disconnecting."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.actors.coder_user import CoderUser
from tests.actors.file_server import serving
from tests.deadlines import eventually
from tests.folders import Folder, connected_folder
from tests.model_server import ModelServer
from tests.people import Person, assert_problem
from tests.running import Server

pytestmark = pytest.mark.any_database

METHODS = ["settings", "grants", "revoke", "complete", "extend"]


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.fixture
def user(person: Person, model: ModelServer, mark: str) -> CoderUser:
    return CoderUser(person, person.project()["id"], model, mark)


def url(user: CoderUser, path: str = "") -> str:
    return f"/my/projects/{user.project}/connector{path}"


def change(user: CoderUser, **wanted: Any) -> Any:
    return user.person.http.patch(url(user), json=wanted)


def audited(folder: Folder) -> list[tuple[str, str, str]]:
    """Return method, name and outcome of the calls in the connector's own log."""
    (state,) = Path(folder.env["ARTEL_CONFIG_DIR"], "connectors").iterdir()
    lines = map(json.loads, (state / "audit.jsonl").read_text().splitlines())
    return [(line["method"].removeprefix("workspace/"), line["name"], line["outcome"]) for line in lines]


@pytest.mark.req("DEC-02.1")
def test_user_makes_the_folder_read_only_and_writable_again(user: CoderUser, tmp_path: Path) -> None:
    write = ("tool_write_file", {"path": "a.txt", "content": "a\n"})
    with connected_folder(tmp_path, user.person, user.project, "--yes", "--run", "test=true") as folder:
        shown = user.person.get(url(user))
        assert (shown["mode"], shown["ask"], shown["commands"], bool(shown["machine"])) == ("yes", None, ["test"], True)
        with user.person.follow_project(user.project) as news:
            assert change(user, read_only=True).json()["mode"] == "read-only"
            [event] = [event for event in news.until("connector_changed") if event.type == "connector_changed"]
        assert (event.data["mode"], event.data["read_only"]) == ("read-only", True)
        assert (user.person.get(url(user))["read_only"], user.person.get(url(user))["ask"]) == (True, None)
        user.script(write)
        user.ask()
        assert "read-only" in user.heard()[0]["error"]
        assert folder.files() == {}

        refused = assert_problem(change(user, ask="browser"), 409, "connector_declined")
        assert "read-only" in refused["detail"]
        assert change(user, ask="browser", read_only=False).json()["ask"] == "browser"
        user.script(write)
        waiting = user.ask()
        assert folder.files() == {}
        assert user.decide(waiting["approval_id"], decision="approve").status_code == 200
        user.ended(waiting["turn_id"])
        assert folder.files() == {"a.txt": b"a\n"}
        changes = [entry for entry in audited(folder) if entry[0] == "settings"]
        assert [entry[1:] for entry in changes] == [("read-only", "ok"), ("browser", "refused"), ("browser", "ok")]

    settings = [(call["arguments"], call["status"]) for call in user.audit() if call["tool"] == "connector_settings"]
    both = {"ask": "browser", "read_only": False}
    assert settings == [({"read_only": True}, "done"), ({"ask": "browser"}, "refused"), (both, "done")]


@pytest.mark.req("DEC-02.1")
@pytest.mark.parametrize(
    ("options", "wanted", "words"),
    [
        (["--read-only"], {"read_only": False}, "--read-only"),
        (["--read-only"], {"ask": "browser", "read_only": False}, "--read-only"),
        (["--ask", "browser"], {"ask": "terminal"}, "no terminal"),
        (["--ask", "browser"], {"ask": "both"}, "no terminal"),
    ],
)
def test_connector_refuses_what_its_options_do_not_allow(
    user: CoderUser, tmp_path: Path, options: list[str], wanted: dict[str, Any], words: str
) -> None:
    with connected_folder(tmp_path, user.person, user.project, *options):
        before = user.person.get(url(user))

        assert words in assert_problem(change(user, **wanted), 409, "connector_declined")["detail"]

        assert user.person.get(url(user)) == before


@pytest.mark.req("DEC-02.1")
def test_without_remote_settings_it_only_gets_stricter(user: CoderUser, tmp_path: Path) -> None:
    with connected_folder(tmp_path, user.person, user.project, "--yes", "--no-remote-settings"):
        assert change(user, ask="browser").status_code == 200
        assert change(user, read_only=True).status_code == 200
        for wanted in ({"read_only": False}, {"ask": "browser", "read_only": False}):
            assert "--no-remote-settings" in assert_problem(change(user, **wanted), 409, "connector_declined")["detail"]
        assert user.person.get(url(user))["mode"] == "read-only"


@pytest.mark.req("DEC-02.2")
def test_grants_are_listed_and_revoked_through_the_server(user: CoderUser, other: Person, tmp_path: Path) -> None:
    def written(path: str) -> dict[str, Any]:
        user.script(("tool_write_file", {"path": path, "content": "x\n"}))
        return user.ask()

    with connected_folder(tmp_path, user.person, user.project, "--ask", "browser") as folder:
        for path, holds in (("a.md", "session"), ("a.txt", "always")):
            waiting = written(path)
            user.decide(waiting["approval_id"], decision="approve", changes={"holds": holds})
            user.ended(waiting["turn_id"])
        page = user.person.get(url(user, "/grants"), limit=1, offset=1)
        assert (page["total"], len(page["items"])) == (2, 1)
        grants = user.person.get(url(user, "/grants"))["items"]
        assert [(grant["what"], grant["glob"], grant["lasts"]) for grant in grants] == [
            ("write", "./*.md", "session"),
            ("write", "./*.txt", "always"),
        ]
        assert all(datetime.fromisoformat(grant["since"]).tzinfo for grant in grants)
        assert_problem(other.http.get(url(user, "/grants")), 404, "project_not_found")
        assert_problem(other.http.delete(url(user, f"/grants/{grants[0]['id']}")), 404, "project_not_found")
        assert written("b.md").get("approval_id") is None

        for grant in grants:
            assert user.person.http.delete(url(user, f"/grants/{grant['id']}")).status_code == 204
        assert_problem(user.person.http.delete(url(user, f"/grants/{grants[0]['id']}")), 404, "grant_not_found")

        assert user.person.get(url(user, "/grants"))["items"] == []
        for path in ("c.md", "c.txt"):
            asked = written(path)
            user.decide(asked["approval_id"], decision="reject")
            user.ended(asked["turn_id"])
        assert sorted(folder.files()) == ["a.md", "a.txt", "b.md"]
    eventually(lambda: not folder.is_online())
    assert_problem(user.person.http.get(url(user, "/grants")), 409, "connector_offline")


@pytest.mark.req("DEC-02.3")
def test_file_names_are_completed_by_the_rules_of_the_connector(user: CoderUser, tmp_path: Path) -> None:
    names = ["src/app.py", "src/apple/core.py", "docs/my_app.md", "build/app.o", "private/app.txt", "app/.env"]
    names += [".env", "secrets/app.txt", "closed/app.py", "other.txt"]
    for name in names:
        path = tmp_path / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / "work" / ".gitignore").write_text("build/\n")
    (tmp_path / "work" / ".artelignore").write_text("private/\n")
    (tmp_path / "outside.app").write_text("x")
    (tmp_path / "work" / "link.app").symlink_to(tmp_path / "outside.app")
    rules = {"tools": {"tool_read_file": {"denied_paths": ["closed/**"]}}}
    assert user.person.http.patch(f"/my/projects/{user.project}", json={"settings": rules}).status_code == 200

    with connected_folder(tmp_path, user.person, user.project, "--read-only"):

        def found(q: str, **query: Any) -> list[str]:
            items = user.person.get(url(user, "/files"), q=q, **query)["items"]
            return [f"{item['path']}{'/' if item['type'] == 'directory' else ''}" for item in items]

        assert found("APP") == ["app/", "src/apple/", "src/app.py", "docs/my_app.md", "src/apple/core.py"]
        assert found("env") == found("o.txt") == []
        assert found("src/app.py") == ["src/app.py"]
        assert found("", limit=3) == [".artelignore", ".gitignore", "app/"]
        cut = user.person.get(url(user, "/files"), q="app", limit=1)
        assert (len(cut["items"]), cut["truncated"]) == (1, True)
        assert_problem(user.person.http.get(url(user, "/files"), params={"q": "a\x00"}), 422, "invalid_request")
        assert_problem(user.person.http.get(url(user, "/files"), params={"q": "x" * 201}), 422, "invalid_request")


@pytest.mark.req("DEC-02.4")
def test_changes_are_listed_by_turn_with_what_was_undone(user: CoderUser, other: Person, tmp_path: Path) -> None:
    def changes() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = user.person.get(f"/my/projects/{user.project}/changes")["items"]
        return items

    def undone() -> list[bool]:
        return [file["undone"] for turn in changes() for file in turn["files"]]

    assert changes() == []
    with connected_folder(tmp_path, user.person, user.project, "--ask", "browser") as folder:
        (folder.path / "b.txt").write_text("one\ntwo\n")
        user.script(
            ("tool_edit_file", {"path": "b.txt", "old": "two", "new": "2\n3"}),
            ("tool_edit_file", {"path": "./b.txt", "old": "one", "new": "1"}),
        )
        waiting = user.ask()
        first_id = waiting["turn_id"]
        user.decide(waiting["approval_id"], decision="approve")
        [second_edit] = eventually(user.approvals)
        user.decide(second_edit["id"], decision="approve")
        user.ended(first_id)
        change(user, read_only=True)
        user.script(("tool_write_file", {"path": "never.txt", "content": "x"}))
        user.ask()
        change(user, read_only=False)
        user.script(("tool_write_file", {"path": "b.txt", "content": "x\n"}))
        second = user.ask()
        user.decide(second["approval_id"], decision="approve")
        user.ended(second["turn_id"])

        newest, oldest = changes()

        assert (newest["turn_id"], oldest["turn_id"]) == (second["turn_id"], first_id)
        assert (newest["session_id"], newest["agent"]) == (user.session, "agent_coder")
        assert newest["session_title"] == user.person.get(f"/my/chat/sessions/{user.session}")["title"]
        [file] = newest["files"]
        assert file == {
            "path": "b.txt",
            "action": "write",
            "added": 1,
            "removed": 3,
            "undone": False,
            "approval_id": second["approval_id"],
            "call_id": file["call_id"],
            "changes": 1,
        }
        assert "+x\n" in user.person.get(f"/my/projects/{user.project}/changes/{file['call_id']}")["diff"]
        [edited] = oldest["files"]
        assert (edited["path"], edited["action"], edited["changes"]) == ("b.txt", "edit", 2)
        assert (edited["added"], edited["removed"], edited["undone"]) == (3, 2, False)
        page = user.person.get(f"/my/projects/{user.project}/changes", limit=1, offset=1)
        assert ([item["turn_id"] for item in page["items"]], page["total"]) == ([first_id], 2)

        undo = f"/my/projects/{user.project}/undo"
        assert user.person.http.post(undo, json={}).status_code == 200  # the newest turn, without its id
        assert undone() == [True, False]
        assert user.person.http.post(undo, json={"turn_id": first_id}).status_code == 200
        assert undone() == [True, True]
        assert folder.files() == {"b.txt": b"one\ntwo\n"}
    assert_problem(other.http.get(f"/my/projects/{user.project}/changes"), 404, "project_not_found")


@pytest.mark.req("DEC-02.2")
def test_disconnected_folder_does_not_come_back_by_itself(user: CoderUser, other: Person, tmp_path: Path) -> None:
    with connected_folder(tmp_path, user.person, user.project, "--read-only") as folder:
        assert_problem(other.http.post(url(user, "/disconnect")), 404, "project_not_found")

        assert user.person.http.post(url(user, "/disconnect")).status_code == 204

        assert not folder.is_online()
        assert folder.process is not None
        assert folder.process.wait(60) == 0
        assert "Disconnected on the page" in (tmp_path / "connector.txt").read_text()
        assert not folder.is_online()
        assert_problem(user.person.http.post(url(user, "/disconnect")), 409, "connector_offline")
    [noted] = [call for call in user.audit() if call["tool"] == "connector_disconnect"]
    assert noted["status"] == "done"


@pytest.mark.req("DEC-02.5")
def test_old_connector_is_named_as_too_old(user: CoderUser) -> None:
    http = user.person.http
    with serving(user.person, user.project, lambda *_: {}, features=["read"]) as calls:
        answers = [
            change(user, ask="both"),
            http.get(url(user, "/grants")),
            http.delete(url(user, "/grants/1")),
            http.get(url(user, "/files"), params={"q": "a"}),
        ]
        for answer in answers:
            assert "too old" in assert_problem(answer, 409, "connector_too_old")["detail"]
        assert http.post(url(user, "/disconnect")).status_code == 204
        assert calls == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({}, "not understood"),
        ({"mode": "everything"}, "not understood"),
        ({"grants": [{"id": "1"}]}, "not understood"),
        ({"grants": [{}] * 401}, "not understood"),
        ({"files": [{"path": "a"}]}, "not understood"),
        ({"success": False, "code": "asks", "ask_id": "q1"}, "terminal that runs the connector asks"),
        ({"success": False, "code": "refused", "error": "Never."}, "Never."),
    ],
)
def test_what_a_connector_answers_instead_is_a_clear_error(user: CoderUser, answer: dict[str, Any], words: str) -> None:
    http = user.person.http
    with serving(user.person, user.project, lambda *_: answer, features=METHODS):
        for response in (change(user, ask="both"), http.get(url(user, "/grants")), http.get(url(user, "/files"))):
            assert words in assert_problem(response, 409, "connector_declined")["detail"]
    assert_problem(change(user, mode="yes"), 422, "invalid_request")
