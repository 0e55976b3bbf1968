"""Settings of projects as the server uses them."""

from typing import Any

import pytest

from artel.contract.project_settings import EffectiveSettings


def test_missing_settings_have_the_defaults() -> None:
    settings = EffectiveSettings.of({"colour": "blue"})

    assert (settings.plans.approve_from_tasks, settings.policy.approval_seconds) == (3, 300)
    assert settings.monthly_budget_usd is None
    assert settings.policy.problem is None


@pytest.mark.parametrize("stored", [{"plans": {"approve_from_tasks": 0}}, {"plans": 7}, {"monthly_budget_usd": -1}])
def test_every_plan_needs_approval_if_the_settings_for_plans_are_not_valid(stored: dict[str, Any]) -> None:
    settings = EffectiveSettings.of(stored)

    assert settings.plans.approve_from_tasks == 1
    assert settings.policy.problem is None


def test_all_tools_are_off_if_the_settings_for_tools_are_not_valid() -> None:
    settings = EffectiveSettings.of({"tools": 7, "plans": {"approve_from_tasks": 9}, "monthly_budget_usd": 5})

    assert not settings.policy.tools["*"].enabled
    assert "settings.tools" in str(settings.policy.problem)
    assert (settings.plans.approve_from_tasks, settings.monthly_budget_usd) == (9, 5)


@pytest.mark.parametrize("limit", ["5", True, -0.01, None, [5]])
def test_a_monthly_budget_that_is_no_amount_is_ignored(limit: object) -> None:
    assert EffectiveSettings.of({"monthly_budget_usd": limit}).monthly_budget_usd is None


@pytest.mark.parametrize(("stored", "allowed"), [({}, ("*",)), ({"nodes_allowed": ["a.*"]}, ("a.*",))])
def test_all_nodes_are_allowed_unless_the_settings_name_some(stored: dict[str, Any], allowed: tuple[str, ...]) -> None:
    assert EffectiveSettings.of(stored).nodes_allowed == allowed


@pytest.mark.parametrize("stored", ["*", [""], [7], None])
def test_no_node_is_allowed_if_the_settings_for_nodes_are_not_valid(stored: object) -> None:
    assert EffectiveSettings.of({"nodes_allowed": stored}).nodes_allowed == ()


HOSTILE_GLOBS = [
    pytest.param(["a*b" * 33], "a glob may have at most 32 wildcards", id="in-one"),
    pytest.param(["/".join("?" * 31)] * 10, "at most 300 wildcards together", id="in-all"),
    pytest.param(["x" * 999] * 21, "at most 20000 characters together", id="characters"),
]


@pytest.mark.req("SEC-02.1")
@pytest.mark.parametrize(("globs", "message"), HOSTILE_GLOBS)
@pytest.mark.parametrize("name", ["allowed_paths", "denied_paths"])
def test_all_tools_are_off_if_path_rules_would_take_long_to_match(name: str, globs: list[str], message: str) -> None:
    settings = EffectiveSettings.of({"tools": {"tool_list_files": {name: globs}}})

    assert not settings.policy.tools["*"].enabled
    assert message in str(settings.policy.problem)


@pytest.mark.req("SEC-02.1")
def test_no_node_is_allowed_if_the_globs_would_take_long_to_match() -> None:
    assert EffectiveSettings.of({"nodes_allowed": ["a*" * 33]}).nodes_allowed == ()


def test_usual_path_rules_are_within_the_limits() -> None:
    globs = [f"**/folder-{number}/20??-??-??/[a-f]*.py" for number in range(30)] + ["**/**/**/*", "**"]

    settings = EffectiveSettings.of({"tools": {"*": {"denied_paths": globs}}})

    assert settings.policy.rule("tool_list_files").denied_paths == globs
