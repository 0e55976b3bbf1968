"""What a node does with commands: on the bus inside the process, and the main ways on RabbitMQ too."""

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from anyio import wait_all_tasks_blocked
from pydantic import SecretStr
from structlog.testing import capture_logs

from artel.brain.brain import Usage
from artel.brain.errors import ModelAnswerInvalid, ModelRefused, ModelUnavailable
from artel.brain.retries import RetryingBrain
from artel.bus.bus import DeadLetter, Delivery, QueueSpec, Reason
from artel.bus.topology import all_key, any_key, command_key, command_queue, commands_of, control_key, event_key
from artel.contract.envelope import (
    Command,
    CommandContext,
    CommandLimits,
    Control,
    Envelope,
    Error,
    ErrorInfo,
    Event,
    Result,
)
from artel.contract.node_messages import REGISTRY, ConfigParams
from artel.errors import Kind
from artel.nodes import commands
from artel.nodes.commands import CLOCK_SKEW_SECONDS
from artel.nodes.control import ControlRefused
from artel.nodes.node import ANSWERS_FILE, AgentNode, NodeExit
from artel.nodes.registration import AddressTaken
from artel.nodes.singleton import AgentAlreadyRunningError, SingletonLock
from artel.nodes.task_scope import TaskScope
from artel.nodes.toolbox import SharedTools, node_folder
from artel.tools.policy import arguments_hash
from tests.agents import ScriptedBrain, SilentBrain, reply, sent_back, structured, wants
from tests.node_worlds import (
    ARTICLE,
    Client,
    HeldBrain,
    LocalWorld,
    NodeBrain,
    Nodes,
    RabbitWorld,
    approved,
    code_of,
    node_file,
    output_of,
    until,
)
from tests.services import ServiceRun

pytestmark = pytest.mark.anyio

CATS = {"topic": "cats"}
OUTPUT = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "words": {"type": "integer", "minimum": 1}},
    "required": ["title", "words"],
    "additionalProperties": False,
}
SPACE_TASK = {"task_id": "task-1"}
READ = {"name": "tool_read_file", "description": "Reads.", "parameters": {"type": "object"}}


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    """Nodes on the bus inside the process."""
    nodes = Nodes(LocalWorld(), tmp_path / "data")
    yield nodes
    await nodes.close()


@pytest.fixture(params=["local", "rabbit"])
async def anywhere(request: pytest.FixtureRequest, services: ServiceRun, tmp_path: Path) -> AsyncIterator[Nodes]:
    """Nodes on either bus."""
    nodes = Nodes(LocalWorld() if request.param == "local" else RabbitWorld(services.rabbitmq()), tmp_path / "data")
    yield nodes
    await nodes.close()


def capability(**fields: Any) -> dict[str, Any]:
    return {"name": "write_article", "input_schema": ARTICLE, "prompt_template": "Write about {topic}.", **fields}


@pytest.mark.req("AGT-07.1", "AGT-07.4", "AGT-05.1", "AGT-05.6")
async def test_command_is_answered_with_output_time_and_metrics(anywhere: Nodes) -> None:
    brain = NodeBrain(reply("All about cats."))
    node, client = await anywhere.start(brain=brain), await anywhere.client()

    answer = await client.ask(node, "write_article", CATS, subject="task-1")

    assert output_of(answer) == {"text": "All about cats."}
    assert brain.kinds == ["understanding", "answer", "critique"]
    assert isinstance(answer.data, Result)
    metrics = answer.data.metrics
    assert (metrics.llm_calls, metrics.tool_calls, metrics.model) == (3, 0, "gpt-4")
    assert (metrics.input_tokens, metrics.output_tokens) == (30, 15)
    assert metrics.cost_usd == pytest.approx(0.03)
    assert answer.data.execution_time_ms >= 0
    assert (answer.type, answer.source, answer.subject) == ("ai.team.result", node.name, "task-1")
    assert (answer.nodeuid, answer.nodeepoch) == (node.status.uid, 0)


@pytest.mark.req("AGT-07.2")
async def test_commands_come_by_name_by_any_and_by_all_of_a_type(anywhere: Nodes) -> None:
    first_brain, second_brain = NodeBrain(), NodeBrain()
    first = node_file()
    second = first.model_copy(update={"name": f"{first.name}b"})
    one_node, client = await anywhere.start(first, first_brain), await anywhere.client()
    other_node = await anywhere.start(second, second_brain)

    by_name = await client.ask(other_node, "write_article", CATS)
    await client.send(any_key(first.type), "write_article", CATS)
    by_any = (await client.received(2))[1]
    await client.send(all_key(first.type), "write_article", CATS)
    by_all = (await client.received(4))[2:]

    names = {one_node.name, other_node.name}
    assert by_name.source == other_node.name
    assert by_any.source in names
    assert {answer.source for answer in by_all} == names
    assert len(first_brain.asked) + len(second_brain.asked) == 4 * 3


@pytest.mark.req("AGT-07.3")
async def test_command_for_another_node_is_ignored(nodes: Nodes) -> None:
    brain = NodeBrain()
    node, client = await nodes.start(brain=brain), await nodes.client()

    await client.send(command_key(node.name, "write_article"), "write_article", CATS, target_node="agent.other")
    answer = await client.ask(node, "write_article", {"topic": "dogs"}, target_node=node.name)

    assert isinstance(answer.data, Result)
    assert client.answers == [answer]
    assert all("cats" not in str(request.messages) for request in brain.asked)


@pytest.mark.req("AGT-04.1", "AGT-04.2")
async def test_defaults_of_parameters_are_filled_in(nodes: Nodes) -> None:
    brain = NodeBrain()
    node, client = await nodes.start(brain=brain), await nodes.client()

    await client.ask(node, "write_article", CATS)

    assert brain.asked[0].messages[-1].content == 'Write about "cats" in a formal style, 1000 words.'


@pytest.mark.req("AGT-04.2")
@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({}, "topic"),
        ({"topic": 7}, "topic"),
        ({"topic": "cats", "style": "rude"}, "style"),
        ({"topic": "cats", "length": 0}, "length"),
    ],
)
async def test_invalid_parameters_are_named(nodes: Nodes, params: dict[str, Any], name: str) -> None:
    brain = NodeBrain()
    node, client = await nodes.start(brain=brain), await nodes.client()

    answer = await client.ask(node, "write_article", params)

    assert code_of(answer) == "INVALID_ARGUMENT"
    assert isinstance(answer.data, Error)
    assert f"{name}:" in answer.data.error.message
    violations: Any = answer.data.error.details["violations"]
    assert [violation["property"] for violation in violations] == [name]
    assert brain.asked == []


