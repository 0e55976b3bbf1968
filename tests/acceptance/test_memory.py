"""Memory of agents, through HTTP, on SQLite and PostgreSQL."""

import json
import shutil
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.actors.agent_memory import TEXTS, AgentMemory
from tests.conftest import StartServer
from tests.deadlines import eventually
from tests.people import Person, assert_problem
from tests.running import Server

pytestmark = pytest.mark.any_database


@pytest.mark.req("UWS-17.1", "UWS-20.1")
def test_added_memory_is_stored_with_metadata_and_found(person: Person) -> None:
    project = person.project()
    memory = AgentMemory(person, project["id"], project["agents"][0]["id"])
    before = datetime.now(UTC)

    added = memory.add(
        "Invoices are sent as PDF", type="lesson", success=False, task_id="task-7", metadata={"source": ["mail", 3]}
    )

    assert {name: added[name] for name in ("type", "success", "task_id", "metadata")} == {
        "type": "lesson",
        "success": False,
        "task_id": "task-7",
        "metadata": {"source": ["mail", 3]},
    }
    assert before <= datetime.fromisoformat(added["created_at"]) <= datetime.now(UTC)
    [found] = memory.search("invoices")
    score = found.pop("score")
    assert 0 < score <= 1
    assert found == added == memory.listed()["items"][0]
    stats = memory.stats()
    assert stats["collection"] == f"user{person.user_id}_project{project['id']}_agent_coder_context"
    assert stats["waiting"] == 0
    assert stats["embeddings"] == "artel-embed-1"


@pytest.mark.req("UWS-19.1")
def test_a_paraphrase_without_a_common_word_is_found_first(person: Person) -> None:
    memory = AgentMemory.new(person)
    for text in TEXTS:
        memory.add(text)

    assert memory.found("How do I reset my password?")[0] == TEXTS[1]
    assert memory.found("what was ZX-4471 about?")[0] == TEXTS[0]
    best = memory.search("How do I reset my password?", top_k=3)
    assert len(best) == 3
    assert [item["score"] for item in best] == sorted((item["score"] for item in best), reverse=True)
    assert len(memory.search("the")) == 5


@pytest.mark.req("UWS-19.2")
def test_a_search_is_narrowed_by_type_success_and_date(person: Person) -> None:
    memory = AgentMemory.new(person)
    memory.add("red apple", type="task", success=True)
    memory.add("red pear", type="task", success=False)
    last = memory.add("red plum", type="lesson", success=True)
    made = datetime.fromisoformat(last["created_at"])

    assert set(memory.found("red", type="task")) == {"red apple", "red pear"}
    assert memory.found("red", success=False) == ["red pear"]
    assert memory.found("red", type="lesson", success=False) == []
    assert memory.found("red", since=made.isoformat()) == ["red plum"]
    assert set(memory.found("red", until=(made - timedelta(microseconds=1)).isoformat())) == {"red apple", "red pear"}
    assert memory.found("red", since=made.isoformat(), until=made.isoformat()) == ["red plum"]
    eastern = made.astimezone(tz=datetime.fromisoformat("2026-01-01T00:00:00+09:30").tzinfo)
    assert memory.found("red", since=eastern.isoformat()) == ["red plum"]


def test_memories_are_listed_newest_first_and_narrowed(person: Person) -> None:
    memory = AgentMemory.new(person)
    made = []
    for n in range(5):
        made.append(memory.add(f"number {n}", type="even" if n % 2 == 0 else "odd", success=n < 3))
        moment = datetime.fromisoformat(made[-1]["created_at"])
        eventually(lambda moment=moment: datetime.now(UTC) - moment > timedelta(milliseconds=2))  # type: ignore[misc]

    assert memory.listed()["items"] == made[::-1]
    assert memory.listed(limit=2, offset=1) == {"items": made[3:1:-1], "total": 5, "limit": 2, "offset": 1}
    assert memory.listed(type="odd") == {"items": [made[3], made[1]], "total": 2, "limit": 50, "offset": 0}
    assert [item["content"] for item in memory.listed(success=False)["items"]] == ["number 4", "number 3"]
    stats = memory.stats()
    assert (stats["count"], stats["succeeded"], stats["failed"]) == (5, 3, 2)
    assert stats["by_type"] == {"even": 3, "odd": 2}
    assert (stats["oldest"], stats["newest"]) == (made[0]["created_at"], made[4]["created_at"])


