"""The rules for models apply to every provider that has credentials."""

import pytest

from artel.brain import prices
from artel.brain.errors import ModelNotAllowed
from artel.brain.router import BrainRouter, ModelChoice, ModelRules


@pytest.mark.anyio
@pytest.mark.req("SEC-05.1")
@pytest.mark.parametrize(
    ("variable", "model"),
    [("AWS_ACCESS_KEY_ID", "sagemaker/x"), ("HF_TOKEN", "huggingface/a/b"), ("VERTEXAI_PROJECT", "vertex_ai/x")],
)
async def test_rules_apply_to_providers_whose_keys_serve_other_purposes(variable: str, model: str) -> None:
    router = BrainRouter({variable: "x"}, ModelRules(["gpt-4o"], ["*"]))

    with pytest.raises(ModelNotAllowed):
        router.require_allowed(model)
    with pytest.raises(ModelNotAllowed):
        router._choose(model)
    router.require_allowed("gpt-4")  # the demo brain answers for it
    await router.close()


@pytest.mark.req("SEC-05.4")
@pytest.mark.parametrize("model", ["gpt-4o", "anthropic/claude-sonnet-4-5", "ollama/llama3"])
def test_usual_models_have_a_price(model: str) -> None:
    assert prices.is_known(model)


@pytest.mark.req("SEC-05.4")
@pytest.mark.parametrize("model", ["openai/nobody-knows-this", "vllm/x", "llamafile/x", "demo", "demo/x"])
def test_models_that_sound_free_have_no_price(model: str) -> None:
    assert not prices.is_known(model)


@pytest.mark.anyio
@pytest.mark.req("SEC-05.4")
async def test_node_whose_model_has_no_price_needs_a_rule() -> None:
    router = BrainRouter({}, ModelRules(unpriced=["openai/local-*"]))  # the demo brain answers here, not on nodes

    with pytest.raises(ModelNotAllowed, match="models_unpriced"):
        router.require_price("openai/nobody-knows-this")
    for model in ("gpt-4o", "ollama/llama3", "openai/local-7b", prices.DEMO):
        router.require_price(model)
    await router.close()


@pytest.mark.req("MOD-01.5")
@pytest.mark.parametrize(
    ("env", "default", "planner"),
    [
        ({}, "gpt-4", "gpt-4o"),
        ({"OPENAI_API_KEY": "x", "ANTHROPIC_API_KEY": "x"}, "gpt-4", "gpt-4o"),
        ({"ANTHROPIC_API_KEY": "x"}, "anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ({"GROQ_API_KEY": "x"}, "gpt-4", "gpt-4o"),
    ],
)
def test_default_models_fit_the_configured_providers(env: dict[str, str], default: str, planner: str) -> None:
    router = BrainRouter(env)

    assert (router.default_model, router.planner_model) == (default, planner)
    chosen = BrainRouter(env, choice=ModelChoice("gpt-5", "gpt-5-mini"))
    assert (chosen.default_model, chosen.planner_model) == ("gpt-5", "gpt-5-mini")
