"""Tenant isolation: every operation of the OpenAPI document is called with another user's ids."""

import itertools
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from artel.api.app import ROUTERS, is_public
from tests.folders import connected_folder
from tests.model_server import ByMark, Say, Tool
from tests.people import Person, assert_problem
from tests.running import Server
from tests.streams import stream

# Operations that need no token. Everything else must answer 401 without one.
PUBLIC = {
    ("post", "/auth/register"),
    ("post", "/auth/token"),
    ("get", "/auth/browser"),
    ("post", "/auth/browser"),
    ("get", "/healthz"),
    ("get", "/readyz"),
}
# Parameters that take the victim's ids. An operation with an id that is not listed here fails the test.
ID_PARAMETERS = (
    "project_id",
    "agent_id",
    "session_id",
    "archive_id",
    "turn_id",
    "message_id",
    "approval_id",
    "workflow_id",
    "login_id",
    "memory_id",
    "attachment_id",
    "call_id",
    "user_id",
    "path",
)
# Named like ids, but only stored as text or the name of a task in the approved plan: no other user's object is
# looked up by them.
ONLY_TEXT = ("task_id", "id", "grant_id")
TEXTS = {"grant_id": "0123456789abcdef", "name": "agent.writer.001", "provider_id": "1"}  # in paths
AT_CONNECTOR = ("/connector/grants", "/connector/files", "/undo")  # what a connector answers; none is online
MISSING = {"call_id": "diff_not_found"}  # the other codes are named after their parameter
NOT_FOUND = {name.replace("_id", "_not_found") for name in ID_PARAMETERS} | {"file_not_found", *MISSING.values()}
# Settings that make tool calls need an approval.
SETTINGS = {"tools": {"memory_write": {"requires_approval": True}}}
METHODS = ("get", "post", "put", "patch", "delete")
# Of the whole server by design, and refused to all but administrators.
ADMINISTRATION = ("/admin/", "/nodes")


