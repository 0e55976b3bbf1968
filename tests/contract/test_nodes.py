"""Nodes on both buses: commands, their parameters, outputs, retries and answers."""

import asyncio
import json
import sqlite3
import time
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from anyio import wait_all_tasks_blocked
from structlog.testing import capture_logs

from artel.brain.brain import Usage
from artel.brain.errors import ModelAnswerInvalid, ModelRefused, ModelUnavailable
from artel.brain.retries import RetryingBrain
from artel.bus.bus import DeadLetter, Delivery, Reason
from artel.bus.topology import all_key, any_key, command_key, command_queue, control_key
from artel.contract.envelope import Command, CommandContext, CommandLimits, Control, Envelope, Error, Event, Result
from artel.nodes.commands import CLOCK_SKEW_SECONDS
from artel.nodes.node import ANSWERS_FILE
from artel.nodes.singleton import SingletonLock
from artel.nodes.task_scope import TaskScope
from artel.nodes.toolbox import SharedTools, node_folder
from tests.agents import ScriptedBrain, SilentBrain, reply, sent_back, structured
from tests.node_worlds import CATS, HeldBrain, NodeBrain, Nodes, capability, code_of, node_file, output_of, until

pytestmark = pytest.mark.anyio
OUTPUT = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "words": {"type": "integer", "minimum": 1}},
    "required": ["title", "words"],
    "additionalProperties": False,
}


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
