"""`artel workflows follow`: showing, approving and leaving a plan that was started elsewhere."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.actors.plan_terminal_user import QUESTION, PlanTerminalUser
from tests.actors.team import CHAIN, Team
from tests.cut_line import CutLine
from tests.deadlines import eventually
from tests.model_server import ByMark, Fail, Hold, Say, Tool
from tests.people import Person
from tests.running import Server, clean_environment
from tests.terminal import CTRL_C, CTRL_D, Terminal, without_status

# The client does not depend on the database.
pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True, scope="session")


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.fixture
def console(person: Person, script: ByMark, mark: str, server: Server, tmp_path: Path) -> PlanTerminalUser:
    script[mark] = team = Team(mark, CHAIN)
    project = person.project()
    console = PlanTerminalUser(person, project, person.session(project["id"]), team)
    console.env = clean_environment(tmp_path, ARTEL_SERVER=server.url, ARTEL_TOKEN=person.token)
    return console


def _follow(console: PlanTerminalUser, workflow_id: str) -> Terminal:
    return Terminal("workflows", "follow", workflow_id, env=console.env)


def _running(console: PlanTerminalUser, hold: Hold) -> dict[str, Any]:
    """Start a plan whose first task is done and whose second task is running."""
    console.team.does = {"b": hold}
    console.ask()
    workflow = console.waiting()
    console.decide(workflow["approval_id"])
    eventually(lambda: hold.arrived, 30)
    return workflow


def test_waiting_plan_is_approved_and_followed_to_its_end(console: PlanTerminalUser) -> None:
    console.ask()
    waits = console.waiting()
    assert f"artel workflows follow {waits['id']}" in console.run("workflows", "show", waits["id"])

    with _follow(console, waits["id"]) as terminal:
        shown = without_status(terminal.until(QUESTION))
        assert f"{console.team.mark} Please do it all. [awaiting_approval]" in shown
        assert re.search(r"The plan: 3 tasks, about \$0\.\d\d, at most \$\d+\.\d\d, about \d+ (s|min)\n", shown)
        assert "You can decide until" in shown
        assert console.team.called == []
        terminal.type("y")
        code, rest = terminal.end()

    assert code == 0
    lines = without_status(rest).splitlines()
    assert [line for line in lines if line.startswith("  c  agent_coder is done")]
    assert "All of it, in one." in lines
    assert lines[-1].startswith("[Cost: $")


def test_ctrl_c_leaves_a_running_plan(console: PlanTerminalUser) -> None:
    hold = Hold("Result of b.")
    workflow = _running(console, hold)

    with _follow(console, workflow["id"]) as terminal:
        shown = without_status(terminal.until("  c  agent_coder, after b"))
        assert "  a  agent_coder, already done: " in shown
        assert "  b  agent_coder, after a, running: " in shown
        terminal.until("1 of 3 tasks done; running: agent_coder (b)")
        terminal.press(CTRL_C)
        code, rest = terminal.end()

    assert code == 130
    assert f"The workflow continues. To follow it again: artel workflows follow {workflow['id']}" in rest
    assert not hold.abandoned.is_set()
    with _follow(console, workflow["id"]) as terminal:
        terminal.until("1 of 3 tasks done")
        hold.release()
        code, rest = terminal.end()
    assert (code, "All of it, in one." in rest) == (0, True)
    assert console.workflow(workflow["id"])["status"] == "completed"


def test_ctrl_c_at_the_question_decides_nothing(console: PlanTerminalUser) -> None:
    console.ask()
    waits = console.waiting()
    with _follow(console, waits["id"]) as terminal:
        terminal.until(QUESTION)
        terminal.press(CTRL_C)
        code, rest = terminal.end()

    assert (code, "The workflow continues." in rest) == (130, True)
    assert console.workflow(waits["id"])["status"] == "awaiting_approval"


def test_decision_of_another_client_is_followed_after_ctrl_d(console: PlanTerminalUser) -> None:
    console.ask()
    waits = console.waiting()
    with _follow(console, waits["id"]) as terminal:
        terminal.until(QUESTION)
        terminal.press(CTRL_D)
        terminal.until("Decide in the browser")
        console.decide(waits["approval_id"])
        code, rest = terminal.end()

    assert (code, "All of it, in one." in rest) == (0, True)


def test_tool_call_and_cost_increase_are_asked_about(console: PlanTerminalUser) -> None:
    delete = Say(tools=[Tool("tool_delete_file", json.dumps({"path": "old.txt"}))])
    console.team.needs = {"a": "", "b": "", "c": "b"}
    expensive = Hold("Expensive.", tokens=(4_000_000, 10))
    console.team.does = {"a": delete, "b": expensive}
    console.ask()
    workflow = console.waiting()
    console.decide(workflow["approval_id"])
    eventually(lambda: console.person.get("/my/approvals", status="pending")["items"], 30)
    expensive.release()
    eventually(lambda: _both_approvals(console), 30)
    console.team.does = {}

    with _follow(console, workflow["id"]) as terminal:
        shown = terminal.until("delete old.txt? [y/n] ")
        assert "agent_coder wants to delete old.txt:" in shown
        terminal.type("n Keep it.")
        shown += without_status(terminal.until("Continue? y(es)"))
        assert "The plan will cost more than agreed" in shown
        assert "  a  agent_coder, waits for you: " in shown
        terminal.type("y")
        code, rest = terminal.end()

    assert (code, "All of it, in one." in rest) == (0, True)
    assert console.workflow(workflow["id"])["status"] == "completed"


def _both_approvals(console: PlanTerminalUser) -> dict[str, dict[str, Any]]:
    approvals = {item["kind"]: item for item in console.person.get("/my/approvals", status="pending")["items"]}
    return approvals if len(approvals) == 2 else {}


def test_workflow_is_followed_while_planning(console: PlanTerminalUser) -> None:
    hold = Hold(json.dumps({"tasks": console.team.tasks()}))
    console.team.plans = [hold]
    accepted = console.ask()
    eventually(lambda: hold.arrived)
    with _follow(console, accepted["workflow_id"]) as terminal:
        terminal.until("orchestrator plans")
        hold.release()
        terminal.until(QUESTION)
        terminal.type("n")
        terminal.until("Why not?")
        terminal.type("")
        code, rest = terminal.end()

    assert (code, "You did not want this plan" in rest) == (1, True)


def test_ended_workflow_is_shown(console: PlanTerminalUser) -> None:
    done = console.approved()
    shown = console.run("workflows", "follow", done["id"])
    assert shown == console.run("workflows", "show", done["id"])
    console.team.needs, console.team.does = {"1": ""}, {"1": Fail(400)}
    failed = console.ended(console.ask("And now another thing.")["workflow_id"])
    console.run("workflows", "follow", failed["id"], code=1)


def test_json_is_printed_at_the_end(console: PlanTerminalUser) -> None:
    hold = Hold("Result of b.")
    workflow = _running(console, hold)
    with Terminal("workflows", "follow", workflow["id"], "--json", env=console.env) as terminal:
        terminal.until("[running]")
        hold.release()
        code, rest = terminal.end()

    assert code == 0
    printed = json.loads(rest[rest.index("{") : rest.rindex("}") + 1])
    assert (printed["id"], printed["status"], printed["answer"]) == (workflow["id"], "completed", "All of it, in one.")


def test_broken_connection_asks_nothing_twice_and_loses_nothing(console: PlanTerminalUser) -> None:
    hold = Hold("Result of b.")
    workflow = _running(console, hold)
    with CutLine(int(console.env["ARTEL_SERVER"].rsplit(":", 1)[1])).running() as line:
        console.env["ARTEL_SERVER"] = line.url
        with _follow(console, workflow["id"]) as terminal:
            first = terminal.until("1 of 3 tasks done")
            line.cut()
            hold.release()
            code, rest = terminal.end()

    shown = without_status(first + rest)
    assert (code, shown.count("  c  agent_coder is done"), shown.count("All of it, in one.")) == (0, 1, 1)
    assert QUESTION not in shown
