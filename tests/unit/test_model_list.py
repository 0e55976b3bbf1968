"""Asking a provider for its models is bounded in time."""

import asyncio

import pytest

from artel.model_providers.key_cipher import KeyCipher, KeyUnreadable
from artel.model_providers.kinds import KINDS
from artel.model_providers.model_list import fetch_models
from tests.model_server import Hang, ModelServer

pytestmark = pytest.mark.anyio


@pytest.mark.req("MOD-01.3")
async def test_provider_that_does_not_answer_is_given_up() -> None:
    async with ModelServer().running() as server:
        server.listing = hang = Hang()
        kind = KINDS["openai_compatible"]

        found = await fetch_models(kind, server.url, None, "lab", proxy=None, seconds=0.2)
        await asyncio.wait_for(hang.abandoned.wait(), 60)

    assert found.error is not None
    assert found.error.startswith(f"{server.url}/models did not answer within 0.2 s.")


@pytest.mark.req("MOD-01.3")
async def test_key_of_openrouter_is_tested_although_its_list_is_public() -> None:
    async with ModelServer().running() as server:
        server.models = ["openai/gpt-4o"]

        found = await fetch_models(KINDS["openrouter"], server.url, "k", "openrouter", proxy=None, seconds=60)

        assert [request.body["path"] for request in server.listed] == ["/v1/key", "/v1/models"]
        assert found.models == ("openrouter/openai/gpt-4o",)


@pytest.mark.req("MOD-01.2")
def test_key_is_read_with_its_secret_and_context_only() -> None:
    cipher = KeyCipher("a secret of the server that is long enough")
    encrypted = cipher.encrypt("sk-1234", "openai https://example.org")

    assert "sk-1234" not in encrypted
    assert encrypted != cipher.encrypt("sk-1234", "openai https://example.org")
    assert cipher.decrypt(encrypted, "openai https://example.org") == "sk-1234"
    for other, context in [
        (cipher, "openai https://evil.example"),
        (KeyCipher("x" * 40), "openai https://example.org"),
    ]:
        with pytest.raises(KeyUnreadable):
            other.decrypt(encrypted, context)