class Belongings:
    """One user's objects, with a mark in every text, and their ids."""

    def __init__(self, person: Person, mark: str, script: ByMark) -> None:
        self.person = person
        self.mark = mark
        self.project = person.project(f"Project {mark}")
        self.agent = person.agent(self.project["id"], name=f"agent_{mark}", system_prompt=f"Prompt {mark}")
        person.http.patch(f"/my/projects/{self.project['id']}", json={"settings": SETTINGS | {"note": mark}})
        self.session = person.http.post(
            "/my/chat/sessions", json={"project_id": self.project["id"], "title": f"Session {mark}"}
        ).json()
        agents = f"/my/projects/{self.project['id']}/agents"
        memory = person.http.post(f"{agents}/{self.agent['id']}/context", json={"content": f"Memory {mark}"}).json()
        archived = person.agent(self.project["id"], name=f"archived_{mark}")["id"]
        person.http.post(f"{agents}/{archived}/context", json={"content": f"Archive {mark}"})
        person.http.delete(f"{agents}/{archived}", params={"archive": True})
        self.archive = person.http.get(f"/my/projects/{self.project['id']}/archives").json()["items"][0]
        turn = person.say(self.session["session_id"], f"Message {mark}", self.agent["id"])
        script[f"Remember {mark}"] = Say(tools=[Tool("memory_write", json.dumps({"content": f"Wish {mark}"}))])
        asking = person.session(self.project["id"])
        waiting = person.post(asking, content=f"Remember {mark}", target_agent=self.agent["id"]).json()
        self.file = f"note{person.user_id}.txt"  # in the agent's task workspace, with a unique name
        note = {"path": self.file, "content": f"Note {mark}"}
        script[f"Write {mark}"] = [Say(tools=[Tool("write_file", json.dumps(note))]), Say("Written.")]
        person.say(self.session["session_id"], f"Write {mark}", self.agent["id"])
        files = f"/my/chat/{self.session['session_id']}/attachments"
        uploaded = person.http.post(files, params={"name": f"{mark}.txt"}, content=f"File {mark}")
        self.attachment: str = uploaded.json()["id"]
        script[f"Change {mark}"] = [Say(tools=[Tool("tool_write_file", json.dumps(note))]), Say("Changed.")]
        with TemporaryDirectory() as folder, connected_folder(Path(folder), person, self.project["id"], "--yes"):
            person.say(self.session["session_id"], f"Change {mark}", "agent_coder")
        changes = f"/my/projects/{self.project['id']}/changes"
        [changed] = person.http.get(changes).json()["items"][0]["files"]
        self.diff = f"{changes}/{changed['call_id']}"
        planning = person.session(self.project["id"])
        person.post(planning, f"Plan {mark}", None, {"Prefer": "wait=30"})
        planned = person.http.get("/my/workflows", params={"project_id": self.project["id"]}).json()["items"][0]
        self.ids: dict[str, Any] = {
            "project_id": self.project["id"],
            "agent_id": self.agent["id"],
            "session_id": self.session["session_id"],
            "turn_id": turn["turn_id"],
            "message_id": turn["message_id"],
            "archive_id": self.archive["id"],
            "approval_id": waiting["approval_id"],
            "workflow_id": planned["id"],
            "login_id": person.http.get("/auth/sessions").json()["items"][0]["id"],
            "memory_id": memory["id"],
            "attachment_id": self.attachment,
            "call_id": changed["call_id"],
            "user_id": person.user_id,
            "path": self.file,
        }

    def snapshot(self) -> list[Any]:
        """Return everything that the owner sees."""
        url = f"/my/projects/{self.project['id']}"
        memory = f"{url}/agents/{self.agent['id']}/context"
        archive = f"{url}/archives/{self.archive['id']}"
        paths = (
            "/my/projects",
            url,
            f"{url}/agents",
            "/auth/me",
            "/my/chat/sessions",
            f"/my/chat/sessions/{self.ids['session_id']}",
            f"/my/chat/{self.ids['session_id']}/turns/{self.ids['turn_id']}",
            f"{url}/archives",
            archive,
            memory,
            "/my/approvals",
            f"/my/approvals/{self.ids['approval_id']}",
            f"{url}/audit",
            f"/my/workflows/{self.ids['workflow_id']}",
            f"{url}/agents/{self.agent['id']}/workspace/files/{self.file}",
            f"/my/chat/{self.ids['session_id']}/attachments/{self.attachment}",
            self.diff,
        )
        return [self.person.http.get(path).text for path in paths]


@pytest.fixture
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.fixture
def victim(server: Server, script: ByMark) -> Belongings:
    return Belongings(Person.register(server.url), "victimsmark", script)


@pytest.fixture
def attacker(server: Server, script: ByMark) -> Belongings:
    return Belongings(Person.register(server.url), "attackersmark", script)


@pytest.fixture
def document(server: Server) -> dict[str, Any]:
    answer: dict[str, Any] = httpx.get(f"{server.url}/openapi.json", timeout=30).json()
    return answer


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method in METHODS:
            if method in methods:
                yield method, path, methods[method]


def is_id(name: str) -> bool:
    return (name == "id" or name.endswith(("_id", "_ids"))) and name not in ONLY_TEXT


