"""What a task on a node has reserved is settled when its command is given up, on SQLite and PostgreSQL."""

import asyncio
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from artel.agent_loop.parking import Parked
from artel.agent_loop.task import Tally
from artel.brain.brain import Message
from artel.brain.errors import ModelNotAllowed
from artel.brain.prices import DEMO
from artel.contract.agent_file import AgentFile
from artel.contract.envelope import Command, Envelope, Metrics, Result
from artel.contract.node_messages import ContinueParams, NodeToolResult
from artel.contract.parked_run import ParkedNodeRun
from artel.db.tx import Tx
from artel.errors import AgentUnavailable, ServerBusy
from artel.ids import uuid7
from artel.nodes.status import NodeStatus
from artel.registry.commands import CommandStatus, NewCommand, NodeCommandRepository
from artel.registry.node import RegisteredNode
from artel.registry.node_client import NodeLost
from artel.runs import node_run
from artel.runs.node_run import NodeRun, commands_of_task
from artel.tools.consent import NeedsBudget
from tests.actors.chat_user import ChatUser
from tests.actors.payer import Payer

pytestmark = [pytest.mark.anyio, pytest.mark.any_database, pytest.mark.req("AGT-01.3")]

NAME = "agent.writer.001"
PRICED, UNPRICED = "gpt-4o", "unpriced"


def _node(name: str, model: str) -> RegisteredNode:
    capability = {"name": "write", "description": "It writes."}
    brain = {"model": model, "system_prompt": "You write."}
    file = AgentFile.model_validate({"name": name, "type": "writer", "brain": brain, "capabilities": [capability]})
    status = NodeStatus(file)
    return RegisteredNode(name, status.uid, 1, status.passport(), datetime.now(UTC), 0.0)


def _require_price(model: str) -> None:
    if model in (UNPRICED, ""):
        raise ModelNotAllowed("The price of the model is unknown.")


class Nodes:
    """Nodes, the best one first; without `is_free` the server has too much to do to send them anything."""

    def __init__(self, *models: str) -> None:
        self.is_free = False
        self.reply: Envelope | NodeLost | None = None
        self.is_asked = asyncio.Event()
        self.stopped: list[str] = []
        self.registry = self
        self.absent: list[RegisteredNode] = []
        self.known = [_node(f"agent.writer.{number:03}", model) for number, model in enumerate(models or [PRICED], 1)]

    async def find(self, name: str) -> RegisteredNode | None:
        return next((node for node in self.known if node.name == name), None)

    async def choose(
        self, *_: object, accepts: Callable[[RegisteredNode], bool], **__: object
    ) -> RegisteredNode | None:
        return next((node for node in self.known if accepts(node)), None)

    async def unavailable(self, *_: object, **__: object) -> list[RegisteredNode]:
        return self.absent

    async def ask(self, *_: object) -> Envelope:
        if isinstance(self.reply, NodeLost):
            raise self.reply
        if self.reply is not None:
            return self.reply
        if not self.is_free:
            raise ServerBusy("Too many tasks are waiting for nodes.")
        self.is_asked.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing ends it")

    async def stop(self, name: str, *_: object) -> None:
        self.stopped.append(name)


class HeldDatabase:
    """Stores commands when the test lets it."""

    def __init__(self, payer: Payer) -> None:
        self._database = payer.database.of(payer.user)
        self.is_storing = asyncio.Event()
        self.go_on = asyncio.Event()
        self.failure: Exception | None = None

    async def run(self, transaction: Callable[..., Any], *arguments: Any) -> Any:
        if transaction is node_run._add_command:
            self.is_storing.set()
            await self.go_on.wait()
            if self.failure:
                raise self.failure
        return await self._database.run(transaction, *arguments)


@pytest.fixture(autouse=True)
def no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_run, "NodeTools", lambda *_: None)


@pytest.fixture
def payer(chat: ChatUser) -> Payer:
    return Payer(chat.database, chat.user, chat.project_id, chat.agent_id)


