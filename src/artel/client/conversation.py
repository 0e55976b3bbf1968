"""A chat session of the user: its messages, agents, turns, approvals and workflows."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from artel.client.api_client import ApiClient, ServerRefused
from artel.client.credentials import config_folder, write_private
from artel.client.plan import approval_event
from artel.client.sse import ServerEvent
from artel.client.turn_stream import TurnStream
from artel.errors import ArtelError, Kind

LAST_SESSIONS, MAX_LAST_SESSIONS = "sessions.json", 200
MAX_FILE_BYTES = 10 * 1024 * 1024
CHANGING_TOOLS = frozenset({"tool_write_file", "tool_edit_file", "tool_delete_file"})


class NoSuchProject(ArtelError, kind=Kind.NOT_FOUND, code="project_not_found"):
    """No project, or more than one, has this name."""


class NoSuchAgent(ArtelError, kind=Kind.NOT_FOUND, code="agent_not_found"):
    """The project has no agent with this name."""


class FileUnreadable(ArtelError, kind=Kind.INVALID, code="file_unreadable"):
    """A file to attach can't be read, or is too large."""


@dataclass
class Conversation:
    """One session in one project."""

    api: ApiClient
    session: dict[str, Any]
    is_new: bool = False
    _names: dict[int, str] = field(default_factory=dict)

    @classmethod
    def open(cls, api: ApiClient, project: str | None, session_id: str | None, *, new: bool = False) -> "Conversation":
        """Open the given session, else the last one of the project, else a new one."""
        if session_id is not None:
            return cls(api, api.call("GET", f"/my/chat/sessions/{session_id}"))
        project_id = find_project_id(api, project)
        last = None if new or project_id is None else _last_sessions().get(f"{api.server} {project_id}")
        if last is not None:
            try:
                session = api.call("GET", f"/my/chat/sessions/{last}")
                if session["project_id"] == project_id:
                    return cls(api, session)
            except ServerRefused as refused:
                if refused.kind not in (Kind.NOT_FOUND, Kind.INVALID):
                    raise
        created = api.call("POST", "/my/chat/sessions", json={} if project_id is None else {"project_id": project_id})
        return cls(api, created, is_new=True)

    @property
    def session_id(self) -> str:
        return str(self.session["session_id"])

    @property
    def project_id(self) -> int:
        return int(self.session["project_id"])

    def sessions(self, count: int) -> list[dict[str, Any]]:
        """Return the most recently used sessions of the project."""
        page = self.api.call("GET", "/my/chat/sessions", params={"project_id": self.project_id, "limit": count})
        return list(page["items"])

    def resume(self, session_id: str) -> "Conversation":
        """Switch to another session of the project; the next `artel chat` continues it."""
        self._remember(session_id)
        return Conversation(self.api, self.api.call("GET", f"/my/chat/sessions/{session_id}"))

    def agent_name(self, agent_id: int) -> str:
        """Return the name of an agent, or its number if the name can't be fetched."""
        if agent_id not in self._names:
            try:
                self._names |= {agent["id"]: str(agent["name"]) for agent in self.agents()}
            except ArtelError:  # an answer must not fail because of a name
                self._names[agent_id] = f"agent {agent_id}"
        return self._names.setdefault(agent_id, f"agent {agent_id}")

    def agents(self) -> list[dict[str, Any]]:
        return self.api.all_items(f"/my/projects/{self.project_id}/agents")

    def messages(self, count: int) -> list[dict[str, Any]]:
        """Return the newest messages in chronological order."""
        page = self.api.call("GET", f"/my/chat/{self.session_id}/messages", params={"last": count})
        return list(page["items"])

    def rate(self, message_id: str, rating: str, comment: str) -> None:
        """Store the user's feedback on an answer."""
        path = f"/my/chat/{self.session_id}/messages/{message_id}/feedback"
        self.api.call("POST", path, json={"rating": rating, "comment": comment})

    def attach(self, path: Path) -> dict[str, Any]:
        """Upload a file of the user for the next message; raise FileUnreadable."""
        try:
            with path.open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except OSError as failure:
            raise FileUnreadable(f"{path} can't be read: {failure.strerror or failure}.") from failure
        if len(content) > MAX_FILE_BYTES:
            raise FileUnreadable(f"{path} is larger than {MAX_FILE_BYTES // 1024**2} MB. Attach a part of it.")
        headers = {"Content-Type": "application/octet-stream"}
        uploads, query = f"/my/chat/{self.session_id}/attachments", {"name": path.name}
        return dict(self.api.call("POST", uploads, params=query, content=content, headers=headers))

    def detach(self, attachment_id: str) -> None:
        """Delete a file that was uploaded and not sent."""
        with suppress(ServerRefused):  # it was deleted after a day
            self.api.call("DELETE", f"/my/chat/{self.session_id}/attachments/{attachment_id}")

    def send(self, content: str, agent: str | None, attachments: Sequence[str] = ()) -> TurnStream:
        """Return the stream of a new turn with an agent or the orchestrator; reading its events sends the message."""
        self._remember(self.session_id)
        return TurnStream(self.api, self.session_id, content, agent, attachments=attachments)

    def send_again(self, turn_id: str) -> TurnStream:
        """Return the stream of a turn that repeats the message of another; reading its events sends it."""
        return TurnStream(self.api, self.session_id, "", retry_of=turn_id)

    def go_on(self, turn_id: str) -> TurnStream:
        """Return the stream of a turn that goes on with a cut-off answer; reading its events starts it."""
        return TurnStream(self.api, self.session_id, "", continues=turn_id)

    def export(self, wanted: str) -> Iterator[bytes]:
        """Yield the session as a file, piece by piece."""
        path, query = f"/my/chat/sessions/{self.session_id}/export", {"format": wanted}
        with self.api.stream("GET", path, params=query) as response:
            yield from response.iter_bytes()

    def turn(self, turn_id: str) -> dict[str, Any]:
        return dict(self.api.call("GET", f"/my/chat/{self.session_id}/turns/{turn_id}"))

    def changes(self, count: int) -> list[dict[str, Any]]:
        """Return this session's file changes, undos and redos among the project's newest calls, newest first."""
        page = self.api.call("GET", f"/my/projects/{self.project_id}/audit", params={"limit": count})
        done = [call for call in page["items"] if call["session_id"] == self.session_id and call["status"] == "done"]
        return [call for call in done if call["tool"] in CHANGING_TOOLS or call["tool"] in ("undo", "redo")]

    def approval(self, approval_id: str) -> dict[str, Any]:
        return dict(self.api.call("GET", f"/my/approvals/{approval_id}"))

    def cancel_last(self) -> bool:
        """Cancel the turn of the newest message; return False if it had already ended."""
        turn_id = next((message["turn_id"] for message in self.messages(1)), None)
        if turn_id is None or self.turn(turn_id)["status"] not in ("queued", "running", "waiting"):
            return False
        try:
            self.api.call("POST", f"/my/chat/{self.session_id}/turns/{turn_id}/cancel")
        except ServerRefused as refused:
            if refused.kind is Kind.CONFLICT:
                return False
            raise
        return True

    def pending_requests(self, workflow: dict[str, Any]) -> list[ServerEvent]:
        """Return the pending approvals of a workflow as events, tools before the plan."""
        items = self.api.call("GET", "/my/approvals", params={"status": "pending", "limit": 100})["items"]
        approvals = [approval for approval in items if approval["turn_id"] == workflow["turn_id"]]
        return [approval_event(approval) for approval in sorted(approvals, key=lambda item: item["kind"] != "tool")]

    def rename(self, title: str) -> str:
        """Rename the session; return the title as the server stored it."""
        self.session = self.api.call("PATCH", f"/my/chat/sessions/{self.session_id}", json={"title": title})
        return str(self.session["title"])

    def decide(self, approval_id: str, decision: dict[str, Any]) -> None:
        self.api.call("POST", f"/my/approvals/{approval_id}/confirm", json=decision)

    def approval_status(self, approval_id: str) -> str:
        """Return the status of an approval: "deleted" if there is none, "" if the server can't be reached."""
        try:
            return str(self.approval(approval_id)["status"])
        except ArtelError as error:
            return "deleted" if error.kind is Kind.NOT_FOUND else ""

    def new_session(self) -> "Conversation":
        created = self.api.call("POST", "/my/chat/sessions", json={"project_id": self.project_id})
        return Conversation(self.api, created, is_new=True)

    def _remember(self, session_id: str) -> None:
        """Store the session that the next `artel chat` continues; ignore write errors, so that the chat still works."""
        sessions, key = _last_sessions(), f"{self.api.server} {self.project_id}"
        if sessions.pop(key, None) != session_id:
            newest = list((sessions | {key: session_id}).items())[-MAX_LAST_SESSIONS:]
            with suppress(OSError):
                write_private(config_folder() / LAST_SESSIONS, json.dumps(dict(newest), indent=2))


