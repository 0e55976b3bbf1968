"""The agent's loop: its phases, its limits, what it streams, and what it says that it spent."""

import asyncio
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artel.agent_loop.loop import AnswerEmpty, Run, go_directly, run_loop
from artel.agent_loop.parking import State, dump_state, load_state
from artel.agent_loop.task import MOST_TOOL_CALLS, AgentSpec, LoopResult, LoopSettings, Tally
from artel.brain.brain import Completion, Message, Request, TokenSink, ToolCall, Usage
from artel.brain.errors import ModelAnswerInvalid, ModelTimedOut, ModelUnavailable
from artel.errors import ArtelError
from artel.tools.consent import Decision, NeedsApproval, Question
from artel.tools.tool import ToolResult
from artel.tools.toolbox import Toolbox
from tests.agents import Broken, Endless, Heard, Repeat, Reply, ScriptedBrain, SilentBrain, reply, sent_back, wants

pytestmark = pytest.mark.anyio

MESSAGES = (
    Message("system", "You are a coder."),
    Message("system", "What you remember."),
    Message("user", "Hello"),
    Message("assistant", "Hi!"),
    Message("user", "Do it."),
)
ALL = LoopSettings(understand=True, plan=True, critique=True)
CRITIQUE = LoopSettings(critique=True)


def spec(loop: LoopSettings = LoopSettings()) -> AgentSpec:  # noqa: B008 - immutable
    return AgentSpec("agent_coder", "gpt-4", 0.2, 500, "gpt-4o", loop)


async def run(
    brain: ScriptedBrain,
    loop: LoopSettings = LoopSettings(),  # noqa: B008 - immutable
    *,
    toolbox: Toolbox | None = None,
    heard: Heard | None = None,
    tally: Tally | None = None,
) -> LoopResult:
    deadline = time.monotonic() + 600
    tally = tally or Tally("gpt-4")
    return await run_loop(
        Run(spec(loop), brain, toolbox or Toolbox(), heard or Heard(), deadline, tally), State(MESSAGES)
    )


def repeat_box(tool: Repeat | None = None) -> Toolbox:
    return Toolbox([tool or Repeat()], ["repeat"])


@pytest.mark.req("AGT-05.1", "AGT-05.5")
async def test_default_loop_makes_one_model_call_with_the_built_context() -> None:
    brain, heard = ScriptedBrain(reply("Here you are.")), Heard()

    result = await run(brain, heard=heard)

    assert result == LoopResult(
        "Here you are.", Usage("gpt-4", 10, 5, 0.01, calls=1), iterations=0, tool_calls=0, phases=("execute", "finish")
    )
    [asked] = brain.asked
    assert asked == Request("gpt-4", MESSAGES, 0.2, 500, asked.deadline, fallback_model="gpt-4o")
    assert heard.text.strip() == "Here you are."
    assert (heard.restarts, heard.events) == (0, [("phase", "execute"), ("phase", "finish")])


@pytest.mark.req("AGT-05.1")
async def test_all_phases_in_their_order_hand_on_what_they_found_out() -> None:
    brain, heard = ScriptedBrain(reply("Here you are.")), Heard()

    result = await run(brain, ALL, heard=heard)

    assert result.phases == ("understand", "plan", "execute", "critique", "finish")
    assert [name for _, name in heard.events] == list(result.phases)
    assert brain.kinds == ["understanding", "steps", "answer", "critique"]
    assert result.usage == Usage("gpt-4", 40, 20, 0.04, calls=4)
    assert heard.text.strip() == "Here you are."  # and nothing of the other phases
    understand, plan, execute, critique = (request.messages for request in brain.asked)
    for messages in (understand, plan, execute, critique):
        assert messages[:2] == MESSAGES[:2]
        assert messages[-3:] == MESSAGES[-3:]  # the user's own words stay the last
    assert "They want an answer." not in str(understand)
    assert "They want an answer." in plan[2].content
    assert ["They want an answer." in execute[2].content, "Think." in execute[3].content] == [True, True]
    assert json.loads(critique[4].content.splitlines()[-1]) == {"draft": "Here you are."}


