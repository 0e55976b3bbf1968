"""The policy for tool calls: rate limit, approvals, path rules and audit records."""

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
from artel.contract.project_settings import PolicySettings, ToolRule
from artel.tools.consent import Consent, Decision, NeedsApproval
from artel.tools.policy import Level, NotCalled, Policy, RateLimit, ToolCalls, arguments_hash
from artel.tools.tool import Tool, ToolResult
from artel.tools.toolbox import AuditRecord, Toolbox, without_contents

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.text(max_size=5), JSON, max_size=4)
NEVER = 10**12.0


class Recorder(Tool):
    """A tool that is also its own audit."""

    def __init__(self, level: Level) -> None:
        self.name = "tool"
        self.level = level
        self.schema = ToolSchema("tool", "Does it.", {"type": "object"})
        self.calls: list[Mapping[str, Any]] = []
        self.records: list[AuditRecord] = []

    async def call(self, arguments: Mapping[str, Any], _approval: Decision | None = None) -> ToolResult:
        self.calls.append(arguments)
        return ToolResult(success=True)

    async def record(self, call: AuditRecord) -> None:
        self.records.append(call)


@pytest.mark.req("AGT-02.9")
@given(gaps=st.lists(st.floats(0, 40), max_size=200))
def test_rate_limit_holds_in_every_minute(gaps: list[float]) -> None:
    now = 0.0
    rate_limit, made = RateLimit(10, lambda: now), list[float]()
    for gap in gaps:
        now += gap
        try:
            rate_limit.take()
        except NotCalled:
            assert len([at for at in made if at > now - 60]) == 10
        else:
            made.append(now)
        assert len([at for at in made if at > now - 60]) <= 10


@pytest.mark.req("AGT-02.9")
def test_sixty_calls_a_minute_are_allowed_by_default() -> None:
    now = 0.0
    rate_limit = RateLimit(now=lambda: now)
    for _ in range(60):
        rate_limit.take()
    with pytest.raises(NotCalled):
        rate_limit.take()
    now = 60.1
    rate_limit.take()


@pytest.mark.req("AGT-02.9")
def test_rate_limit_is_per_user_and_project_and_idle_projects_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artel.tools.policy.MAX_PROJECTS", 3)
    now = 0.0
    calls: ToolCalls = {}
    first = RateLimit(1, lambda: now, calls, (1, 1))
    first.take()
    for key in ((1, 2), (2, 1)):
        RateLimit(1, lambda: now, calls, key).take()
    with pytest.raises(NotCalled):
        RateLimit(1, lambda: now, calls, (1, 1)).take()
    now = 61.0
    first.take()

    RateLimit(1, lambda: now, calls, (3, 3)).take()

    assert set(calls) == {(1, 1), (3, 3)}
    with pytest.raises(NotCalled):
        first.take()


@given(first=ARGUMENTS, second=ARGUMENTS)
def test_approval_is_bound_to_the_arguments_in_any_order(first: dict[str, Any], second: dict[str, Any]) -> None:
    reordered = dict(reversed(first.items()))
    assert arguments_hash("t", first) == arguments_hash("t", reordered)
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
        (Tool.level, ToolRule(), True),  # a tool that names none
        ("critical", ToolRule(), True),
        ("harmless", ToolRule(), True),
    ],
)
async def test_critical_and_marked_tools_need_an_approval_for_each_call(level: Any, rule: ToolRule, asks: bool) -> None:
    tool = Recorder(level)
    policy = Policy(PolicySettings(tools={"tool": rule}))
    approved = Decision("a1", "approved")
    consent = Consent({arguments_hash("tool", {"x": 1}): approved})
    toolbox = Toolbox([tool], ["tool"], policy, consent, tool)

    await toolbox.call(ToolCall("1", "tool", '{"x": 1}'), NEVER)
    if asks:
        for arguments in ('{"x": 1}', '{"x": 2}'):  # an approval that is used up, and none
            with pytest.raises(NeedsApproval):
                await toolbox.call(ToolCall("2", "tool", arguments), NEVER)
        assert [(call.status, call.approval_id) for call in tool.records] == [
            ("done", "a1"),
            ("asked", None),
            ("asked", None),
        ]
    else:
        await toolbox.call(ToolCall("2", "tool", '{"x": 2}'), NEVER)
    assert tool.calls == ([{"x": 1}] if asks else [{"x": 1}, {"x": 2}])


@pytest.mark.anyio
@pytest.mark.parametrize("outcome", ["rejected", "expired"])
async def test_rejected_or_expired_call_is_not_made(outcome: Any) -> None:
    tool = Recorder(Level.CRITICAL)
    consent = Consent({arguments_hash("tool", {}): Decision("a1", outcome, "because")})

    result = await Toolbox([tool], ["tool"], Policy(), consent, tool).call(ToolCall("1", "tool", "{}"), NEVER)

    assert not result.success
    assert tool.calls == []
    assert [call.status for call in tool.records] == ["refused"]


