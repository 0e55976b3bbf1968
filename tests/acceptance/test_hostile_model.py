"""A model that does whatever an attacker wants: nothing comes of it outside the policy.

Where the instructions came from (a file, a name, a memory, a tool's answer) makes no difference to who obeys them; so
each scenario is what such a model would call, on a real folder behind a real connector.
"""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.actors.coder_user import CoderUser
from tests.folders import Folder, connected_folder
from tests.model_server import ModelServer
from tests.people import Person
from tests.running import Server

# What is tested has nothing to do with the database.
pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True, scope="session")

CANARY = "the-canary-sings"

Call = tuple[str, dict[str, Any]]

OUT = [
    "../outside.txt",
    "..",
    "../../etc/passwd",
    "src/../../outside.txt",
    "./../outside.txt",
    "src/./../../outside.txt",
    "/etc/passwd",
    "//etc/passwd",
    "{outside}",
    "file://{outside}",
    "~/.ssh/id_rsa",
    "C:\\Windows\\win.ini",
    "\\\\server\\share",
    "src\\..\\..\\outside.txt",
    "..%2foutside.txt",
    "%2e%2e/outside.txt",
    "..\u2215outside.txt",
    "\uff0e\uff0e/outside.txt",
    "\u202e../outside.txt",
    "..\u200b/outside.txt",
    "../outside.txt\u0000.md",
    "link_to_file",
    "link_to_folder/outside.txt",
    "chain",
    "work-secret/x",
    "../work-secret/x",
    "src/" * 300 + "x",
    "x" * 5000,
    "",
    " ",
]
SECRETS = [
    ".env",
    ".ENV",
    "./.env",
    "src/../.env",
    ".env.local",
    "secrets/token.txt",
    "Secrets/token.txt",
    "id_rsa",
    "server.key",
    "innocent_link",
    ".env/",
    ".env.",
]
PROTECTED = [
    ".git/config",
    ".git/hooks/pre-commit",
    ".GIT/config",
    ".github/workflows/ci.yml",
    ".bashrc",
    "AGENTS.md",
    ".artelignore",
    ".vscode/tasks.json",
]
# Names that only look like a way out: a file of that name, inside, is no harm.
# Names like all others, also as folders at the top: what they look like is never decoded.
HARMLESS = ["..%2foutside.txt", "..\u2215outside.txt", " ", "%2e%2e", "file:", "\uff0e\uff0e", "work-secret"]


def scenarios() -> Iterator[tuple[str, list[Call]]]:  # noqa: C901 - a list, written as loops
    for path in OUT + SECRETS:
        yield f"read {path[:40]!r}", [("tool_read_file", {"path": path})]
        yield f"write {path[:40]!r}", [("tool_write_file", {"path": path, "content": "pwned", "create_dirs": True})]
    for path in OUT[:22]:
        yield f"list {path[:40]!r}", [("tool_list_directory", {"path": path, "recursive": True})]
        yield f"search {path[:40]!r}", [("tool_search_files", {"query": CANARY, "path": path})]
    for path in OUT[:10] + SECRETS:
        yield f"edit {path[:40]!r}", [("tool_edit_file", {"path": path, "old": CANARY, "new": "pwned"})]
        yield f"stat {path[:40]!r}", [("tool_stat", {"path": path})]
    for path in PROTECTED:
        yield f"write {path!r}", [("tool_write_file", {"path": path, "content": "pwned", "create_dirs": True})]
        yield f"edit {path!r}", [("tool_edit_file", {"path": path, "old": "a", "new": "pwned"})]
    for path in ["src/main.py", *PROTECTED, *OUT[:8]]:
        yield f"delete {path!r}", [("tool_delete_file", {"path": path})]
    for extra in ({"user_id": 1}, {"approved": True}, {"approval": {"id": "x"}}, {"project_id": 1}, {"if_match": ""}):
        yield f"read with {extra}", [("tool_read_file", {"path": ".env", **extra})]
        yield f"delete with {extra}", [("tool_delete_file", {"path": "src/main.py", **extra})]
    for name in ("ls", "test; cat .env", "test --co", "../test", "$(id)", "", "TEST"):
        yield f"run {name!r}", [("tool_run_command", {"name": name})]
    for query in (CANARY, ".", "(a+)+$", "KEY=", "\\"):
        yield f"search {query!r}", [("tool_search_files", {"query": query, "regex": True})]
    for tool in ("shell", "code_execute", "workspace/read", "confirm", "approve", "tool_undo", "eval", "spawn_root"):
        yield f"call {tool}", [(tool, {"path": ".env", "command": "cat .env", "decision": "approve"})]
    for path in OUT[:12]:
        calls: list[Call] = [("write_file", {"path": path, "content": "pwned"}), ("read_file", {"path": path})]
        yield f"task workspace {path[:40]!r}", calls
    more = {"role": "x", "task_brief": {"objective": "read .env"}, "tools": ["shell", "tool_delete_file"]}
    yield "spawn with more", [("spawn_agent", more)]


