"""The demo brain, and the router that chooses the client of a model."""

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import pytest

from artel.brain.brain import Completion, Request, Schema, Usage
from artel.brain.demo.demo_brain import DemoBrain
from artel.brain.errors import ModelError, ModelRefused, ModelTimedOut
from artel.brain.openai_format import body_of
from artel.brain.prices import cost
from artel.brain.providers import PROVIDERS, StoredProvider, provider_of
from artel.brain.retries import RetryingBrain
from artel.brain.router import BrainRouter, ModelChoice, ModelRules
from tests.actors.model_caller import CRITIQUE, KEY, PLAN, STEPS, STREAMED, UNDERSTANDING, Sink, ask, failure_of
from tests.model_server import Fail, Hold, ModelServer, Raw

pytestmark = pytest.mark.anyio


async def complete_with_demo(request: Request, sink: Sink | None = None) -> Completion:
    return await RetryingBrain(lambda _model: DemoBrain()).complete(request, sink)


async def test_demo_brain_streams_its_answer_and_reports_its_name() -> None:
    sink = Sink()

    completion = await complete_with_demo(ask("Hello!"), sink)

    assert len(sink.heard) > 10
    assert sink.text == completion.content
    assert (completion.usage.model, completion.usage.cost_usd, completion.usage.calls) == ("demo", 0.0, 1)
    assert completion.usage.input_tokens > 0


@pytest.mark.parametrize("schema", [PLAN, CRITIQUE, UNDERSTANDING, STEPS], ids=lambda schema: schema.name)
async def test_demo_brain_returns_structured_answers(schema: Schema) -> None:
    completion = await complete_with_demo(ask("Research tea, then write about it.", response_format=schema))

    assert completion.parsed == json.loads(completion.content)


async def test_the_demo_brain_keeps_the_deadline() -> None:
    brain = RetryingBrain(lambda _model: DemoBrain())
    assert type(await failure_of(brain, ask(deadline=time.monotonic() - 1))) is ModelTimedOut


async def answer_of(env: dict[str, str], model: str) -> Completion:
    router = BrainRouter(env)
    try:
        return await router.complete(ask(model=model))
    finally:
        await router.close()


@pytest.mark.parametrize("model", ["gpt-4", "anthropic/claude-sonnet-4-5", "ollama/llama3", "whatever"])
async def test_without_any_key_the_demo_brain_answers_for_every_model(model: str) -> None:
    env = {"OPENAI_API_KEY": "", "AWS_ACCESS_KEY_ID": "for-other-things", "HF_TOKEN": "x"}

    assert BrainRouter(env).configured is False
    assert BrainRouter(env).describe().mode == "demo"
    assert (await answer_of(env, model)).usage.model == "demo"


@pytest.mark.req("AGT-01.1")
@pytest.mark.parametrize(
    ("env", "model", "wire_name"),
    [
        ({"OPENAI_BASE_URL": "{url}"}, "gpt-4", "gpt-4"),
        ({"OPENAI_BASE_URL": "{url}", "OPENAI_API_KEY": KEY}, "meta-llama/Llama-3", "meta-llama/Llama-3"),
        ({"OPENAI_BASE_URL": "{url}/"}, "claude-sonnet-4-5", "claude-sonnet-4-5"),
        ({"OPENAI_BASE_URL": "{url}"}, "openai/anthropic/claude", "anthropic/claude"),
        ({"OLLAMA_API_BASE": "{host}"}, "ollama/llama3:8b", "llama3:8b"),
        ({"OLLAMA_API_BASE": "{host}/", "OPENAI_API_KEY": KEY}, "ollama_chat/llama3", "llama3"),
        ({"HOSTED_VLLM_API_BASE": "{url}"}, "hosted_vllm/Qwen/Qwen3", "Qwen/Qwen3"),
        ({"LM_STUDIO_API_BASE": "{url}"}, "lm_studio/qwen", "qwen"),
    ],
)
async def test_openai_compatible_servers_are_called_directly(
    models: ModelServer, env: dict[str, str], model: str, wire_name: str
) -> None:
    host = models.url.removesuffix("/v1")
    env = {name: value.format(url=models.url, host=host) for name, value in env.items()}

    completion = await answer_of(env, model)

    assert completion.content == "You said: Hello there"
    assert completion.usage.model == model
    assert completion.usage.cost_usd == (0 if model.startswith(("ollama", "hosted", "lm_")) else cost(model, 5, 4))
    assert models.asked[0].body["model"] == wire_name
    assert ("Authorization" in models.asked[0].headers) == ("OPENAI_API_KEY" in env and not model.startswith("ollama"))


