"""The toolbox: allowed tools, errors for the model, audit records, resumed calls."""

import asyncio
import json
import time
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artel.brain.brain import ToolCall, ToolSchema
from artel.contract.parked_run import ParkedRun
from artel.contract.project_settings import PolicySettings
from artel.errors import AgentNotFound
from artel.tools.consent import Decision, NeedsApproval, Question
from artel.tools.policy import Policy
from artel.tools.recall import MemoryRead, MemoryWrite
from artel.tools.tool import MAX_RESULT_CHARACTERS, Tool, ToolResult
from artel.tools.toolbox import AuditRecord, Toolbox
from tests.agents import Broken, Endless, ListRecall, Repeat, Returning, wants

pytestmark = pytest.mark.anyio


def soon() -> float:
    return time.monotonic() + 600


def box(*tools: Tool) -> Toolbox:
    return Toolbox(tools, {tool.name for tool in tools})


@pytest.mark.req("AGT-02.5")
async def test_only_existing_and_allowed_tools_are_offered_and_called() -> None:
    repeat, secret = Repeat(), Repeat("secret")
    toolbox = Toolbox([repeat, secret], ["repeat", "not_there"])

    assert [schema.name for schema in toolbox.schemas] == ["repeat"]
    refused = await toolbox.call(wants("secret", text="x"), soon())
    unknown = await toolbox.call(wants("not_there", text="x"), soon())

    assert (refused.success, unknown.success) == (False, False)
    assert refused.error == "You may not use secret. Your tools: repeat."
    assert unknown.error == "There is no tool 'not_there'. Your tools: repeat."
    assert secret.calls == []


@pytest.mark.req("AGT-02.5")
async def test_agent_without_allow_list_has_no_tools() -> None:
    repeat = Repeat()
    toolbox = Toolbox([repeat])

    assert toolbox.schemas == ()
    assert (await toolbox.call(wants("repeat", text="x"), soon())).error == "You may not use repeat. You have no tools."
    assert repeat.calls == []


@pytest.mark.req("AGT-02.2", "AGT-02.3")
async def test_valid_call_reaches_the_tool_with_its_arguments() -> None:
    repeat = Repeat()

    result = await box(repeat).call(wants("repeat", text="привет"), soon())

    assert result == ToolResult(success=True, data={"repeated": "привет"})
    assert repeat.calls == [{"text": "привет"}]
    assert json.loads(result.text_for_model()) == {"success": True, "data": {"repeated": "привет"}}


@pytest.mark.req("AGT-02.3")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{text: x}", "not JSON"),
        ('{"text": "x"', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"text": NaN}', "NaN is not JSON"),
        ('{"text": "\\ud800"}', "lone surrogate"),
        ('{"text": "\ud800"}', "lone surrogate"),
        ('{"\\udc00": "x"}', "lone surrogate"),
        ('["x"]', "must be one JSON object"),
        ("", "'text' is a required property"),
        ("{}", "'text' is a required property"),
        ('{"text": 5}', "text: 5 is not of type 'string'"),
        (f'{{"text": "{"x" * 21}"}}', "text: 'xxxxxxxxxxxxxxxxxxxxx' is too long"),
        ('{"text": "x", "user_id": 7}', "'user_id' was unexpected"),
    ],
)
async def test_invalid_arguments_are_explained_and_the_tool_is_not_called(arguments: str, message: str) -> None:
    repeat = Repeat()

    result = await box(repeat).call(ToolCall("1", "repeat", arguments), soon())

    assert not result.success
    assert message in str(result.error)
    assert str(result.error).endswith("Correct the arguments and call it again.")
    assert repeat.calls == []


@pytest.mark.req("AGT-02.3")
async def test_tool_that_raises_returns_an_error_without_details() -> None:
    async def error_of(problem: BaseException | None = None) -> str | None:
        tool = Broken() if problem is None else Broken(problem=problem)
        return (await box(tool).call(wants("broken", text="x"), soon())).error

    for problem in (None, TimeoutError("its own"), asyncio.CancelledError()):
        assert await error_of(problem) == "broken failed because of an error inside it. Try another way."
    assert await error_of(AgentNotFound("There is no agent_x.")) == "There is no agent_x."


class Failing(Repeat):
    """A tool that says why it can't do what it is asked for."""

    async def call(self, _arguments: Mapping[str, Any], _approval: Decision | None = None) -> ToolResult:
        return ToolResult.failure("There is no such text.")