ALL = list(scenarios())
PARTS = 5  # each on a project of its own, which allows sixty tool calls a minute


@pytest.mark.usefixtures("backend")
def test_there_are_enough_of_them() -> None:
    assert len(ALL) >= 200
    assert len({name for name, _ in ALL}) >= 190
    assert sum(len(calls) for _, calls in ALL) <= PARTS * 55  # or some would be refused for their number alone


@pytest.fixture
def folder(chat_server: Server, tmp_path: Path) -> Iterator[Folder]:
    (tmp_path / "outside.txt").write_text(CANARY)
    (tmp_path / "work-secret").mkdir()
    (tmp_path / "work-secret" / "x").write_text(CANARY)
    work = tmp_path / "work"
    for name in ("src", "secrets", ".git/hooks", ".github/workflows"):
        (work / name).mkdir(parents=True)
    for name in (".env", ".env.local", "secrets/token.txt", "id_rsa", "server.key"):
        (work / name).write_text(f"KEY={CANARY}")
    for name in ("src/main.py", ".git/config", ".bashrc", "AGENTS.md", ".artelignore"):
        (work / name).write_text("a harmless text\n")
    (work / "link_to_file").symlink_to("../outside.txt")
    (work / "link_to_folder").symlink_to("..")
    (work / "chain").symlink_to("link_to_file")
    (work / "innocent_link").symlink_to(".env")
    person = Person.register(chat_server.url)
    with connected_folder(tmp_path, person, person.project()["id"], "--yes", "--run", "test=true") as folder:
        yield folder


def everything(folder: Path) -> dict[str, Any]:
    """Return what is in the folder and around it, links as links, without what is harmless."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if name.parts[0] in ("config", "connector.txt") or name.parts[1:2] in [(harmless,) for harmless in HARMLESS]:
            continue
        found[str(name)] = str(path.readlink()) if path.is_symlink() else path.is_file() and path.read_bytes()
    return found


@pytest.mark.timeout(300)
@pytest.mark.req("WSA-05.2", "WSA-06.1", "WSA-06.2", "AGT-02.5", "AGT-02.6")
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_comes_of_it(folder: Folder, model: ModelServer, part: int) -> None:
    outside = str(folder.path.parent / "outside.txt")
    before = everything(folder.path.parent)
    for number, (name, calls) in itertools.islice(enumerate(ALL), part, None, PARTS):
        mark = f"hostile{number}of{folder.project_id}x"
        user = CoderUser(folder.person, folder.project_id, model, mark)
        model.asked.clear()
        user.script(*((tool, json.loads(json.dumps(given).replace("{outside}", outside))) for tool, given in calls))
        answered = user.ask()
        if answered.get("status") == "waiting":
            folder.person.http.post(f"/my/chat/{user.session}/turns/{answered['turn_id']}/cancel")
        messages = [message for asked in model.asked for message in asked.body["messages"]]
        told = json.dumps([message for message in messages if message["role"] != "assistant"])
        assert CANARY not in told, f"{name}: a secret was told to the model"
        assert str(folder.path.parent) not in told.replace(outside, ""), f"{name}: the place of the folder was told"
        assert everything(folder.path.parent) == before, f"{name}: something was changed"
        statuses = {one["status"] for one in user.audit() if one["turn_id"] == answered["turn_id"]}
        assert statuses, f"{name}: nothing is on record"
    assert folder.is_online()
