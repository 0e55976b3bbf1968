"""A server with the work of a few days, for screenshots and checks of every page: see `sample`."""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from aiohttp import web

from tests.deadlines import eventually
from tests.model_server import ModelRequest, ModelServer, Say, Tool
from tests.people import PASSWORD, Person, client
from tests.running import ARTEL, Server

STOP_SECONDS = 30


class Part(NamedTuple):
    """A task of a plan: who does it, after which others, what it is, and what comes of it."""

    agent: str
    after: str
    description: str
    result: str


FILES = {
    "README.md": "# Harbour\n\nA small site about the harbour: opening hours, tides and ferries.\n\n"
    "## Start\n\n```sh\npython3 app.py\n```\n",
    "app.py": '''"""Serve the harbour's page."""

from pathlib import Path

PAGE = Path(__file__).with_name("page.html")


def greeting() -> str:
    return "Welcome to the harbour!"


def opening_hours(day: str) -> str:
    # TODO: holidays
    return "closed" if day == "Sunday" else "9:00 to 18:00"


def main() -> None:
    print(greeting())
    print(opening_hours("Monday"))


if __name__ == "__main__":
    main()
''',
    "page.html": "<!doctype html>\n<title>Harbour</title>\n<h1>Welcome to the harbour!</h1>\n",
    "tests/test_app.py": "from app import opening_hours\n\n\ndef test_sunday():\n"
    '    assert opening_hours("Sunday") == "closed"\n',
    "data/ferries.csv": "from,to,minutes\nHarbour,Island,35\nHarbour,Lighthouse,50\n",
}
GREETING = '''def greeting(name: str | None = None) -> str:
    """Return the greeting, with a name if one is known."""
    who = f", {name}" if name else ""
    return f"Welcome to the harbour{who}!"'''
MAIN = """def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", help="who is greeted")
    options = parser.parse_args()
    print(greeting(options.name))"""
NEW_APP = (
    FILES["app.py"]
    .replace("from pathlib import Path\n", "import argparse\nfrom pathlib import Path\n")
    .replace('def greeting() -> str:\n    return "Welcome to the harbour!"', GREETING)
    .replace("def main() -> None:\n    print(greeting())", MAIN)
)
EXPLANATION = """\
### How the opening hours are found

`opening_hours` in **app.py** takes the name of a day and returns a text. There is one special case, Sunday:

| Day | Result | Tested |
|---|---|---|
| Monday to Saturday | 9:00 to 18:00 | no |
| Sunday | closed | yes, in `tests/test_app.py` |
| Holidays | *not handled yet*, see the TODO | no |

A version with holidays would look like this:

```python
HOLIDAYS = {date(2026, 12, 25), date(2026, 12, 26)}


def opening_hours(day: date) -> str:
    if day in HOLIDAYS or day.weekday() == SUNDAY:
        return "closed"
    return "9:00 to 18:00"
```

What I would do next:

- [x] Read the code and its tests
- [ ] Take a `date` instead of the name of a day
- [ ] Add the holidays to `data/`

The crossing takes $t = d / v$ minutes, so that a ferry at $v = 0.5$ miles a minute needs **35 minutes** for the island.
"""
LAUNCH = {
    "research": Part(
        "agent_researcher",
        "",
        "Find three harbour sites that people praise, and say why.",
        "1. **Reykjavík**: one page, tides first\n2. **Oban**: ferries as a table\n3. **Honfleur**: photographs",
    ),
    "audience": Part(
        "agent_analyzer",
        "",
        "Describe who visits the site and what they look for.",
        "Sailors look for *tides*, families for *ferries*, neighbours for *opening hours*.",
    ),
    "copy": Part(
        "agent_writer",
        "research audience",
        "Write the text of the landing page, at most 120 words.",
        "## The harbour, today\n\nTides, ferries and opening hours on one page, for sailors and everyone else.",
    ),
    "page": Part(
        "agent_coder",
        "copy",
        "Turn the text into page.html.",
        "`page.html` has the new text, a table of ferries and no scripts.",
    ),
    "check": Part(
        "agent_analyzer",
        "page",
        "Check the page for mistakes and broken links.",
        "No broken links; one typing error is mended.",
    ),
}
MOVE = {
    "inventory": Part(
        "agent_analyzer",
        "",
        "List everything that the old host serves: files, addresses, certificates.",
        "",
    ),
    "compare": Part(
        "agent_researcher",
        "",
        "Compare three hosts by price, backups and where the data is.",
        "",
    ),
    "steps": Part(
        "agent_writer",
        "inventory compare",
        "Write the steps of the move, with a way back for each.",
        "",
    ),
    "scripts": Part(
        "agent_coder",
        "steps",
        "Write a script for the steps that can be automated.",
        "",
    ),
}
LAUNCHED = """\
The landing page is ready: **page.html** has the new text, the ferries as a table, and no scripts.

- The text has 96 words and begins with the tides, because sailors look for them first.
- The table of ferries comes from `data/ferries.csv`.
- One typing error was mended; all links work.
"""
MEMORIES = {
    "agent_coder": [
        "The site must work without JavaScript: the harbour master's tablet has it switched off.",
        "Tests run with `python3 -m pytest -q`; the folder has no other build step.",
    ],
    "agent_writer": [
        "The harbour master signs with her full name, Ingrid Aasen.",
        "Prices are written as €12.50, never 12,50 €.",
    ],
    "agent_researcher": ["The tide tables of the port authority are free to use if their source is named."],
}