@pytest.mark.req("AGT-02.3")
async def test_failure_of_a_tool_reaches_the_model_with_its_reason() -> None:
    result = await box(Failing()).call(wants("repeat", text="x"), soon())

    assert result == ToolResult(success=False, error="There is no such text.")
    assert json.loads(result.text_for_model()) == {"success": False, "error": "There is no such text."}


@pytest.mark.req("AGT-02.3")
async def test_tool_is_stopped_at_the_deadline_and_not_started_after_it() -> None:
    endless, repeat = Endless(), Repeat()

    stopped = await box(endless).call(wants("endless", text="x"), time.monotonic() + 0.05)
    late = await box(repeat).call(wants("repeat", text="x"), time.monotonic() - 1)

    assert stopped.error == "endless was stopped: it was not done in time."
    assert late.error == "repeat was not called: there is no time left."
    assert (len(endless.calls), repeat.calls) == (1, [])


async def test_cancelled_call_raises_cancelled_error() -> None:
    endless = Endless()
    task = asyncio.create_task(box(endless).call(wants("endless", text="x"), soon()))
    await endless.begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


class ListAudit:
    """An audit in memory."""

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []

    async def record(self, call: AuditRecord) -> None:
        self.records.append(call)


class Asks(Repeat):
    """A tool that needs an approval for itself or for a child agent, which turns out during the call."""

    def __init__(self, *, records_itself: bool, child: ParkedRun | None = None) -> None:
        super().__init__()
        self.records_itself = records_itself
        self._child = child

    async def call(self, _arguments: Any, _approval: Any = None) -> ToolResult:
        raise NeedsApproval(Question("tool_delete_file", {"path": "of the child"}), self._child)


@pytest.mark.req("AGT-02.8")
@pytest.mark.parametrize(
    ("tool", "status"),
    [
        (Repeat(), "done"),
        (Broken(), "failed"),
        (Broken(problem=AgentNotFound("There is no agent_x." * 500)), "failed"),
        (Broken(problem=TimeoutError("its own")), "failed"),
        (Broken(problem=asyncio.CancelledError()), "failed"),
    ],
)
async def test_every_call_leaves_one_audit_record(tool: Tool, status: str) -> None:
    audit = ListAudit()

    result = await Toolbox([tool], [tool.name], audit=audit).call(wants(tool.name, text="x"), soon())

    [record] = audit.records
    assert (record.tool, record.arguments, record.status) == (tool.name, {"text": "x"}, status)
    assert (record.error, record.error is None) == (result.error, result.success)


class Unserializable:
    """A value of a plugin that raises whatever is done with it."""

    def __str__(self) -> str:
        raise RuntimeError("not to be shown")


def contains_itself() -> dict[str, Any]:
    data: dict[str, Any] = {}
    data["itself"] = [data]
    return data


@pytest.mark.req("CHT-10.1", "AGT-02.3")
@pytest.mark.parametrize("data", [{("a", 1): 2}, {"a": Unserializable()}, [Unserializable()]])
async def test_call_whose_result_can_not_be_shown_is_done(data: Any) -> None:
    audit = ListAudit()

    result = await Toolbox([Returning(data=data)], ["returning"], audit=audit).call(wants("returning", text=""), soon())

    assert result.success
    [record] = audit.records
    assert (record.status, record.result) == ("done", None)


@pytest.mark.req("CHT-10.1", "SEC-02.3")
@pytest.mark.parametrize(
    "data", [{"a": [["x" * 100] * 100_000]}, [[["x" * 100] * 100_000]], {"a": "x" * 10_000_000}, contains_itself()]
)
async def test_only_the_shown_part_of_a_large_result_is_recorded(data: Any) -> None:
    audit = ListAudit()
    toolbox = Toolbox([Returning(data=data)], ["returning"], audit=audit)
    tracemalloc.start()
    try:
        await toolbox.call(wants("returning", text=""), soon())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 1_000_000
    [record] = audit.records
    assert record.result
    assert len(record.result.text) == 2_000
    assert record.result.is_cut