def _run_of(
    payer: Payer,
    guard: object,
    database: HeldDatabase,
    nodes: Nodes,
    parked: ParkedNodeRun | None = None,
    **space: bool,
) -> NodeRun:
    services: Any = SimpleNamespace(
        nodes=nodes,
        database=payer.database,
        brain=SimpleNamespace(require_price=_require_price),
        is_demo=False,
        settings=SimpleNamespace(node_task_cost_usd=0.5, max_context_tokens=10_000),
    )
    waiting = SimpleNamespace(node=parked) if parked else None
    states = {"accepts_tasks": True, "is_cut_off": False} | space
    ids = {"principal": payer.user, "project_id": payer.project_id}
    run: Any = SimpleNamespace(
        space=SimpleNamespace(services=services, database=database, **ids, **states),
        agent=SimpleNamespace(name="writer", model="gpt-4o", temperature=0, max_tokens=100, capabilities=["write"]),
        task=SimpleNamespace(id=payer.turn_id, turn_id=payer.turn_id, waiting=waiting, tally=Tally("")),
        budget_guard=guard,
        deadline=time.monotonic() + 600,
        timeout=SimpleNamespace(waiting=nullcontext, token=lambda _text: None),
    )
    toolbox: Any = SimpleNamespace(schemas=())
    files: Any = None
    return NodeRun(run, toolbox, files)


def _command(payer: Payer, step: int, action: str) -> NewCommand:
    """Return a command of the first attempt; `continue` has the result of a tool."""
    params = ContinueParams(state="{}", results=(NodeToolResult(id="1", text="Done."),)).model_dump(mode="json")
    command = Command(action=action, params=params if action == "continue" else {})
    return NewCommand(uuid7(), payer.project_id, payer.turn_id, payer.turn_id, step, 0, NAME, "uid", 1, command)


def _add(tx: Tx, new: NewCommand, status: CommandStatus) -> None:
    NodeCommandRepository(tx).add(new, status)


@pytest.mark.parametrize("failure", [None, RuntimeError("It is broken.")], ids=["cancelled", "failed"])
async def test_command_that_was_not_sent_costs_nothing(payer: Payer, failure: Exception | None) -> None:
    guard, database = await payer.begin(), HeldDatabase(payer)
    answering = asyncio.create_task(_run_of(payer, guard, database, Nodes()).answer((Message("user", "Hi"),)))
    await database.is_storing.wait()
    assert (await payer.stands())[1] > 0

    database.failure = failure
    if failure is None:
        answering.cancel()
    database.go_on.set()
    with pytest.raises(type(failure) if failure else asyncio.CancelledError):
        await answering

    assert await payer.stands() == (0, 0)
    stored = await payer.database.read(commands_of_task, payer.user, payer.turn_id)
    assert [command.status for command in stored] == ([] if failure else ["cancelled"])


@pytest.mark.parametrize("is_new", [True, False])
async def test_busy_server_counts_a_command_that_was_sent_before(payer: Payer, *, is_new: bool) -> None:
    guard, database = await payer.begin(), HeldDatabase(payer)
    database.go_on.set()
    if not is_new:
        new = _command(payer, 0, "answer")
        await payer.database.of(payer.user).run(_add, new, "sent")
        await guard.reserve_at_most(new.id, 0.5, 0.1)

    with pytest.raises(ServerBusy):
        await _run_of(payer, guard, database, Nodes()).answer((Message("user", "Hi"),))

    assert await payer.stands() == (0 if is_new else 500_000, 0)


@pytest.mark.req("AGT-10.1")
@pytest.mark.parametrize("state", [{"is_cut_off": True}, {"accepts_tasks": False}, {}], ids=str)
async def test_node_works_on_for_the_next_host_unless_the_turn_was_cancelled(
    payer: Payer, state: dict[str, bool]
) -> None:
    guard, database, nodes = await payer.begin(), HeldDatabase(payer), Nodes()
    nodes.is_free = True
    database.go_on.set()
    run = _run_of(payer, guard, database, nodes, None, **state)
    answering = asyncio.create_task(run.answer((Message("user", "Hi"),)))
    await nodes.is_asked.wait()
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering

    [command] = await payer.database.read(commands_of_task, payer.user, payer.turn_id)
    spent, reserved = await payer.stands()
    if state:
        assert (command.status, nodes.stopped, spent) == ("sending", [], 0)
        assert reserved > 0
    else:
        assert (command.status, nodes.stopped, reserved) == ("cancelled", [NAME], 0)
        assert spent > 0