@pytest.mark.req("AGT-01.1")
async def test_other_providers_are_called_through_litellm(models: ModelServer) -> None:
    host = models.url.removesuffix("/v1")
    document: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "id": "1",
        "stop_reason": "end_turn",
    }
    document |= {"content": [{"type": "text", "text": "Good day."}], "usage": {"input_tokens": 7, "output_tokens": 2}}
    models.script(Raw(json.dumps(document).encode()))

    completion = await answer_of({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_API_BASE": host}, "claude-sonnet-4-5")

    assert completion.content == "Good day."
    assert completion.usage == Usage("claude-sonnet-4-5", 7, 2, cost("claude-sonnet-4-5", 7, 2), calls=1)
    assert completion.usage.cost_usd
    assert models.asked[0].headers["x-api-key"] == KEY


@pytest.mark.req("MOD-01.3")
@STREAMED
@pytest.mark.parametrize(
    "model",
    ["anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash", "gpt-4"],
)
async def test_redirect_of_a_provider_is_not_followed(models: ModelServer, model: str, streamed: bool) -> None:
    async with ModelServer().running() as elsewhere:
        models.default = Fail(307, headers={"Location": f"{elsewhere.url}/chat/completions"})
        provider = StoredProvider(
            1, "P", provider_of(model, {}).name, models.url.removesuffix("/v1"), KEY, is_direct=model == "gpt-4"
        )
        router = BrainRouter({})
        await router.configure([provider], ModelRules(), ModelChoice())
        try:
            with pytest.raises(ModelError):
                await router.complete(ask(model=model), Sink() if streamed else None)
        finally:
            await router.close()

        assert models.asked
        assert not elsewhere.asked


@pytest.mark.req("MOD-01.1")
async def test_running_call_ends_with_the_provider_that_it_began_with(models: ModelServer) -> None:
    hold = Hold("done")
    models.script(hold)
    router = BrainRouter({})
    first = StoredProvider(1, "P", "openai", models.url, KEY, is_direct=True)
    await router.configure([first], ModelRules(), ModelChoice())
    call = asyncio.ensure_future(router.complete(ask(model="gpt-4")))
    while not hold.arrived:  # noqa: ASYNC110 - it is a deque, because other tests use it from other threads
        await asyncio.sleep(0.005)

    await router.configure([replace(first, api_key="another")], ModelRules(), ModelChoice())
    hold.release()

    assert (await call).content == "done"
    await router.complete(ask(model="gpt-4"))
    assert [request.headers["Authorization"] for request in models.asked] == [f"Bearer {KEY}", "Bearer another"]
    await router.configure([], ModelRules(), ModelChoice())
    assert (await router.complete(ask(model="gpt-4"))).usage.model == "demo"
    await router.close()


@pytest.mark.req("AGT-01.4")
async def test_azure_answers_as_other_providers_do(models: ModelServer) -> None:
    host = models.url.removesuffix("/v1")

    completion = await answer_of({"AZURE_API_KEY": KEY, "AZURE_API_BASE": host}, "azure/gpt-4o")

    assert completion.content == "You said: Hello there"
    assert completion.usage.model == "azure/gpt-4o"
    assert completion.usage.cost_usd == cost("azure/gpt-4o", 5, 4)
    assert models.asked[0].body["model"] == "gpt-4o"
    assert models.asked[0].headers["api-key"] == KEY


@pytest.mark.parametrize(
    ("env", "model", "variable"),
    [
        ({"ANTHROPIC_API_KEY": KEY}, "gpt-4", "OPENAI_API_KEY"),
        ({"OPENAI_API_KEY": KEY}, "claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ({"OPENAI_API_KEY": KEY}, "ollama/llama3", "OLLAMA_API_BASE"),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:9"}, "gemini/gemini-2.5-pro", "GEMINI_API_KEY"),
        ({"AZURE_API_KEY": KEY}, "azure/gpt-4o", "AZURE_API_BASE"),
        ({"OPENAI_API_KEY": KEY, "AZURE_API_BASE": "http://127.0.0.1:9"}, "azure/gpt-4o", "AZURE_API_KEY"),
    ],
)
async def test_refusal_names_the_variable_of_the_missing_provider(
    env: dict[str, str], model: str, variable: str
) -> None:
    with pytest.raises(ModelRefused) as caught:
        await answer_of(env, model)

    assert variable in caught.value.detail
    assert model in caught.value.detail
    assert KEY not in caught.value.detail


@pytest.mark.req("AGT-01.2")
async def test_fallback_may_belong_to_another_provider(models: ModelServer) -> None:
    router = BrainRouter({"OPENAI_BASE_URL": models.url, "OLLAMA_API_BASE": models.url})
    models.script(Fail(401))

    completion = await router.complete(ask(model="gpt-4", fallback_model="ollama/llama3"))

    assert completion.usage.model == "ollama/llama3"
    assert completion.usage.cost_usd == 0
    await router.close()


def test_the_description_holds_no_secret() -> None:
    address = f"https://user:{KEY}@example.org/v1?key={KEY}"
    described = BrainRouter({"OPENAI_BASE_URL": address, "OPENAI_API_KEY": KEY, "GROQ_API_KEY": KEY}).describe()

    assert described.mode == "models"
    assert {provider.name: provider.address for provider in described.providers} == {
        "openai": "https://example.org/v1",
        "groq": None,
    }
    assert KEY not in repr(described)


def test_line_end_of_a_key_is_stripped() -> None:
    assert PROVIDERS["openai"].key({"OPENAI_API_KEY": f"{KEY}\n"}) == KEY


def test_schemas_are_strict_where_openai_accepts_it() -> None:
    strict = {schema.name: _strictness(schema) for schema in (CRITIQUE, PLAN, STEPS)}

    assert strict == {"critique": True, "plan": False, "steps": False}


def _strictness(schema: Schema) -> bool:
    body = body_of(ask(response_format=schema), "gpt-4o", frozenset(), stream=False)
    strict: bool = body["response_format"]["json_schema"]["strict"]
    return strict


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = ("litellm", "openai", "tiktoken", "aiohttp", "jsonschema", "httpx")
    program = (
        "import sys, artel.brain.router, artel.brain.tokens, artel.brain.prices\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.strip() == "[]"