def schema_of(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the operation's body, or an empty one."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return {"properties": {}}
    [ref] = [part["$ref"] for part in content["schema"].get("anyOf", [content["schema"]]) if "$ref" in part]
    schema: dict[str, Any] = document["components"]["schemas"][ref.rsplit("/", 1)[1]]
    return schema


def ids_of(document: dict[str, Any], operation: dict[str, Any]) -> list[str]:
    """Return the id parameters of the operation: in its path, query and body."""
    in_path = [item["name"] for item in operation.get("parameters", []) if item["in"] == "path"]
    in_path = [name for name in in_path if name not in ONLY_TEXT]
    in_query = [
        item["name"] for item in operation.get("parameters", []) if item["in"] != "path" and is_id(item["name"])
    ]
    schema = schema_of(document, operation)
    in_body = [name for name in schema["properties"] if is_id(name)]
    nested = [name for name in fields_of(document, list(schema["properties"].values())) if is_id(name)]
    unknown = {*in_query, *nested, *in_path, *in_body} - set(ID_PARAMETERS) | {*nested}
    assert not unknown, f"{operation['operationId']} takes {unknown}: say in this test what belongs there"
    return [*sorted(in_path, key=ID_PARAMETERS.index), *in_query, *in_body]


def query_of(operation: dict[str, Any], ids: dict[str, Any]) -> dict[str, Any]:
    """Return the id parameters in the operation's query, and an example of every other that is required."""
    query = {item["name"]: item for item in operation.get("parameters", []) if item["in"] == "query"}
    others = {name: item["schema"] for name, item in query.items() if item["required"] and not is_id(name)}
    required = {name: schema["examples"][0] for name, schema in others.items()}
    return required | {name: ids[name] for name in query.keys() & ids.keys() if is_id(name)}


def fields_of(document: dict[str, Any], schema: Any) -> Iterator[str]:
    """Return the names of all fields in a schema, including nested ones."""
    if isinstance(schema, list):
        for item in schema:
            yield from fields_of(document, item)
    elif isinstance(schema, dict):
        yield from schema.get("properties", {})
        if "$ref" in schema:
            yield from fields_of(document, document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]])
        for key, inner in schema.items():
            if key not in ("examples", "default", "$ref"):
                yield from fields_of(document, inner)


def body_of(document: dict[str, Any], operation: dict[str, Any], ids: dict[str, Any]) -> dict[str, Any] | None:
    """Return a valid body, built from the document's examples and these ids."""
    if "requestBody" not in operation:
        return None
    properties = schema_of(document, operation)["properties"]
    examples = {name: field["examples"][0] for name, field in properties.items() if "examples" in field}
    return examples | {name: ids[name] for name in properties if name in ids}


@pytest.mark.req("UWS-01.1", "UWS-09.1", "UWS-09.3", "CHT-20.8")
def test_every_operation_refuses_the_ids_of_another_user(
    document: dict[str, Any], victim: Belongings, attacker: Belongings
) -> None:
    before = victim.snapshot()
    tried = 0

    for method, path, operation in operations(document):
        if path.startswith(ADMINISTRATION):
            continue
        names = ids_of(document, operation)
        # Every combination of own and foreign ids with at least one foreign id.
        for foreign in itertools.product((True, False), repeat=len(names)):
            if not any(foreign):
                continue
            ids = {
                name: (victim if is_foreign else attacker).ids[name]
                for name, is_foreign in zip(names, foreign, strict=True)
            }
            body, query = body_of(document, operation, ids), query_of(operation, ids)
            answer = attacker.person.http.request(method, path.format(**TEXTS | ids), json=body, params=query)
            assert answer.status_code == 404, (method, path, ids, answer.text)
            assert answer.json()["code"] in NOT_FOUND
            assert victim.mark not in answer.text
            tried += 1

    assert tried >= 75
    assert victim.snapshot() == before


@pytest.mark.req("CHT-20.8")
def test_attachment_of_another_user_or_session_is_not_sent(victim: Belongings, attacker: Belongings) -> None:
    before = victim.snapshot()
    own = attacker.ids["session_id"]
    elsewhere = attacker.person.session(attacker.project["id"])

    for session, attachment in ((own, victim.attachment), (elsewhere, attacker.attachment)):
        answer = attacker.person.post(session, "Look", attacker.agent["id"], attachments=[attachment])
        assert_problem(answer, 404, "attachment_not_found")
        assert attacker.person.history(elsewhere) == []

    assert victim.snapshot() == before


@pytest.mark.req("UWS-09.2")
def test_every_operation_refuses_ids_of_another_project_of_the_same_user(
    document: dict[str, Any], person: Person, script: ByMark
) -> None:
    here, there = Belongings(person, "here", script), Belongings(person, "there", script)
    before = there.snapshot()

    tried = 0

    for method, path, operation in operations(document):
        if path.startswith(ADMINISTRATION):
            continue
        outer, *inner = ids_of(document, operation) or [""]
        if inner:
            ids = there.ids | {outer: here.ids[outer]}
            body, query = body_of(document, operation, ids), query_of(operation, ids)
            answer = person.http.request(method, path.format(**TEXTS | ids), json=body, params=query)
            assert_problem(answer, 404, MISSING.get(inner[0], inner[0].replace("_id", "_not_found")))
            tried += 1

    assert tried >= 18
    assert there.snapshot() == before


