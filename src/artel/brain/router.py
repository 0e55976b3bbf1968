"""Chooses the brain for each model, as the environment configures it, and enforces which models agents may use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal
from urllib.parse import urlsplit

from artel.brain import prices
from artel.brain.brain import Brain, Completion, Request, TokenSink
from artel.brain.demo.demo_brain import DemoBrain
from artel.brain.errors import ModelNotAllowed, ModelRefused, ServerVariables
from artel.brain.litellm_client import LiteLLM
from artel.brain.openai_compatible import OPENAI_URL, OpenAICompatible
from artel.brain.providers import OPENAI, PROVIDERS, Provider, provider_of
from artel.brain.retries import RetryingBrain


@dataclass(frozen=True, slots=True)
class ModelRules:
    """Glob patterns of models that agents may use; `unpriced` are allowed without a known price.

    Models that the operator configured (for planning, as fallback) are always allowed.
    """

    allowed: Sequence[str] = ("*",)
    unpriced: Sequence[str] = ("*",)
    chosen: Sequence[str] = ()

    def require(self, model: str) -> None:
        """Raise ModelNotAllowed unless an agent may use the model."""
        if model in self.chosen:
            return
        if not _matches(model, self.allowed):
            raise ModelNotAllowed(
                f"The model {model} is not allowed on this server. Choose one that matches: {', '.join(self.allowed)}."
            )
        if not _matches(model, self.unpriced) and not prices.is_known(model):
            raise ModelNotAllowed(
                f"The price of the model {model} is unknown, so no budget can limit it. Choose a model with a "
                "known price, or ask an administrator to allow this one (setting models_unpriced)."
            )


@dataclass(frozen=True, slots=True)
class ConfiguredProvider:
    """A configured provider, without its key."""

    name: str
    address: str | None


@dataclass(frozen=True, slots=True)
class BrainDescription:
    """The configured providers, for display: no secrets."""

    mode: Literal["demo", "models"]
    providers: tuple[ConfiguredProvider, ...]


class BrainRouter:
    """The brain of a server: it owns the clients and routes each request to the provider of its model."""

    def __init__(self, env: Mapping[str, str], rules: ModelRules | None = None) -> None:
        self._env = dict(env)
        self._rules = rules or ModelRules()
        self._configured = tuple(provider for provider in PROVIDERS.values() if provider.is_configured(self._env))
        self._demo = DemoBrain()
        self._clients: dict[str, Brain] = {}
        self._retrying = RetryingBrain(self._choose)

    @property
    def configured(self) -> bool:
        """Whether any provider is configured; if not, the demo brain answers for every model."""
        return any(not provider.vague for provider in self._configured)

    def describe(self) -> BrainDescription:
        """Return the configured providers."""
        return BrainDescription(
            mode="models" if self.configured else "demo",
            providers=tuple(
                ConfiguredProvider(provider.name, _public(provider.address(self._env))) for provider in self._shown()
            ),
        )

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the model's answer, with retries and the fallback model where needed."""
        return await self._retrying.complete(request, stream)

    async def close(self) -> None:
        """Close all clients."""
        for client in self._clients.values():
            await client.close()

    def require_allowed(self, model: str) -> None:
        """Raise ModelNotAllowed if agents may not use the model; the demo brain allows any."""
        provider = provider_of(model, self._env)
        if self.configured or provider.is_configured(self._env):
            self._rules.require(model)

    def _choose(self, model: str) -> Brain:
        self.require_allowed(model)
        provider = provider_of(model, self._env)
        if provider.is_configured(self._env):
            if provider.name not in self._clients:
                self._clients[provider.name] = self._client(provider)
            return self._clients[provider.name]
        if not self.configured:
            return self._demo
        variable = provider.addresses[0] if provider.local else provider.keys[0]
        others = ", ".join(f"{other.name}/…" for other in self._shown() if not other.vague)
        text = f"No provider is configured for {model}: set {variable}, or choose another model ({others})."
        if provider.name != OPENAI and PROVIDERS[OPENAI].address(self._env):
            text += f" To use the server at OPENAI_BASE_URL, name the model openai/{model}."
        raise ModelRefused(text)

    def _shown(self) -> list[Provider]:
        """Return the configured providers, without a second name of the same server."""
        return [provider for provider in self._configured if provider.name != "ollama_chat"]

    def _client(self, provider: Provider) -> Brain:
        name, key, address = provider.name, provider.key(self._env), provider.address(self._env)
        variables = ServerVariables(provider.keys[0], provider.addresses[0] if provider.addresses else None)
        if not provider.direct:
            # LiteLLM itself reads the keys of providers that need more than one value.
            return LiteLLM(None if provider.vague else key, address, provider=name, variables=variables)
        url = address or OPENAI_URL
        if provider.local and not urlsplit(url).path.rstrip("/"):
            url = f"{url.rstrip('/')}/v1"
        return OpenAICompatible(url, key, provider=name, variables=variables, proxy=_proxy(url, self._env))


def _matches(model: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(model, glob) for glob in globs)


def _proxy(url: str, env: Mapping[str, str]) -> str | None:
    """Return the proxy for a URL, from HTTP_PROXY, HTTPS_PROXY and NO_PROXY."""
    parts = urlsplit(url)
    name = f"{parts.scheme}_proxy"
    proxy = env.get(name.upper()) or env.get(name)
    if not proxy:
        return None
    # A late import, because it takes time and few have a proxy; the type stubs lack it.
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

    no_proxy = env.get("NO_PROXY") or env.get("no_proxy") or ""
    return None if proxy_bypass_environment(parts.hostname or "", {"no": no_proxy}) else proxy


def _public(url: str | None) -> str | None:
    """Return a URL without user, password and query."""
    if url is None:
        return None
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