@pytest.mark.req("AGT-04.4")
async def test_task_goes_to_a_node_whose_model_has_a_price(payer: Payer) -> None:
    guard, database = await payer.begin(), HeldDatabase(payer)
    database.go_on.set()
    with pytest.raises(ServerBusy):
        await _run_of(payer, guard, database, Nodes(UNPRICED, PRICED)).answer((Message("user", "Hi"),))

    [command] = await payer.database.read(commands_of_task, payer.user, payer.turn_id)
    assert command.node_name == "agent.writer.002"

    with pytest.raises(ModelNotAllowed):
        await _run_of(payer, guard, database, Nodes(UNPRICED)).answer((Message("user", "Hi"),))

    silent = Nodes(UNPRICED)
    [node] = silent.known
    spec = node.passport.spec.model_copy(update={"model": ""})
    silent.known = [replace(node, passport=node.passport.model_copy(update={"spec": spec}))]
    with pytest.raises(ModelNotAllowed, match=r"node agent\.writer\.001 does not say which model"):
        await _run_of(payer, guard, database, silent).answer((Message("user", "Hi"),))


@pytest.mark.req("AGT-10.1")
async def test_tools_are_not_called_again_after_a_failover_that_waited_for_budget(payer: Payer) -> None:
    guard, database = await payer.begin(), HeldDatabase(payer)
    database.go_on.set()
    stored: list[tuple[NewCommand, CommandStatus]] = [
        (_command(payer, 0, "answer"), "answered"),
        (_command(payer, 1, "continue"), "lost"),
    ]
    for new, status in stored:
        await payer.database.of(payer.user).run(_add, new, status)
    parked = ParkedNodeRun(node=NAME, node_type="writer", state="{}", results=(NodeToolResult(id="1", text="Done."),))

    with pytest.raises(ServerBusy):
        await _run_of(payer, guard, database, Nodes(), parked).answer((Message("user", "Hi"),))

    *_, command = await payer.database.read(commands_of_task, payer.user, payer.turn_id)
    assert (command.step, command.attempt, command.command.action) == (1, 1, "continue")
    assert ContinueParams.model_validate(command.command.params).results[0].text == "Done."


@pytest.mark.req("AGT-10.1")
async def test_tools_are_not_called_again_after_a_crash_and_a_failover_that_waits_for_budget(payer: Payer) -> None:
    guard, database, nodes = await payer.begin(), HeldDatabase(payer), Nodes()
    nodes.reply = NodeLost("stuck")
    await payer.database.of(payer.user).run(_add, _command(payer, 0, "answer"), "answered")
    await payer.database.of(payer.user).run(_add, _command(payer, 1, "continue"), "sent")

    async def reserve_at_most(*_: object) -> float:
        raise NeedsBudget(100)

    poor: Any = SimpleNamespace(reserve_at_most=reserve_at_most, settle=guard.settle)
    with pytest.raises(Parked) as parked:
        await _run_of(payer, poor, database, nodes).answer((Message("user", "Hi"),))

    waits = parked.value.run.node
    assert waits is not None
    assert (waits.step, waits.state, [result.text for result in waits.results]) == (0, "{}", ["Done."])


async def test_what_a_free_model_costs_all_the_same_is_charged(payer: Payer) -> None:
    guard, database, nodes = await payer.begin(), HeldDatabase(payer), Nodes(DEMO)
    database.go_on.set()
    metrics = Metrics(llm_calls=1, model=DEMO, input_tokens=10, output_tokens=5, cost_usd=0.02)
    nodes.reply = Envelope.of(Result(output={"text": "Done."}, metrics=metrics), source=NAME)

    assert await _run_of(payer, guard, database, nodes).answer((Message("user", "Hi"),)) == "Done."

    assert await payer.stands() == (20_000, 0)


@pytest.mark.req("AGT-01.3")
async def test_node_can_not_charge_much_more_than_its_command_may_cost(payer: Payer) -> None:
    guard, database, nodes = await payer.begin(), HeldDatabase(payer), Nodes(DEMO)
    database.go_on.set()
    metrics = Metrics(llm_calls=1, model=DEMO, input_tokens=10, output_tokens=5, cost_usd=1e300)
    nodes.reply = Envelope.of(Result(output={"text": "Done."}, metrics=metrics), source=NAME)
    run = _run_of(payer, guard, database, nodes)

    await run.answer((Message("user", "Hi"),))

    assert await payer.stands() == (1_000_000, 0)  # twice the limit of the test, $0.50
    assert run._task.tally.usage.cost_usd == 1