@pytest.mark.req("AGT-05.1", "AGT-05.5")
@pytest.mark.parametrize("switched_off", ["understand", "plan", "critique"])
async def test_a_phase_that_is_switched_off_is_not_in_the_graph(switched_off: str, graph: Any) -> None:
    switches = {"understand": True, "plan": True, "critique": True, switched_off: False}

    nodes = set(graph.compiled(**switches).get_graph().nodes)
    result = await run(ScriptedBrain(), LoopSettings(**switches))

    whole = {"__start__", "understand", "plan", "execute", "tool_call", "critique", "finish", "__end__"}
    assert nodes == whole - {switched_off}
    assert result.phases == tuple(
        name for name in ("understand", "plan", "execute", "critique", "finish") if name != switched_off
    )


class Located(ScriptedBrain):
    """Notes in which node of LangGraph it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[str] = []

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        from langgraph.config import get_config  # slow, and each process that collects the tests would import it

        self.nodes.append(get_config()["metadata"]["langgraph_node"])
        return await super().complete(request, stream)


@pytest.mark.req("AGT-05.1")
async def test_phases_are_nodes_of_langgraph() -> None:
    brain = Located()

    await run(brain, ALL)

    assert brain.nodes == ["understand", "plan", "execute", "critique"]


async def test_agents_with_the_same_phases_share_a_graph(graph: Any) -> None:
    phases = {"understand": False, "plan": True, "critique": False}
    assert graph.compiled(**phases) is graph.compiled(**phases)


@pytest.mark.req("AGT-05.2", "AGT-02.2")
async def test_a_tool_is_called_when_the_model_asks_for_it_and_its_answer_goes_back() -> None:
    repeat, heard = Repeat(), Heard()
    call = wants("repeat", text="abc")
    brain = ScriptedBrain(reply("Let me see.", call), reply("It says abc."))

    result = await run(brain, toolbox=repeat_box(repeat), heard=heard)

    assert result.content == "It says abc."
    assert result.phases == ("execute", "tool_call", "execute", "finish")
    assert (result.tool_calls, result.usage.calls) == (1, 2)
    assert repeat.calls == [{"text": "abc"}]
    first, second = brain.asked
    assert [tool.name for tool in first.tools] == [tool.name for tool in second.tools] == ["repeat"]
    assert second.messages == (
        *first.messages,
        Message("assistant", "Let me see.", tool_calls=(call,)),
        Message("tool", '{"success": true, "data": {"repeated": "abc"}}', tool_call_id="call_1"),
    )
    assert "data" in first.messages[2].content  # what tools answer is no instruction
    assert (heard.text.strip(), heard.restarts) == ("It says abc.", 1)
    assert [kind for kind, _ in heard.events] == ["phase", "phase", "called", "result", "phase", "phase"]


@pytest.mark.req("AGT-05.2")
async def test_several_calls_run_in_the_models_order_and_a_failing_one_stops_nothing() -> None:
    repeat, heard = Repeat(), Heard()
    toolbox = Toolbox([repeat, Broken()], ["repeat", "broken"])
    calls = (wants("repeat", "a", text="1"), wants("broken", "b", text="2"), wants("repeat", "c", text="3"))
    brain = ScriptedBrain(reply("", *calls))

    result = await run(brain, toolbox=toolbox, heard=heard)

    assert (result.content, result.tool_calls, heard.restarts) == ("Done.", 3, 0)
    assert repeat.calls == [{"text": "1"}, {"text": "3"}]
    assert [message.tool_call_id for message in brain.asked[1].messages[-3:]] == ["a", "b", "c"]
    assert [one.success for one in heard.results()] == [True, False, True]


@pytest.mark.req("AGT-05.4")
async def test_when_the_tool_calls_are_used_up_the_model_answers_with_what_it_has() -> None:
    repeat, heard = Repeat(), Heard()
    calls = tuple(wants("repeat", f"call_{number}", text=str(number)) for number in range(3))
    brain = ScriptedBrain(reply("", *calls), reply("", *calls), reply("That is all I know."))

    result = await run(brain, LoopSettings(max_tool_calls=4), toolbox=repeat_box(repeat), heard=heard)

    assert (result.content, result.tool_calls, len(repeat.calls)) == ("That is all I know.", 4, 4)
    assert [bool(request.tools) for request in brain.asked] == [True, True, False]
    assert [one.success for one in heard.results()] == [True] * 4 + [False] * 2
    assert heard.results()[-1].error == "repeat was not called: all 4 tool calls of this task are used up."
    assert "used up" in brain.asked[2].messages[3].content


@pytest.mark.req("AGT-05.4")
async def test_no_agent_has_more_tool_calls_than_everybody_may_have() -> None:
    repeat = Repeat()
    calls = tuple(wants("repeat", f"call_{number}", text="x") for number in range(50))

    result = await run(ScriptedBrain(reply("", *calls)), LoopSettings(max_tool_calls=50), toolbox=repeat_box(repeat))

    assert result.tool_calls == len(repeat.calls) == MOST_TOOL_CALLS


@pytest.mark.req("AGT-05.4", "AGT-02.9")
async def test_by_default_a_task_has_ten_tool_calls_and_never_more_than_twenty() -> None:
    calls = tuple(wants("repeat", f"call_{number}", text="x") for number in range(50))

    default = await run(ScriptedBrain(reply("", *calls)), toolbox=repeat_box())
    most = await run(ScriptedBrain(reply("", *calls)), LoopSettings(max_tool_calls=50), toolbox=repeat_box())

    assert (default.tool_calls, most.tool_calls) == (10, 20)


@pytest.mark.req("AGT-05.3")
async def test_by_default_a_draft_is_sent_back_five_times() -> None:
    drafts = [reply(f"Draft {number}.") for number in range(60)]

    result = await run(ScriptedBrain(*drafts, critiques=[sent_back("No.")] * 60), CRITIQUE)

    assert (result.content, result.iterations) == ("Draft 5.", 5)


async def test_a_model_that_asks_for_tools_it_was_not_offered_gets_none() -> None:
    repeat = Repeat()
    brain = ScriptedBrain(reply("I would look it up.", wants("repeat", text="x")))

    result = await run(brain, LoopSettings(max_tool_calls=0), toolbox=repeat_box(repeat))

    assert (result.content, result.tool_calls, repeat.calls) == ("I would look it up.", 0, [])


@pytest.mark.parametrize(
    ("call", "sent"),
    [
        (ToolCall("1", "repeat", '{"text": '), ToolCall("1", "repeat", "{}")),
        (ToolCall("1", "repeat", '["x"]'), ToolCall("1", "repeat", "{}")),
        (ToolCall("1", "repeat", ""), ToolCall("1", "repeat", "{}")),
        (ToolCall("1", "read the file!", '{"text": "x"}'), ToolCall("1", "unknown_tool", '{"text": "x"}')),
    ],
)
async def test_calls_that_a_models_server_would_not_take_back_are_mended(call: ToolCall, sent: ToolCall) -> None:
    brain = ScriptedBrain(reply("", call))

    await run(brain, toolbox=repeat_box())

    asked, answer = brain.asked[1].messages[-2:]
    assert asked.tool_calls == (sent,)
    assert json.loads(answer.content)["success"] is False


@pytest.mark.req("AGT-05.3")
async def test_a_draft_that_needs_improvement_goes_back_and_readers_begin_anew() -> None:
    heard = Heard()
    brain = ScriptedBrain(reply("A bad draft."), reply("A good one."), critiques=[sent_back("Too short.")])

    result = await run(brain, CRITIQUE, heard=heard)

    assert (result.content, result.iterations) == ("A good one.", 1)
    assert result.phases == ("execute", "critique", "execute", "critique", "finish")
    assert (heard.text.strip(), heard.restarts) == ("A good one.", 1)
    again = brain.asked[2].messages
    assert json.loads(again[2].content.splitlines()[-1]) == {"draft": "A bad draft.", "critique": "Too short."}
    assert again[-1] == MESSAGES[-1]


@pytest.mark.req("AGT-05.3")
async def test_a_draft_is_sent_back_at_most_max_iterations_times() -> None:
    drafts = [reply(f"Draft {number}.") for number in range(10)]
    brain = ScriptedBrain(*drafts, critiques=[sent_back("No.")] * 10)

    result = await run(brain, LoopSettings(critique=True, max_iterations=3))

    assert (result.content, result.iterations) == ("Draft 3.", 3)
    assert brain.kinds == ["answer", "critique"] * 3 + ["answer"]  # a critique that can change nothing is not asked for


@pytest.mark.parametrize(
    "failure", [ModelUnavailable("Down."), ModelAnswerInvalid("No JSON."), reply("No JSON."), sent_back("")]
)
async def test_a_critique_that_fails_leaves_the_draft(failure: Reply) -> None:
    tally = Tally("gpt-4")
    loop = LoopSettings(critique=True, max_iterations=1)

    result = await run(ScriptedBrain(reply("Done."), critiques=[failure]), loop, tally=tally)

    assert result.content == "Done."
    assert result.usage == tally.usage
    assert tally.usage.calls >= 2


@pytest.mark.parametrize("text", ["", " \n"])
async def test_an_empty_answer_is_an_error_that_people_understand(text: str) -> None:
    with pytest.raises(AnswerEmpty, match="gpt-4 ended without an answer") as empty:
        await run(ScriptedBrain(reply(text)), CRITIQUE)
    with pytest.raises(AnswerEmpty, match="used up its 500 tokens"):
        await run(ScriptedBrain(reply(text, reason="length")))

    assert empty.value.code == "model_answer_empty"


async def test_a_failure_comes_out_as_it_is_and_the_tally_knows_what_was_spent() -> None:
    tally = Tally("gpt-4")
    failure = ModelTimedOut("gpt-4 did not finish its answer in time.", usage=Usage("gpt-4o", 7, 0, 0.5, calls=3))
    brain = ScriptedBrain(reply("", wants("repeat", text="x")), failure)

    with pytest.raises(ModelTimedOut) as raised:
        await run(brain, toolbox=repeat_box(), tally=tally)

    assert raised.value is failure
    assert tally.usage == Usage("gpt-4o", 17, 5, 0.51, calls=4)
    assert tally.pending is None


async def test_a_call_that_failed_without_a_word_on_its_usage_is_counted() -> None:
    tally = Tally("gpt-4")

    with pytest.raises(ModelUnavailable):
        await run(ScriptedBrain(ModelUnavailable("Down.")), tally=tally)

    assert tally.usage == Usage("gpt-4", calls=1)


async def test_a_cancelled_run_is_cancelled_and_the_tally_knows_what_was_spent() -> None:
    tally, endless = Tally("gpt-4"), Endless()
    toolbox = Toolbox([endless], ["endless"])
    brain = ScriptedBrain(reply("", wants("endless", text="x")))
    task = asyncio.create_task(run(brain, toolbox=toolbox, tally=tally))
    await endless.begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    assert tally.usage == Usage("gpt-4", 10, 5, 0.01, calls=1)
    assert tally.pending is None


async def test_a_model_call_that_is_cut_off_stays_in_the_tally() -> None:
    tally, brain = Tally("gpt-4"), SilentBrain()
    task = asyncio.create_task(run(brain, tally=tally))
    await brain.begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    assert tally.pending is brain.asked[0]
    assert tally.usage.calls == 0


async def test_runs_at_the_same_time_share_nothing() -> None:
    runs = [(ScriptedBrain(reply("", wants("repeat", text=str(n))), reply(f"I am {n}.")), Heard()) for n in range(20)]

    results = await asyncio.gather(*(run(brain, toolbox=repeat_box(), heard=heard) for brain, heard in runs))

    assert [result.content for result in results] == [f"I am {n}." for n in range(20)]
    assert [heard.text.strip() for _, heard in runs] == [result.content for result in results]


CALLS = st.builds(
    ToolCall,
    st.text(max_size=3),
    st.sampled_from(["repeat", "broken", "careful", "secret", ""]) | st.text(max_size=5),
    st.sampled_from(['{"text": "x"}', "{}", "["]) | st.text(max_size=5),
)
REPLIES = st.builds(lambda text, calls: reply(text, *calls), st.text(max_size=5), st.lists(CALLS, max_size=6))


@pytest.mark.req("AGT-05.2", "AGT-05.3", "AGT-05.4")
@settings(deadline=None)
@given(
    replies=st.lists(REPLIES, max_size=40),
    verdicts=st.lists(st.booleans(), max_size=12),
    loop=st.builds(LoopSettings, st.booleans(), st.booleans(), st.booleans(), st.integers(-1, 6), st.integers(-1, 25)),
)
def test_whatever_a_model_says_the_loop_ends_within_its_limits(
    replies: list[Reply], verdicts: list[bool], loop: LoopSettings
) -> None:
    repeat, heard = Repeat(), Heard()
    toolbox = Toolbox([repeat, Broken(), Repeat("secret")], ["repeat", "broken"])
    critiques = [sent_back("No.") if back else reply("{}") for back in verdicts]
    brain, tally = ScriptedBrain(*replies, critiques=critiques), Tally("gpt-4")

    async def whole() -> LoopResult | None:
        try:
            return await run(brain, loop, toolbox=toolbox, heard=heard, tally=tally)
        except AnswerEmpty:
            return None

    result = asyncio.run(whole())

    most = max(0, min(loop.max_tool_calls, MOST_TOOL_CALLS))
    assert len(repeat.calls) <= most
    assert brain.kinds.count("critique") <= max(0, loop.max_iterations)
    assert tally.usage.calls == len(brain.asked) <= 3 + most + 2 * max(0, loop.max_iterations)
    for request in brain.asked:
        assert _unanswered(request.messages) == []
    if result is not None:
        assert result.tool_calls <= most
        assert result.iterations <= max(0, loop.max_iterations)
        assert result.content.split() == heard.text.split()


class _Careful(Repeat):
    """Needs the user's approval for every other call."""

    async def call(self, arguments: Mapping[str, Any], approval: Decision | None = None) -> ToolResult:
        result = await super().call(arguments, approval)
        if len(self.calls) % 2:
            raise NeedsApproval(Question(self.name, arguments))
        return result