@pytest.mark.req("UWS-21.1")
def test_cleared_memory_is_empty_and_usable(person: Person) -> None:
    memory = AgentMemory.new(person)
    for text in TEXTS:
        memory.add(text)

    assert memory.http.delete(memory.url).status_code == 204

    assert memory.found("database") == []
    assert memory.listed()["total"] == memory.stats()["count"] == 0
    memory.add("The database is new")
    assert memory.found("database") == ["The database is new"]
    assert memory.stats()["collection"].endswith("_agent_coder_context")


@pytest.mark.req("UWS-20.1", "UWS-21.1")
def test_one_memory_is_edited_pinned_and_forgotten(person: Person, other: Person) -> None:
    memory = AgentMemory.new(person)
    made = [memory.add(text) for text in TEXTS]
    url = f"{memory.url}/{made[0]['id']}"

    edited = memory.http.patch(url, json={"content": "The parrot speaks Dutch"}).json()

    assert {**edited, "edited_at": None} == {**made[0], "content": "The parrot speaks Dutch"}
    assert datetime.fromisoformat(edited["edited_at"]) > datetime.fromisoformat(made[0]["created_at"])
    assert memory.found("What does the parrot say?")[0] == "The parrot speaks Dutch"
    assert "The parrot speaks Dutch" not in memory.found("ZX-4471", top_k=1)
    assert memory.http.patch(url, json={"pinned": True}).json() == {**edited, "pinned": True}
    assert [item["id"] for item in memory.listed()["items"]] == [made[0]["id"], *(row["id"] for row in made[:0:-1])]
    assert "The parrot speaks Dutch" in memory.found("How do I reset my password?", top_k=2)
    assert memory.stats()["waiting"] == 0

    assert memory.http.delete(url).status_code == 204
    assert_problem(memory.http.get(url), 404, "memory_not_found")
    assert_problem(memory.http.delete(url), 404, "memory_not_found")
    assert_problem(memory.http.patch(url, json={"pinned": True}), 404, "memory_not_found")
    assert "The parrot speaks Dutch" not in memory.found("parrot", top_k=100)
    assert memory.listed()["total"] == memory.stats()["count"] == len(TEXTS) - 1
    left = f"{memory.url}/{made[1]['id']}"
    for body in ({"content": ""}, {"pinned": None}, {"content": None}, {"type": "x"}):
        assert_problem(memory.http.patch(left, json=body), 422, "invalid_request")
    assert memory.http.patch(left, json={}).json() == made[1]
    assert_problem(other.http.patch(left, json={"pinned": True}), 404, "project_not_found")


@pytest.mark.req("UWS-06.2", "UWS-17.2", "UWS-09.1", "UWS-09.2")
def test_every_agent_has_a_memory_of_its_own(person: Person, other: Person) -> None:
    project = person.project()
    mine, colleague = (AgentMemory(person, project["id"], agent["id"]) for agent in project["agents"][:2])
    elsewhere, stranger = AgentMemory.new(person), AgentMemory.new(other)
    all_of_them = {"mine": mine, "colleague": colleague, "elsewhere": elsewhere, "stranger": stranger}
    for name, memory in all_of_them.items():
        memory.add(f"The secret of {name}")

    for name, memory in all_of_them.items():
        assert memory.found("secret", top_k=100) == [f"The secret of {name}"]
        assert [item["content"] for item in memory.listed()["items"]] == [f"The secret of {name}"]
        assert memory.http.get(f"{memory.url}/export").text.count("\n") == 1

    mine.http.delete(mine.url)
    assert mine.found("secret") == []
    for name in ("colleague", "elsewhere", "stranger"):
        assert all_of_them[name].found("secret") == [f"The secret of {name}"]


