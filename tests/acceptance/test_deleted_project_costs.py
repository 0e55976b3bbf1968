"""Budgets of plans are deleted with their session, project or account."""

import pytest

from tests.actors.plan_user import PlanUser
from tests.actors.team import Team
from tests.conftest import Rows
from tests.deadlines import eventually
from tests.model_server import ByMark, Hold
from tests.people import Person
from tests.running import Server, artel

pytestmark = pytest.mark.any_database


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.fixture
def user(person: Person, script: ByMark, mark: str) -> PlanUser:
    script[mark] = team = Team(mark, {"1": ""})
    project = person.project()
    settings = {"settings": {"monthly_budget_usd": 1_000}}
    assert person.http.patch(f"/my/projects/{project['id']}", json=settings).status_code == 200
    return PlanUser(person, project, person.session(project["id"]), team)


def _at_work(user: PlanUser) -> tuple[str, Hold]:
    """Start a plan whose only task calls its model; return the workflow id and the held call."""
    hold = Hold("Result of 1.")
    user.team.does = {"1": hold}
    workflow: str = user.ask()["workflow_id"]
    eventually(lambda: hold.arrived)
    return workflow, hold


def test_deleting_session_deletes_plan_budget_and_keeps_monthly_spending(user: PlanUser, rows: Rows) -> None:
    workflow, hold = _at_work(user)
    query = "SELECT kind, spent_micros, reserved_micros FROM budgets WHERE project_id = :project ORDER BY kind"
    project = {"project": user.project["id"]}
    [month, plan] = rows(query, **project)
    assert (month.kind, plan.kind) == ("month", "plan")
    assert month.reserved_micros == plan.reserved_micros > 0

    assert user.person.http.delete(f"/my/chat/sessions/{user.session}").status_code == 204

    [left] = rows(query, **project)
    assert (left.kind, left.reserved_micros) == ("month", 0)
    # Nobody knows what the call has cost: all that it had reserved.
    assert left.spent_micros == month.spent_micros + month.reserved_micros
    assert rows("SELECT id FROM reservations WHERE project_id = :project", **project) == []
    hold.release()
    assert user.person.http.get(f"/my/workflows/{workflow}").status_code == 404
    assert user.person.say(user.person.session(user.project["id"]), "Hello")["content"] == "You said: Hello"


def test_other_sessions_keep_the_budgets_of_their_plans(user: PlanUser, rows: Rows) -> None:
    workflow, hold = _at_work(user)
    other = user.person.session(user.project["id"])

    assert user.person.http.delete(f"/my/chat/sessions/{other}").status_code == 204

    assert len(rows("SELECT id FROM budgets WHERE scope = :workflow", workflow=workflow)) == 1
    hold.release()
    assert user.ended(workflow)["status"] == "completed"


@pytest.mark.parametrize("what", ["project", "account"])
def test_deleting_project_or_account_deletes_its_budgets(user: PlanUser, rows: Rows, server: Server, what: str) -> None:
    _, hold = _at_work(user)
    hold.release()
    if what == "project":
        assert user.person.http.delete(f"/my/projects/{user.project['id']}").status_code == 204
    else:
        deleted = artel("users", "delete", user.person.email, "--yes", env=server.env)
        assert deleted.returncode == 0, deleted.stderr

    for table in ("budgets", "reservations", "workflows", "tasks"):
        assert rows(f"SELECT 1 FROM {table} WHERE project_id = :project", project=user.project["id"]) == []  # noqa: S608