async def _outcome(
    go: Callable[[State, Run], Awaitable[None]], replies: list[Reply], critiques: list[Reply], loop: LoopSettings
) -> list[Any]:
    """Run the phases, resumed after each approval; return everything that others see of it."""
    brain, heard, tally = ScriptedBrain(*replies, critiques=critiques), Heard(), Tally("gpt-4")
    tools = [Repeat(), Broken(), _Careful("careful")]
    toolbox = Toolbox(tools, [tool.name for tool in tools])
    run = Run(spec(loop), brain, toolbox, heard, float("inf"), tally)
    state, ends = State(MESSAGES), []
    while True:
        try:
            await go(state, run)
            ends.append("finished")
        except NeedsApproval as needed:
            state = load_state(dump_state(state))
            ends.append(f"approval of {needed.question.tool}")
            continue
        except ArtelError as failure:
            ends.append(repr(failure))
        calls = [tool.calls for tool in tools if isinstance(tool, Repeat)]
        return [ends, state, brain.asked, heard, tally.usage, tally.pending, calls]


@pytest.fixture(scope="session")
def graph() -> Any:
    """The module with LangGraph, whose import takes two seconds."""
    return importlib.import_module("artel.agent_loop.graph")


@settings(deadline=None)
@given(
    replies=st.lists(REPLIES | st.builds(ModelUnavailable, st.just("Busy.")), max_size=15),
    verdicts=st.lists(st.sampled_from(["good", "bad", "failure"]), max_size=6),
    loop=st.builds(LoopSettings, st.booleans(), st.booleans(), st.booleans(), st.integers(-1, 4), st.integers(-1, 8)),
)
def test_the_direct_path_does_exactly_what_the_graph_does(
    graph: Any, replies: list[Reply], verdicts: list[str], loop: LoopSettings
) -> None:
    reviews: dict[str, Reply] = {"good": reply("{}"), "bad": sent_back("No."), "failure": ModelUnavailable("Busy.")}
    critiques = [reviews[verdict] for verdict in verdicts]

    direct = asyncio.run(_outcome(go_directly, replies, critiques, loop))
    by_graph = asyncio.run(_outcome(graph.go_through, replies, critiques, loop))

    assert direct == by_graph