async def test_stopped_or_cancelled_call_leaves_one_audit_record() -> None:
    audit, endless = ListAudit(), Endless()
    toolbox = Toolbox([endless], ["endless"], audit=audit)
    await toolbox.call(wants("endless", text="x"), time.monotonic() + 0.05)
    endless.begun.clear()
    task = asyncio.create_task(toolbox.call(wants("endless", text="y"), soon()))
    await endless.begun.wait()
    task.cancel()
    await asyncio.wait([task])

    assert [(call.status, call.arguments["text"]) for call in audit.records] == [("failed", "x"), ("cancelled", "y")]
    assert all(call.error for call in audit.records)


@pytest.mark.parametrize("child", [None, ParkedRun(task_id="the child's")])
@pytest.mark.parametrize("records_itself", [True, False])
async def test_call_that_needs_an_approval_leaves_one_audit_record(
    records_itself: bool, child: ParkedRun | None
) -> None:
    audit, asks = ListAudit(), Asks(records_itself=records_itself, child=child)

    with pytest.raises(NeedsApproval):
        await Toolbox([asks], ["repeat"], audit=audit).call(wants("repeat", text="mine"), soon())

    expected = [] if records_itself else [("repeat", {"text": "mine"}, "asked")]
    assert [(call.tool, call.arguments, call.status) for call in audit.records] == expected


async def test_nothing_is_fetched_for_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[Any] = []
    monkeypatch.setattr("urllib.request.urlopen", fetched.append)
    repeat = Repeat()
    repeat.schema = ToolSchema("repeat", "Repeats.", {"$ref": "http://127.0.0.1:9/schema"})

    result = await Toolbox([repeat], ["repeat"]).call(wants("repeat", text="hello"), soon())

    assert not result.success
    assert (fetched, repeat.calls) == ([], [])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=10,
)


def resumed() -> tuple[Repeat, Toolbox]:
    """Return a tool that is now disabled, and a toolbox that resumes an earlier call of it (id "1")."""
    repeat = Repeat()
    call = ToolCall("1", "repeat", '{"text": "approved"}')
    policy = Policy(PolicySettings.of({"tools": {"repeat": {"enabled": False}}}))
    return repeat, Toolbox([repeat], ["repeat"], policy, resumed_call=call)


@pytest.mark.req("SEC-03.4")
async def test_resumed_call_is_allowed_once() -> None:
    repeat, toolbox = resumed()

    other = await toolbox.call(ToolCall("2", "repeat", '{"text": "approved"}'), soon())
    first = await toolbox.call(ToolCall("1", "repeat", '{ "text":"approved" }'), soon())
    again = await toolbox.call(ToolCall("1", "repeat", '{"text": "approved"}'), soon())

    assert (other.success, first.success, again.success) == (False, True, False)
    assert repeat.calls == [{"text": "approved"}]


@pytest.mark.req("SEC-03.4")
@pytest.mark.parametrize(
    "call",
    [
        ToolCall("1", "repeat", '{"text": "something else"}'),
        ToolCall("1", "other", '{"text": "approved"}'),
        ToolCall("1", "repeat", "no JSON"),
    ],
)
async def test_other_call_with_the_id_of_a_resumed_call_is_refused_and_uses_it_up(call: ToolCall) -> None:
    repeat, toolbox = resumed()

    assert not (await toolbox.call(call, soon())).success
    assert not (await toolbox.call(ToolCall("1", "repeat", '{"text": "approved"}'), soon())).success
    assert repeat.calls == []


@pytest.mark.req("SEC-03.4")
async def test_refused_resumed_call_is_not_allowed_later() -> None:
    repeat, toolbox = resumed()

    late = await toolbox.call(ToolCall("1", "repeat", '{"text": "approved"}'), time.monotonic() - 1)
    again = await toolbox.call(ToolCall("1", "repeat", '{"text": "approved"}'), soon())

    assert (late.success, again.success) == (False, False)
    assert repeat.calls == []


@settings(deadline=None)
@given(name=st.sampled_from(["repeat", "broken", "secret", ""]) | st.text(), arguments=st.text() | JSON.map(json.dumps))
def test_every_call_of_a_model_gets_a_result(name: str, arguments: str) -> None:
    repeat, secret = Repeat(), Repeat("secret")
    toolbox = Toolbox([repeat, Broken(), secret], ["repeat", "broken"])

    result = asyncio.run(toolbox.call(ToolCall("1", name, arguments), soon()))

    assert result.success == bool(repeat.calls)
    assert bool(result.error) != result.success
    assert secret.calls == []


