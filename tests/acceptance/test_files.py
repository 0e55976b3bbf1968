"""Agents with a real connector on a real folder, and a scripted model that calls the tools."""

import json
from pathlib import Path

import pytest

from tests.actors.coder_user import CoderUser
from tests.deadlines import eventually
from tests.folders import connected_folder
from tests.model_server import ByMark, ModelServer, Say, Tool
from tests.people import Person, assert_problem
from tests.running import Server, artel

pytestmark = pytest.mark.any_database


@pytest.fixture
def person(chat_server: Server) -> Person:
    return Person.register(chat_server.url)


@pytest.fixture
def user(person: Person, model: ModelServer, mark: str) -> CoderUser:
    return CoderUser(person, person.project()["id"], model, mark)


@pytest.mark.req("WSA-01.1", "WSA-01.2", "WSA-02.1", "WSA-03.1", "WSA-04.1", "WSA-07.1")
def test_read_write_list_search_edit_and_delete_with_approval(user: CoderUser, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / "src" / "main.py").write_text("def main():\n    print('hello')\n")
    (work / "old.txt").write_text("old")
    user.script(
        ("tool_list_directory", {"path": ".", "recursive": True}),
        ("tool_read_file", {"path": "src/main.py"}),
        ("tool_search_files", {"query": "print"}),
        ("tool_edit_file", {"path": "src/main.py", "old": "'hello'", "new": "'world'"}),
        ("tool_write_file", {"path": "src/new/util.py", "content": "x = 1\n", "create_dirs": True}),
        ("tool_stat", {"path": "src/new/util.py"}),
        ("tool_delete_file", {"path": "old.txt"}),
    )

    with connected_folder(tmp_path, user.person, user.project, "--yes") as folder:
        waiting = user.ask()
        assert waiting["status"] == "waiting", waiting
        assert "old.txt" in folder.files()
        user.decide(waiting["approval_id"], decision="approve")
        assert user.ended(waiting["turn_id"])["status"] == "completed"

        assert folder.files() == {
            "src/main.py": b"def main():\n    print('world')\n",
            "src/new/util.py": b"x = 1\n",
        }
        listed, read, found, edited, written, looked, deleted = user.heard()
        assert [entry["path"] for entry in listed["data"]["files"]] == ["old.txt", "src", "src/main.py"]
        assert read["data"]["content"] == "def main():\n    print('hello')\n"
        assert "src/main.py" in str(found["data"])
        assert all(one["success"] for one in (edited, written, looked, deleted))

        turn = waiting["turn_id"]
        undone = artel("undo", turn, "--folder", str(work), env=folder.env)  # everything that the turn did, as it was
        assert undone.returncode == 0, undone.stderr + undone.stdout
        assert folder.files() == {"src/main.py": b"def main():\n    print('hello')\n", "old.txt": b"old"}


def test_writes_are_approved_in_browser_once_or_for_session(user: CoderUser, tmp_path: Path) -> None:
    user.script(*(("tool_write_file", {"path": f"notes/{name}.txt", "content": name}) for name in ("one", "two")))
    (tmp_path / "work" / "notes").mkdir(parents=True)

    with connected_folder(tmp_path, user.person, user.project, "--ask", "browser") as folder:
        waiting = user.ask()
        [pending] = user.approvals()
        assert "+one" in pending["details"]["diff"]
        assert folder.files() == {}
        user.decide(pending["id"], decision="approve", changes={"holds": "always"})
        assert user.ended(waiting["turn_id"])["status"] == "completed"
        assert folder.files() == {"notes/one.txt": b"one", "notes/two.txt": b"two"}
        assert "notes" in artel("grants", "list", env=folder.env).stdout