def in_words(text: str, pause: float = 0) -> Say:
    """Return an answer that is streamed word by word, with its spaces."""
    return Say(pieces=re.findall(r"\S+\s*|\s+", text), pause=pause)


def call(tool: str, **arguments: Any) -> Say:
    """Return an answer that calls a tool."""
    return Say(tools=[Tool(tool, json.dumps(arguments))])


SCRIPTS: Mapping[str, Sequence[Say]] = {
    "How are the opening hours found": (
        call("tool_search_files", query="opening_hours"),
        call("tool_read_file", path="app.py"),
        in_words(EXPLANATION),
    ),
    "Greet visitors by their name": (
        call("tool_read_file", path="app.py"),
        call("tool_write_file", path="app.py", content=NEW_APP),
        Say("`python3 app.py --name Ada` greets Ada now; without a name everything is as before."),
    ),
    "Add the island's timetable": (
        call("tool_write_file", path="data/island.csv", content="leaves,arrives\n9:10,9:45\n12:30,13:05\n"),
        Say("The timetable is in `data/island.csv`, two crossings a day."),
    ),
    "Delete the old page": (
        call("tool_delete_file", path="page.html"),
        Say("Then **page.html** stays. I changed nothing."),
    ),
    "Draft a note for the harbour master": (
        Say("Dear Ms Aasen,\n\nthe new page is ready. It works without JavaScript, as you asked.\n\nBest wishes"),
    ),
    "What is the highest tide": (
        Say("The highest tide of the year is on **29 September, 4.9 m**, according to the port authority's tables."),
    ),
}


@dataclass
class SampleModel:
    """A model that plays the sample's agents."""

    plans: dict[str, Mapping[str, Part]] = field(default_factory=lambda: {"landing page": LAUNCH, "another host": MOVE})
    pause: float = 0

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        return await self._answer(request)(request, http)

    def _answer(self, request: ModelRequest) -> Say:
        text = request.text
        if request.schema_name == "plan":
            return Say(json.dumps({"tasks": self._tasks(text)}))
        if request.schema_name is not None:
            return Say()
        parts = [part for tasks in self.plans.values() for part in tasks.values()]
        if part := next((part for part in parts if text.startswith(part.description)), None):
            return in_words(part.result, self.pause)
        if steps := next((steps for mark, steps in SCRIPTS.items() if mark in text), None):
            return steps[min(_results(request), len(steps) - 1)]
        return in_words(LAUNCHED if any(mark in text for mark in self.plans) else "That is done.", self.pause)

    def _tasks(self, text: str) -> list[dict[str, Any]]:
        tasks = next((tasks for mark, tasks in self.plans.items() if mark in text), None)
        if tasks is None:
            return [{"id": "1", "agent": "agent_coder", "description": text, "depends_on": []}]
        return [
            {"id": name, "agent": part.agent, "description": part.description, "depends_on": part.after.split()}
            for name, part in tasks.items()
        ]


def _results(request: ModelRequest) -> int:
    """Return how many tool results follow the last user message."""
    roles = [message["role"] for message in request.body["messages"]]
    since = roles[::-1].index("user")
    return roles[len(roles) - since :].count("tool")


@dataclass
class Sample:
    """What a filled server has: its users, the project, and the conversations by a short name."""

    server: Server
    admin: Person
    project_id: int
    sessions: dict[str, str]
    agents: dict[str, int]
    workflows: dict[str, str]


def environment(models: ModelServer) -> dict[str, str]:
    """Return the settings of a server for the sample."""
    models.models = ["gpt-4o", "gpt-4o-mini", "gpt-4.1-mini"]
    nodes = Path(__file__).parents[1] / "examples" / "newsroom"
    return {"OPENAI_API_KEY": "sk-sample", "OPENAI_BASE_URL": models.url, "ARTEL_NODES_DIR": str(nodes)}