@pytest.mark.req("UWS-17.2", "UWS-09.3")
def test_memory_of_other_users_is_not_found(person: Person, other: Person) -> None:
    project, theirs = person.project(), other.project()
    foreign = AgentMemory(other, project["id"], project["agents"][0]["id"])
    mixed = AgentMemory(other, theirs["id"], project["agents"][0]["id"])

    for memory, code in ((foreign, "project_not_found"), (mixed, "agent_not_found")):
        assert_problem(memory.http.get(memory.url), 404, code)
        assert_problem(memory.http.post(memory.url, json={"content": "x"}), 404, code)
        assert_problem(memory.http.delete(memory.url), 404, code)
        assert_problem(memory.http.post(f"{memory.url}/search", json={"query": "x"}), 404, code)
        assert_problem(memory.http.get(f"{memory.url}/stats"), 404, code)
        assert_problem(memory.http.get(f"{memory.url}/export"), 404, code)


def test_a_renamed_agent_keeps_its_memory(person: Person) -> None:
    memory = AgentMemory.new(person)
    memory.add("The red door")
    renamed = memory.http.patch(memory.url.removesuffix("/context"), json={"name": "agent_renamed"})
    assert renamed.status_code == 200

    eventually(lambda: memory.found("red door") == ["The red door"])
    assert memory.stats()["collection"].endswith("_agent_renamed_context")
    memory.add("The red window")
    assert set(memory.found("red")) == {"The red door", "The red window"}


@pytest.mark.req("UWS-21.2")
def test_deleting_an_agent_deletes_its_memory_or_archives_it_first(person: Person) -> None:
    project = person.project()
    url = f"/my/projects/{project['id']}"
    archived, deleted = (AgentMemory(person, project["id"], agent["id"]) for agent in project["agents"][:2])
    made = [archived.add(text, metadata={"n": n}) for n, text in enumerate(TEXTS)]
    deleted.add("To be forgotten")

    assert person.http.delete(archived.url.removesuffix("/context"), params={"archive": "true"}).status_code == 204
    assert person.http.delete(deleted.url.removesuffix("/context")).status_code == 204

    archives = person.http.get(f"{url}/archives").json()
    assert archives["total"] == 1
    [archive] = archives["items"]
    assert (archive["agent"], archive["memories"]) == ("agent_coder", 5)
    answer = person.http.get(f"{url}/archives/{archive['id']}")
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert sorted(lines, key=lambda line: line["metadata"]["n"]) == made
    assert_problem(archived.http.get(archived.url), 404, "agent_not_found")

    # Whoever gets the name next gets nothing of the memory.
    again = AgentMemory(person, project["id"], person.agent(project["id"], name="agent_coder")["id"])
    assert again.found("database") == []
    again.add("The database is new")
    eventually(lambda: again.found("database") == ["The database is new"])

    elsewhere = person.project()
    assert_problem(
        person.http.get(f"/my/projects/{elsewhere['id']}/archives/{archive['id']}"), 404, "archive_not_found"
    )
    assert_problem(person.http.get(f"{url}/archives/unknown"), 404, "archive_not_found")
    assert person.http.delete(url).status_code == 204
    assert_problem(person.http.get(f"{url}/archives"), 404, "project_not_found")


