"""Plans in `artel chat` and `artel workflows`: output, approval, progress and retry."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from artel.ids import uuid7
from tests.actors.plan_terminal_user import QUESTION, PlanTerminalUser
from tests.actors.team import CHAIN, DIAMOND, Team
from tests.cut_line import CutLine
from tests.deadlines import eventually
from tests.model_server import ByMark, Fail, Hold, Say, Tool
from tests.people import Person
from tests.running import Server, artel, clean_environment
from tests.terminal import CTRL_C, CTRL_D, Terminal, without_status

# The client does not depend on the database.
pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True, scope="session")


@pytest.fixture(scope="session")
def server(chat_server: Server) -> Server:
    return chat_server


@pytest.fixture
def console(person: Person, script: ByMark, mark: str, server: Server, tmp_path: Path) -> PlanTerminalUser:
    script[mark] = team = Team(mark, DIAMOND)
    project = person.project()
    console = PlanTerminalUser(person, project, person.session(project["id"]), team)
    console.env = clean_environment(tmp_path, ARTEL_SERVER=server.url, ARTEL_TOKEN=person.token)
    return console


def _seen(text: str) -> str:
    """Return the text on a screen without status lines."""
    return without_status(text)


@pytest.mark.req("CHT-03.2", "CHT-03.3", "CHT-03.4", "CHT-11.3")
def test_plan_is_shown_approved_watched_and_answered(console: PlanTerminalUser) -> None:
    with console.chat() as terminal:
        shown = _seen(terminal.until(QUESTION))
        assert re.search(r"The plan: 4 tasks, about \$0\.\d\d, at most \$\d+\.\d\d, about \d+ (s|min)\n", shown)
        assert re.search(rf"  a  agent_coder: {console.team.mark} do a\. \(\$0\.\d+\)\n", shown)
        assert f"  d  agent_coder, after b, c: {console.team.mark} do d." in shown
        assert re.search(r"\nYou can decide until (\S+ )?\d\d:\d\d(:\d\d)?\. Stops and asks at \$\d+\.\d\d\.\n", shown)
        assert console.team.called == []
        terminal.type("y")
        code, rest = terminal.end()

    assert code == 0
    lines = _seen(rest).splitlines()
    for task in "abcd":
        started = next(n for n, line in enumerate(lines) if line.startswith(f"  {task}  agent_coder started:"))
        done = next(n for n, line in enumerate(lines) if line.startswith(f"  {task}  agent_coder is done after"))
        assert started < done < lines.index("All of it, in one.")
    assert re.fullmatch(r"\[Cost: \$0\.\d+, estimated: about \$0\.\d\d, at most \$\d+\.\d\d\.\]", lines[-1])
    assert sorted(console.team.called) == ["a", "b", "c", "d"]


def test_plan_of_one_task_is_not_shown_and_its_answer_is_streamed(console: PlanTerminalUser) -> None:
    hold = Hold(text=" rest", word="Started")
    console.team.needs, console.team.does = {"1": ""}, {"1": hold}
    with Terminal("chat", env=console.env) as terminal:
        terminal.until("\n> ")
        terminal.type(f"{console.team.mark} Please do it all.")
        assert "The plan" not in terminal.until("agent_coder:\nStarted")
        hold.release()
        assert "[Cost:" not in terminal.until("\n> ")


def test_cheap_small_plan_is_shown_and_runs_without_approval(console: PlanTerminalUser) -> None:
    settings = {"settings": {"plans": {"approve_over_usd": 50}}}
    assert console.person.http.patch(f"/my/projects/{console.project['id']}", json=settings).status_code == 200
    console.team.needs = {"a": "", "b": "a"}
    with console.chat() as terminal:
        code, rest = terminal.end()

    shown = _seen(rest)
    assert code == 0
    assert shown.startswith("The plan: 2 tasks, ")
    assert "Run the plan?" not in shown
    assert shown.index("  b  agent_coder is done") < shown.index("\nAll of it, in one.\n[Cost:")


def test_merged_answer_in_a_conversation_is_from_the_orchestrator(console: PlanTerminalUser) -> None:
    with Terminal("chat", env=console.env) as terminal:
        terminal.until("\n> ")
        terminal.type(f"{console.team.mark} Please do it all.")
        terminal.until(QUESTION)
        terminal.type("y")
        assert "orchestrator:\nAll of it, in one.\n[Cost:" in _seen(terminal.until("\n> "))
        terminal.press(CTRL_D)
        assert terminal.end()[0] == 0


def test_status_shows_that_results_are_being_combined(console: PlanTerminalUser) -> None:
    merging = Hold("All of it.")
    console.team.does = {"merge": merging}
    with console.chat() as terminal:
        terminal.until(QUESTION)
        terminal.type("y")
        terminal.until("orchestrator combines the results")
        merging.release()
        code, rest = terminal.end()

    assert (code, "All of it." in _seen(rest)) == (0, True)


def test_instruction_goes_to_every_task(console: PlanTerminalUser) -> None:
    with console.chat() as terminal:
        terminal.until(QUESTION)
        terminal.type("i")
        terminal.until("Instruction for all tasks? (Enter: back) ")
        terminal.type("")
        terminal.until(QUESTION)
        terminal.type("i Write in French.")
        assert terminal.end()[0] == 0

    assert all("Write in French." in asked.text for asked in console.team.requests.values())
    assert console.newest()["instruction"] == "Write in French."


def test_plan_is_changed_before_it_is_approved(console: PlanTerminalUser) -> None:
    mark = console.team.mark
    with console.chat() as terminal:
        terminal.until(QUESTION)
        terminal.type("c")
        terminal.until("(Enter: back) ")
        for wrong, why in [
            ("d z", "Unknown task. Tasks: a, b, c, d."),
            ("a b nobody", "There is no agent called nobody. Agents: agent_coder, agent_analyzer"),
            ("x a", "Type d, a or t"),
        ]:
            terminal.type(wrong)
            assert why in terminal.until("(Enter: back) ")
        terminal.type("d a")
        changed = terminal.until("(Enter: back) ")
        assert "The changed plan: 3 tasks, price not estimated yet\n" in changed
        assert f"  b  agent_coder: {mark} do b." in changed
        terminal.type("a b writer")
        terminal.until("  b  agent_writer:")
        terminal.type(f"t c {mark} do c. Shortly.")
        terminal.until("do c. Shortly.")
        terminal.type("")
        terminal.until(QUESTION)
        terminal.type("y")
        code, rest = terminal.end()

    assert code == 0
    assert "  b  agent_writer is done" in _seen(rest)
    by_id = {task["id"]: task for task in console.newest()["tasks"]}
    assert sorted(console.team.called) == sorted(by_id) == ["b", "c", "d"]
    assert by_id["b"]["agent"] == "agent_writer"
    assert "Shortly." in console.team.requests["c"].text


@pytest.mark.req("CHT-03.3")
def test_plan_over_the_monthly_budget_shows_what_is_left(console: PlanTerminalUser) -> None:
    settings = {"settings": {"monthly_budget_usd": 0.5}}
    assert console.person.http.patch(f"/my/projects/{console.project['id']}", json=settings).status_code == 200
    console.team.needs = {"1": ""}
    with console.chat("--project", str(console.project["id"])) as terminal:
        shown = _seen(terminal.until(QUESTION))
        assert re.search(
            r"Only \$0\.49\d+ of the project's monthly budget is left: the plan may end incomplete\.\n", shown
        )
        terminal.type("y")
        code, rest = terminal.end()

    assert (code, "Result of 1." in rest) == (0, True)


def test_rejected_plan_runs_nothing(console: PlanTerminalUser) -> None:
    with console.chat() as terminal:
        terminal.until(QUESTION)
        terminal.type("n")
        terminal.until("Why not? (a reason makes a new plan; Enter: only reject it) ")
        terminal.type("")
        code, rest = terminal.end()

    assert (code, "You did not want this plan, so nothing was done." in rest) == (1, True)
    assert console.team.called == []
    assert console.newest()["status"] == "rejected"


def test_feedback_makes_another_plan_that_lists_its_changes(console: PlanTerminalUser) -> None:
    with console.chat() as terminal:
        terminal.until(QUESTION)
        console.team.needs = {"a": "", "z": "a"}
        terminal.type("n Only two tasks, please")
        second = _seen(terminal.until(QUESTION))
        assert "The plan: 2 tasks" in second
        assert "Changes:" in second
        assert "  z: new, for agent_coder" in second
        terminal.type("y")
        assert terminal.end()[0] == 0

    assert console.team.called == ["a", "z"]


@pytest.mark.req("CLI-01.2")
def test_user_can_answer_again_after_a_refused_answer(console: PlanTerminalUser) -> None:
    with console.chat() as terminal:
        terminal.until(QUESTION)
        terminal.type(f"i {'x' * 2_500}")
        assert "artel: " in terminal.until(QUESTION)
        for no_answer in ("", "nonsense", "yes, but shorter", "c a"):
            terminal.type(no_answer)
            assert "Please answer y, i, c or n (Ctrl-C cancels)." in terminal.until(QUESTION)
        assert console.waiting()["status"] == "awaiting_approval"
        terminal.type("yes")
        assert terminal.end()[0] == 0


def test_input_before_the_question_is_discarded(console: PlanTerminalUser) -> None:
    hold = Hold(text=json.dumps({"tasks": console.team.tasks()}))
    console.team.plans = [hold]
    with console.chat() as terminal:
        eventually(lambda: hold.arrived)
        terminal.type("y")
        terminal.until("y\n")
        hold.release()
        terminal.until(QUESTION)
        terminal.type("n")
        terminal.until("Why not?")
        assert console.waiting()["status"] == "awaiting_approval"
        assert console.team.called == []


def test_plan_question_ends_when_another_client_decides(console: PlanTerminalUser) -> None:
    with console.chat() as terminal:
        terminal.until(QUESTION)
        console.decide(console.waiting()["approval_id"])
        terminal.until("No answer needed")
        code, rest = terminal.end()

    assert (code, "All of it, in one." in rest) == (0, True)


def test_broken_connection_at_the_question_loses_nothing(console: PlanTerminalUser) -> None:
    with CutLine(int(console.env["ARTEL_SERVER"].rsplit(":", 1)[1])).running() as line:
        console.env["ARTEL_SERVER"] = line.url
        with console.chat() as terminal:
            terminal.until(QUESTION)
            line.cut()
            terminal.type("y")
            code, rest = terminal.end()

    shown = _seen(rest)
    assert (code, shown.count("All of it, in one."), shown.count("Run the plan?")) == (0, 1, 0)
    assert all(shown.count(f"  {task}  agent_coder is done") == 1 for task in DIAMOND)


def test_expired_question_shows_the_result(console: PlanTerminalUser) -> None:
    settings = {"settings": {"approval_seconds": 1}}
    assert console.person.http.patch(f"/my/projects/{console.project['id']}", json=settings).status_code == 200
    with console.chat() as terminal:
        terminal.until(QUESTION)
        terminal.until("No answer needed")
        code, rest = terminal.end()

    assert (code, "Nobody decided about the plan in time" in rest) == (1, True)


def test_ctrl_d_leaves_the_decision_to_another_client(console: PlanTerminalUser) -> None:
    with console.chat() as terminal:
        terminal.until(QUESTION)
        terminal.press(CTRL_D)
        waits = console.waiting()
        terminal.until(f"POST /my/approvals/{waits['approval_id']}/confirm")
        console.decide(waits["approval_id"])
        assert terminal.end()[0] == 0


def test_ctrl_c_at_the_question_cancels_the_turn(console: PlanTerminalUser) -> None:
    with console.chat() as terminal:
        terminal.until(QUESTION)
        terminal.press(CTRL_C)
        code, rest = terminal.end()

    assert (code, "\n[cancelled]\n" in _seen(rest)) == (130, True)
    assert console.newest()["status"] == "cancelled"
    assert console.team.called == []


def test_running_plan_shows_progress_and_is_cancelled_by_ctrl_c(console: PlanTerminalUser) -> None:
    hold = Hold()
    console.team.needs, console.team.does = CHAIN, {"b": hold}
    with console.chat() as terminal:
        terminal.until(QUESTION)
        terminal.type("y")
        terminal.until("1 of 3 tasks done; running: agent_coder (b)")
        eventually(lambda: hold.arrived)
        terminal.press(CTRL_C)
        code, rest = terminal.end()

    assert (code, "[cancelled]" in rest) == (130, True)
    assert hold.abandoned.wait(10)
    workflow = console.newest()
    assert console.statuses(workflow) == {"a": "completed", "b": "cancelled", "c": "cancelled"}
    assert f"To run the missing tasks: artel workflows retry {workflow['id'][-8:]}" in rest


@pytest.mark.req("CHT-08.2")
def test_failed_tasks_are_shown_with_the_retry_command(console: PlanTerminalUser) -> None:
    console.team.needs, console.team.does = {"a": "", "b": "", "c": "a"}, {"a": Fail(400)}
    with console.chat() as terminal:
        terminal.until(QUESTION)
        terminal.type("y")
        code, rest = terminal.end()

    shown = _seen(rest)
    assert code == 0
    assert "  a  failed: " in shown
    assert "  c  failed: Task a has no result." in shown
    assert "  b  agent_coder is done" in shown
    assert "Not done:" in shown
    assert f"artel workflows retry {console.newest()['id'][-8:]}" in shown


@pytest.mark.parametrize(("word", "status"), [("y", "completed"), ("n", "partial")])
def test_plan_over_its_agreed_cost_asks_with_amounts(console: PlanTerminalUser, word: str, status: str) -> None:
    console.team.needs, console.team.does = CHAIN, {"a": Say("Expensive.", tokens=(4_000_000, 10))}
    with console.chat() as terminal:
        terminal.until(QUESTION)
        terminal.type("y")
        question = _seen(terminal.until("Continue? y(es) / n(o: answer with the finished tasks) "))
        assert re.search(r"\$\d+\.\d+ agreed, \$\d+\.\d+ spent, \$\d+\.\d+ needed in total\.", question)
        terminal.type("c")
        terminal.until("Continue? ")
        terminal.type(word)
        assert terminal.end()[0] == 0

    assert console.newest()["status"] == status
    assert console.team.called == (["a", "b", "c"] if word == "y" else ["a"])


def test_tool_call_of_a_task_is_decided_by_another_client_while_others_run(console: PlanTerminalUser) -> None:
    delete = Say(tools=[Tool("tool_delete_file", json.dumps({"path": "old.txt"}))])
    console.team.needs, console.team.does = {"a": "", "b": "", "c": "a"}, {"a": delete}
    with console.chat() as terminal:
        terminal.until(QUESTION)
        terminal.type("y")
        terminal.until("delete old.txt? [y/n] ")
        [approval] = eventually(lambda: console.person.get("/my/approvals", status="pending")["items"])
        console.team.does = {}
        console.decide(approval["id"], "reject", feedback="Keep it.")
        code, rest = terminal.end()

    assert (code, "  c  agent_coder is done" in _seen(rest)) == (0, True)


def test_without_a_terminal_nothing_is_approved_and_instructions_are_printed(console: PlanTerminalUser) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(artel, "chat", f"{console.team.mark} Please do it all.", env=console.env)
        waits = console.waiting()
        assert console.team.called == []
        console.decide(waits["approval_id"])
        done = running.result(60)

    assert (done.returncode, done.stdout) == (0, "All of it, in one.\n")
    assert f"  b  agent_coder, after a: {console.team.mark} do b." in done.stderr
    assert f"POST /my/approvals/{waits['approval_id']}/confirm" in done.stderr


def test_json_option_in_a_terminal_asks_nothing(console: PlanTerminalUser) -> None:
    with console.chat("--json") as terminal:
        terminal.until("Waiting for your approval of a plan")
        console.decide(console.waiting()["approval_id"])
        code, rest = terminal.end()

    assert code == 0
    printed = json.loads(_seen(rest)[_seen(rest).index("\n{") : _seen(rest).rindex("}") + 1])
    assert (printed["content"], printed["workflow_id"]) == ("All of it, in one.", console.newest()["id"])


# artel workflows


def test_workflows_are_listed_and_shown_with_pending_approvals(console: PlanTerminalUser) -> None:
    assert "No workflows." in console.run("workflows", "list")
    done = console.approved()
    console.ask("Something else.")
    waits = console.waiting()

    listed = console.run("workflows", "list")
    assert [line.split()[:2] for line in listed.splitlines()[1:]] == [
        [waits["id"][-8:], "awaiting_approval"],
        [done["id"][-8:], "completed"],
    ]
    assert console.json("workflows", "show", done["id"][-8:])["id"] == done["id"]
    assert "4 of 4" in listed
    assert [workflow["id"] for workflow in console.json("workflows", "list", "--status", "completed")] == [done["id"]]
    assert len(console.json("workflows", "list", "--limit", "1")) == 1
    assert len(console.json("workflows", "list", "--project", "Website")) == 2
    other = str(console.person.project("Other")["id"])
    assert console.json("workflows", "list", "--project", other) == []
    assert "status" in console.run("workflows", "list", "--status", "nonsense", code=2)

    shown = console.run("workflows", "show", done["id"])
    assert re.search(
        r"price +about \$0\.\d\d, at most \$\d+\.\d\d estimated \(about .+\), \$\S+ agreed, \$0\.\d+ spent", shown
    )
    assert re.search(rf"\nd +completed +agent_coder +b, c +\$\S+ +\$\S+ +{console.team.mark} do d\.\n", shown)
    assert shown.endswith("\nAll of it, in one.\n")
    assert f"POST /my/approvals/{waits['approval_id']}/confirm" in console.run("workflows", "show", waits["id"])
    assert console.json("workflows", "show", done["id"]) == done
    for command in ("show", "follow", "cancel", "retry"):
        assert "Workflow not found" in console.run("workflows", command, uuid7(), code=3)
        assert "missing workflow id" in console.run("workflows", command, "", code=2)


def test_workflow_is_cancelled_once(console: PlanTerminalUser) -> None:
    done = console.approved()
    console.ask("Something else.")
    waits = console.waiting()

    assert "Cancelled." in console.run("workflows", "cancel", waits["id"])
    assert console.json("workflows", "cancel", waits["id"])["status"] == "cancelled"
    assert "Not cancelled: the workflow is already completed." in console.run("workflows", "cancel", done["id"])
    assert "nothing to try again" in console.run("workflows", "retry", done["id"], code=5)


def _failed(console: PlanTerminalUser) -> dict[str, Any]:
    console.team.needs, console.team.does = CHAIN, {"b": Fail(400)}
    workflow = console.approved()
    assert workflow["status"] == "partial"
    console.team.does = {}
    return workflow


@pytest.mark.req("CHT-08.2")
def test_retry_is_followed_to_its_end(console: PlanTerminalUser) -> None:
    workflow = _failed(console)
    with Terminal("workflows", "retry", workflow["id"], env=console.env) as terminal:
        code, rest = terminal.end()

    shown = _seen(rest)
    assert code == 0
    assert "  a  agent_coder, already done: " in shown
    assert "  a  agent_coder started" not in shown
    assert shown.index("  b  agent_coder is done") < shown.index("  c  agent_coder started")
    assert "\nAll of it, in one.\n[Cost:" in shown
    assert console.team.called == ["a", "b", "b", "c"]


def test_failed_retry_exits_with_1_and_json_prints_the_workflow(console: PlanTerminalUser) -> None:
    console.team.needs, console.team.does = CHAIN, {"a": Fail(400)}
    workflow = console.approved()
    assert workflow["status"] == "failed"
    errors = console.run("workflows", "show", workflow["id"])
    assert "\na failed: " in errors
    assert "\nb aborted: Task a has no result." in errors

    assert "artel: " in console.run("workflows", "retry", workflow["id"], code=1)
    console.team.does = {}
    again = console.json("workflows", "retry", workflow["id"])

    assert (again["id"], again["status"], again["answer"]) == (workflow["id"], "completed", "All of it, in one.")


def test_retry_without_waiting(console: PlanTerminalUser) -> None:
    workflow = _failed(console)
    hold = Hold("Result of b.")
    console.team.does = {"b": hold}

    output = console.run("workflows", "retry", workflow["id"], "--no-wait")

    assert f"artel workflows follow {workflow['id']}" in output
    assert "The workflow goes on" in console.run("workflows", "retry", workflow["id"], code=5)
    hold.release()
    assert console.ended(workflow["id"])["status"] == "completed"


def test_ctrl_c_cancels_a_retry(console: PlanTerminalUser) -> None:
    workflow = _failed(console)
    hold = Hold()
    console.team.does = {"b": hold}
    with Terminal("workflows", "retry", workflow["id"], env=console.env) as terminal:
        terminal.until("  b  agent_coder started")
        eventually(lambda: hold.arrived)
        terminal.press(CTRL_C)
        code, _ = terminal.end()

    assert code == 130
    assert hold.abandoned.wait(10)
    assert console.workflow(workflow["id"])["status"] == "cancelled"


def test_retry_of_an_unapproved_plan_asks_first(console: PlanTerminalUser) -> None:
    console.ask()
    waits = console.waiting()
    console.decide(waits["approval_id"], "reject")
    console.ended(waits["id"])
    with Terminal("workflows", "retry", waits["id"], env=console.env) as terminal:
        terminal.until(QUESTION)
        assert console.team.called == []
        terminal.type("y")
        assert terminal.end()[0] == 0

    assert console.workflow(waits["id"])["status"] == "completed"


def test_retry_over_the_agreed_cost_asks_for_money(console: PlanTerminalUser) -> None:
    console.team.needs, console.team.does = CHAIN, {"a": Say("Expensive.", tokens=(4_000_000, 10))}
    console.ask()
    first = console.waiting()
    console.decide(first["approval_id"])
    second = eventually(lambda: _second_approval(console, first))
    console.decide(second["approval_id"], "reject")
    assert console.ended(first["id"])["status"] == "partial"

    with Terminal("workflows", "retry", first["id"], env=console.env) as terminal:
        assert "The plan will cost more than agreed" in _seen(terminal.until("Continue? "))
        terminal.type("y")
        assert terminal.end()[0] == 0

    assert console.workflow(first["id"])["status"] == "completed"
    assert console.team.called == ["a", "b", "c"]


def _second_approval(console: PlanTerminalUser, before: dict[str, Any]) -> dict[str, Any]:
    now = console.workflow(before["id"])
    return now if now["approval_id"] not in (None, before["approval_id"]) else {}


def test_status_shows_that_a_plan_is_being_replanned(console: PlanTerminalUser) -> None:
    hold = Hold(json.dumps({"tasks": console.team.tasks()[:1]}))
    with console.chat() as terminal:
        terminal.until(QUESTION)
        console.team.plans = [hold]
        terminal.type("n Only the first")
        terminal.until("orchestrator plans")
        hold.release()
        terminal.until(QUESTION)
        terminal.type("y")
        assert terminal.end()[0] == 0

    assert console.team.called == ["a"]


def test_workflow_cancelled_while_planning_can_be_retried(console: PlanTerminalUser) -> None:
    hold = Hold()
    console.team.plans = [hold]
    with console.chat() as terminal:
        terminal.until("orchestrator plans")
        eventually(lambda: hold.arrived)
        terminal.press(CTRL_C)
        assert terminal.end()[0] == 130
    workflow = console.newest()
    assert (workflow["status"], workflow["tasks"]) == ("cancelled", [])
    assert "price        $0.00 spent\n" in console.run("workflows", "show", workflow["id"])

    with Terminal("workflows", "retry", workflow["id"], env=console.env) as terminal:
        terminal.until(QUESTION)
        terminal.type("y")
        assert terminal.end()[0] == 0

    assert console.workflow(workflow["id"])["status"] == "completed"


def test_retry_with_broken_connection_starts_once_and_loses_nothing(console: PlanTerminalUser) -> None:
    workflow = _failed(console)
    hold = Hold("Result of b.")
    console.team.does = {"b": hold}
    with CutLine(int(console.env["ARTEL_SERVER"].rsplit(":", 1)[1])).running() as line:
        console.env["ARTEL_SERVER"] = line.url
        with Terminal("workflows", "retry", workflow["id"], env=console.env) as terminal:
            terminal.until("  b  agent_coder started")
            line.cut()
            hold.release()
            code, rest = terminal.end()

    shown = _seen(rest)
    assert (code, shown.count("  c  agent_coder is done"), shown.count("All of it, in one.")) == (0, 1, 1)
    assert console.team.called == ["a", "b", "b", "c"]


@pytest.mark.req("CLI-01.6")
def test_chat_shows_the_status_of_the_last_plan(console: PlanTerminalUser) -> None:
    with Terminal("chat", "--new", env=console.env) as terminal:
        terminal.until("> ")
        terminal.type(f"{console.team.mark} Please do it all.")
        terminal.until(QUESTION)
        terminal.type("y")
        terminal.until("[Cost: ")
        terminal.until("> ")
        terminal.type("/plan")
        shown = terminal.until("\n> ")

    tasks = console.newest()["tasks"]
    assert f"The plan is completed: {len(tasks)} of {len(tasks)} tasks done, " in shown
    assert [f"  {task['id']}  completed, {task['agent']}: " in shown for task in tasks] == [True] * len(tasks)