def _unanswered(messages: tuple[Message, ...]) -> list[Any]:
    """Return the calls without an answer right behind them, and the answers to no call."""
    open_calls: list[Any] = []
    for message in messages:
        if message.role == "tool":
            if not open_calls or open_calls.pop(0) != message.tool_call_id:
                return [message]
        elif open_calls:
            return open_calls
        open_calls += [call.id for call in message.tool_calls]
    return open_calls


def test_langgraph_is_imported_only_when_it_is_needed() -> None:
    code = "import sys, artel.agent_loop.loop, artel.cli.main; print([m for m in sys.modules if m.startswith('lang')])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


PLAIN = """
import asyncio, sys, time
from tests.agents import *
from artel.agent_loop.loop import Run, run_loop
from artel.agent_loop.parking import State
from artel.agent_loop.task import *
from artel.brain.brain import Message
from artel.tools.toolbox import Toolbox
run = Run(AgentSpec("a", "m", 0, 10), ScriptedBrain(), Toolbox(), Heard(), time.monotonic() + 600, Tally("m"))
print(asyncio.run(run_loop(run, State((Message("user", "x"),)))).content)
print([name for name in sys.modules if name.startswith("lang")])
"""


def test_run_without_optional_phases_does_not_import_langgraph() -> None:
    env = {"PYTHONPATH": "."}

    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, check=False, env=env)

    assert (done.stdout.split(), done.returncode) == (["Done.", "[]"], 0), done.stderr


