"""Users of the orchestrator that retry while the server is killed, and the scripted model of their plans."""

import json
import re
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from aiohttp import web

from tests.deadlines import eventually
from tests.faults.kill_points import Assassin, Deadly
from tests.model_server import Behaviour, Fail, Hang, ModelRequest, Say, Tool
from tests.services import until

RETRY_SECONDS = 300.0  # they are cut off again and again
LOOK_SECONDS = 0.1
AGENTS = ("agent_coder", "agent_writer", "agent_analyzer", "agent_researcher")
FEEDBACK = "Only two tasks, please."
# A call of this tool is asked about; and the month is paid out of, too.
ASKED_ABOUT = "get_workspace_info"
SETTINGS = {
    "monthly_budget_usd": 1_000_000,
    "approval_seconds": 3_600,
    "tools": {ASKED_ABOUT: {"requires_approval": True}},
}
DIAMOND = {"a": "", "b": "a", "c": "a", "d": "b c"}
CHAIN = {"a": "", "b": "a", "c": "b"}
_MARK = re.compile(r"mark\w+")
_TASK = re.compile(r"mark\w+ do (\w+)\.")


@dataclass(frozen=True)
class Kind:
    """A plan and its special task: one that asks for a tool, is expensive, never ends, or fails at first."""

    needs: Mapping[str, str]
    asks: str = ""
    dear: str = ""
    hangs: str = ""
    fails: str = ""
    drops: str = ""  # what the user drops as they approve it
    revised: Mapping[str, str] | None = None  # what it becomes, since the user does not want it as it is

    @property
    def done(self) -> set[str]:
        """The tasks that are completed at the end."""
        return set(self.revised or self.needs) - {self.drops}


KINDS = {
    "single": Kind({"1": ""}),
    "diamond": Kind(DIAMOND),
    "wide": Kind({str(number): "" for number in range(6)}, drops="5"),
    "asking": Kind({"a": "", "b": "", "c": "a"}, asks="a"),
    "dear": Kind(CHAIN, dear="a"),
    "cancelled": Kind(CHAIN, hangs="b"),
    "failing": Kind({"a": "", "b": "", "c": "b"}, fails="b"),
    "revised": Kind(DIAMOND, revised={"a": "", "z": "a"}),
}


@dataclass
class KillingTeam:
    """The model of one flow: plans, does the tasks, and merges their results."""

    mark: str
    kind: Kind
    assassin: Assassin
    asked: Counter[str] = field(default_factory=Counter)

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        task = _TASK.match(request.text)
        if request.schema_name == "plan":
            behaviour: Behaviour = self._says(json.dumps(self._plan(request)), "plan_called")
        elif task is None:
            behaviour = self._says("All of it, in one answer.", "merge_called")
        else:
            self.asked[task[1]] += 1
            behaviour = self._does(task[1], request)
        return await behaviour(request, http)

    def _plan(self, request: ModelRequest) -> dict[str, Any]:
        is_revision = any(FEEDBACK in str(message["content"]) for message in request.body["messages"])
        needs = self.kind.revised if self.kind.revised and is_revision else self.kind.needs
        tasks = [
            {"id": name, "agent": agent, "description": f"{self.mark} do {name}.", "depends_on": after.split()}
            for (name, after), agent in zip(needs.items(), AGENTS * 2, strict=False)
        ]
        return {"tasks": tasks}

    def _does(self, task: str, request: ModelRequest) -> Behaviour:
        if task == self.kind.hangs:
            return Hang()
        if task == self.kind.fails and self.asked[task] == 1:
            return Fail(400)
        if task == self.kind.asks and request.body["messages"][-1]["role"] != "tool":
            return Say(tools=[Tool(ASKED_ABOUT, "{}")])
        tokens = (4_000_000, 10) if task == self.kind.dear else None
        return self._says(f"Result of {task} in some words.", "model_called", tokens)

    def _says(self, text: str, called: str, tokens: tuple[int, int] | None = None) -> Say:
        streaming = "streaming" if called == "model_called" else ""
        return Deadly(
            text,
            tokens=tokens,
            delay=0.01,
            pause=0.002,
            assassin=self.assassin,
            called=called,
            streaming=streaming,
        )


class KillingTeams:
    """The models of all flows, chosen by the mark in the user message."""

    def __init__(self) -> None:
        self._teams: dict[str, KillingTeam] = {}

    def add(self, team: KillingTeam) -> None:
        self._teams[team.mark] = team

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        found = _MARK.search(request.text)
        assert found, request.text
        return await self._teams[found[0]](request, http)


