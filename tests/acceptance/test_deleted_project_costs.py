"""What was kept about the money of plans goes with the session, the project or the account that they were made in."""

import pytest

from tests.acceptance.test_plans import Desk, Team
from tests.conftest import Rows
from tests.deadlines import eventually
from tests.model_server import ByMark, Hold
from tests.people import Person
from tests.running import Server, artel


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.fixture
def desk(person: Person, script: ByMark, mark: str) -> Desk:
    script[mark] = team = Team(mark, {"1": ""})
    project = person.project()
    settings = {"settings": {"monthly_budget_usd": 1_000}}
    assert person.http.patch(f"/my/projects/{project['id']}", json=settings).status_code == 200
    return Desk(person, project, person.session(project["id"]), team)


def _at_work(desk: Desk) -> tuple[str, Hold]:
    """Have a plan carried out whose one task calls its model, and return the workflow."""
    hold = Hold("Result of 1.")
    desk.team.does = {"1": hold}
    workflow: str = desk.ask()["workflow_id"]
    eventually(lambda: hold.arrived)
    return workflow, hold


def test_the_budget_of_a_plan_goes_with_its_session_and_the_month_keeps_what_was_spent(desk: Desk, rows: Rows) -> None:
    workflow, hold = _at_work(desk)
    query = "SELECT kind, spent_micros, reserved_micros FROM budgets WHERE project_id = :project ORDER BY kind"
    project = {"project": desk.project["id"]}
    [month, plan] = rows(query, **project)
    assert (month.kind, plan.kind) == ("month", "plan")
    assert month.reserved_micros == plan.reserved_micros > 0

    assert desk.person.http.delete(f"/my/chat/sessions/{desk.session}").status_code == 204

    [left] = rows(query, **project)
    assert (left.kind, left.reserved_micros) == ("month", 0)
    # Nobody knows what the call has cost: all that it had reserved.
    assert left.spent_micros == month.spent_micros + month.reserved_micros
    assert rows("SELECT id FROM reservations WHERE project_id = :project", **project) == []
    hold.release()
    assert desk.person.http.get(f"/my/workflows/{workflow}").status_code == 404
    assert desk.person.say(desk.person.session(desk.project["id"]), "Hello")["content"] == "You said: Hello"


def test_other_sessions_keep_the_budgets_of_their_plans(desk: Desk, rows: Rows) -> None:
    workflow, hold = _at_work(desk)
    other = desk.person.session(desk.project["id"])

    assert desk.person.http.delete(f"/my/chat/sessions/{other}").status_code == 204

    assert len(rows("SELECT id FROM budgets WHERE scope = :workflow", workflow=workflow)) == 1
    hold.release()
    assert desk.ended(workflow)["status"] == "completed"


@pytest.mark.parametrize("what", ["project", "account"])
def test_nothing_about_money_is_left_of_what_is_deleted(desk: Desk, rows: Rows, server: Server, what: str) -> None:
    _, hold = _at_work(desk)
    hold.release()
    if what == "project":
        assert desk.person.http.delete(f"/my/projects/{desk.project['id']}").status_code == 204
    else:
        deleted = artel("users", "delete", desk.person.email, "--yes", env=server.env)
        assert deleted.returncode == 0, deleted.stderr

    for table in ("budgets", "reservations", "workflows", "tasks"):
        assert rows(f"SELECT 1 FROM {table} WHERE project_id = :project", project=desk.project["id"]) == []  # noqa: S608
