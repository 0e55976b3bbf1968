"""Steps of a plan, as transactions, on SQLite and PostgreSQL: one whose answer was lost is made again without harm."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from artel.agent_loop.parking import State, dump_state
from artel.approvals.approval import ApprovalStatus
from artel.approvals.repository import ApprovalRepository
from artel.approvals.transactions import tool_request
from artel.auth.accounts import create_account
from artel.brain.brain import Message, ToolCall
from artel.budgets.repository import Budget, BudgetRepository
from artel.contract.approval_details import BudgetDetails
from artel.contract.http import Agent, NewProject
from artel.contract.parked_run import ParkedNodeRun, ParkedRun
from artel.db import schema
from artel.db.engine import Database
from artel.db.hints import ApprovalRequested, TurnParked
from artel.db.tx import Tx
from artel.ids import uuid7
from artel.plans import plan_run
from artel.plans import transactions as records
from artel.plans.plan import TaskStatus, WorkflowTask
from artel.plans.proposal import priced_approval
from artel.plans.repository import TaskRepository
from artel.plans.transactions import PlanContext
from artel.projects.transactions import create_project
from artel.runs.approval_factory import tool_approval
from artel.runs.task import Task
from artel.spaces.worker_space import SpaceClosed
from artel.tools.consent import Question
from artel.turns.transactions import AgentAtWork, TurnOver
from artel.turns.turn import Turn, TurnStatus
from tests.actors.chat_user import RULES, ChatUser

pytestmark = pytest.mark.anyio


@dataclass
class Run:
    """A turn that carries out a plan of one task, which runs."""

    chat: ChatUser
    turn: Turn
    context: PlanContext
    task: WorkflowTask

    async def step(self, step: Callable[..., Any], *what: Any) -> Any:
        return await self.chat.database.of(self.chat.user).run(step, self.turn, *what)

    async def told(self) -> list[str]:
        return [event.type for event in await self.chat.events(self.turn.session_id)]

    async def status(self) -> TurnStatus:
        return (await self.chat.turn(self.turn.session_id, self.turn.id)).status

    async def asked(self) -> list[str]:
        pending = ApprovalStatus.PENDING
        return await self.chat.database.read(
            lambda c: [one.id for one in ApprovalRepository(c, self.chat.user).of_turn(self.turn.id, pending)]
        )


@pytest.fixture
async def run(upgraded_database: Callable[[], str]) -> AsyncIterator[Run]:
    database = Database(upgraded_database().replace("postgresql:", "postgresql+psycopg:"))
    await asyncio.to_thread(schema.upgrade, database.engine)
    user = (await database.run(create_account, "ada@example.org", None)).principal
    project = await database.of(user).run(create_project, NewProject(name="Chat"), RULES)
    agent = project.agents[0]
    chat = ChatUser(database, user, project.id, agent.id)
    session = await chat.session()
    turn = await chat.accept(session, replace(chat.message(), target=None))
    context = await database.of(user).run(records.begin, turn, 10, None)
    task = WorkflowTask(
        workflow_id=context.workflow.id,
        id="a",
        project_id=project.id,
        number=1,
        agent_id=agent.id,
        agent=agent.name,
        description="Do it.",
        depends_on=[],
        status=TaskStatus.RUNNING,
        attempts=1,
        estimate=None,
        usage=None,
        cost_micros=None,
        result=None,
        error_code=None,
        error=None,
        parked=None,
        started_at=datetime.now(UTC),
        finished_at=None,
    )
    await database.run(lambda c: TaskRepository(c, user).add([task]))
    yield Run(chat, turn, context, task)
    await database.close()


@pytest.mark.req("CHT-03.2")
async def test_parked_task_is_stored_and_announced_once(run: Run) -> None:
    call = ToolCall("call_1", "tool_delete_file", '{"path": "x"}')
    state = State(
        (Message("system", "Help."), Message("user", "Do it."), Message("assistant", "", (call,))), calls=(call,)
    )
    approval = tool_approval(run.turn, run.task.agent_id, Question(call.name, {"path": "x"}), 300)
    parked = ParkedRun(state=dump_state(state), seconds=0.1234567, approval_id=approval.id)
    waits = replace(run.task, status=TaskStatus.WAITING, parked=parked)
    step = records.park_task, waits, approval, [tool_request(approval, waits.id)], (5, False)

    requested: list[ApprovalRequested] = []
    run.chat.database.on_commit(ApprovalRequested, requested.append)
    await run.step(*step)
    await run.step(*step)

    assert [hint.event.approval_id for hint in requested] == [approval.id] * 2  # the first hint may be lost
    assert (await run.told()).count("tool_request") == 1
    assert await run.asked() == [approval.id]


@pytest.mark.req("AGT-10.1")
async def test_task_on_a_node_goes_on_after_a_crash_with_what_the_user_decided(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    question, database = Question("tool_delete_file", {"path": "x"}), run.chat.database.of(run.chat.user)
    approval = tool_approval(run.turn, run.task.agent_id, question, 300)
    parked = ParkedRun(node=ParkedNodeRun(node="agent.writer.001", state="{}"), approval_id=approval.id)
    waits = replace(run.task, status=TaskStatus.WAITING, parked=parked)
    await run.step(records.park_task, waits, approval, [], (5, False))
    await database.run(_reject, approval.id)
    resumed = replace(waits, status=TaskStatus.RUNNING)
    await run.step(records.start_task, resumed, [])
    budget = Budget(uuid7(), run.turn.project_id, "plan", run.context.workflow.id, 0, 0, 0)
    await database.run(lambda tx: BudgetRepository(tx).add(budget))
    given: list[Task] = []

    async def run_agent(_space: object, agent: Agent, task: Task) -> None:
        given.append(task)
        await task.start(agent, AgentAtWork(agent.id, agent.name, "idle", "processing"))
        raise SpaceClosed

    async def agent_of(_id: int) -> Agent:
        return run.context.agents[0]

    monkeypatch.setattr(plan_run, "run_agent", run_agent)
    settings = SimpleNamespace(max_context_tokens=10_000, task_timeout_seconds=60.0)
    hub = SimpleNamespace(end=lambda *_: None)
    services = SimpleNamespace(database=run.chat.database, is_demo=True, settings=settings, hub=hub)
    ids = {"principal": run.chat.user, "project_id": run.turn.project_id}
    space: Any = SimpleNamespace(services=services, database=database, agent=agent_of, accepts_tasks=True, **ids)
    context = replace(run.context, tasks=[resumed])

    assert await plan_run.PlanRun(space, run.turn, context, [], "demo").run() is None

    [task] = given
    assert task.waiting is not None
    assert {key: each.outcome for key, each in task.waiting.decisions.items()} == {question.hash: "rejected"}
    assert (await run.told())[-2:] == ["task_progress", "agent_status_changed"]


def _reject(tx: Tx, approval_id: str) -> None:
    ApprovalRepository(tx).move(approval_id, [ApprovalStatus.PENDING], ApprovalStatus.REJECTED)


@pytest.mark.req("CHT-03.2")
async def test_a_turn_that_begins_to_wait_for_money_asks_once(run: Run) -> None:
    approval = priced_approval("budget", run.turn, run.context.workflow, [], 100, BudgetDetails(), 300)
    waiting: list[str] = []
    step = records.park_run, run.context.workflow, waiting, approval, (5, False)

    announced: list[TurnParked] = []
    run.chat.database.on_commit(TurnParked, announced.append)
    requested: list[ApprovalRequested] = []
    run.chat.database.on_commit(ApprovalRequested, requested.append)

    assert await run.step(*step)
    assert await run.step(*step)

    assert announced == [TurnParked(run.turn.id)] * 2  # whoever waits is woken again: the first hint may be lost too
    assert [hint.event.approval_id for hint in requested] == [approval.id] * 2
    assert (await run.told()).count("plan_request") == 1
    assert await run.asked() == [approval.id]
    assert await run.status() is TurnStatus.WAITING


async def test_requeueing_a_turn_twice_queues_it_once(run: Run) -> None:
    for _ in range(2):
        await run.step(records.requeue, run.context.workflow, (5, False))

    assert await run.status() is TurnStatus.QUEUED


async def test_a_turn_that_was_ended_can_neither_wait_nor_go_on(run: Run) -> None:
    assert await run.chat.finish(run.turn.session_id, run.turn.id)

    with pytest.raises(TurnOver):
        await run.step(records.requeue, run.context.workflow, (5, False))
    with pytest.raises(TurnOver):
        await run.step(records.park_run, run.context.workflow, [], None, (5, False))