class RetryingClient:
    """An HTTP client that retries until the server has answered."""

    def __init__(self, url: Callable[[], str], token: str) -> None:
        self._url = url
        self._http = httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=30)

    def call(self, method: str, path: str, *expected: int, **options: Any) -> httpx.Response:
        answered = eventually(lambda: self._answered(method, path, options), RETRY_SECONDS)
        answer: httpx.Response = answered[0]
        assert answer.status_code in expected, f"{method} {path}: {answer.text}"
        return answer

    def get(self, path: str, **query: Any) -> Any:
        return self.call("GET", path, 200, params=query).json()

    def close(self) -> None:
        self._http.close()

    def _answered(self, method: str, path: str, options: dict[str, Any]) -> list[httpx.Response]:
        try:
            answer = self._http.request(method, f"{self._url()}{path}", **options)
        except httpx.HTTPError:
            return []
        return [answer] if answer.status_code != 503 else []


@dataclass
class Flow:
    """One request to the orchestrator in a session of its own."""

    name: str
    session_id: str
    team: KillingTeam
    accepted: dict[str, Any] = field(default_factory=dict)
    decided: dict[str, str] = field(default_factory=dict)  # approvals, of which the server has said that it knows
    retries: int = 0
    is_cancelled: bool = False
    is_over: bool = False

    @property
    def kind(self) -> Kind:
        return self.team.kind

    @property
    def message(self) -> dict[str, str]:
        text = f"{self.team.mark} Please do all of it."
        return {"content": text, "idempotency_key": self.team.mark}


class User(threading.Thread):
    """A user with several flows: sends, decides, cancels and retries until all have ended."""

    def __init__(self, line: RetryingClient, names: Sequence[str], teams: KillingTeams, assassin: Assassin) -> None:
        project = line.call("POST", "/my/projects", 201, json={"name": "Plans", "settings": SETTINGS}).json()
        self.project_id: int = project["id"]
        for agent in project["agents"]:  # a server that has just started would be busy with reading its embedder
            path = f"/my/projects/{self.project_id}/agents/{agent['id']}"
            line.call("PATCH", path, 200, json={"memory": False})
        super().__init__(name=f"user-of-{self.project_id}", daemon=True)  # nobody waits for one whose server is gone
        self._line = line
        self.undecided: set[str] = set()  # kinds of approvals that are left alone for now
        self.problem = ""
        self.flows: list[Flow] = []
        for name in names:
            place = {"project_id": self.project_id}
            session = line.call("POST", "/my/chat/sessions", 201, json=place).json()
            team = KillingTeam(f"mark{uuid.uuid4().hex[:12]}", KINDS[name], assassin)
            teams.add(team)
            self.flows.append(Flow(name, session["session_id"], team))

    def run(self) -> None:
        try:
            for flow in self.flows:
                path = f"/my/chat/{flow.session_id}/message"
                flow.accepted = self._line.call("POST", path, 202, json=flow.message).json()
            if not until(self._all_over, RETRY_SECONDS, LOOK_SECONDS):
                self.problem = f"not over: {[flow for flow in self.flows if not flow.is_over]}"
        except Exception as problem:  # noqa: BLE001 - the test tells it
            self.problem = repr(problem)
        finally:
            self._line.close()

    def _all_over(self) -> bool:
        listed = self._line.get("/my/workflows", project_id=self.project_id)["items"]
        pending = self._line.get("/my/approvals", status="pending", limit=100)["items"]
        for flow in self.flows:
            [workflow] = [one for one in listed if one["session_id"] == flow.session_id]
            assert workflow["id"] == flow.accepted["workflow_id"]
            self._go_on(flow, workflow, [one for one in pending if one["session_id"] == flow.session_id])
        return all(flow.is_over for flow in self.flows)

    def _go_on(self, flow: Flow, workflow: dict[str, Any], pending: Sequence[dict[str, Any]]) -> None:
        for approval in pending:
            if approval["kind"] not in self.undecided:
                self._decide(flow, approval)
        running = {task["id"] for task in workflow["tasks"] if task["status"] == "running"}
        if workflow["status"] in ("planning", "awaiting_approval", "running"):
            if flow.kind.hangs in running:
                answer = self._line.call("POST", f"/my/workflows/{workflow['id']}/cancel", 200)
                flow.is_cancelled = answer.json()["status"] == "cancelled"  # else it was cut off before
        elif workflow["status"] == "completed" or flow.is_cancelled:
            flow.is_over = True
        else:
            self._line.call("POST", f"/my/workflows/{workflow['id']}/retry", 202, 409)
            flow.retries += 1

    def _decide(self, flow: Flow, approval: dict[str, Any]) -> None:
        body: dict[str, Any] = {"decision": "approve"}
        if approval["kind"] == "plan" and flow.kind.drops:
            body |= {"changes": {"tasks": [{"id": flow.kind.drops, "drop": True}]}}
        if approval["kind"] == "plan" and flow.kind.revised and "reject" not in flow.decided.values():
            body = {"decision": "reject", "feedback": FEEDBACK}
        path = f"/my/approvals/{approval['id']}"
        answer = self._line.call("POST", f"{path}/confirm", 200, 409, json=body)
        wanted = ("approved", "used") if body["decision"] == "approve" else ("rejected",)
        if answer.status_code == 200 or self._line.get(path)["status"] in wanted:  # else the turn was cut off
            flow.decided[approval["id"]] = body["decision"]
