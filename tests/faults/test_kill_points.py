"""Every marker in the code is reached by what the fault tests do, and they kill at every marker."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import JWT_SECRET
from tests.faults.kill_points import MORTAL, Assassin
from tests.faults.mortal_server import POINTS
from tests.faults.plan_users import RETRY_SECONDS, KillingTeams, RetryingClient, User
from tests.faults.points import AT_THE_MODEL, ENDING, PLANNING, TURN_POINTS, WAITING, WORKING
from tests.model_server import ModelServer
from tests.people import Person
from tests.running import Server, clean_environment

FLOWS = ("diamond", "asking", "dear", "cancelled", "failing", "revised")


def test_fault_tests_kill_only_at_points_that_exist() -> None:
    points = [point.name for point in (*PLANNING, *WORKING, *WAITING, *ENDING) if point.passages]
    named = {*points, *TURN_POINTS} - AT_THE_MODEL

    assert named <= POINTS
    assert {name.partition(":")[0] for name in named} == {name.partition(":")[0] for name in POINTS}


@pytest.mark.timeout(600)
def test_every_marker_is_reached(upgraded_database: Callable[[], str], tmp_path: Path) -> None:
    record, teams, model = tmp_path / "record", KillingTeams(), ModelServer()
    model.default = teams
    with model.running_in_thread():
        env = clean_environment(
            tmp_path,
            ARTEL_DATABASE_URL=upgraded_database(),
            ARTEL_JWT_SECRET=JWT_SECRET,
            OPENAI_BASE_URL=model.url,
            OPENAI_API_KEY="none",
            MORTAL_FILE=str(tmp_path / "armed"),
            MORTAL_RECORD=str(record),
        )
        server = Server.start(tmp_path, env, module=MORTAL)
        person = Person.register(server.url)
        user = User(RetryingClient(lambda: server.url, person.token), FLOWS, teams, Assassin())
        user.start()
        user.join(RETRY_SECONDS)
        assert not user.is_alive()
        assert user.problem == ""
        flow = user.flows[0]
        person.say(person.session(user.project_id), f"{flow.team.mark} hello", "agent_coder")
        assert server.stop() == 0

    assert set(record.read_text().split()) == POINTS
