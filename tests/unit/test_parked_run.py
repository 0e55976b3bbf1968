"""Stored documents of parked runs, approvals and estimates, of this release and the one before."""

from datetime import UTC, datetime
from typing import Any

import pytest

from artel.brain.brain import ToolCall
from artel.contract.approval_details import BudgetDetails, PlanDetails, PricedDetails, ToolDetails, load_details
from artel.contract.approvals import PlanArguments
from artel.contract.estimates import StoredEstimate
from artel.contract.events import EventData, PlanRequest, ToolRequest
from artel.contract.node_messages import NodeToolCall, NodeToolResult
from artel.contract.parked_run import VERSION, ParkedNodeRun, ParkedRun
from artel.runs.approval_factory import who_asks
from artel.runs.task import Waiting
from artel.tools.policy import arguments_hash
from tests.stored import document, names

UNVERSIONED, VERSION_1 = names("parked_runs", "unversioned"), names("parked_runs", "version_1")
RUNS = [name for name in VERSION_1 if name != "plan_turn"]


def is_part_of(old: Any, new: Any) -> bool:
    """Whether everything of an old document is in a new one; without a value means left out."""
    if isinstance(old, dict):
        return all(is_part_of(value, new.get(name)) for name, value in old.items() if value not in (None, {}))
    if isinstance(old, list):
        return len(old) == len(new) and all(is_part_of(*pair) for pair in zip(old, new, strict=True))
    return bool(old == new)


@pytest.mark.parametrize("name", VERSION_1)
def test_document_without_version_loads_like_the_current_one(name: str) -> None:
    old = ParkedRun.load(document("parked_runs", "unversioned", name))

    assert old == ParkedRun.load(document("parked_runs", "version_1", name))
    assert old.version == VERSION


@pytest.mark.parametrize("name", UNVERSIONED)
def test_dump_keeps_the_keys_that_servers_of_the_previous_release_read(name: str) -> None:
    stored = document("parked_runs", "unversioned", name)

    dumped = ParkedRun.load(stored).dump()

    assert is_part_of(stored, dumped)
    assert ParkedRun.load(dumped) == ParkedRun.load(stored)
    assert None not in dumped.values()


@pytest.mark.parametrize("version", ["unversioned", "version_1"])
@pytest.mark.parametrize("name", RUNS)
def test_run_is_resumed_where_it_was_parked(version: str, name: str) -> None:
    stored = document("parked_runs", version, name)

    waiting = Waiting.of(ParkedRun.load(stored), {})

    context = [item.model_dump() for item in waiting.run.context]
    assert (waiting.run.seconds, context) == (stored.get("seconds", 0.0), stored.get("context", []))
    assert waiting.run.hashes == stored.get("hashes", {})
    if single := stored.get("single"):
        assert waiting.state is None
        assert waiting.single is not None
        assert waiting.single.name == single["tool"]
        assert waiting.single.id == single.get("id") or not single.get("id")
    else:
        assert waiting.state is not None
        state = stored["state"]
        assert [message.content for message in waiting.state.messages] == [one["content"] for one in state["messages"]]
        assert [message.part for message in waiting.state.messages] == [one["part"] for one in state["messages"]]
        assert [call.arguments for call in waiting.state.calls] == [one["arguments"] for one in state["calls"]]
        assert waiting.state.is_announced is state["is_announced"]


@pytest.mark.parametrize("version", ["unversioned", "version_1"])
def test_child_is_resumed_inside_its_parent(version: str) -> None:
    stored = document("parked_runs", version, "child")

    run = ParkedRun.load(stored)

    assert run.child is not None
    assert (run.child.task_id, run.child.agent_id) == (stored["inner"]["task_id"], stored["inner"]["agent_id"])
    assert who_asks(run) == stored["inner"]["agent_id"]
    assert Waiting.of(run, {}).run.child == run.child