def test_approval_is_bound_to_file_content_shown(user: CoderUser, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    mine = tmp_path / "work" / "a.txt"
    mine.write_text("old\n")
    user.script(("tool_write_file", {"path": "a.txt", "content": "new\n"}))

    with connected_folder(tmp_path, user.person, user.project, "--ask", "browser") as folder:
        waiting = user.ask()
        [first] = user.approvals()
        folder.disconnect()  # and its question is gone
        mine.write_text("the user's\n")
        folder.connect("--ask", "browser")
        user.decide(first["id"], decision="approve")

        [second] = eventually(user.approvals)
        assert mine.read_text() == "the user's\n"
        assert "-the user's" in second["details"]["diff"]
        assert second["details"]["old_sha256"] != first["details"]["old_sha256"]
        user.decide(second["id"], decision="approve")
        assert user.ended(waiting["turn_id"])["status"] == "completed"
        assert mine.read_text() == "new\n"

    assert [noted["status"] for noted in user.audit() if noted["approval_id"]] == ["asked", "done"]


@pytest.mark.req("WSA-07.1")
def test_file_changed_after_approved_delete_is_not_deleted(user: CoderUser, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    mine = tmp_path / "work" / "a.txt"
    mine.write_text("old")
    user.script(("tool_delete_file", {"path": "a.txt"}))

    with connected_folder(tmp_path, user.person, user.project, "--yes"):
        waiting = user.ask()
        mine.write_text("the user's")
        user.decide(waiting["approval_id"], decision="approve")
        user.ended(waiting["turn_id"])

    assert mine.read_text() == "the user's"
    assert "changed" in user.heard()[0]["error"]


def test_read_only_folder_refuses_writes(user: CoderUser, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("a")
    user.script(("tool_read_file", {"path": "a.txt"}), ("tool_write_file", {"path": "a.txt", "content": "b"}))

    with connected_folder(tmp_path, user.person, user.project, "--read-only") as folder:
        user.ask()
        assert folder.files() == {"a.txt": b"a"}

    assert [heard["success"] for heard in user.heard()] == [True, False]


def test_concurrent_change_by_user_is_not_overwritten(user: CoderUser, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    mine = tmp_path / "work" / "a.txt"
    mine.write_text("first")
    user.script(
        ("tool_read_file", {"path": "a.txt"}),
        ("tool_delete_file", {"path": "other"}),
        ("tool_write_file", {"path": "a.txt", "content": "by the agent"}),
    )

    with connected_folder(tmp_path, user.person, user.project, "--yes"):
        waiting = user.ask()
        mine.write_text("by the user")
        user.decide(waiting["approval_id"], decision="reject")
        user.ended(waiting["turn_id"])

    assert mine.read_text() == "by the user"
    assert "Read it again" in user.heard()[2]["error"]


def test_only_configured_commands_run_unchanged(user: CoderUser, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    user.script(("tool_run_command", {"name": "count"}), ("tool_run_command", {"name": "ls -la"}))

    with connected_folder(
        tmp_path, user.person, user.project, "--ask", "browser", "--run", "count=echo one two"
    ) as folder:
        waiting = user.ask()
        [pending] = user.approvals()
        assert "echo one two" in str(pending["details"])
        user.decide(pending["id"], decision="approve")
        user.ended(waiting["turn_id"])
        assert folder.is_online()

    ran, refused = user.heard()
    assert "one two" in str(ran["data"])
    assert refused["success"] is False


def test_guidance_in_the_folder_reaches_the_agent(user: CoderUser, tmp_path: Path, model: ModelServer) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").write_text("Use tabs.")
    user.script()

    with connected_folder(tmp_path, user.person, user.project, "--yes"):
        user.ask()

    assert "Use tabs." in str(model.asked[-1].body["messages"])


def test_restarted_connector_serves_same_folder(user: CoderUser, tmp_path: Path) -> None:
    with connected_folder(tmp_path, user.person, user.project, "--yes") as folder:
        url = f"/my/projects/{user.project}/connector"
        before = user.person.http.get(url).json()["connector_id"]
        folder.disconnect()
        eventually(lambda: not folder.is_online())
        folder.connect("--yes")
        assert user.person.http.get(url).json()["connector_id"] == before


def test_parent_waits_for_approval_of_child_and_both_continue(
    user: CoderUser, tmp_path: Path, model: ModelServer
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "old.txt").write_text("old")
    brief = {"objective": f"childswork {user.session}"}
    assert isinstance(model.default, ByMark)
    user.script(("spawn_agent", {"role": "cleaner", "task_brief": brief}), end="All is clean.")
    delete = Say(tools=[Tool("tool_delete_file", '{"path": "old.txt"}')])
    model.default[f"childswork {user.session}"] = [delete, Say("The file is gone.")]

    with connected_folder(tmp_path, user.person, user.project, "--yes") as folder:
        waiting = user.ask()
        assert waiting["status"] == "waiting", waiting
        [pending] = user.approvals()
        agents = {
            agent["id"]: agent for agent in user.person.http.get(f"/my/projects/{user.project}/agents").json()["items"]
        }
        assert agents[pending["agent_id"]]["role"] == "cleaner"
        assert folder.files() == {"old.txt": b"old"}
        user.decide(pending["id"], decision="approve")
        assert user.ended(waiting["turn_id"])["status"] == "completed"
        assert folder.files() == {}

    assert user.person.history(user.session)[-1]["content"] == "All is clean."
    events = [event.type for event in user.person.events_of(user.session, waiting["turn_id"])]
    assert (events.count("task_started"), events.count("task_completed")) == (1, 2)
    cleaners = [agent for agent in agents.values() if agent["role"] == "cleaner"]
    assert len(cleaners) == 1


@pytest.mark.req("SEC-03.3")
def test_replacing_file_too_large_to_show_has_high_risk_and_no_grant(user: CoderUser, tmp_path: Path) -> None:
    large = tmp_path / "work" / "big.csv"
    large.parent.mkdir()
    large.write_bytes(b"x" * 10_000_001)
    user.script(("tool_write_file", {"path": "big.csv", "content": "small"}))

    with connected_folder(tmp_path, user.person, user.project, "--ask", "browser"):
        waiting = user.ask()
        [pending] = user.approvals()
        assert pending["risk"] == "high"
        warning = "Would replace 10,000,001 bytes that are not shown and can't be undone."
        assert pending["details"]["warning"] == warning
        assert "grant" not in pending["details"]
        user.decide(waiting["approval_id"], decision="reject")
        assert user.ended(waiting["turn_id"])["status"] == "completed"

    assert large.stat().st_size == 10_000_001


@pytest.mark.req("SEC-03.3", "CHT-10.6")
@pytest.mark.parametrize(
    ("text", "times", "size", "lines"),
    [
        ("one\n", 2, "8 bytes", 2),
        ("x\n", 300, "600 bytes", 300),
        ("\0", 1, "1 byte", 0),
        ("x", 10_000_001, "10,000,001 bytes", 0),
    ],
)
def test_delete_approval_shows_what_would_be_deleted(
    user: CoderUser, tmp_path: Path, text: str, times: int, size: str, lines: int
) -> None:
    file = tmp_path / "work" / "README.md"
    file.parent.mkdir()
    file.write_text(text * times)
    user.script(("tool_delete_file", {"path": "README.md"}))

    with connected_folder(tmp_path, user.person, user.project, "--ask", "browser"):
        waiting = user.ask()
        [pending] = user.approvals()
        details = pending["details"]
        assert (pending["risk"], details["reason"]) == ("high", f"Would delete README.md ({size})")
        lost = f"Would delete {size} that are not shown and can't be undone."
        assert details.get("warning") == (lost if times > 300 else None)
        diff = details.get("diff", "").splitlines()
        assert diff[:3] == ["--- a/README.md", "+++ /dev/null", f"@@ -1,{lines} +0,0 @@"][: 3 * bool(lines)]
        cut = ["… cut, 300 lines in all"] if lines > 200 else []
        assert diff[3:] == [f"-{text.strip()}"] * min(lines, 200) + cut
        assert [call["tool"] for call in user.audit()] == ["tool_delete_file"]  # the agent has read nothing
        user.decide(waiting["approval_id"], decision="approve" if cut else "reject")
        assert user.ended(waiting["turn_id"])["status"] == "completed"

    assert file.exists() is not bool(cut)
    entries = user.person.get(f"/my/chat/{user.session}/timeline")["items"]
    changes = [entry["file_change"] for entry in entries if entry["kind"] == "file_change"]
    assert [(change["added"], change["removed"]) for change in changes] == ([(0, 300)] if cut else [])
    assert cut or "deleted" not in str(user.heard()[-1])


def _state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return mode, time and content of the folder and everything in it."""
    found = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        about = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path.relative_to(folder))] = about.st_mode, about.st_mtime_ns, content
    return found


@pytest.mark.req("WSA-01.2")
def test_folder_stays_unchanged_by_project_operations(user: CoderUser, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "src" / "empty").mkdir(parents=True)
    (work / "src" / "main.py").write_text("print(1)\n")
    (work / "link").symlink_to("src")
    before = _state(work)
    http, url = user.person.http, f"/my/projects/{user.project}"

    with connected_folder(tmp_path, user.person, user.project, "--yes") as folder:
        user.script(("tool_list_directory", {"recursive": True}), ("tool_read_file", {"path": "src/main.py"}))
        user.ask()
        assert all(heard["success"] for heard in user.heard())
        for operation in ("cleanup", "reset"):
            assert http.post(f"{url}/space/{operation}").is_success
            assert _state(work) == before
        folder.disconnect()
        assert _state(work) == before
        folder.connect("--yes")
        assert http.delete(url).is_success
        assert folder.process
        folder.process.wait(60)  # it has nothing left to serve
        assert _state(work) == before


@pytest.mark.req("WSA-05.4", "WSA-06.1")
def test_connector_is_unreachable_from_other_projects(user: CoderUser, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "mine.txt").write_text("of the other project\n")
    served = user.person.project("Served")["id"]
    user.script(
        ("tool_read_file", {"path": "mine.txt"}),
        ("tool_list_directory", {}),
        ("tool_write_file", {"path": "new.txt", "content": "x"}),
        ("tool_edit_file", {"path": "mine.txt", "old": "of", "new": "x"}),
    )

    with connected_folder(tmp_path, user.person, served, "--yes") as folder:
        before = folder.files()
        user.ask()

        heard = user.heard()
        assert [one["success"] for one in heard] == [False] * 4
        assert "of the other project" not in str(heard)
        assert folder.files() == before
        assert not user.person.get(f"/my/projects/{user.project}/connector")["online"]
        undo = user.person.http.post(f"/my/projects/{user.project}/undo", json={})
        assert undo.status_code >= 400
        state = next((tmp_path / "config" / "connectors").iterdir())
        log = state / "audit.jsonl"
        assert not log.exists() or "mine.txt" not in log.read_text()


@pytest.mark.req("CHT-10.1", "DEC-02.6")
@pytest.mark.parametrize("way", ["grant", "yes"])
def test_change_that_nobody_was_asked_about_has_its_diff(
    user: CoderUser, chat_server: Server, tmp_path: Path, way: str
) -> None:
    other = Person.register(chat_server.url)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "b.py").write_text("old\n")
    edit = ("tool_edit_file", {"path": "b.py", "old": "old", "new": "new\nmore"})
    user.script(("tool_write_file", {"path": "a.py", "content": "a\n"}), edit)
    changes = f"/my/projects/{user.project}/changes"
    with connected_folder(tmp_path, user.person, user.project, "--yes" if way == "yes" else "--ask=browser"):
        answer = user.ask()
        if way == "grant":
            user.decide(answer["approval_id"], decision="approve", changes={"holds": "session"})
            user.ended(answer["turn_id"])

    items = user.person.get(f"/my/chat/{user.session}/timeline")["items"]
    first, second = [item for item in items if item["kind"] == "file_change"]
    held = "session" if way == "grant" else "yes"
    for item, counts in ((first, (1, 0)), (second, (2, 1))):
        change = item["file_change"]
        assert (change["added"], change["removed"], change["has_diff"], change["holds"]) == (*counts, True, held)
    assert second["file_change"]["approval_id"] is None
    diff = user.person.get(f"{changes}/{second['id']}")
    assert "-old\n+new\n+more\n" in diff["diff"]
    assert (diff["path"], diff["action"], diff["holds"]) == ("b.py", "edit", held)
    assert diff["grant"] == ("write ./*.py" if way == "grant" else None)
    [turn] = user.person.get(changes)["items"]
    assert [(file["added"], file["removed"], file["call_id"]) for file in turn["files"]] == [
        (1, 0, first["id"]),
        (2, 1, second["id"]),
    ]
    assert "diff" not in json.dumps(user.heard())  # the model knows what it wrote
    assert_problem(other.http.get(f"{changes}/{second['id']}"), 404, "project_not_found")
    elsewhere = f"/my/projects/{user.person.project()['id']}/changes/{second['id']}"
    assert_problem(user.person.http.get(elsewhere), 404, "diff_not_found")

    assert user.person.http.delete(f"/my/chat/sessions/{user.session}").status_code == 204
    assert_problem(user.person.http.get(f"{changes}/{second['id']}"), 404, "diff_not_found")
    [turn] = user.person.get(changes)["items"]
    assert [(file["added"], file["removed"], file["call_id"]) for file in turn["files"]] == [(1, 0, None), (2, 1, None)]