@pytest.mark.anyio
@pytest.mark.req("AGT-02.8")
async def test_refused_calls_are_recorded() -> None:
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
    assert [(call.tool, call.status) for call in tool.records] == [("tool", "refused")] * 3 + [("other", "refused")]


@pytest.mark.parametrize(
    "settings", [{"tools": 5}, {"tools": {"x": 5}}, {"approval_seconds": -1}, {"approval_seconds": 10**9}]
)
def test_invalid_settings_allow_nothing(settings: dict[str, Any]) -> None:
    policy = Policy(PolicySettings.of(settings))

    with pytest.raises(NotCalled):
        policy.check("anything", Level.SAFE, {})


def test_rule_for_all_tools_is_merged_with_the_rule_of_a_tool() -> None:
    rules = {"*": ToolRule(requires_approval=True, denied_paths=["a/**"]), "tool": ToolRule(denied_paths=["b/**"])}
    policy = Policy(PolicySettings(tools=rules))

    assert policy.requires_approval("tool", Level.SAFE)
    for path in ("a/x", "b/x"):
        with pytest.raises(NotCalled):
            policy.check("tool", Level.MODERATE, {"path": path})


@pytest.mark.req("AGT-02.6")
def test_path_rules_apply_to_listings_and_search_results() -> None:
    rule = ToolRule(denied_paths=["private/**"])
    found = {"matches": [{"path": "src/a"}, {"path": "private/b"}, {"path": "../x"}], "is_cut": False}

    assert Policy(PolicySettings(tools={"t": rule})).filtered("t", found) == {
        "matches": [{"path": "src/a"}],
        "is_cut": False,
    }
    limited = Policy(PolicySettings(tools={"t": ToolRule(allowed_paths=["src/**"])}))
    assert limited.filtered("t", {"files": [{"path": "src/a"}, {"path": "b"}]}) == {"files": [{"path": "src/a"}]}
    with pytest.raises(NotCalled):
        limited.check(
            "t", Level.MODERATE, {"query": "x"}, ("query", "path")
        )  # without a path the whole folder is searched


def test_contents_are_recorded_as_size_and_hash() -> None:
    recorded = without_contents({"path": "a" * 9999, "content": "secret text", "lines": 5, "x": ["secret"]})

    assert len(recorded["path"]) == 500
    assert recorded["content"]["bytes"] == 11
    assert "secret text" not in json.dumps(recorded)
    assert recorded["lines"] == 5


@pytest.mark.anyio
@pytest.mark.req("WSA-09.1")
async def test_example_tool_in_the_documentation_works() -> None:
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
def test_tools_import_no_database_bus_or_index() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60)

    loaded = done.stdout.split()
    assert "artel.tools.files" in loaded
    assert not [name for name in loaded if name.startswith(FORBIDDEN)]


@pytest.mark.req("SEC-02.3")
def test_denied_paths_of_a_tool_and_of_all_tools_are_joined_and_each_bounded() -> None:
    globs = [f"folder{number}/**" for number in range(100)]
    both = {"*": {"denied_paths": globs}, "tool_list_directory": {"denied_paths": ["mine/**", *globs[1:]]}}
    policy = Policy(PolicySettings.of({"tools": both}))

    shown = policy.filtered(
        "tool_list_directory", {"files": [{"path": "mine/a"}, {"path": "folder0/a"}, {"path": "b"}]}
    )

    assert shown == {"files": [{"path": "b"}]}
    too_many = Policy(PolicySettings.of({"tools": {"*": {"denied_paths": [*globs, "x"]}}}))
    with pytest.raises(NotCalled, match=r"settings\.tools\.\*\.denied_paths: .* at most 100 items.* Correct"):
        too_many.check("tool_stat", Level.SAFE, {})


@pytest.mark.req("SEC-02.3")
@pytest.mark.parametrize(
    ("entries", "globs", "is_slow"), [(200, 0, False), (201, 0, True), (20, 9, False), (20, 10, True), (0, 100, False)]
)
def test_many_comparisons_of_entries_with_globs_are_made_on_a_thread(entries: int, globs: int, is_slow: bool) -> None:
    rules = {"*": ToolRule(denied_paths=[f"{number}/**" for number in range(globs)])}
    data = {"files": [{"path": "a"}] * (entries // 2), "matches": [{"path": "a"}] * (entries - entries // 2)}

    assert Policy(PolicySettings(tools=rules)).filters_slowly("tool_list_files", data) is is_slow