def _last_sessions() -> dict[str, str]:
    """Return the last used session per server and project; none if the file is missing or invalid."""
    try:
        stored = json.loads((config_folder() / LAST_SESSIONS).read_text(encoding="utf-8"))
        return {str(key): str(session_id) for key, session_id in stored.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def find_project_id(api: ApiClient, name: str | None) -> int | None:
    """Return the id of a project by its name or number; without one the default or only project, None if none exists.

    Raise NoSuchProject if the name is unknown or the choice is ambiguous.
    """
    if name is not None and name.isdecimal():
        return int(name)
    projects = api.all_items("/my/projects")
    if name is None:
        chosen = [project for project in projects if project["is_default"]] or projects
        if len(chosen) > 1:
            raise NoSuchProject(f"You have several projects. Choose one: --project NUMBER. {_listed(projects)}")
    else:
        chosen = [project for project in projects if project["name"] == name]
        if len(chosen) != 1:
            found = "Several projects are" if chosen else "No project is"
            raise NoSuchProject(f"{found} called {name}. Use --project NUMBER. {_listed(projects)}")
    return int(chosen[0]["id"]) if chosen else None


def _listed(projects: list[dict[str, Any]]) -> str:
    names = ", ".join(f"{project['id']} ({project['name']})" for project in projects[:20])
    return f"Yours: {names}." if names else "You have none yet: artel projects create NAME"
