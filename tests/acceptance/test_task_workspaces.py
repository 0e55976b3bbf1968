"""Task workspaces, through HTTP with a model that calls the tools, on SQLite and PostgreSQL."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.actors.workspace_user import WorkspaceUser
from tests.conftest import StartServer, with_model
from tests.model_server import ByMark, ModelServer
from tests.people import Person, assert_problem
from tests.running import Server, artel

pytestmark = [pytest.mark.usefixtures("chat_server"), pytest.mark.any_database]


@pytest.fixture
def person(chat_server: Server) -> Person:
    return Person.register(chat_server.url)


def folder_of(server: Server, agent_id: int) -> Path:
    return Path(server.env["ARTEL_DATA_DIR"]) / "workspaces" / str(agent_id)


@pytest.fixture
def user(person: Person, model: ModelServer, script: ByMark, mark: str) -> WorkspaceUser:
    return WorkspaceUser(person, model, script, mark)


@pytest.mark.req("TWS-05.1", "TWS-05.3")
def test_a_workspace_has_a_record_for_the_agent_and_the_user(user: WorkspaceUser, chat_server: Server) -> None:
    coder = next(agent for agent in user.project["agents"] if agent["name"] == "agent_coder")

    def records() -> list[dict[str, Any]]:
        told, shown = user.call("get_workspace_info")["data"]["record"], user.person.get(user.url())["record"]
        return [one | {"createdAt": datetime.fromisoformat(one["createdAt"])} for one in (told, shown)]

    before = records()
    user.call("write_file", path="plan.md", content="x")
    after = records()

    assert folder_of(chat_server, coder["id"]).is_dir()
    record = {
        "workspaceId": coder["id"],
        "workspacePath": f"workspaces/{coder['id']}",
        "createdAt": datetime.fromisoformat(coder["created_at"]),
    }
    assert before == [record | {"lazyCreated": False}] * 2
    assert after == [record | {"lazyCreated": True}] * 2


@pytest.mark.req("TWS-01.1", "TWS-01.5", "TWS-02.1", "TWS-02.2", "TWS-03.2", "TWS-05.1", "TWS-05.2", "AGT-02.3")
def test_an_agent_writes_into_its_workspace_and_the_user_sees_it(user: WorkspaceUser, chat_server: Server) -> None:
    folder = folder_of(chat_server, user.agents["agent_coder"])
    person = user.person

    assert user.call("list_files") == {"success": True, "data": {"files": []}}
    nothing = {"file_count": 0, "dir_count": 0, "total_size": 0, "last_modified": None}
    told, shown = user.call("get_workspace_info")["data"], person.get(user.url())
    del told["record"], shown["record"]
    assert told == nothing
    assert shown == {"agent_id": user.agents["agent_coder"], **nothing}
    assert person.get(user.url(rest="/files"))["items"] == []
    assert not folder.exists()

    assert user.call("write_file", path="notes/plan.md", content="Grüße")["success"]

    assert (folder / "notes" / "plan.md").read_text() == "Grüße"
    assert user.call("read_file", path="notes/plan.md")["data"]["content"] == "Grüße"
    assert user.call("list_files")["data"]["files"] == [{"name": "notes", "type": "directory", "size": 0}]
    info = person.get(user.url())
    assert (info["file_count"], info["dir_count"], info["total_size"]) == (1, 1, 7)
    page = person.get(user.url(rest="/files"), recursive=True)
    assert (page["total"], page["limit"], page["offset"]) == (2, 50, 0)
    assert [(item["name"], item["path"], item["type"], item["size"]) for item in page["items"]] == [
        ("notes", "notes", "directory", 0),
        ("plan.md", "notes/plan.md", "file", 7),
    ]
    assert person.get(user.url(rest="/files"), path="notes")["items"] == page["items"][1:]
    assert person.get(user.url(rest="/files"), recursive=True, limit=1, offset=1)["items"] == page["items"][1:]


def test_content_is_a_download_that_no_browser_shows_as_a_page(user: WorkspaceUser, chat_server: Server) -> None:
    user.call("write_file", path="a page.html", content="<script>alert(1)</script>")
    (folder_of(chat_server, user.agents["agent_coder"]) / "picture").write_bytes(b"\x89PNG\xff")

    page = user.person.http.get(user.url(rest="/files/a page.html"))
    picture = user.person.http.get(user.url(rest="/files/picture"))

    assert (page.text, picture.content) == ("<script>alert(1)</script>", b"\x89PNG\xff")
    assert page.headers["content-type"] == "text/plain; charset=utf-8"
    assert page.headers["content-disposition"] == "attachment; filename*=UTF-8''a%20page.html"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in page.headers["content-security-policy"]
    assert picture.headers["content-type"] == "application/octet-stream"


@pytest.mark.req("TWS-01.3", "TWS-04.1", "TWS-06.1")
def test_no_agent_reaches_the_workspace_of_another(user: WorkspaceUser, chat_server: Server) -> None:
    user.call("write_file", path="secret.txt", content="the coder's")
    coder = user.agents["agent_coder"]

    assert user.call("list_files", "agent_writer")["data"]["files"] == []
    for path in (f"../{coder}/secret.txt", str(folder_of(chat_server, coder) / "secret.txt"), "..", "a/../../x"):
        for tool, more in (("read_file", {}), ("write_file", {"content": "x"}), ("list_files", {})):
            told = user.call(tool, "agent_writer", path=path, **more)
            assert told["success"] is False
            assert told["error"] == "path_traversal_blocked: Path is outside workspace bounds"
    assert not folder_of(chat_server, user.agents["agent_writer"]).exists()


@pytest.mark.req("TWS-04.2")
def test_a_link_that_leads_out_is_refused_to_the_agent_and_to_the_user(
    user: WorkspaceUser, chat_server: Server
) -> None:
    user.call("write_file", path="file", content="x")
    (folder_of(chat_server, user.agents["agent_coder"]) / "out").symlink_to("/etc")

    result = user.call("read_file", path="out/hostname")
    refused = user.person.http.get(user.url(rest="/files/out/hostname"))

    assert result["error"].startswith("path_traversal_blocked: ")
    assert_problem(refused, 403, "path_traversal_blocked")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("nothing", 404, "file_not_found"),
        ("folder", 409, "read_failed"),
        ("file/x", 404, "file_not_found"),
        ("%2e%2e/x", 403, "path_traversal_blocked"),
        ("%2Fetc/passwd", 403, "path_traversal_blocked"),
        ("a%00b", 404, "file_not_found"),
        ("n" * 300, 404, "file_not_found"),
    ],
)
def test_what_is_not_there_for_the_user_is_a_problem(user: WorkspaceUser, path: str, status: int, code: str) -> None:
    user.call("write_file", path="folder/file", content="x")
    user.call("write_file", path="file", content="x")

    problem = assert_problem(user.person.http.get(user.url(rest=f"/files/{path}")), status, code)

    assert "/workspaces/" not in problem["detail"]


def test_a_folder_that_is_not_there_or_outside_is_not_listed(user: WorkspaceUser) -> None:
    get = user.person.http.get
    assert_problem(get(user.url(rest="/files"), params={"path": "nothing"}), 404, "file_not_found")
    assert_problem(get(user.url(rest="/files"), params={"path": "../.."}), 403, "path_traversal_blocked")


@pytest.mark.req("TWS-01.4", "TWS-01.5")
def test_root_is_nowhere_to_be_seen(user: WorkspaceUser) -> None:
    root = user.project["agents"][0]["parent_agent_id"]

    assert {agent["parent_agent_id"] for agent in user.project["agents"]} == {root}
    assert root not in user.agents.values()
    url = f"/my/projects/{user.project['id']}/agents/{root}/workspace"
    assert_problem(user.person.http.get(url), 404, "agent_not_found")


@pytest.mark.req("TWS-06.1")
def test_a_full_workspace_says_so(start_server: StartServer, model: ModelServer, script: ByMark, mark: str) -> None:
    server = start_server(**with_model(model), ARTEL_WORKSPACE_MAX_BYTES="10", ARTEL_WORKSPACE_MAX_FILES="2")
    user = WorkspaceUser(Person.register(server.url), model, script, mark)

    assert user.call("write_file", path="a", content="1234567890")["success"]
    assert user.call("write_file", path="b", content="x")["error"].startswith(
        "write_failed: The task workspace may hold"
    )
    assert user.call("write_file", path="c/d", content="")["error"].startswith("write_failed: The task workspace may")
    assert user.call("write_file", path="a", content="0987654321")["success"]


@pytest.mark.parametrize("archive", [False, True])
def test_the_workspace_goes_with_its_agent(user: WorkspaceUser, chat_server: Server, archive: bool) -> None:
    user.call("write_file", path="a", content="x")
    user.call("write_file", "agent_writer", path="a", content="x")
    coder, writer = user.agents["agent_coder"], user.agents["agent_writer"]

    url = f"/my/projects/{user.project['id']}/agents/{coder}"
    assert user.person.http.delete(url, params={"archive": archive}).status_code == 204

    assert not folder_of(chat_server, coder).exists()
    assert folder_of(chat_server, writer).exists()


def test_the_workspaces_go_with_their_project(user: WorkspaceUser, chat_server: Server) -> None:
    user.call("write_file", path="a", content="x")

    assert user.person.http.delete(f"/my/projects/{user.project['id']}").status_code == 204

    assert not folder_of(chat_server, user.agents["agent_coder"]).exists()


def test_the_workspaces_go_with_their_account(user: WorkspaceUser, chat_server: Server) -> None:
    user.call("write_file", path="a", content="x")

    deleted = artel("users", "delete", user.person.email, "--yes", env=chat_server.env)

    assert deleted.returncode == 0, deleted.stderr
    assert not folder_of(chat_server, user.agents["agent_coder"]).exists()


def test_an_agent_without_memory_has_its_workspace_all_the_same(user: WorkspaceUser) -> None:
    agent = user.person.agent(user.project["id"], name="forgetful", memory=False)
    user.agents["forgetful"] = agent["id"]

    assert user.call("write_file", "forgetful", path="a", content="x")["success"]
