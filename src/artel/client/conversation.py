"""A session as a person has it: its messages, the agents that can be spoken to, and what to say next."""

from dataclasses import dataclass, field
from typing import Any

from artel.client.api_client import ApiClient, ServerRefused
from artel.client.last_sessions import LastSessions
from artel.client.plan import request_of
from artel.client.sse import ServerEvent
from artel.client.turn_stream import FollowStream, RetryStream, TurnStream
from artel.errors import ArtelError, Kind

CHANGING_TOOLS = frozenset({"tool_write_file", "tool_edit_file", "tool_delete_file"})


class NoSuchProject(ArtelError):
    """No project of the user has this name, or several have."""

    kind = Kind.NOT_FOUND
    code = "project_not_found"


class NoSuchAgent(ArtelError):
    """The project has no agent of this name."""

    kind = Kind.NOT_FOUND
    code = "agent_not_found"


@dataclass
class Conversation:
    """One session in one project."""

    api: ApiClient
    session: dict[str, Any]
    remembered: LastSessions
    is_new: bool = False
    _names: dict[int, str] = field(default_factory=dict)

    @classmethod
    def open(
        cls, api: ApiClient, project: str | None, session_id: str | None, *, new: bool, remembered: LastSessions
    ) -> "Conversation":
        """Go on with the session asked for, or with the last one of the project, or begin one."""
        if session_id is not None:
            return cls(api, api.call("GET", f"/my/chat/sessions/{session_id}"), remembered)
        project_id = find_project_id(api, project)
        last = None if new or project_id is None else remembered.get(api.server, project_id)
        if last is not None:
            try:
                session = api.call("GET", f"/my/chat/sessions/{last}")
                if session["project_id"] == project_id:
                    return cls(api, session, remembered)
            except ServerRefused as refused:
                if refused.kind not in (Kind.NOT_FOUND, Kind.INVALID):
                    raise
        begun = api.call("POST", "/my/chat/sessions", json={} if project_id is None else {"project_id": project_id})
        return cls(api, begun, remembered, is_new=True)

    @property
    def session_id(self) -> str:
        """The session's id."""
        return str(self.session["session_id"])

    @property
    def project_id(self) -> int:
        """The number of the session's project."""
        return int(self.session["project_id"])

    def project_name(self) -> str:
        """Return what the project is called."""
        return str(self.api.call("GET", f"/my/projects/{self.project_id}")["name"])

    def sessions(self, count: int) -> list[dict[str, Any]]:
        """Return the sessions of the project that were used last."""
        page = self.api.call("GET", "/my/chat/sessions", params={"project_id": self.project_id, "limit": count})
        return list(page["items"])

    def resume(self, session_id: str) -> "Conversation":
        """Return another session of the project, which the next `artel chat` goes on with."""
        self.remembered.remember(self.api.server, self.project_id, session_id)
        return Conversation(self.api, self.api.call("GET", f"/my/chat/sessions/{session_id}"), self.remembered)

    def agent_name(self, agent_id: int) -> str:
        """Return what an agent of the project is called; one that can't be found has a number."""
        if agent_id not in self._names:
            try:
                self._names |= {agent["id"]: str(agent["name"]) for agent in self.agents()}
            except ArtelError:  # a name is not worth losing an answer for
                self._names[agent_id] = f"agent {agent_id}"
        return self._names.setdefault(agent_id, f"agent {agent_id}")

    def agents(self) -> list[dict[str, Any]]:
        """Return the agents of the project."""
        return self.api.all_items(f"/my/projects/{self.project_id}/agents")

    def messages(self, count: int) -> list[dict[str, Any]]:
        """Return the newest messages, oldest of them first."""
        page = self.api.call("GET", f"/my/chat/{self.session_id}/messages", params={"last": count})
        return list(page["items"])

    def send(self, content: str, agent: str | None) -> TurnStream:
        """Say something, to an agent or to the orchestrator; nothing is sent before the events are read."""
        self.remembered.remember(self.api.server, self.project_id, self.session_id)
        return TurnStream(self.api, self.session_id, content, agent)

    def send_again(self, turn_id: str) -> TurnStream:
        """Send the message of a turn once more; nothing is sent before the events are read."""
        return TurnStream(self.api, self.session_id, "", retry_of=turn_id)

    def turn(self, turn_id: str) -> dict[str, Any]:
        """Return where a turn stands, and what it has used."""
        return dict(self.api.call("GET", f"/my/chat/{self.session_id}/turns/{turn_id}"))

    def changes(self, count: int) -> list[dict[str, Any]]:
        """Return the calls of this session among the project's newest that have changed files, newest first."""
        page = self.api.call("GET", f"/my/projects/{self.project_id}/audit", params={"limit": count})
        mine = [call for call in page["items"] if call["session_id"] == self.session_id and call["status"] == "done"]
        return [call for call in mine if call["tool"] in CHANGING_TOOLS or call["tool"] == "undo"]

    def approval(self, approval_id: str) -> dict[str, Any]:
        """Return what the user was asked."""
        return dict(self.api.call("GET", f"/my/approvals/{approval_id}"))

    def undo(self, turn_id: str) -> list[dict[str, Any]]:
        """Put back what a turn has changed; return what became of each file."""
        return list(self.api.call("POST", f"/my/projects/{self.project_id}/undo", json={"turn_id": turn_id})["files"])

    def set_model(self, agent_id: int, model: str) -> None:
        """Give an agent of the project another model."""
        self.api.call("PATCH", f"/my/projects/{self.project_id}/agents/{agent_id}", json={"model": model})

    def cancel_last(self) -> bool:
        """Cancel the turn of the newest message; say whether it was still going on."""
        turn_id = next((message["turn_id"] for message in reversed(self.messages(1))), None)
        if turn_id is None:
            return False
        place = f"/my/chat/{self.session_id}/turns/{turn_id}"
        if self.api.call("GET", place)["status"] not in ("queued", "running", "waiting"):
            return False
        try:
            self.api.call("POST", f"{place}/cancel")
        except ServerRefused as refused:
            if refused.kind is Kind.CONFLICT:
                return False
            raise
        return True

    def retry(self, workflow: dict[str, Any]) -> RetryStream:
        """Let a workflow of this session be tried again; nothing is sent before the events are read."""
        return RetryStream(self.api, workflow)

    def follow(self, workflow: dict[str, Any]) -> FollowStream:
        """Read what happens to a workflow of this session since the session was opened."""
        return FollowStream(self.api, workflow, int(self.session["last_event"]))

    def asked(self, workflow: dict[str, Any]) -> list[ServerEvent]:
        """Return what the user is asked for a workflow now, as the events that told so; its plan comes last."""
        items = self.api.call("GET", "/my/approvals", params={"status": "pending", "limit": 100})["items"]
        mine = [one for one in items if one["turn_id"] == workflow["turn_id"]]
        return [request_of(one) for one in sorted(mine, key=lambda one: one["kind"] != "tool")]

    def workflow(self, workflow_id: str) -> dict[str, Any]:
        """Return what became of a request to the orchestrator."""
        return dict(self.api.call("GET", f"/my/workflows/{workflow_id}"))

    def last_workflow(self) -> dict[str, Any] | None:
        """Return what became of the newest request to the orchestrator in this session."""
        page = self.api.call("GET", "/my/workflows", params={"session_id": self.session_id, "limit": 1})
        return next((dict(workflow) for workflow in page["items"]), None)

    def rename(self, title: str) -> str:
        """Give the session another title; return it as it is kept."""
        self.session = self.api.call("PATCH", f"/my/chat/sessions/{self.session_id}", json={"title": title})
        return str(self.session["title"])

    def decide(self, approval_id: str, decision: dict[str, Any]) -> None:
        """Decide about what the user is asked."""
        self.api.call("POST", f"/my/approvals/{approval_id}/confirm", json=decision)

    def is_asked(self, approval_id: str) -> bool:
        """Return whether the user has still to decide; who can't be asked has not said that it was settled."""
        try:
            return bool(self.api.call("GET", f"/my/approvals/{approval_id}")["status"] == "pending")
        except ArtelError as error:
            return error.kind is not Kind.NOT_FOUND

    def approval_status(self, approval_id: str) -> str:
        """Return what became of a question, or "" if that can't be found out."""
        try:
            return str(self.approval(approval_id)["status"])
        except ArtelError:
            return ""

    def another(self) -> "Conversation":
        """Begin another session in the same project."""
        begun = self.api.call("POST", "/my/chat/sessions", json={"project_id": self.project_id})
        return Conversation(self.api, begun, self.remembered, is_new=True)


def find_project_id(api: ApiClient, asked: str | None) -> int | None:
    """Return the number of the project asked for, or of the user's own; None leaves it to the server."""
    if asked is not None and asked.isdecimal():
        return int(asked)
    projects = api.all_items("/my/projects")
    if asked is None:
        chosen = [project for project in projects if project["is_default"]] or projects
        if len(chosen) > 1:
            raise NoSuchProject(f"You have several projects. Say which: --project NUMBER. {_listed(projects)}")
    else:
        chosen = [project for project in projects if project["name"] == asked]
        if len(chosen) != 1:
            found = "Several projects are" if chosen else "No project is"
            raise NoSuchProject(f"{found} called {asked}. Say --project NUMBER. {_listed(projects)}")
    return int(chosen[0]["id"]) if chosen else None


def _listed(projects: list[dict[str, Any]]) -> str:
    names = ", ".join(f"{project['id']} ({project['name']})" for project in projects[:20])
    return f"Yours: {names}." if names else "You have none yet: artel projects create NAME"