@pytest.mark.req("UWS-09.3")
def test_no_response_contains_data_of_another_user(
    document: dict[str, Any], victim: Belongings, attacker: Belongings
) -> None:
    for method, path, _ in operations(document):
        if method == "get":
            text = shown_to(attacker, path)
            assert victim.mark not in text, path
            assert victim.person.email not in text, path


def shown_to(owner: Belongings, path: str) -> str:
    """Return what the owner of the ids gets at a path."""
    url = path.format(**TEXTS | owner.ids)
    if path.endswith("/events"):  # an endless stream: its first event is enough
        with stream(owner.person.http, "GET", url, params={"after": 0}) as following:
            return str(following.take(1))
    undo = {"turn_id": owner.ids.get("turn_id"), "path": "a.txt"}
    needed: dict[str, dict[str, Any]] = {"/search": {"q": "mark"}, "/undo": undo}
    answer = owner.person.http.get(url, params=needed.get(f"/{path.rsplit('/', 1)[-1]}", {}))
    status = 403 if path.startswith(ADMINISTRATION) else 409 if path.endswith(AT_CONNECTOR) else 200
    assert answer.status_code == status, (path, answer.text)
    return answer.text


@pytest.mark.any_database
def test_every_operation_without_a_token_is_refused_unless_it_is_public(
    document: dict[str, Any], server: Server, victim: Belongings
) -> None:
    before = victim.snapshot()

    for method, path, operation in operations(document):
        url = server.url + path.format(**TEXTS | victim.ids)
        answer = httpx.request(method, url, json=body_of(document, operation, victim.ids), timeout=30)
        assert (answer.status_code != 401 or path in ("/auth/token", "/auth/browser")) == ((method, path) in PUBLIC), (
            method,
            path,
        )

    assert victim.snapshot() == before


def test_foreign_id_and_unknown_id_get_the_same_response(victim: Belongings, attacker: Belongings) -> None:
    def answer(project_id: int) -> dict[str, Any]:
        problem: dict[str, Any] = attacker.person.http.get(f"/my/projects/{project_id}").json()
        return {name: value for name, value in problem.items() if name != "request_id"}

    assert answer(victim.ids["project_id"]) == answer(2**62) == answer(0)


def test_every_route_is_in_the_document_or_known_to_be_public(document: dict[str, Any]) -> None:
    pages = {"/", "/p/{page}", "/inbox", "/settings", "/settings/{page}", "/manage", "/manage/{page}", "/welcome"}
    hidden = pages | {"/docs", "/assets/{name}", "/metrics"}
    routes = {route.path_format for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)}

    assert routes - set(document["paths"]) == hidden
    assert all(is_public(path) for path in hidden)


@pytest.mark.req("SEC-02.5")
def test_reading_future_project_ids_does_not_affect_their_creation(server: Server) -> None:
    owner, stranger = Person.register(server.url), Person.register(server.url)
    newest = owner.project()["id"]
    is_over = threading.Event()

    def ask() -> set[int]:
        statuses: set[int] = set()
        for number in itertools.cycle(range(1, 9)):
            if is_over.is_set():
                return statuses
            statuses.add(stranger.http.get(f"/my/projects/{newest + number}/space").status_code)
        return statuses

    with ThreadPoolExecutor(3) as threads:
        asking = [threads.submit(ask) for _ in range(3)]
        made = [owner.http.post("/my/projects", json={"name": f"P{number}"}) for number in range(8)]
        is_over.set()
        statuses = set().union(*(future.result() for future in asking))

    assert [answer.status_code for answer in made] == [201] * 8
    assert statuses == {404}
