"""Without a model the demo brain plans too: the whole flow can be tried, and costs nothing."""

from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import eventually
from tests.folders import connected_folder
from tests.people import Person

pytestmark = pytest.mark.any_database

REQUEST = "Find out how it works, then write an outline. Then review the text and fix the code."
INTERNAL = ("of which this is a part", "What others have found out", "quoted data", "The user's request", "You are ")


def carried_out(person: Person, session: str, request: str, tasks: int) -> dict[str, Any]:
    """Ask for something, approve the plan, and return how it ended."""
    accepted = person.post(session, request, None).json()
    url = f"/my/workflows/{accepted['workflow_id']}"

    def stands(*statuses: str) -> dict[str, Any]:
        now = person.get(url)
        return now if now["status"] in statuses else {}

    waits = eventually(lambda: stands("awaiting_approval"))
    assert len(waits["tasks"]) == tasks
    assert (waits["estimated_cost"], waits["estimated_cost_high"]) == (0, 0)
    person.http.post(f"/my/approvals/{waits['approval_id']}/confirm", json={"decision": "approve"})
    return eventually(lambda: stands("completed", "partial", "failed"), 60)


@pytest.mark.req("DEM-01.1", "DEM-01.2")
def test_the_demo_brain_plans_is_approved_and_answers_for_nothing(person: Person) -> None:
    project = person.project()
    session = person.session(project["id"])

    ended = carried_out(person, session, REQUEST, 4)

    assert (ended["status"], ended["cost"]) == ("completed", 0)
    results = [task["result"] for task in ended["tasks"]]
    for form, result in zip(("Notes", "Outline", "Checklist", "def test_"), results, strict=True):
        assert form in result
        assert "in the task workspace as `" in result
    assert not [words for words in INTERNAL for text in (*results, ended["answer"]) if words in text]
    calls = person.get(f"/my/projects/{project['id']}/audit")["items"]
    assert [(call["tool"], call["status"]) for call in calls] == [("write_file", "done")] * 4
    assert "how do I add a real model" not in ended["answer"]
    assert all(task["result"] in ended["answer"] for task in ended["tasks"])
    assert person.history(session)[-1]["content"] == ended["answer"]


@pytest.mark.req("DEM-01.3", "DEM-01.2")
@pytest.mark.parametrize(
    ("request_text", "found"),
    [
        (
            "Review this folder",
            ["Files: 5 (", "Open notes: 2 (TODO 1,", "README.md, lines: 3", "Tests: 2, in files: 1"],
        ),
        ("Проверь эту папку", ["Файлы: 5,", "Открытые заметки: 2,", "README.md, строк: 3", "тестов 2"]),
        ("检查这个文件夹", ["文件：5 个", "待办标记：2 处", "README.md 有 3 行", "2 个测试"]),
    ],
)
def test_review_of_a_connected_folder_counts_what_is_there(
    person: Person, tmp_path: Path, request_text: str, found: list[str]
) -> None:
    project, work = person.project()["id"], tmp_path / "work"
    for name, content in {
        "README.md": "# Site\n\npip install site\n",
        "src/app.py": "# TODO: greet\n",
        "src/lib.py": 'x = 1  # FIXME "one"\n',
        "tests/test_app.py": "def test_a(): ...\ndef test_b(): ...\n",
        "data.json": "{}",
    }.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(content)

    with connected_folder(tmp_path, person, project, "--read-only"):
        ended = carried_out(person, person.session(project), request_text, 4)

    assert ended["status"] == "completed"
    assert len({task["agent"] for task in ended["tasks"]}) == 4
    short, *_ = ended["answer"].partition("**")
    for words, task in zip(found, ended["tasks"], strict=True):
        assert words in task["result"]
        assert words in short
    assert "src/app.py:1 `# TODO: greet`" in ended["answer"]
    assert not [words for words in INTERNAL if words in ended["answer"]]


@pytest.mark.req("DEM-01.1")
def test_deleting_a_file_is_planned_for_the_agent_that_can(person: Person) -> None:
    accepted = person.post(person.session(person.project()["id"]), "delete style.css", None).json()

    def planned() -> list[str]:
        return [task["agent"] for task in person.get(f"/my/workflows/{accepted['workflow_id']}")["tasks"]]

    assert eventually(planned) == ["agent_coder"]


@pytest.mark.req("DEM-01.3")
def test_review_without_a_folder_says_how_to_connect_one(person: Person) -> None:
    session = person.session(person.project()["id"])

    person.post(session, "Review this folder", None)

    answer = eventually(lambda: person.history(session)[-1]["content"].startswith("No folder is connected"))
    assert answer
    assert "artel connect . --project" in person.history(session)[-1]["content"]