TRACED = """
import asyncio, socket, time
def refuse(*_): raise SystemExit("it goes to the network")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
from tests.agents import *
from artel.agent_loop.loop import Run, run_loop
from artel.agent_loop.parking import State
from artel.agent_loop.task import *
from artel.brain.brain import Message
from artel.tools.toolbox import Toolbox
spec = AgentSpec("a", "m", 0, 10, loop=LoopSettings(True, True, True))
run = Run(spec, ScriptedBrain(), Toolbox(), Heard(), time.monotonic() + 600, Tally("m"))
print(asyncio.run(run_loop(run, State((Message("user", "x"),)))).content)
from langchain_core.tracers.context import _tracing_v2_is_enabled
print(_tracing_v2_is_enabled())
"""


def test_nothing_is_traced_or_sent_to_the_makers_of_langgraph_whatever_the_variables_say() -> None:
    names = ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2", "LANGCHAIN_TRACING")
    env = dict.fromkeys(names, "true") | {"LANGSMITH_API_KEY": "x", "PYTHONPATH": "."}

    done = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, check=False, env=env)

    assert (done.stdout.split(), done.returncode) == (["Done.", "False"], 0), done.stderr


@pytest.mark.req("AGT-05.6")
async def test_state_holds_the_command_the_phases_and_what_came_of_them() -> None:
    brain = ScriptedBrain(
        reply("", wants("repeat", text="hi")), reply("Bad."), reply("Good."), critiques=[sent_back("Mend it.")]
    )
    state = State(MESSAGES, action="write", params={"topic": "tea"}, context={"process_id": "p"})
    began = time.time()

    await run_loop(Run(spec(ALL), brain, repeat_box(), Heard(), time.monotonic() + 30, Tally("gpt-4")), state)

    assert (state.action, state.params, state.context) == ("write", {"topic": "tea"}, {"process_id": "p"})
    assert (state.phase, state.understanding, state.plan) == ("finish", "They want an answer.", ("Think.", "Answer."))
    assert state.tool_results == ({"id": "call_1", "tool": "repeat", "success": True, "error": None},)
    assert (state.critique, state.result, state.error) == ("Good.", "Good.", None)
    assert state.llm_calls == len(brain.asked) == 7
    assert began - 60 < state.start_time < began + 60
    assert load_state(dump_state(state)) == state


@pytest.mark.req("AGT-05.6")
async def test_state_holds_the_error_of_a_failed_run() -> None:
    brain, state = ScriptedBrain(ModelUnavailable("The server is down.")), State(MESSAGES)

    with pytest.raises(ModelUnavailable):
        await run_loop(Run(spec(), brain, Toolbox(), Heard(), time.monotonic() + 30, Tally("gpt-4")), state)

    assert (state.error, state.result, state.llm_calls) == ("The server is down.", None, 1)