@contextmanager
def sample(server: Server, models: ModelServer, folder: Path) -> Iterator[Sample]:
    """Fill a server: conversations, a plan that ran and one that waits, a pending write, memories, users, providers.

    The first account of the server must not exist yet: it becomes its administrator. `folder` is where the connected
    folder is made.
    """
    admin = _register(server.url, "ada@example.org")
    assert admin.http.patch("/admin/settings", json={"default_model": "gpt-4o-mini"}).status_code == 200
    project = admin.project("Harbour")["id"]
    site = folder / "harbour"
    for name, content in FILES.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(content)
    with connector(server, admin, project, site):
        found = {agent["name"]: agent["id"] for agent in admin.get(f"/my/projects/{project}/agents")["items"]}
        filled = Sample(server, admin, project, {}, found, {})
        _administer(filled, models)
        _remember(filled)
        _talk(filled)
        yield filled


def _register(url: str, email: str) -> Person:
    answer = httpx.post(f"{url}/auth/register", json={"email": email, "password": PASSWORD}, timeout=120)
    assert answer.status_code == 201, answer.text
    account = answer.json()
    return Person(email, account["user_id"], account["access_token"], client(url, account["access_token"]))


@contextmanager
def connector(server: Server, person: Person, project_id: int, folder: Path) -> Iterator[None]:
    """Run a connector that asks in the browser."""
    access = {"ARTEL_SERVER": server.url, "ARTEL_TOKEN": person.token}
    command = [ARTEL, "connect", str(folder), "--project", str(project_id), "--ask", "browser", "--run", "test=true"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=os.environ | server.env | access, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        eventually(lambda: person.get(f"/my/projects/{project_id}/connector")["online"])
        yield
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)


def _administer(filled: Sample, models: ModelServer) -> None:
    http = filled.admin.http
    for email in ("grace@example.org", "linus@example.org"):
        assert http.post("/admin/users", json={"email": email}).status_code == 201
    lab = {"kind": "openai_compatible", "name": "Lab", "base_url": models.url, "api_key": "secret"}
    assert http.post("/admin/providers", json=lab).status_code == 201
    settings = {"monthly_budget_usd": 20}
    assert http.patch(f"/my/projects/{filled.project_id}", json={"settings": settings}).status_code == 200


def _remember(filled: Sample) -> None:
    for agent, memories in MEMORIES.items():
        for memory in memories:
            url = f"/my/projects/{filled.project_id}/agents/{filled.agents[agent]}/context"
            body = {"content": memory, "type": "fact"}
            answer = filled.admin.http.post(url, json=body)
            assert answer.status_code == 201, answer.text


def _talk(filled: Sample) -> None:
    ask = filled.admin
    _say(filled, "note", "Draft a note for the harbour master", "agent_writer")
    _say(filled, "tide", "What is the highest tide of the year?", "agent_researcher")
    _decided(filled, "timetable", "Add the island's timetable to the data", "approve")
    _decided(filled, "deletion", "Delete the old page", "reject", "It is still linked from the port's site.")
    _decided(filled, "launch", "Make a landing page for the harbour", "approve", target=None)
    _waiting(filled, "move", "Move the site to another host", None)
    _waiting(filled, "greeting", "Greet visitors by their name", "agent_coder")
    _say(filled, "hours", "How are the opening hours found?", "agent_coder")
    for name in ("launch", "move"):
        [plan] = ask.get("/my/workflows", session_id=filled.sessions[name])["items"]
        filled.workflows[name] = plan["id"]


def _say(filled: Sample, name: str, text: str, agent: str) -> None:
    filled.sessions[name] = filled.admin.session(filled.project_id, title=text)
    filled.admin.say(filled.sessions[name], text, agent)


def _waiting(filled: Sample, name: str, text: str, target: str | None) -> dict[str, Any]:
    """Send a message and return the question that it leads to."""
    session = filled.sessions[name] = filled.admin.session(filled.project_id, title=text)
    filled.admin.submit(session, text, target)
    query = {"session_id": session, "status": "pending"}
    question: dict[str, Any] = eventually(lambda: filled.admin.get("/my/approvals", **query)["items"])[0]
    return question


def _decided(
    filled: Sample, name: str, text: str, decision: str, reason: str | None = None, target: str | None = "agent_coder"
) -> dict[str, Any]:
    """Send a message, answer its question, and wait for the answer; return the question."""
    question = _waiting(filled, name, text, target)
    body = {"decision": decision} | ({} if reason is None else {"feedback": reason})
    answer = filled.admin.http.post(f"/my/approvals/{question['id']}/confirm", json=body)
    assert answer.status_code == 200, answer.text
    session = filled.sessions[name]
    eventually(lambda: all(turn["finished_at"] for turn in filled.admin.get(f"/my/chat/{session}/turns")["items"]))
    return question
