"""Users of a server under test."""

import itertools
import os
from dataclasses import dataclass
from typing import Any

import httpx

PASSWORD = "correct horse battery staple"
_numbers = itertools.count(1)
_open_clients: list[httpx.Client] = []


@dataclass
class Person:
    """Somebody with an account, and a client that is logged in."""

    email: str
    user_id: int
    token: str
    http: httpx.Client

    @classmethod
    def register(cls, url: str) -> "Person":
        """Make an account with an address that nobody else has."""
        email = f"person{next(_numbers)}.{os.getpid()}@example.org"
        answer = httpx.post(f"{url}/auth/register", json={"email": email, "password": PASSWORD}, timeout=30)
        assert answer.status_code == 201, answer.text
        registered = answer.json()
        return cls(email, registered["user_id"], registered["access_token"], client(url, registered["access_token"]))

    def project(self, name: str = "Website") -> dict[str, Any]:
        """Make a project."""
        answer = self.http.post("/my/projects", json={"name": name})
        assert answer.status_code == 201, answer.text
        project: dict[str, Any] = answer.json()
        return project

    def agent(self, project_id: int, **fields: Any) -> dict[str, Any]:
        """Make an agent."""
        answer = self.http.post(f"/my/projects/{project_id}/agents", json=new_agent(**fields))
        assert answer.status_code == 201, answer.text
        agent: dict[str, Any] = answer.json()
        return agent


def client(url: str, token: str | None = None) -> httpx.Client:
    """Answer a client for the server, with the token if there is one."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    _open_clients.append(httpx.Client(base_url=url, headers=headers, timeout=30))
    return _open_clients[-1]


def close_clients() -> None:
    """Close every client that a test has used."""
    while _open_clients:
        _open_clients.pop().close()


def new_agent(**fields: Any) -> dict[str, Any]:
    """Answer the body of a request for an agent, with only what is required."""
    return {"name": "agent_reviewer", "role": "reviewer", "model": "gpt-4", "system_prompt": "Review."} | fields


def assert_problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check that the answer is a complete problem document; answer it."""
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
