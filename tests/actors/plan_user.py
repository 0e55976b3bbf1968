"""A user who sends requests to the orchestrator."""

from dataclasses import dataclass
from typing import Any

from tests.actors.team import Team
from tests.deadlines import eventually
from tests.people import Person


@dataclass
class PlanUser:
    """A user with one session of one project."""

    person: Person
    project: dict[str, Any]
    session: str
    team: Team

    def ask(self, text: str = "Please do it all.", **headers: str) -> dict[str, Any]:
        answer = self.person.post(self.session, f"{self.team.mark} {text}", None, headers or None)
        assert answer.status_code in (200, 202), answer.text
        accepted: dict[str, Any] = answer.json()
        return accepted

    def workflow(self, workflow_id: str) -> dict[str, Any]:
        return self.person.get(f"/my/workflows/{workflow_id}")

    def until(self, workflow_id: str, *statuses: str) -> dict[str, Any]:
        def look() -> dict[str, Any]:
            now = self.workflow(workflow_id)
            return now if now["status"] in statuses else {}

        return eventually(look, 30)

    def ended(self, workflow_id: str) -> dict[str, Any]:
        return self.until(workflow_id, "completed", "partial", "failed", "rejected", "cancelled", "timeout")

    def decide(self, approval_id: str, decision: str = "approve", **more: Any) -> dict[str, Any]:
        answer = self.person.http.post(f"/my/approvals/{approval_id}/confirm", json={"decision": decision, **more})
        assert answer.status_code == 200, answer.text
        decided: dict[str, Any] = answer.json()
        return decided

    def approved(self, text: str = "Please do it all.", **more: Any) -> dict[str, Any]:
        """Ask, approve the plan, and return how it ended."""
        accepted = self.ask(text)
        waits = self.until(accepted["workflow_id"], "awaiting_approval")
        self.decide(waits["approval_id"], **more)
        return self.ended(accepted["workflow_id"])

    def settings(self, **plans: Any) -> None:
        answer = self.person.http.patch(f"/my/projects/{self.project['id']}", json={"settings": {"plans": plans}})
        assert answer.status_code == 200, answer.text

    def change_agent(self, name: str = "agent_coder", **fields: Any) -> None:
        agent = next(one["id"] for one in self.project["agents"] if one["name"] == name)
        answer = self.person.http.patch(f"/my/projects/{self.project['id']}/agents/{agent}", json=fields)
        assert answer.status_code == 200, answer.text

    def statuses(self, workflow: dict[str, Any]) -> dict[str, str]:
        return {task["id"]: task["status"] for task in workflow["tasks"]}
