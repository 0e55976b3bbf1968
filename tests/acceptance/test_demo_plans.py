"""Without a model the demo brain plans too: the whole flow can be tried, and costs nothing."""

from typing import Any

from tests.deadlines import eventually
from tests.people import Person

REQUEST = "Find out how it works, then write it down. Then review the text and fix the code."


def test_the_demo_brain_plans_is_approved_and_answers_for_nothing(person: Person) -> None:
    project = person.project()
    session = person.session(project["id"])
    accepted = person.post(session, REQUEST, None).json()
    url = f"/my/workflows/{accepted['workflow_id']}"

    def stands(*statuses: str) -> dict[str, Any]:
        now = person.get(url)
        return now if now["status"] in statuses else {}

    waits = eventually(lambda: stands("awaiting_approval"))
    assert len(waits["tasks"]) >= 3
    assert (waits["estimated_cost"], waits["estimated_cost_high"]) == (0, 0)
    person.http.post(f"/my/approvals/{waits['approval_id']}/confirm", json={"decision": "approve"})
    ended = eventually(lambda: stands("completed", "partial", "failed"), 60)

    assert (ended["status"], ended["cost"]) == ("completed", 0)
    assert all(task["result"] in ended["answer"] for task in ended["tasks"])
    assert person.history(session)[-1]["content"] == ended["answer"]
