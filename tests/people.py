"""Users of a server under test."""

import itertools
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.streams import TERMINAL, Event, Stream, stream

PASSWORD = "correct horse battery staple"
_numbers = itertools.count(1)
_open_clients: list[httpx.Client] = []


@dataclass
class Person:
    """A user with an authenticated client."""

    email: str
    user_id: int
    token: str
    http: httpx.Client

    @classmethod
    def register(cls, url: str) -> "Person":
        """Register an account with a unique address."""
        email = f"person{next(_numbers)}.{os.getpid()}@example.org"
        answer = httpx.post(f"{url}/auth/register", json={"email": email, "password": PASSWORD}, timeout=120)
        assert answer.status_code == 201, answer.text
        registered = answer.json()
        return cls(email, registered["user_id"], registered["access_token"], client(url, registered["access_token"]))

    def project(self, name: str = "Website") -> dict[str, Any]:
        """Create a project."""
        answer = self.http.post("/my/projects", json={"name": name})
        assert answer.status_code == 201, answer.text
        project: dict[str, Any] = answer.json()
        return project

    def agent(self, project_id: int, **fields: Any) -> dict[str, Any]:
        """Create an agent."""
        answer = self.http.post(f"/my/projects/{project_id}/agents", json=new_agent(**fields))
        assert answer.status_code == 201, answer.text
        agent: dict[str, Any] = answer.json()
        return agent

    def session(self, project_id: int | None = None, **fields: Any) -> str:
        """Create a session and return its id."""
        project = {} if project_id is None else {"project_id": project_id}
        answer = self.http.post("/my/chat/sessions", json=project | fields)
        assert answer.status_code == 201, answer.text
        session_id: str = answer.json()["session_id"]
        return session_id

    def post(
        self,
        session_id: str,
        content: str,
        target: str | int | None = "coder",
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> httpx.Response:
        """Send a message to an agent, by default the coder; None means the orchestrator."""
        target_field = {} if target is None else {"target_agent": target}
        body = {"content": content} | target_field | fields
        return self.http.post(f"/my/chat/{session_id}/message", json=body, headers=headers)

    def say(self, session_id: str, content: str, target: str | int = "coder") -> dict[str, Any]:
        """Send a message and return the agent's answer."""
        answer = self.post(session_id, content, target)
        assert answer.status_code == 200, answer.text
        response: dict[str, Any] = answer.json()
        return response

    def submit(self, session_id: str, content: str, target: str | int | None = "coder") -> str:
        """Send a message without waiting for the answer; return the turn's id."""
        answer = self.post(session_id, content, target, {"Prefer": "respond-async"})
        assert answer.status_code == 202, answer.text
        turn_id: str = answer.json()["turn_id"]
        return turn_id

    def turn(self, session_id: str, turn_id: str) -> dict[str, Any]:
        """Return the state of a turn."""
        return self.get(f"/my/chat/{session_id}/turns/{turn_id}")

    def history(self, session_id: str, **query: Any) -> list[dict[str, Any]]:
        """Return the messages of a session."""
        items: list[dict[str, Any]] = self.get(f"/my/chat/{session_id}/messages", **query)["items"]
        return items

    def get(self, url: str, **query: Any) -> dict[str, Any]:
        """Return the JSON response of a GET request."""
        answer = self.http.get(url, params=query)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def follow(
        self, session_id: str, after: int | None = None, headers: Mapping[str, str] | None = None
    ) -> AbstractContextManager[Stream]:
        """Stream the events of a session."""
        query = {} if after is None else {"after": after}
        return stream(self.http, "GET", f"/my/chat/{session_id}/events", headers, params=query)

    def follow_project(self, project_id: int, after: int | None = None) -> AbstractContextManager[Stream]:
        """Stream the events of a project."""
        query = {} if after is None else {"after": after}
        return stream(self.http, "GET", f"/my/projects/{project_id}/events", params=query)

    def events_of(self, session_id: str, turn_id: str) -> list[Event]:
        """Wait for the end of a turn and return its stored events."""
        events: list[Event] = []
        with self.follow(session_id, 0) as following:
            for event in following:
                if event.data["turn_id"] == turn_id and event.number is not None:
                    events.append(event)
                    if event.type in TERMINAL:
                        break
        return events


def client(url: str, token: str | None = None) -> httpx.Client:
    """Return a client for the server, with an optional token."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    _open_clients.append(httpx.Client(base_url=url, headers=headers, timeout=120))
    return _open_clients[-1]


def close_clients() -> None:
    """Close every client that a test has used."""
    while _open_clients:
        _open_clients.pop().close()


def new_agent(**fields: Any) -> dict[str, Any]:
    """Return the request body of a new agent with the required fields."""
    return {"name": "agent_reviewer", "role": "reviewer", "model": "gpt-4", "system_prompt": "Review."} | fields


def assert_problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Assert that the response is a complete problem document and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["code"] == code, problem
    assert problem["status"] == status
    assert problem["type"]
    assert problem["title"]
    assert problem["detail"]
    assert problem["request_id"] == answer.headers["x-request-id"]
    return problem