def test_an_export_has_everything_one_document_per_line(person: Person) -> None:
    memory = AgentMemory.new(person)
    made = [memory.add(f"line {n}\nof \u2028 several") for n in range(120)]  # more than one page

    answer = memory.http.get(f"{memory.url}/export")

    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.rstrip("\n").split("\n")]
    assert sorted(lines, key=lambda line: line["id"]) == sorted(made, key=lambda line: line["id"])
    assert [line["id"] for line in lines] == sorted(line["id"] for line in lines)
    assert AgentMemory.new(person).http.get(f"{memory.url}/export").text == answer.text


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"content": ""},
        {"content": "a\x00b"},
        {"content": "x" * 100_001},
        {"content": "x", "type": "Not A Type"},
        {"content": "x", "success": "yes"},
        {"content": "x", "metadata": [1]},
        {"content": "x", "metadata": {"a": "x" * 17_000}},
        {"content": "x", "metadata": {"a": {"a": {"a": {"a": {"a": {"a": 1}}}}}}},
        {"content": "x", "task_id": "with space"},
        {"content": "x", "unknown": 1},
    ],
)
def test_a_bad_memory_is_refused(person: Person, body: dict[str, Any]) -> None:
    memory = AgentMemory.new(person)

    assert_problem(memory.http.post(memory.url, json=body), 422, "invalid_request")

    assert memory.listed()["total"] == 0


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": ""},
        {"query": "x", "top_k": 0},
        {"query": "x", "top_k": 101},
        {"query": "x", "since": "2026-03-01T12:00:00"},
        {"query": "x", "since": "2026-03-01"},
        {"query": "x", "until": 1_700_000_000},
        {"query": "x", "until": "2026-02-30T12:00:00Z"},
        {"query": "x", "agent_id": 1},
    ],
)
def test_a_bad_search_is_refused(person: Person, body: dict[str, Any]) -> None:
    memory = AgentMemory.new(person)

    assert_problem(memory.http.post(f"{memory.url}/search", json=body), 422, "invalid_request")


def test_the_longest_memory_is_kept_whole(person: Person) -> None:
    memory = AgentMemory.new(person)
    content = "word " * 20_000

    memory.add(content)

    assert memory.found("word") == [content]


def test_adding_works_and_search_finds_only_unindexed_memories_while_index_is_down(start_server: StartServer) -> None:
    server = start_server(ARTEL_QDRANT_URL="http://127.0.0.1:9")
    memory = AgentMemory.new(Person.register(server.url))

    added = memory.add("Kept all the same")

    assert memory.listed()["items"] == [added]
    assert memory.found("same") == ["Kept all the same"]
    answer = memory.http.post(f"{memory.url}/search", json={"query": "elsewhere"})
    assert_problem(answer, 503, "memory_unavailable")
    assert int(answer.headers["retry-after"]) > 0
    stats = memory.stats()
    assert (stats["count"], stats["waiting"], stats["index_ok"]) == (1, 1, False)
    assert memory.http.delete(memory.url).status_code == 204
    assert memory.listed()["total"] == 0
    assert server.stop() == 0


def test_an_index_that_was_deleted_is_rebuilt_after_the_next_start(start_server: StartServer) -> None:
    first = start_server()
    person = Person.register(first.url)
    memory = AgentMemory.new(person)
    for text in TEXTS:
        memory.add(text)
    assert first.stop() == 0
    folder = Path(first.env["ARTEL_DATA_DIR"]) / "memory"
    assert folder.is_dir()
    shutil.rmtree(folder)

    again = Server.start(Path(first.env["ARTEL_DATA_DIR"]).parent, first.env)
    person.http.base_url = again.url
    try:
        eventually(lambda: len(memory.search("the", top_k=10)) == 5)
        assert memory.found("How do I reset my password?")[0] == TEXTS[1]
        assert memory.stats()["waiting"] == 0
    finally:
        assert again.stop() == 0


@pytest.mark.req("AGT-03.3")
def test_one_memory_is_read_by_its_id_by_its_owner_alone(person: Person, other: Person) -> None:
    memory, foreign = AgentMemory.new(person), AgentMemory.new(other)
    added = memory.add("Invoices are sent as PDF", type="lesson")

    shown = person.http.get(f"{memory.url}/{added['id']}")

    assert shown.status_code == 200
    assert {name: shown.json()[name] for name in ("id", "content", "type")} == {
        name: added[name] for name in ("id", "content", "type")
    }
    assert_problem(other.http.get(f"{memory.url}/{added['id']}"), 404, "project_not_found")
    assert_problem(other.http.get(f"{foreign.url}/{added['id']}"), 404, "memory_not_found")
    assert_problem(person.http.get(f"{memory.url}/{uuid.uuid4()}"), 404, "memory_not_found")
    assert person.http.request("OPTIONS", f"{memory.url}/search").headers["allow"] == "POST"
