"""A user who talks to agent_coder, whose model calls tools as the test says."""

import json
from typing import Any

from tests.deadlines import eventually
from tests.model_server import ByMark, ModelServer, Say, Tool
from tests.people import Person


class CoderUser:
    """A user with a session with an agent, agent_coder by default, whose model follows a script."""

    def __init__(self, person: Person, project: int, model: ModelServer, mark: str, agent: str = "coder") -> None:
        self.person = person
        self.project = project
        self.session = person.session(project)
        self._model = model
        assert isinstance(model.default, ByMark)
        self._script = model.default
        self._mark = mark
        self._agent = agent

    def script(self, *calls: tuple[str, dict[str, Any]], end: str = "Done.") -> None:
        """Script the model: call these tools one after another, then answer."""
        made = [
            Say(tools=[Tool(name, json.dumps(arguments), f"call_{number}")])
            for number, (name, arguments) in enumerate(calls)
        ]
        self._script[self._mark] = [*made, Say(end)]

    def ask(self, **other: Any) -> dict[str, Any]:
        """Send a message and return the response."""
        body = {"content": self._mark, "target_agent": self._agent}
        answer = self.person.http.post(f"/my/chat/{self.session}/message", json=body, **other)
        assert answer.status_code in (200, 202), answer.text
        answered: dict[str, Any] = answer.json()
        return answered

    def heard(self) -> list[dict[str, Any]]:
        """Return the tool results that the model got."""
        requests = [request for request in self._model.asked if self._mark in json.dumps(request.body["messages"])]
        return [json.loads(m["content"]) for m in requests[-1].body["messages"] if m["role"] == "tool"]

    def audit(self) -> list[dict[str, Any]]:
        """Return the audit log, oldest first."""
        items: list[dict[str, Any]] = self.person.http.get(f"/my/projects/{self.project}/audit").json()["items"]
        return items[::-1]

    def approvals(self, status: str = "pending") -> list[dict[str, Any]]:
        """Return the approvals with this status."""
        items: list[dict[str, Any]] = self.person.http.get("/my/approvals", params={"status": status}).json()["items"]
        return items

    def decide(self, approval_id: str, **decision: Any) -> Any:
        """Decide an approval and return the response."""
        return self.person.http.post(f"/my/approvals/{approval_id}/confirm", json=decision)

    def ended(self, turn_id: str, seconds: float = 15) -> dict[str, Any]:
        """Wait until the turn has ended."""
        url = f"/my/chat/{self.session}/turns/{turn_id}"

        def over() -> dict[str, Any]:
            state: dict[str, Any] = self.person.http.get(url).json()
            return state if state["finished_at"] else {}

        return eventually(over, seconds)