def _paused(node: RegisteredNode) -> RegisteredNode:
    status = node.passport.status.model_copy(update={"phase": "Paused"})
    return replace(node, passport=node.passport.model_copy(update={"status": status}))


@pytest.mark.req("AGT-08.3")
async def test_task_waits_for_a_node_that_is_paused(payer: Payer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_run, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(node_run, "FAILOVER_SECONDS", 0.0)
    guard, database, nodes = await payer.begin(), HeldDatabase(payer), Nodes()
    [node] = nodes.known
    nodes.known, nodes.absent = [], [_paused(node)]
    run = _run_of(payer, guard, database, nodes)

    choosing = asyncio.create_task(run._choose())
    done, _ = await asyncio.wait([choosing], timeout=0.1)
    assert not done
    nodes.known, nodes.absent = [node], []
    assert (await choosing).name == NAME

    nodes.known, nodes.absent = [], [_paused(node)]
    run._run.deadline = time.monotonic() + 4
    with pytest.raises(AgentUnavailable, match=r"is ready for write \(paused: agent\.writer\.001\)\."):
        await run._choose()
    assert time.monotonic() < run._run.deadline, "nothing is left of the time for the task"


@pytest.mark.req("AGT-08.3")
@pytest.mark.parametrize("state", ["Draining", "silent", "gone"])
async def test_task_waits_shortly_for_a_node_that_may_be_back_soon(
    payer: Payer, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(node_run, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(node_run, "FAILOVER_SECONDS", 0.05)
    guard, database, nodes = await payer.begin(), HeldDatabase(payer), Nodes()
    [node] = nodes.known
    status = node.passport.status.model_copy(update={"phase": "Draining"})
    draining = replace(node, passport=node.passport.model_copy(update={"status": status}))
    absent = {"Draining": draining, "silent": replace(node, heartbeat_age=20), "gone": replace(node, is_gone=True)}
    nodes.known, nodes.absent = [], [absent[state]]
    began = time.monotonic()

    with pytest.raises(AgentUnavailable):
        await _run_of(payer, guard, database, nodes)._choose()

    assert 0.05 <= time.monotonic() - began < 60


@pytest.mark.req("AGT-04.4")
async def test_refusal_of_a_node_that_was_passed_over_is_not_told_later(payer: Payer) -> None:
    guard, database, nodes = await payer.begin(), HeldDatabase(payer), Nodes(UNPRICED, PRICED)
    run = _run_of(payer, guard, database, nodes)
    await run._choose()
    nodes.known.clear()

    with pytest.raises(AgentUnavailable):
        await run._choose()


@pytest.mark.req("AGT-01.3")
async def test_usage_before_a_wait_is_not_counted_again_after_a_crash(payer: Payer) -> None:
    guard, database = await payer.begin(), HeldDatabase(payer)
    calls = {"kind": "tool_calls", "calls": [{"id": "1", "name": "write_file", "arguments": "{}"}], "state": "{}"}
    outputs: list[Any] = [calls, {"text": "Done."}]
    for step, output in enumerate(outputs):
        metrics = Metrics(llm_calls=1, model=PRICED, input_tokens=10 + step, output_tokens=5, cost_usd=0.01)
        answer = Envelope.of(Result(output=output, metrics=metrics), source=NAME)
        new = _command(payer, step, "continue" if step else "answer")
        await payer.database.of(payer.user).run(_add, new, "sent")
        await payer.database.of(payer.user).run(node_run._note_answer, new.id, answer)
    run = _run_of(payer, guard, database, Nodes(), ParkedNodeRun(node=NAME, state="{}", step=0))

    assert await run.answer((Message("user", "Hi"),)) == "Done."

    usage = run._task.tally.usage
    assert (usage.calls, usage.input_tokens) == (1, 11)


@pytest.mark.req("AGT-01.3")
async def test_command_may_cost_as_much_as_the_calls_of_its_node(payer: Payer) -> None:
    guard, database = await payer.begin(), HeldDatabase(payer)
    answering = asyncio.create_task(_run_of(payer, guard, database, Nodes()).answer((Message("user", "Hi"),)))
    await database.is_storing.wait()

    _, reserved = await payer.stands()
    answer_of_the_node = 4_000 * 10  # micros, though the agent of the project may write 100 tokens only
    assert reserved > node_run.RESERVED_CALLS * answer_of_the_node
    answering.cancel()
    database.go_on.set()
    await asyncio.wait({answering})