async def test_parameters_without_a_place_in_the_template_are_not_lost(nodes: Nodes) -> None:
    brain = NodeBrain()
    node, client = await nodes.start(node_file(capabilities=[capability()]), brain), await nodes.client()

    await client.ask(node, "write_article", {"topic": "{style}", "style": "casual"})

    told = brain.asked[0].messages[-1].content
    assert told.startswith("Write about {style}.")
    assert '"style": "casual"' in told


@pytest.mark.req("AGT-04.3")
async def test_output_is_checked_against_its_schema_and_repaired_once(nodes: Nodes) -> None:
    good = {"title": "Cats", "words": 3}
    file = node_file(capabilities=[capability(output_schema=OUTPUT)])
    right = NodeBrain(reply(f"Here it is:\n```json\n{json.dumps(good)}\n```"))
    mended = NodeBrain(reply("Cats, 3 words"), documents={"output": [structured(good)]})
    wrong = NodeBrain(reply('{"title": "Cats"}'), documents={"output": [ModelAnswerInvalid("no words")]})
    client = await nodes.client()
    answers = []
    for brain in (right, mended, wrong):
        node = await nodes.start(file, brain)
        answers.append(await client.ask(node, "write_article", CATS))
        await node.stop()

    assert [output_of(answer) for answer in answers[:2]] == [good, good]
    assert [brain.kinds.count("output") for brain in (right, mended, wrong)] == [0, 1, 1]
    assert code_of(answers[2]) == "INTERNAL"
    assert "schema" in str(answers[2].data)
    assert not mended.asked[-1].repair_invalid
    assert "Cats, 3 words" in str(mended.asked[-1].messages)


@pytest.mark.req("AGT-07.1")
async def test_unknown_action_is_unimplemented_and_names_the_known_ones(anywhere: Nodes) -> None:
    node, client = await anywhere.start(), await anywhere.client()

    answer = await client.ask(node, "fly", {})

    assert answer.type == "ai.team.error"
    assert code_of(answer) == "UNIMPLEMENTED"
    assert "write_article" in str(answer.data)


@pytest.mark.req("AGT-04.4")
async def test_command_that_requires_more_than_the_node_can_do_is_refused(nodes: Nodes) -> None:
    node, client = await nodes.start(), await nodes.client()

    answers = [
        await client.ask(node, "write_article", CATS, requirements={"capabilities": ["write_article", *more]})
        for more in (["answer", "continue"], ["translate"])
    ]

    assert isinstance(answers[0].data, Result)
    assert code_of(answers[1]) == "UNIMPLEMENTED"
    assert "'translate'" in str(answers[1].data)


@pytest.mark.req("AGT-07.1")
async def test_invalid_message_is_refused_and_dead_lettered_with_the_reason(anywhere: Nodes) -> None:
    node, client = await anywhere.start(), await anywhere.client()
    event = Envelope.of(Event(event_type="x.y"), source="client")
    queue = command_queue(node.name)

    refusal = await client.bus.request(command_key(node.name, "write_article"), event, timeout_seconds=60)
    answer = await client.ask(node, "write_article", CATS)

    assert code_of(refusal) == "INVALID_ARGUMENT"
    assert "ai.team.event" in str(refusal.data)
    assert isinstance(answer.data, Result)
    letters: list[DeadLetter] = []

    async def look() -> bool:
        letters[:] = [each for each in await client.bus.dead_letters(10_000) if each.queue == queue]
        return bool(letters)

    async with asyncio.timeout(60):
        while not await look():  # noqa: ASYNC110 - the broker tells nobody
            await asyncio.sleep(0.02)
    assert [(Envelope.from_bytes(each.body).id, each.reason) for each in letters] == [(event.id, Reason.INVALID)]
    assert "ai.team.event" in letters[0].problem


@pytest.mark.req("AGT-07.1", "AGT-08.2")
@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("message", "subject", "x" * 900_000),  # would be in each heartbeat, which is then too large to be sent
        ("message", "traceparent", "x" * 900_000),
        ("context", "user_id", 10**4_000),
        ("context", "user_id", -1),
        ("limits", "timeout_ms", 10**400),
    ],
    ids=["subject", "traceparent", "user_id", "no user_id", "timeout_ms"],
)
async def test_command_with_an_endless_field_is_refused_by_its_name(
    nodes: Nodes, part: str, field: str, value: Any
) -> None:
    node, client = await nodes.start(), await nodes.client()
    context = CommandContext(limits=CommandLimits(timeout_ms=1))
    if part == "limits":
        context = context.model_copy(update={"limits": CommandLimits.model_construct(**{field: value})})
    elif part == "context":
        context = context.model_copy(update={field: value})
    message = Envelope.of(Command(action="write_article", context=context), source="client")
    if part == "message":
        message = message.model_copy(update={field: value})

    refusal = await client.bus.request(command_key(node.name, "write_article"), message, timeout_seconds=60)

    assert code_of(refusal) == "INVALID_ARGUMENT"
    assert f"{field}: " in str(refusal.data)


@pytest.mark.req("AGT-07.1")
async def test_expired_command_is_dropped_with_an_error_even_if_clocks_differ_by_minutes(nodes: Nodes) -> None:
    brain = NodeBrain()
    node, client = await nodes.start(brain=brain), await nodes.client()

    with capture_logs() as logs:
        late = [
            await client.ask(node, "write_article", CATS, timeout_seconds=10, age_seconds=10 + CLOCK_SKEW_SECONDS + 1),
            await client.ask(node, "write_article", CATS, age_seconds=300 + CLOCK_SKEW_SECONDS + 1),
        ]
    assert brain.asked == []
    in_time = [
        await client.ask(node, "write_article", {"topic": "dogs"}, timeout_seconds=60, ttl_seconds=60, age_seconds=age)
        for age in (CLOCK_SKEW_SECONDS, -CLOCK_SKEW_SECONDS)
    ]

    assert [code_of(answer) for answer in late] == ["DEADLINE_EXCEEDED"] * 2
    assert "clock" in str(late[0].data)
    assert len([line for line in logs if line["event"] == "command_expired"]) == 2
    assert all(isinstance(answer.data, Result) for answer in in_time)


@pytest.mark.req("AGT-07.1")
async def test_command_that_waited_too_long_inside_the_node_is_dropped_with_an_error(nodes: Nodes) -> None:
    brain = NodeBrain()
    node, client = await nodes.start(brain=brain), await nodes.client()
    command = Envelope.of(Command(action="write_article", params=CATS, timeout_seconds=10), source="client")
    received_at = time.monotonic() - 11
    delivery = Delivery(command, command_key(node.name, "write_article"), client.queue, command.id, 1, 10, received_at)

    await node._started.commands.handle(delivery)

    assert code_of((await client.received(1))[0]) == "DEADLINE_EXCEEDED"
    assert brain.asked == []