LONG = st.builds(lambda character, size: character * size, st.sampled_from('x\n\0ä"\ud800'), st.integers(1, 40_000))


@pytest.mark.req("AGT-02.3")
@given(data=JSON | LONG, success=st.booleans())
def test_text_for_model_is_bounded_json_with_a_note_if_cut(data: Any, success: bool) -> None:
    result = ToolResult(success=True, data=data) if success else ToolResult.failure(str(data))

    text = result.text_for_model()

    assert len(text) <= MAX_RESULT_CHARACTERS
    text.encode()
    document = json.loads(text)
    assert document["success"] is success
    if "cut" in document:
        shown = document["data" if success else "error"]
        assert len(text) > MAX_RESULT_CHARACTERS * 0.8
        assert document["cut"] == f"Only the first {len(shown)} of {len(str(data))} characters are shown."


@pytest.mark.req("SEC-02.3")
@pytest.mark.parametrize(
    "data",
    [
        {"content": "x" * 10_000_000, "size": 10_000_000},
        {"files": [{"path": f"folder/{number}", "type": "file"} for number in range(50_000)]},
    ],
    ids=["file", "listing"],
)
def test_only_the_shown_part_of_a_large_result_is_serialized(data: Any) -> None:
    result = ToolResult(success=True, data=data)
    tracemalloc.start()
    try:
        text = result.text_for_model()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    document = json.loads(text)
    whole = json.dumps(data)
    size = int(document["cut"].split()[-4])
    assert most < 1_000_000
    assert MAX_RESULT_CHARACTERS * 0.8 < len(text) <= MAX_RESULT_CHARACTERS
    assert whole.startswith(document["data"])
    assert MAX_RESULT_CHARACTERS < size <= len(whole)


async def test_text_of_exactly_the_maximum_length_is_not_cut() -> None:
    frame = len(ToolResult(success=True, data="").text_for_model())

    whole = ToolResult(success=True, data="x" * (MAX_RESULT_CHARACTERS - frame)).text_for_model()
    cut = ToolResult(success=True, data="x" * (MAX_RESULT_CHARACTERS - frame + 1)).text_for_model()

    assert len(whole) == MAX_RESULT_CHARACTERS
    assert ("cut" in json.loads(whole), "cut" in json.loads(cut)) == (False, True)


@pytest.mark.req("AGT-02.2")
async def test_memory_is_written_and_read_by_tools() -> None:
    recall = ListRecall()
    toolbox = box(MemoryRead(recall), MemoryWrite(recall))

    written = await toolbox.call(wants("memory_write", content="The sky is green."), soon())
    await toolbox.call(wants("memory_write", content="The sky is high.", type="fact"), soon())
    found = await toolbox.call(wants("memory_read", query="sky", top_k=5.0), soon())
    facts = await toolbox.call(wants("memory_read", query="sky", type="fact"), soon())

    assert written == ToolResult(success=True, data={"id": "memory-1"})
    assert found.data == [
        {
            "text": text,
            "source": "agent",
            "score": 0.877,
            "type": kind,
            "created_at": "2026-11-15T00:00:00+00:00",
        }
        for text, kind in (("The sky is green.", "note"), ("The sky is high.", "fact"))
    ]
    assert [fact["type"] for fact in facts.data] == ["fact"]  # type: ignore[union-attr, index, call-overload]
    assert recall.searched == [("sky", 5, None), ("sky", 5, "fact")]
    assert all(isinstance(top_k, int) for _, top_k, _ in recall.searched)


@pytest.mark.parametrize(
    "call",
    [
        wants("memory_read", query=""),
        wants("memory_read", query="x", top_k=0),
        wants("memory_read", query="x", top_k=21),
        wants("memory_read", query="x", agent_id=7),
        wants("memory_write", content=""),
        wants("memory_write", content="x" * 8001),
        wants("memory_write", content="x", type="Not A Type"),
        wants("memory_write", content="x", type="x" * 41),
        wants("memory_write", content="x", user_id=7),
    ],
)
async def test_memory_tools_refuse_unknown_arguments_and_ids_of_users_or_agents(call: ToolCall) -> None:
    recall = ListRecall()

    result = await box(MemoryRead(recall), MemoryWrite(recall)).call(call, soon())

    assert not result.success
    assert (recall.kept, recall.searched) == ([], [])
