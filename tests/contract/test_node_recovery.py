"""Turns that a killed host left running: those that only nodes worked for go on, the others fail."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from artel.contract.chat import UsageShown
from artel.contract.envelope import Command, Envelope, Error, ErrorInfo, Result
from artel.contract.http import NewProject
from artel.ids import uuid7
from artel.plans import transactions as plans
from artel.plans.plan import OPEN, TaskStatus, WorkflowStatus, WorkflowTask
from artel.plans.repository import TaskRepository, WorkflowRepository
from artel.projects.transactions import create_project
from artel.registry.commands import NewCommand, NodeCommandRepository
from artel.runs.node_recovery import requeue_on_nodes
from artel.turns.turn import Turn, TurnStatus
from tests.actors.chat_user import RULES, ChatUser

pytestmark = [pytest.mark.anyio, pytest.mark.any_database, pytest.mark.req("AGT-10.1")]

TOOL_CALLS = {"kind": "tool_calls", "calls": [{"id": "1", "name": "write_file", "arguments": "{}"}], "state": "{}"}
DONE = Result(output={"text": "Done."})


async def _command(chat: ChatUser, turn: Turn, task_id: str, answer: Result | Error | None, step: int = 0) -> None:
    """Store a command of a task, with the node's answer if there is one."""
    sent = Command(action="answer")
    new = NewCommand(uuid7(), turn.project_id, turn.id, task_id, step, 0, "agent.writer.001", "uid", 1, sent)

    def store(tx: Any) -> None:
        rows = NodeCommandRepository(tx)
        rows.add(new)
        if answer is not None:
            rows.answered(new.id, Envelope.of(answer, source="agent.writer.001"))

    await chat.database.of(chat.user).run(store)


async def _requeue(chat: ChatUser, turn: Turn, seconds: float = 600.0) -> tuple[bool, TurnStatus]:
    """Recover a turn; return whether it goes on, and its status."""
    is_queued = await chat.database.of(chat.user).run(requeue_on_nodes, turn.session_id, turn.id, seconds)
    return is_queued, (await chat.turn(turn.session_id, turn.id)).status


async def _running_turn(chat: ChatUser) -> Turn:
    session = await chat.session()
    turn = await chat.accept(session)
    assert await chat.start(session, turn.id)
    return turn


@pytest.mark.parametrize("answer", [None, DONE], ids=["unanswered", "answered"])
async def test_turn_that_a_node_works_for_is_queued_again(chat: ChatUser, answer: Result | None) -> None:
    turn = await _running_turn(chat)
    await _command(chat, turn, turn.id, Result(output=TOOL_CALLS))
    await _command(chat, turn, turn.id, answer, step=1)

    assert await _requeue(chat, turn) == (True, TurnStatus.QUEUED)

    parked = (await chat.turn(turn.session_id, turn.id)).parked
    assert parked is not None
    assert parked.node is not None


@pytest.mark.parametrize(
    "answer",
    [Result(output=TOOL_CALLS), Error(error=ErrorInfo(code="INTERNAL", message="It failed."))],
    ids=["tools may have been called", "failed"],
)
async def test_turn_is_not_queued_again_if_it_may_have_done_more(chat: ChatUser, answer: Result | Error) -> None:
    turn = await _running_turn(chat)
    await _command(chat, turn, turn.id, answer)

    assert await _requeue(chat, turn) == (False, TurnStatus.RUNNING)


async def test_turn_of_a_local_agent_and_an_old_command_are_not_queued_again(chat: ChatUser) -> None:
    local, old = await _running_turn(chat), await _running_turn(chat)
    await _command(chat, local, "task of a child", None)
    await _command(chat, old, old.id, None)

    assert await _requeue(chat, local) == (False, TurnStatus.RUNNING)
    assert await _requeue(chat, old, seconds=-60) == (False, TurnStatus.RUNNING)


async def test_command_of_another_user_changes_nothing(chat: ChatUser) -> None:
    turn = await _running_turn(chat)
    other = await chat.database.run(_other_account)
    project = await chat.database.of(other).run(create_project, NewProject(name="Other"), RULES)
    stranger = ChatUser(chat.database, other, project.id, project.agents[0].id)
    await _command(chat, turn, turn.id, None)

    with pytest.raises(Exception, match="Session not found"):
        await _requeue(stranger, turn)


def _other_account(connection: Any) -> Any:
    from artel.auth.accounts import create_account

    return create_account(connection, "eve@example.org", None).principal


@pytest.mark.parametrize("others", ["on a node", "local"])
async def test_plan_goes_on_if_all_its_running_tasks_are_on_nodes(chat: ChatUser, others: str) -> None:
    session = await chat.session()
    turn = await chat.accept(session, replace(chat.message(), target=None))
    context = await chat.database.of(chat.user).run(plans.begin, turn, 10, None)
    used = UsageShown(model="gpt-4o", input_tokens=10, output_tokens=5, cost_usd=0.1, calls=1)
    tasks = [
        WorkflowTask(
            workflow_id=context.workflow.id,
            id=name,
            project_id=chat.project_id,
            number=number,
            agent_id=chat.agent_id,
            agent="agent_coder",
            description="Do it.",
            depends_on=[],
            status=TaskStatus.COMPLETED if name == "done" else TaskStatus.RUNNING,
            usage=used if name == "done" else None,
            started_at=datetime.now(UTC),
        )
        for number, name in enumerate(("done", "a", "b"), 1)
    ]

    def store(tx: Any) -> None:
        TaskRepository(tx).add(tasks)
        WorkflowRepository(tx).move(context.workflow.id, OPEN, status=WorkflowStatus.RUNNING)

    await chat.database.of(chat.user).run(store)
    for name in ("a", "b") if others == "on a node" else ("a",):
        await _command(chat, turn, f"{turn.id}:{name}", None)

    goes_on = others == "on a node"
    assert await _requeue(chat, turn) == (goes_on, TurnStatus.QUEUED if goes_on else TurnStatus.RUNNING)

    parked = (await chat.turn(session, turn.id)).parked
    if goes_on:
        assert parked is not None
        assert (parked.workflow_id, parked.usage) == (context.workflow.id, used)
