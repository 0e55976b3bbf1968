"""What decides about calls of tools, whatever a model says."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artel.brain.brain import ToolCall, ToolSchema
from artel.tools.audit import Audited, without_contents
from artel.tools.consent import Consent, Decision, NeedsApproval
from artel.tools.policy import Forbidden, Level, Pace, Policy, PolicySettings, ToolCalls, ToolRule, arguments_hash
from artel.tools.tool import ToolResult
from artel.tools.toolbox import Toolbox

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.text(max_size=5), JSON, max_size=4)
NEVER = 10**12.0


class Recorder:
    """A tool, and the audit log."""

    def __init__(self, level: Level) -> None:
        self.name = "tool"
        self.level = level
        self.schema = ToolSchema("tool", "Does it.", {"type": "object"})
        self.calls: list[Mapping[str, Any]] = []
        self.noted: list[Audited] = []

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        self.calls.append(arguments)
        return ToolResult(success=True)

    async def note(self, call: Audited) -> None:
        self.noted.append(call)


@pytest.mark.req("AGT-02.9")
@given(gaps=st.lists(st.floats(0, 40), max_size=200))
def test_in_no_minute_are_there_more_calls_than_allowed(gaps: list[float]) -> None:
    now = 0.0
    pace, made = Pace(10, lambda: now), list[float]()
    for gap in gaps:
        now += gap
        try:
            pace.take()
        except Forbidden:
            assert len([at for at in made if at > now - 60]) == 10
        else:
            made.append(now)
        assert len([at for at in made if at > now - 60]) <= 10


@pytest.mark.req("AGT-02.9")
def test_sixty_calls_a_minute_are_allowed_by_default() -> None:
    now = 0.0
    pace = Pace(now=lambda: now)
    for _ in range(60):
        pace.take()
    with pytest.raises(Forbidden):
        pace.take()
    now = 60.1
    pace.take()


@pytest.mark.req("AGT-02.9")
def test_calls_are_counted_by_user_and_project_and_idle_projects_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artel.tools.policy.MAX_PACED", 3)
    now = 0.0
    calls: ToolCalls = {}
    first = Pace(1, lambda: now, calls, (1, 1))
    first.take()
    for key in ((1, 2), (2, 1)):
        Pace(1, lambda: now, calls, key).take()
    with pytest.raises(Forbidden):
        Pace(1, lambda: now, calls, (1, 1)).take()
    now = 61.0
    first.take()

    Pace(1, lambda: now, calls, (3, 3)).take()

    assert set(calls) == {(1, 1), (3, 3)}
    with pytest.raises(Forbidden):
        first.take()


@given(first=ARGUMENTS, second=ARGUMENTS)
def test_an_approval_is_bound_to_the_very_arguments_however_they_were_written(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    turned = dict(reversed(first.items()))
    assert arguments_hash("t", first) == arguments_hash("t", turned)
    assert (arguments_hash("t", first) == arguments_hash("t", second)) is (
        json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
    )
    assert arguments_hash("t", first) != arguments_hash("u", first)


@pytest.mark.anyio
@pytest.mark.req("AGT-02.4", "AGT-02.7")
@pytest.mark.parametrize(
    ("level", "rule", "asks"),
    [
        (Level.SAFE, ToolRule(), False),
        (Level.MODERATE, ToolRule(), False),
        (Level.RESTRICTED, ToolRule(), False),
        (Level.RESTRICTED, ToolRule(requires_approval=True), True),
        (Level.SAFE, ToolRule(requires_approval=True), True),
        (Level.CRITICAL, ToolRule(), True),
    ],
)
async def test_critical_tools_and_what_a_project_marks_wait_for_a_person_each_time(
    level: Level, rule: ToolRule, asks: bool
) -> None:
    tool = Recorder(level)
    policy = Policy(PolicySettings(tools={"tool": rule}))
    approved = Decision("a1", "approved")
    consent = Consent({arguments_hash("tool", {"x": 1}): approved})
    toolbox = Toolbox([tool], ["tool"], policy, consent, tool)

    await toolbox.call(ToolCall("1", "tool", '{"x": 1}'), NEVER)
    if asks:
        for arguments in ('{"x": 1}', '{"x": 2}'):  # used up, and never given
            with pytest.raises(NeedsApproval):
                await toolbox.call(ToolCall("2", "tool", arguments), NEVER)
        assert [(one.status, one.approval_id) for one in tool.noted] == [
            ("done", "a1"),
            ("asked", None),
            ("asked", None),
        ]
    else:
        await toolbox.call(ToolCall("2", "tool", '{"x": 2}'), NEVER)
    assert tool.calls == ([{"x": 1}] if asks else [{"x": 1}, {"x": 2}])


@pytest.mark.anyio
@pytest.mark.parametrize("outcome", ["rejected", "expired"])
async def test_a_refusal_is_no_call(outcome: Any) -> None:
    tool = Recorder(Level.CRITICAL)
    consent = Consent({arguments_hash("tool", {}): Decision("a1", outcome, "because")})

    result = await Toolbox([tool], ["tool"], Policy(), consent, tool).call(ToolCall("1", "tool", "{}"), NEVER)

    assert not result.success
    assert tool.calls == []
    assert [one.status for one in tool.noted] == ["refused"]


@pytest.mark.anyio
@pytest.mark.req("AGT-02.8")
async def test_calls_that_are_not_made_are_on_record_too() -> None:
    tool = Recorder(Level.MODERATE)
    policy = Policy(PolicySettings(tools={"tool": ToolRule(denied_paths=["private/**"])}))
    toolbox = Toolbox([tool], ["tool"], policy, None, tool)

    for name, arguments in (
        ("tool", '{"path": "private/x"}'),
        ("tool", '{"path": "../x"}'),
        ("tool", "no json"),
        ("other", "{}"),
    ):
        assert not (await toolbox.call(ToolCall("1", name, arguments), NEVER)).success

    assert tool.calls == []
    assert [(one.tool, one.status) for one in tool.noted] == [("tool", "refused")] * 3 + [("other", "refused")]


@pytest.mark.parametrize(
    "settings", [{"tools": 5}, {"tools": {"x": 5}}, {"approval_seconds": -1}, {"approval_seconds": 10**9}]
)
def test_settings_that_make_no_sense_allow_nothing(settings: dict[str, Any]) -> None:
    policy = Policy(PolicySettings.of(settings))

    with pytest.raises(Forbidden):
        policy.check("anything", Level.SAFE, {})


def test_what_is_said_of_all_tools_holds_beside_what_is_said_of_one() -> None:
    rules = {"*": ToolRule(requires_approval=True, denied_paths=["a/**"]), "tool": ToolRule(denied_paths=["b/**"])}
    policy = Policy(PolicySettings(tools=rules))

    assert policy.requires_approval("tool", Level.SAFE)
    for path in ("a/x", "b/x"):
        with pytest.raises(Forbidden):
            policy.check("tool", Level.MODERATE, {"path": path})


@pytest.mark.req("AGT-02.6")
def test_rules_about_paths_hold_for_what_is_listed_and_found() -> None:
    rule = ToolRule(denied_paths=["private/**"])
    found = {"matches": [{"path": "src/a"}, {"path": "private/b"}, {"path": "../x"}], "is_cut": False}

    assert Policy(PolicySettings(tools={"t": rule})).shown("t", found) == {
        "matches": [{"path": "src/a"}],
        "is_cut": False,
    }
    limited = Policy(PolicySettings(tools={"t": ToolRule(allowed_paths=["src/**"])}))
    assert limited.shown("t", {"files": [{"path": "src/a"}, {"path": "b"}]}) == {"files": [{"path": "src/a"}]}
    with pytest.raises(Forbidden):
        limited.check("t", Level.MODERATE, {"query": "x"}, ("query", "path"))  # everything, if nothing is said


def test_contents_are_kept_as_size_and_hash() -> None:
    kept = without_contents({"path": "a" * 9999, "content": "secret text", "lines": 5, "x": ["secret"]})

    assert len(kept["path"]) == 500
    assert kept["content"]["bytes"] == 11
    assert "secret text" not in json.dumps(kept)
    assert kept["lines"] == 5


@pytest.mark.anyio
@pytest.mark.req("WSA-09.1")
async def test_the_tool_of_the_documentation_works() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "write-a-tool.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], names)  # noqa: S102 - ours
    toolbox = Toolbox([names["CountWords"]()], ["count_words"])

    result = await toolbox.call(ToolCall("1", "count_words", '{"text": "one two"}'), NEVER)

    assert result.data == {"words": 2}
    files = (Path(__file__).parents[2] / "docs" / "concepts" / "files.md").read_text(encoding="utf-8")
    assert "sequenceDiagram" in files


FORBIDDEN = ("sqlalchemy", "redis", "qdrant_client", "qdrant_edge", "aio_pika", "psycopg", "artel.db", "artel.bus")
LOADED = """
import importlib, pkgutil, sys
import artel.tools
for module in pkgutil.iter_modules(artel.tools.__path__, "artel.tools."):
    importlib.import_module(module.name)
print(*sys.modules)
"""


@pytest.mark.req("WSA-06.4")
def test_no_tool_can_reach_the_servers_own_stores() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60)

    loaded = done.stdout.split()
    assert "artel.tools.files" in loaded
    assert not [name for name in loaded if name.startswith(FORBIDDEN)]


@pytest.mark.req("SEC-02.3")
def test_rules_of_a_tool_and_of_all_tools_are_added_up_and_each_bounded() -> None:
    globs = [f"folder{number}/**" for number in range(100)]
    both = {"*": {"denied_paths": globs}, "tool_list_directory": {"denied_paths": ["mine/**", *globs[1:]]}}
    policy = Policy(PolicySettings.of({"tools": both}))

    shown = policy.shown("tool_list_directory", {"files": [{"path": "mine/a"}, {"path": "folder0/a"}, {"path": "b"}]})

    assert shown == {"files": [{"path": "b"}]}
    too_many = Policy(PolicySettings.of({"tools": {"*": {"denied_paths": [*globs, "x"]}}}))
    with pytest.raises(Forbidden, match=r"settings\.tools\.\*\.denied_paths: .* at most 100 items.* Correct"):
        too_many.check("tool_stat", Level.SAFE, {})