@pytest.mark.req("AGT-10.4")
async def test_signal_to_stop_is_compared_with_commands_by_the_clock_of_their_sender(nodes: Nodes) -> None:
    node, client = await nodes.start(), await nodes.client()
    signal = Envelope.of(Control(control_type="stop", parameters={"task_id": "t"}), source="client")
    signal = signal.model_copy(update={"time": signal.time - timedelta(seconds=60)})
    with capture_logs() as logs:
        await client.bus.publish(control_key(node.name, "stop"), signal)
        await until(lambda: any(line["event"] == "control_refused" for line in logs))  # nothing runs

    before = await client.ask(node, "write_article", CATS, subject="t", age_seconds=61)
    after = await client.ask(node, "write_article", CATS, subject="t", age_seconds=59)

    assert code_of(before) == "CANCELLED"
    assert isinstance(after.data, Result)


@pytest.mark.req("AGT-06.2")
@pytest.mark.parametrize("limit", ["timeout_seconds", "timeout_ms", "file"])
async def test_the_shortest_time_limit_ends_a_task(nodes: Nodes, limit: str) -> None:
    short = 0.05
    file = node_file(limits={"max_execution_time_seconds": short if limit == "file" else 300})
    fields: dict[str, Any] = {"timeout_seconds": short if limit == "timeout_seconds" else 300}
    if limit == "timeout_ms":
        fields["context"] = {"limits": {"timeout_ms": 1000 * short}}
    brain = SilentBrain()
    node, client = await nodes.start(file, brain), await nodes.client()

    answer = await client.ask(node, "write_article", CATS, **fields)

    assert code_of(answer) == "DEADLINE_EXCEEDED"
    assert isinstance(answer.data, Error)
    assert answer.data.metrics.llm_calls <= 1  # none on a slow machine
    assert node.status.tasks() == ()


@pytest.mark.req("AGT-06.2")
async def test_a_task_has_300_seconds_and_3_retries_by_default() -> None:
    limits = node_file().limits

    assert (limits.max_execution_time_seconds, limits.max_retries) == (300, 3)


@pytest.mark.req("AGT-06.2")
async def test_transient_failures_are_retried_where_they_happened(nodes: Nodes) -> None:
    down = ModelUnavailable("down", usage=Usage("gpt-4", calls=1))
    brain = NodeBrain(down, down, down, reply("At last."))
    node, client = await nodes.start(brain=brain), await nodes.client()
    policy = {"max_retries": 10, "backoff_seconds": 0}

    answer = await client.ask(node, "write_article", CATS, retry_policy=policy)

    assert output_of(answer) == {"text": "At last."}
    assert brain.kinds == ["understanding", *["answer"] * 4, "critique"]


@pytest.mark.req("AGT-06.2")
async def test_transient_failures_are_retried_also_before_and_after_the_loop(nodes: Nodes) -> None:
    down = ModelUnavailable("down", usage=Usage("gpt-4", calls=1))
    schema = {"type": "object", "properties": {"words": {"type": "integer"}}, "required": ["words"]}
    capability = {"name": "count", "input_schema": schema | {"required": []}, "output_schema": schema}
    parsed = structured({"words": 3})
    brain = NodeBrain(reply("Three words."), documents={"params": [down, parsed], "output": [down, parsed]})
    node, client = await nodes.start(node_file(capabilities=[capability]), brain), await nodes.client()
    policy = {"max_retries": 2, "backoff_seconds": 0}

    answer = await client.ask(node, "answer", {"text": "Count.", "capability": "count"}, retry_policy=policy)

    assert output_of(answer)["output"] == {"words": 3}


@pytest.mark.req("AGT-06.2", "AGT-10.1")
async def test_failure_that_may_pass_is_retryable_and_tried_again_by_a_command_with_another_key(nodes: Nodes) -> None:
    down = ModelUnavailable("down")
    brain = NodeBrain(down, reply("At last."))
    file = node_file(limits={"max_retries": 0})
    node, client = await nodes.start(file, brain), await nodes.client()

    failed, copy, done = [await client.ask(node, "write_article", CATS, idempotency_key=key) for key in "aab"]

    assert code_of(failed) == "UNAVAILABLE"
    assert isinstance(failed.data, Error)
    assert failed.data.error.retryable
    assert copy.id == failed.id
    assert output_of(done) == {"text": "At last."}


@pytest.mark.req("AGT-10.1")
async def test_task_whose_leftovers_can_not_be_removed_is_done_once(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_tools: SharedTools, _scope: TaskScope) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(SharedTools, "end", fail)
    brain = NodeBrain(reply("Once."), reply("Twice."))
    node, client = await nodes.start(brain=brain), await nodes.client()

    with capture_logs() as logs:
        answers = [await client.ask(node, "write_article", CATS, idempotency_key="k") for _ in range(2)]

    assert [output_of(answer) for answer in answers] == [{"text": "Once."}] * 2
    assert len(brain.asked) == 3
    assert "task_not_cleaned_up" in [line["event"] for line in logs]