def test_usage_that_was_not_stored_by_agent_is_the_orchestrators() -> None:
    stored = document("parked_runs", "unversioned", "plan_turn_without_shares")

    [share] = ParkedRun.load(stored).shares

    assert share.model_dump() == {"agent_id": None, "agent": "", "usage": stored["usage"]}


def test_fields_of_a_newer_server_are_ignored() -> None:
    stored = document("parked_runs", "version_1", "direct")
    newer = stored | {"version": VERSION + 1, "invented": {}, "state": stored["state"] | {"invented": 1}}

    assert ParkedRun.load(newer) == ParkedRun.load(stored)


def test_run_without_state_and_call_is_not_resumed() -> None:
    with pytest.raises(ValueError, match="state of its loop"):
        Waiting.of(ParkedRun.load(document("parked_runs", "version_1", "plan_turn")), {})


@pytest.mark.parametrize("version", ["unversioned", "version_1"])
@pytest.mark.parametrize(("kind", "model"), [("tool", ToolDetails), ("plan", PlanDetails), ("budget", BudgetDetails)])
def test_details_are_shown_as_before_and_stored_with_a_version(version: str, kind: str, model: type) -> None:
    shown = document("approval_details", "unversioned", kind)

    details = load_details(kind, document("approval_details", version, kind))

    assert type(details) is model
    assert details.shown() == shown
    assert details.dump() == shown | {"version": 1}


@pytest.mark.req("CHT-03.2")
@pytest.mark.parametrize("kind", ["tool", "plan", "budget"])
def test_events_of_requests_have_only_the_details_that_were_set(kind: str) -> None:
    shown = document("approval_details", "unversioned", kind)
    details = load_details(kind, shown)
    common = {"approval_id": "a", "expires_at": datetime.now(UTC), "details": details}

    event: EventData
    if isinstance(details, PricedDetails):
        plan: dict[str, Any] = {
            "workflow_id": "w",
            "plan": {"tasks": []},
            "estimated_cost": None,
            "estimated_duration": 1.0,
        }
        event = PlanRequest.model_validate(common | plan)
    else:
        call = {"task_id": "t", "agent_id": 1, "tool": "tool_delete_file", "arguments": {}, "risk": "high"}
        event = ToolRequest.model_validate(common | call)

    assert event.model_dump(mode="json")["details"] == shown


@pytest.mark.req("CHT-03.2")
@pytest.mark.parametrize("kind", ["plan", "budget"])
def test_arguments_of_plan_and_budget_approvals_are_stored_as_before(kind: str) -> None:
    stored = document("plan_arguments", "unversioned", kind)

    arguments = PlanArguments.model_validate(stored)

    assert arguments.dump() == stored
    assert arguments_hash(kind, arguments.dump()) == arguments_hash(kind, stored)  # a decision is bound to it


@pytest.mark.parametrize("version", ["unversioned", "version_1"])
@pytest.mark.parametrize("kind", ["plan", "task"])
def test_estimates_are_stored_with_a_version(version: str, kind: str) -> None:
    estimate = StoredEstimate.load(document("estimates", version, kind))

    assert estimate is not None
    assert estimate.dump() == document("estimates", "version_1", kind)
    assert (estimate.unknown_models, estimate.model) == ((("gpt-9",), None) if kind == "plan" else ((), "gpt-9"))


def test_run_on_a_node_is_resumed_with_the_calls_that_wait() -> None:
    call = NodeToolCall(id="call_2", name="write_file", arguments='{"path": "a"}')
    result = NodeToolResult(id="call_1", text="{}")
    node = ParkedNodeRun(node="agent.writer.001", step=1, state="{}", calls=(call,), results=(result,), tool_calls=1)

    run = ParkedRun.load(ParkedRun(node=node, agent_id=7).dump())
    waiting = Waiting.of(run, {})

    assert waiting.node == node
    assert waiting.first_call == ToolCall("call_2", "write_file", '{"path": "a"}')
    assert (waiting.state, waiting.single) == (None, None)