async def test_leftovers_of_a_task_are_removed_though_its_node_stops(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, removed = asyncio.Event(), asyncio.Event(), list[str]()

    async def end(_tools: SharedTools, scope: TaskScope) -> None:
        begun.set()
        await go_on.wait()
        removed.append(scope.task_id)

    monkeypatch.setattr(SharedTools, "end", end)
    node, client = await nodes.start(), await nodes.client()
    await client.send(command_key(node.name, "write_article"), "write_article", CATS, subject="task-1")
    await begun.wait()

    stopping = asyncio.create_task(node.stop(grace_seconds=0))
    await wait_all_tasks_blocked()  # the handlers are cancelled
    go_on.set()
    await stopping

    assert removed == ["task-1"]


@pytest.mark.req("AGT-10.1")
async def test_final_failure_is_not_tried_again(nodes: Nodes) -> None:
    brain = NodeBrain(ModelRefused("the key is wrong"), reply("never"))
    node, client = await nodes.start(brain=brain), await nodes.client()

    answers = [await client.ask(node, "write_article", CATS, idempotency_key="k") for _ in range(2)]

    assert [code_of(answer) for answer in answers] == ["FAILED_PRECONDITION"] * 2
    assert answers[0].id == answers[1].id


@pytest.mark.req("AGT-10.1")
async def test_answer_is_given_again_after_a_restart_and_to_its_tenant_only(anywhere: Nodes) -> None:
    file, brain, client = node_file(), NodeBrain(), await anywhere.client()
    mine = {"user_id": 1, "project_id": 2}
    node = await anywhere.start(file, brain)
    first = await client.ask(node, "write_article", CATS, idempotency_key="k", context=mine, subject="one")
    await node.stop()
    node = await anywhere.start(file, brain)

    again = await client.ask(node, "write_article", CATS, idempotency_key="k", context=mine, subject="two")
    assert len(brain.asked) == 3
    foreign = [
        await client.ask(node, "write_article", CATS, idempotency_key="k", context=context)
        for context in ({"user_id": 1, "project_id": 3}, {"user_id": 2, "project_id": 2}, None)
    ]

    assert (again.id, again.data, again.subject) == (first.id, first.data, "two")
    assert again.nodeuid == node.status.uid != first.nodeuid
    assert len(brain.asked) == 4 * 3
    assert len({answer.id for answer in (first, *foreign)}) == 4


@pytest.mark.req("AGT-10.1")
async def test_work_that_ended_while_the_lock_was_lost_is_not_done_again_by_the_next_instance(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = node_file(agent_loop={"enable_self_critique": False})  # nothing is left to do after the answer
    held, brain, client = HeldBrain(), NodeBrain(), await nodes.client()
    node = await nodes.start(file, held)
    await client.send(command_key(node.name, "write_article"), "write_article", CATS)
    await held.begun.wait()

    with monkeypatch.context() as broker:
        broker.setattr(SingletonLock, "is_held", False)
        held.go_on.set()
        with closing(sqlite3.connect(node_folder(nodes.settings, node.name) / ANSWERS_FILE)) as answers:
            await until(lambda: answers.execute("SELECT count(*) FROM answers").fetchone() == (1,))
        await node.stop(grace_seconds=0)
    assert client.answers == []
    next_node = await nodes.start(file, brain)
    [answer] = await client.received(1)

    assert isinstance(answer.data, Result)
    assert (answer.nodeuid, brain.asked) == (next_node.status.uid, [])


@pytest.mark.req("AGT-10.1")
async def test_the_id_of_a_message_is_its_key_by_default(nodes: Nodes) -> None:
    brain = NodeBrain()
    node, client = await nodes.start(brain=brain), await nodes.client()

    answers = [await client.ask(node, "write_article", CATS, message_id="same") for _ in range(2)]

    assert answers[0].id == answers[1].id
    assert len(brain.asked) == 3


@pytest.mark.req("AGT-10.1")
async def test_answers_are_forgotten_after_the_configured_time(nodes: Nodes) -> None:
    brain = NodeBrain()
    node, client = await nodes.start(brain=brain, node_answer_hours=1e-9), await nodes.client()

    for _ in range(2):
        await client.ask(node, "write_article", CATS, idempotency_key="k")

    assert len(brain.asked) == 6
    assert nodes.settings.node_answer_hours == 24


@pytest.mark.req("AGT-10.1")
async def test_command_that_comes_again_while_it_runs_is_answered_with_the_one_answer(nodes: Nodes) -> None:
    brain = HeldBrain()
    file = node_file(limits={"max_concurrent_tasks": 2})
    node, client = await nodes.start(file, brain), await nodes.client()
    key = command_key(node.name, "write_article")
    await client.send(key, "write_article", CATS, idempotency_key="k")
    await brain.begun.wait()

    with capture_logs() as logs:
        await client.send(key, "write_article", CATS, idempotency_key="k")
        await until(lambda: any(line["event"] == "command_joined" for line in logs))
    brain.go_on.set()

    first, second = await client.received(2)
    assert first.id == second.id
    assert len(brain.asked) == 3


async def test_stopped_task_is_cancelled_and_its_slot_is_free_again(anywhere: Nodes) -> None:
    brain = HeldBrain()
    node, client = await anywhere.start(brain=brain), await anywhere.client()
    key = command_key(node.name, "write_article")
    await client.send(key, "write_article", CATS, subject="running")
    await brain.begun.wait()
    await client.send(key, "write_article", CATS, subject="waiting")

    for task_id in ("waiting", "running"):
        stop = Control(control_type="stop", parameters={"task_id": task_id})
        await client.bus.publish(control_key(node.name, "stop"), Envelope.of(stop, source="client"))
    stopped = await client.received(2)
    brain.go_on.set()
    later = await client.ask(node, "write_article", CATS, subject="waiting")

    assert [(answer.subject, code_of(answer)) for answer in stopped] == [
        ("running", "CANCELLED"),
        ("waiting", "CANCELLED"),
    ]
    assert isinstance(later.data, Result)


@pytest.mark.req("AGT-03.1", "AGT-03.2")
async def test_memory_of_a_task_ends_with_it_and_its_prompt_is_bounded(nodes: Nodes) -> None:
    brain = NodeBrain(reply("About cats."), reply("About dogs."))
    file = node_file(memory={"short_term": {"max_context_tokens": 1234}})
    node, client = await nodes.start(file, brain), await nodes.client()

    await client.ask(node, "write_article", CATS)
    await client.ask(node, "write_article", {"topic": "dogs"})

    assert {request.max_context_tokens for request in brain.asked} == {1234}
    assert all("cats" not in str(request.messages).lower() for request in brain.asked[3:])


@pytest.mark.req("AGT-05.1")
async def test_phases_are_those_of_the_file(nodes: Nodes) -> None:
    loop = {"enable_understanding": False, "enable_planning": True, "enable_self_critique": True, "max_iterations": 1}
    brain = ScriptedBrain(reply("bad"), reply("good"), critiques=[sent_back("worse"), sent_back("never asked")])
    node, client = await nodes.start(node_file(agent_loop=loop), brain), await nodes.client()

    answer = await client.ask(node, "write_article", CATS)

    assert brain.kinds == ["steps", "answer", "critique", "answer"]
    assert output_of(answer) == {"text": "good"}


async def test_cost_limit_of_the_command_stops_the_model(nodes: Nodes) -> None:
    scripted = NodeBrain()
    node, client = await nodes.start(brain=RetryingBrain(lambda _model: scripted)), await nodes.client()
    context = {"limits": {"cost_usd": 0.0001}}

    answer = await client.ask(node, "write_article", CATS, context=context)

    assert code_of(answer) == "RESOURCE_EXHAUSTED"
    assert "limits.cost_usd" in str(answer.data)
    assert scripted.asked == []


async def test_answer_is_the_agent_itself_with_what_the_space_knows(nodes: Nodes) -> None:
    brain = NodeBrain(reply("Because."))
    node, client = await nodes.start(brain=brain), await nodes.client()
    messages = [
        {"role": "system", "content": "You remember tea.", "part": "memory"},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi!"},
    ]

    answer = await client.ask(node, "answer", {"text": "Why?", "messages": messages})

    assert output_of(answer) == {"kind": "answer", "text": "Because.", "output": None}
    told = [(message.role, message.content) for message in brain.asked[1].messages if message.part != "note"]
    assert told == [
        ("system", "You are a writer."),
        ("system", "You remember tea."),
        ("user", "Hello"),
        ("assistant", "Hi!"),
        ("user", "Why?"),
    ]


async def test_answer_with_a_capability_gives_it_the_text_or_what_the_model_reads_in_it(nodes: Nodes) -> None:
    two = {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"}}, "required": ["a", "n"]}
    file = node_file(
        capabilities=[
            capability(output_schema=OUTPUT),
            {"name": "count", "input_schema": two, "prompt_template": "Count {a} up to {n}."},
        ]
    )
    document = json.dumps({"title": "Cats", "words": 3})
    brain = NodeBrain(reply(document), documents={"params": [structured({"a": "sheep", "n": 3})]})
    node, client = await nodes.start(file, brain), await nodes.client()

    plain = await client.ask(node, "answer", {"text": "cats, please", "capability": "write_article"})
    derived = await client.ask(node, "answer", {"text": "three sheep", "capability": "count"})
    unknown = await client.ask(node, "answer", {"text": "x", "capability": "fly"})
    empty = await client.ask(node, "answer", {"text": ""})

    assert output_of(plain)["output"] == {"title": "Cats", "words": 3}
    assert "Cats" in output_of(plain)["text"]
    prompts = [request.messages[-1].content for request in brain.asked if request.response_format is None]
    assert [prompt.splitlines()[0] for prompt in prompts] == ["Write about cats, please.", "Count sheep up to 3."]
    assert output_of(derived)["text"] == "Done."
    assert (code_of(unknown), code_of(empty)) == ("UNIMPLEMENTED", "INVALID_ARGUMENT")


async def test_tools_of_the_space_are_asked_for_and_any_node_of_the_kind_goes_on(nodes: Nodes) -> None:
    first = NodeBrain(
        reply("", wants("tool_read_file", "x", path="a"), wants("tool_read_file", "x", path="b")),
    )
    file, client = node_file(), await nodes.client()
    context = {"user_id": 1, "project_id": 2}
    node = await nodes.start(file, first)
    asked_for = await client.ask(node, "answer", {"text": "Read both.", "tools": [READ]}, context=context)
    output = output_of(asked_for)
    assert node.status.status().total_tasks_processed == 0  # it is not over
    await node.stop()
    second = NodeBrain(reply("Both read."))
    other = await nodes.start(file.model_copy(update={"name": f"{file.name}b"}), second)
    results = [{"id": call["id"], "text": f"<{call['arguments']}>"} for call in output["calls"]]

    missing = await client.ask(other, "continue", {"state": output["state"], "results": results[:1]}, context=context)
    foreign = await client.ask(
        other, "continue", {"state": output["state"], "results": results}, context={"user_id": 7, "project_id": 2}
    )
    done = await client.ask(other, "continue", {"state": output["state"], "results": results}, context=context)

    assert output["kind"] == "tool_calls"
    assert [(call["name"], call["kind"]) for call in output["calls"]] == [("tool_read_file", "space")] * 2
    assert len({call["id"] for call in output["calls"]}) == 2
    assert (code_of(missing), code_of(foreign)) == ("INVALID_ARGUMENT", "INVALID_ARGUMENT")
    assert output_of(done)["text"] == "Both read."
    assert other.status.status().total_tasks_processed == 3  # two are refused
    assert second.kinds == ["answer", "critique"]
    told = [message.content for message in second.asked[0].messages if message.role == "tool"]
    assert told == ['<{"path": "a"}>', '<{"path": "b"}>']
    assert isinstance(asked_for.data, Result)
    assert isinstance(done.data, Result)
    assert (asked_for.data.metrics.tool_calls, done.data.metrics.tool_calls) == (0, 2)
    assert (asked_for.data.metrics.llm_calls, done.data.metrics.llm_calls) == (2, 2)


def file_writer(folder: Path) -> dict[str, Any]:
    security = {"file_write": {"enabled": True, "allowed_paths": [f"{folder}/**"]}}
    return {"enabled": ["file_write"], "security": security}


async def test_own_tool_that_needs_a_person_is_not_called_for_a_client_that_can_not_ask(
    nodes: Nodes, tmp_path: Path
) -> None:
    target = tmp_path / "out" / "a.txt"
    target.parent.mkdir()
    call = wants("file_write", path=str(target), content="hello")
    file, client = node_file(tools=file_writer(target.parent)), await nodes.client()
    node = await nodes.start(file, NodeBrain(reply("", call)))

    answer = await client.ask(node, "answer", {"text": "Write it."})

    assert code_of(answer) == "FAILED_PRECONDITION"
    assert not target.exists()


async def test_approved_rejected_and_changed_calls(nodes: Nodes, tmp_path: Path) -> None:
    target = tmp_path / "out" / "a.txt"
    target.parent.mkdir()
    call = wants("file_write", path=str(target), content="hello")
    file, client = node_file(tools=file_writer(target.parent)), await nodes.client()
    brain = NodeBrain(reply("", call), reply("Not written."), reply("Written."))
    node = await nodes.start(file, brain)
    output = output_of(await client.ask(node, "answer", {"text": "Write it.", "tools": [READ]}))
    [wanted] = output["calls"]

    async def decide(state: str, result: dict[str, Any]) -> Envelope:
        return await client.ask(node, "continue", {"state": state, "results": [result]}, context=SPACE_TASK)

    rejected = await decide(output["state"], {"id": wanted["id"], "approved": False, "feedback": "no, thanks"})
    assert output_of(rejected)["text"] == "Not written."
    assert "no, thanks" in str(brain.asked[-2].messages)
    changed = await decide(output["state"].replace("hello", "hullo"), approved(node, wanted))
    assert code_of(changed) == "INVALID_ARGUMENT"
    assert not target.exists()
    done = await decide(output["state"], approved(node, wanted))

    assert wanted["kind"] == "approval"
    assert json.loads(wanted["arguments"]) == {"path": str(target), "content": "hello"}
    assert output_of(done)["text"] == "Written."
    assert target.read_text() == "hello"
    assert isinstance(done.data, Result)
    assert done.data.metrics.tool_calls == 1


OTHER_KEY = SecretStr("another key, as somebody else would have it")


@pytest.mark.req("AGT-02.4", "AGT-02.7")
@pytest.mark.parametrize(
    "forged",
    [
        {"key": OTHER_KEY},
        {"arguments": '{"path": "a.txt", "content": "what the person was shown"}'},
        {"name": "file_read"},
        {"call_id": "call_2"},
        {"task_id": "task-2"},
        {"user_id": 1},
        {"project_id": 1},
        {"node": "agent.writer.another"},
        {"seconds": 0},
    ],
    ids=lambda forged: next(iter(forged)),
)
async def test_approval_is_of_exactly_this_call(nodes: Nodes, tmp_path: Path, forged: dict[str, Any]) -> None:
    node, client, output = await _waits_for_a_person(nodes, tmp_path)
    result = approved(node, output["calls"][0], **forged)

    params = {"state": output["state"], "results": [result]}
    answer = await client.ask(node, "continue", params, context=SPACE_TASK)

    assert code_of(answer) == "PERMISSION_DENIED"
    assert "ARTEL_NODE_KEY" in str(answer.data)
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.req("AGT-02.4", "AGT-02.7")
async def test_state_of_the_senders_own_making_is_no_approval(nodes: Nodes, tmp_path: Path) -> None:
    node, client, output = await _waits_for_a_person(nodes, tmp_path)
    saved = json.loads(output["state"])
    arguments = {"path": str(tmp_path / "a.txt"), "content": "something else"}
    saved["state"]["calls"][0]["arguments"] = json.dumps(arguments)
    saved["pending"][0]["approval_hash"] = arguments_hash("file_write", arguments)

    for result in ({"id": output["calls"][0]["id"], "approved": True}, approved(node, output["calls"][0])):
        params = {"state": json.dumps(saved), "results": [result]}
        assert code_of(await client.ask(node, "continue", params, context=SPACE_TASK)) == "PERMISSION_DENIED"

    assert not (tmp_path / "a.txt").exists()


@pytest.mark.req("AGT-05.4")
@pytest.mark.parametrize("counter", ["tool_calls", "iterations"])
async def test_state_of_the_senders_own_making_lifts_no_limit(nodes: Nodes, tmp_path: Path, counter: str) -> None:
    node, client, output = await _waits_for_a_person(nodes, tmp_path)
    saved = json.loads(output["state"])
    saved["state"][counter] = -1_000

    params = {"state": json.dumps(saved), "results": [{"id": output["calls"][0]["id"], "approved": False}]}
    answer = await client.ask(node, "continue", params, context=SPACE_TASK)

    assert code_of(answer) == "INVALID_ARGUMENT"
    assert f"state.{counter} is wrong" in str(answer.data)


@pytest.mark.req("AGT-02.4")
async def test_node_without_a_key_asks_nobody(nodes: Nodes, tmp_path: Path) -> None:
    brain = NodeBrain(reply("", wants("file_write", path=str(tmp_path / "a.txt"), content="hello")))
    node, client = await nodes.start(node_file(tools=file_writer(tmp_path)), brain, node_key=None), await nodes.client()

    answer = await client.ask(node, "answer", {"text": "Write it.", "tools": [READ]})

    assert code_of(answer) == "FAILED_PRECONDITION"
    assert "ARTEL_NODE_KEY" in str(answer.data)


@pytest.mark.req("AGT-02.7", "AGT-10.1")
async def test_approval_holds_for_one_call_also_after_a_restart(nodes: Nodes, tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    node, client, output = await _waits_for_a_person(nodes, tmp_path)
    params = {"state": output["state"], "results": [approved(node, output["calls"][0])]}
    # The command comes again, because the node was killed before it had an answer: here, as another command.
    await client.ask(node, "continue", params, context=SPACE_TASK)
    target.unlink()
    await node.stop()  # the first command is acknowledged, so that it does not come a third time
    brain = NodeBrain(reply("I don't know."))
    again = await nodes.start(node.status.file, brain)

    answer = await client.ask(again, "continue", params, context=SPACE_TASK)

    assert output_of(answer)["text"] == "I don't know."
    assert "its outcome is unknown" in str(brain.asked[0].messages)
    assert not target.exists()


async def _waits_for_a_person(nodes: Nodes, folder: Path) -> tuple[AgentNode, Client, dict[str, Any]]:
    """Return a node whose task waits for the approval to write a.txt, a client, and the output of the task."""
    brain = NodeBrain(reply("", wants("file_write", path=str(folder / "a.txt"), content="hello")))
    node, client = await nodes.start(node_file(tools=file_writer(folder)), brain), await nodes.client()
    return node, client, output_of(await client.ask(node, "answer", {"text": "Write it.", "tools": [READ]}))


@pytest.mark.req("AGT-02.2")
@pytest.mark.parametrize(
    "rule", [{"$ref": "http://127.0.0.1:9/schema"}, {"pattern": "(a|a)*$"}], ids=["remote", "slow"]
)
async def test_schemas_of_the_space_are_not_evaluated(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, rule: dict[str, Any]
) -> None:
    fetched: list[Any] = []
    monkeypatch.setattr("urllib.request.urlopen", fetched.append)
    tool = READ | {"parameters": {"type": "object", "properties": {"path": rule}}}
    brain = NodeBrain(reply("", wants("tool_read_file", path="a" * 30 + "b")))
    node, client = await nodes.start(brain=brain), await nodes.client()

    output = output_of(await client.ask(node, "answer", {"text": "Read it.", "tools": [tool]}))

    assert [call["name"] for call in output["calls"]] == ["tool_read_file"]
    assert fetched == []


async def test_tool_of_the_space_wins_over_one_of_the_node_with_its_name(nodes: Nodes, tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    file, client = node_file(tools=file_writer(tmp_path)), await nodes.client()
    node = await nodes.start(file, NodeBrain(reply("", wants("file_write", path=str(target), content="hello"))))
    tool = {"name": "file_write", "description": "The user's.", "parameters": {"type": "object"}}

    output = output_of(await client.ask(node, "answer", {"text": "Write it.", "tools": [tool]}))

    assert [(call["name"], call["kind"]) for call in output["calls"]] == [("file_write", "space")]


async def test_output_that_no_message_can_carry_is_an_error(nodes: Nodes) -> None:
    node, client = await nodes.start(brain=NodeBrain(reply("x" * 1_100_000))), await nodes.client()

    answer = await client.ask(node, "write_article", CATS)

    assert code_of(answer) == "RESOURCE_EXHAUSTED"


async def test_crash_inside_a_task_is_an_internal_error_without_details(nodes: Nodes) -> None:
    node, client = await nodes.start(brain=NodeBrain(RuntimeError("the password is x"))), await nodes.client()

    with capture_logs() as logs:
        answer = await client.ask(node, "write_article", CATS)

    assert code_of(answer) == "INTERNAL"
    assert "password" not in str(answer.data)
    assert "task_crashed" in [line["event"] for line in logs]


async def test_paused_node_leaves_commands_in_their_queue_until_it_is_resumed(anywhere: Nodes) -> None:
    brain = HeldBrain()
    node, client = await anywhere.start(brain=brain), await anywhere.client()
    key = command_key(node.name, "write_article")
    await client.send(key, "write_article", CATS, subject="before")
    await brain.begun.wait()

    await node.pause()
    await client.send(key, "write_article", CATS, subject="meanwhile")
    brain.go_on.set()
    await client.received(1)
    assert (node.status.phase, len(brain.asked)) == ("Paused", 3)
    await node.resume()

    assert [answer.subject for answer in await client.received(2)] == ["before", "meanwhile"]


async def test_full_node_leaves_shared_commands_to_others(anywhere: Nodes) -> None:
    busy_brain, file = HeldBrain(), node_file()
    busy, client = await anywhere.start(file, busy_brain), await anywhere.client()
    await client.send(command_key(busy.name, "write_article"), "write_article", CATS, subject="long")
    await busy_brain.begun.wait()
    free = await anywhere.start(file.model_copy(update={"name": f"{file.name}b"}))

    for number in range(4):
        await client.send(any_key(file.type), "write_article", CATS, subject=str(number))
    answers = await client.received(4)
    busy_brain.go_on.set()
    await client.received(5)
    await client.send(any_key(file.type), "write_article", CATS)

    assert {answer.source for answer in answers} == {free.name}
    assert isinstance((await client.received(6))[-1].data, Result)


@pytest.mark.req("AGT-08.3")
@pytest.mark.parametrize("capability", ["write_article", None])
async def test_node_says_which_capability_it_works_on_when_a_worker_space_asks(
    nodes: Nodes, capability: str | None
) -> None:
    brain = HeldBrain()
    node, client = await nodes.start(node_file(), brain), await nodes.client()
    params = {"text": "cats, please", "capability": capability}
    required = {"capabilities": ["write_article"]}

    await client.send(command_key(node.name, "answer"), "answer", params, requirements=required)
    await brain.begun.wait()

    assert [task.action for task in node.status.tasks()] == [capability or "answer"]
    brain.go_on.set()
    await client.received(1)


async def test_number_of_tasks_at_once_is_that_of_the_file_and_can_change(nodes: Nodes) -> None:
    brain = HeldBrain()
    node, client = await nodes.start(node_file(limits={"max_concurrent_tasks": 2}), brain), await nodes.client()
    for number in range(4):
        await client.send(command_key(node.name, "write_article"), "write_article", CATS, subject=str(number))
    await until(lambda: len(node.status.tasks()) == 2)
    await client.send(any_key(node.status.file.type), "write_article", CATS)
    assert len(node.status.tasks()) == 2

    await node.configure(ConfigParams(max_concurrent_tasks=4, temperature=0.1))
    await until(lambda: len(node.status.tasks()) == 4)
    brain.go_on.set()
    await client.received(5)

    assert node.status.passport().spec.max_concurrent_tasks == 4
    await client.ask(node, "write_article", CATS)
    assert brain.asked[-1].temperature == 0.1


async def test_stop_lets_running_tasks_end_and_leaves_the_rest_in_the_queue(anywhere: Nodes) -> None:
    brain, file = HeldBrain(), node_file()
    node, client = await anywhere.start(file, brain), await anywhere.client()
    key = command_key(node.name, "write_article")
    await client.send(key, "write_article", CATS, subject="running")
    await brain.begun.wait()

    stopping = asyncio.create_task(node.stop("upgrade"))
    await until(lambda: node.status.phase == "Draining")
    await client.send(key, "write_article", CATS, subject="waiting")
    brain.go_on.set()
    await stopping

    assert [answer.subject for answer in await client.received(1)] == ["running"]
    assert await node.finished == NodeExit("stopped", "upgrade")
    await anywhere.start(file)
    assert [answer.subject for answer in await client.received(2)] == ["running", "waiting"]


async def test_task_that_outlives_the_grace_period_is_done_by_the_next_instance(anywhere: Nodes) -> None:
    brain, file = HeldBrain(), node_file()
    node, client = await anywhere.start(file, brain), await anywhere.client()
    await client.send(command_key(node.name, "write_article"), "write_article", CATS)
    await brain.begun.wait()

    await node.stop(grace_seconds=0)
    next_node = await anywhere.start(file)
    [answer] = await client.received(1)

    assert answer.nodeuid == next_node.status.uid
    assert isinstance(answer.data, Result)


async def test_long_drain_is_shortened_by_the_next_signal(nodes: Nodes) -> None:
    brain, file = HeldBrain(), node_file()
    node, client = await nodes.start(file, brain), await nodes.client()
    await client.send(command_key(node.name, "write_article"), "write_article", CATS)
    await brain.begun.wait()

    await node.shutdown("upgrade", 86_400)
    for refused in (node.pause(), node.resume()):
        with pytest.raises(ControlRefused, match="stopping"):
            await refused
    await node.shutdown("now", 0)

    assert await asyncio.wait_for(node.finished, 60) == NodeExit("shutdown", "upgrade")
    next_node = await nodes.start(file)
    assert [answer.nodeuid for answer in await client.received(1)] == [next_node.status.uid]


async def test_drained_node_finishes_its_task_however_short_the_time_at_a_signal_of_the_system_is(nodes: Nodes) -> None:
    brain = HeldBrain()
    node, client = await nodes.start(None, brain, drain_seconds=0), await nodes.client()
    await client.send(command_key(node.name, "write_article"), "write_article", CATS)
    await brain.begun.wait()

    await node.shutdown("upgrade")
    brain.go_on.set()

    [answer] = await client.received(1)
    assert (answer.nodeuid, isinstance(answer.data, Result)) == (node.status.uid, True)
    assert await asyncio.wait_for(node.finished, 60) == NodeExit("shutdown", "upgrade")


async def test_settings_that_can_not_have_an_effect_are_refused(nodes: Nodes) -> None:
    node = await nodes.start(node_file(progress_heartbeat={"enabled": False}), is_embedded=True)

    for wanted in (ConfigParams(log_level="debug", max_tokens=5), ConfigParams(progress_interval_seconds=5)):
        with pytest.raises(ControlRefused):
            await node.configure(wanted)

    assert node.status.file.brain.max_tokens == 4_000


async def test_second_instance_does_not_start_and_the_first_goes_on(nodes: Nodes) -> None:
    node, client = await nodes.start(), await nodes.client()

    with pytest.raises(AgentAlreadyRunningError):
        await nodes.start(node.status.file)

    assert isinstance((await client.ask(node, "write_article", CATS)).data, Result)


async def test_shutdown_signal_ends_the_node(nodes: Nodes) -> None:
    node, client = await nodes.start(), await nodes.client()
    signal = Control(control_type="shutdown", reason="upgrade")

    await client.bus.publish(control_key("all", "shutdown"), Envelope.of(signal, source="client"))

    assert await asyncio.wait_for(node.finished, 60) == NodeExit("shutdown", "upgrade")


class FakeRegistry:
    """The queue of a registry: what nodes send there, answered with an epoch."""

    def __init__(self, nodes: Nodes, *given_up: str) -> None:
        self._nodes = nodes
        self.given_up = list(given_up)
        self.requests: list[Any] = []
        self.events: list[Any] = []
        self.refusal: Error | None = None

    async def open(self) -> None:
        bus = self._bus = await self._nodes.world.bus()
        await bus.subscribe(QueueSpec(command_queue(REGISTRY), (commands_of(REGISTRY),)), self._answer)
        await bus.subscribe(QueueSpec("registry.events", ("evt.node.*",)), self._note)

    async def _answer(self, delivery: Delivery) -> None:
        self.requests.append(delivery.envelope.data)
        output: Any = {"epoch": 7, "given_up": self.given_up}
        answer = self.refusal or Result(output=output)
        await self._bus.reply(delivery, Envelope.of(answer, source=REGISTRY))

    async def _note(self, delivery: Delivery) -> None:
        self.events.append(delivery.envelope.data)


@pytest.mark.req("AGT-08.1")
async def test_node_registers_with_its_passport_and_answers_with_its_epoch(nodes: Nodes) -> None:
    registry = FakeRegistry(nodes)
    await registry.open()
    display = {"name": "Pushkin", "description": "Writes well.", "avatar": "quill"}
    file = node_file(registry={"heartbeat_interval_seconds": 0.1}, display=display)
    node, client = await nodes.start(file), await nodes.client()

    answer = await client.ask(node, "write_article", CATS)
    await node.stop("upgrade")
    await until(lambda: any(event.event_type == "node.deregistered" for event in registry.events))

    [request] = registry.requests
    passport = request.params["passport"]
    assert (passport["metadata"]["uid"], passport["metadata"]["name"]) == (node.status.uid, node.name)
    shown = {"displayName": "Pushkin", "description": "Writes well.", "avatar": "quill"}
    assert passport["spec"] | shown == passport["spec"]
    assert answer.nodeepoch == 7
    farewell = next(event for event in registry.events if event.event_type == "node.deregistered")
    assert farewell.event_data | {"uid": node.status.uid, "epoch": 7, "reason": "upgrade"} == farewell.event_data


@pytest.mark.req("AGT-08.1", "AGT-10.4")
async def test_node_registers_again_when_what_its_passport_says_changes(nodes: Nodes) -> None:
    registry = FakeRegistry(nodes)
    await registry.open()
    node = await nodes.start(node_file(registry={"enabled": True}))

    await node.configure(ConfigParams(temperature=0.1))  # not in the passport
    for _ in range(20):  # the bus inside the process needs no time
        await asyncio.sleep(0)
    await node.configure(ConfigParams(progress_interval_seconds=100))
    await until(lambda: len(registry.requests) == 2)

    shown = [request.params["passport"]["spec"]["progressIntervalSeconds"] for request in registry.requests]
    assert shown == [30, 100]


@pytest.mark.req("AGT-08.1")
async def test_node_ends_when_the_registry_says_that_another_one_has_its_address(nodes: Nodes) -> None:
    registry, why = FakeRegistry(nodes), "Node agent.other has the same address."
    refusal = Error(error=ErrorInfo(code="ALREADY_EXISTS", message=why, retryable=False))
    await registry.open()
    node = await nodes.start(node_file(registry={"heartbeat_interval_seconds": 0.1}))

    registry.refusal = refusal
    await node.configure(ConfigParams(max_concurrent_tasks=2))  # registers again

    assert await asyncio.wait_for(node.finished, 60) == NodeExit("address_taken", why)
    with pytest.raises(AddressTaken, match=why) as refused:
        await nodes.start(node.status.file)
    assert refused.value.kind is Kind.CONFLICT


@pytest.mark.req("AGT-07.3")
async def test_command_reaches_its_node_though_another_one_has_the_same_address(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "GIVE_BACK_SECONDS", 0.01)
    file = node_file()
    first, client = await nodes.start(file), await nodes.client()
    second = await nodes.start(file.model_copy(update={"name": file.name.replace(".", "_")}))

    async with asyncio.timeout(60):
        asked_nodes = first, first, second, second  # the bus delivers to them in turn
        answers = [await client.ask(node, "write_article", CATS, target_node=node.name) for node in asked_nodes]

    assert [answer.source for answer in answers] == [node.name for node in asked_nodes]


@pytest.mark.req("AGT-10.1")
async def test_node_forgets_a_project_that_is_deleted_also_while_it_is_away(nodes: Nodes) -> None:
    brain, file = NodeBrain(), node_file()
    node, client = await nodes.start(file, brain), await nodes.client()
    gone_tenant, kept_tenant = {"user_id": 1, "project_id": 2}, {"user_id": 1, "project_id": 3}
    for tenant in (gone_tenant, kept_tenant):
        await client.ask(node, "write_article", CATS, context=tenant, idempotency_key="k")
    files = node_folder(nodes.settings, node.name) / "files"
    for name in ("user1_project2", "user1_project3"):
        (files / name).mkdir(parents=True)
        (files / name / "notes.md").write_text("Notes.")

    await node.stop()
    event = Event(event_type="tenant.deleted", event_data=gone_tenant)
    await client.bus.publish(event_key("tenant", "deleted"), Envelope.of(event, source="artel"))
    node = await nodes.start(file, brain)
    await until(lambda: not (files / "user1_project2").exists())
    model_calls = len(brain.asked)
    for tenant in (kept_tenant, gone_tenant):
        await client.ask(node, "write_article", CATS, context=tenant, idempotency_key="k")

    assert (files / "user1_project3/notes.md").exists()
    assert len(brain.asked) == model_calls + 3, "only the command of the deleted project is carried out again"


@pytest.mark.req("AGT-08.1")
async def test_node_without_a_registry_works_and_registers_when_there_is_one(nodes: Nodes) -> None:
    file = node_file(registry={"heartbeat_interval_seconds": 0.1})
    node, client = await nodes.start(file), await nodes.client()
    before = await client.ask(node, "write_article", CATS)

    await FakeRegistry(nodes).open()
    await until(lambda: node.status.epoch == 7)

    assert (before.nodeepoch, (await client.ask(node, "write_article", CATS)).nodeepoch) == (0, 7)


@pytest.mark.req("AGT-10.4")
async def test_command_that_was_given_up_while_its_node_was_away_is_not_carried_out(nodes: Nodes) -> None:
    registry = FakeRegistry(nodes, "given-up")
    await registry.open()
    file, brain, client = node_file(registry={"heartbeat_interval_seconds": 0.1}), HeldBrain(), await nodes.client()
    node = await nodes.start(file, brain)
    key = command_key(node.name, "write_article")
    await node.stop()
    for subject in ("given-up", "wanted"):
        await client.send(key, "write_article", CATS, subject=subject)

    node = await nodes.start(file, brain)
    [first] = await client.received(1)
    await brain.begun.wait()
    registry.given_up.append("wanted")  # and the signal is lost with the connection
    node._started.registration.again_soon()
    second = (await client.received(2))[1]

    assert [(answer.subject, code_of(answer)) for answer in (first, second)] == [
        ("given-up", "CANCELLED"),
        ("wanted", "CANCELLED"),
    ]
    assert brain.kinds == ["understanding"]
