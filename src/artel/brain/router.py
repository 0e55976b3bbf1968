"""Chooses the brain for each model, as it is configured now, and enforces which models agents may use."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from typing import Literal
from urllib.parse import urlsplit

from artel.brain import prices
from artel.brain.brain import Brain, Completion, Request, TokenSink
from artel.brain.demo.demo_brain import DemoBrain
from artel.brain.errors import ModelNotAllowed, ModelNotConfigured
from artel.brain.litellm_client import LiteLLM
from artel.brain.openai_compatible import OPENAI_URL, OpenAICompatible
from artel.brain.providers import (
    OPENAI,
    ProviderAccount,
    StoredProvider,
    accounts_of,
    is_set_by_environment,
    provider_of,
)
from artel.brain.retries import RetiringClient, RetryingBrain

DEFAULT_MODEL = "gpt-4"
PLANNER_MODEL = "gpt-4o"
# The first of these that a provider has is the model of new agents if nobody has chosen one.
SUGGESTED = {
    OPENAI: ("gpt-4", "gpt-4o", "gpt-4.1", "gpt-5"),
    "anthropic": ("anthropic/claude-sonnet-4-5",),
    "gemini": ("gemini/gemini-2.5-flash",),
    "mistral": ("mistral/mistral-large-latest",),
    "openrouter": ("openrouter/openai/gpt-4o",),
}
MAX_NAMED = 5  # models that an error message names


@dataclass(frozen=True, slots=True)
class ModelRules:
    """Glob patterns of models that agents may use; `unpriced` are allowed without a known price.

    `with_images` take images besides those that are known to.
    Models that the operator configured (for planning, as fallback) are always allowed.
    """

    allowed: Sequence[str] = ("*",)
    unpriced: Sequence[str] = ("*",)
    chosen: Sequence[str] = ()
    with_images: Sequence[str] = ()

    def require(self, model: str) -> None:
        """Raise ModelNotAllowed unless an agent may use the model."""
        if model in self.chosen:
            return
        if not _matches(model, self.allowed):
            raise ModelNotAllowed(
                f"The model {model} is not allowed on this server. Choose one that matches: {', '.join(self.allowed)}."
            )
        self.require_price(model)

    def require_price(self, model: str) -> None:
        """Raise ModelNotAllowed if the price of a model is unknown and no rule allows that."""
        if model not in self.chosen and not _matches(model, self.unpriced) and not prices.is_known(model):
            raise ModelNotAllowed(
                f"The price of the model {model} is unknown, so no budget can limit it. Choose a model with a "
                "known price, or ask an administrator to allow this one (setting models_unpriced)."
            )


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The models of new agents and of planning; None if nobody has chosen one."""

    default_model: str | None = None
    planner_model: str | None = None


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

    def __init__(
        self, env: Mapping[str, str], rules: ModelRules | None = None, choice: ModelChoice | None = None
    ) -> None:
        self._env = dict(env)
        self._demo = DemoBrain()
        self._clients: dict[str, RetiringClient] = {}
        self._retrying = RetryingBrain(self._choose, takes_images=self.takes_images)
        self._apply((), rules or ModelRules(), choice or ModelChoice())

    async def configure(self, stored: Sequence[StoredProvider], rules: ModelRules, choice: ModelChoice) -> None:
        """Use these providers besides those of the environment, from the next call on; running calls go on."""
        if stored:
            await prices.load()
        self._apply(stored, rules, choice)
        for name, client in list(self._clients.items()):
            if self._accounts.get(name) != client.account:
                del self._clients[name]
                await client.retire()

    def _apply(self, stored: Sequence[StoredProvider], rules: ModelRules, choice: ModelChoice) -> None:
        self._rules = rules
        self._accounts = accounts_of(self._env, {provider.prefix: provider for provider in stored})
        self.default_model = choice.default_model or self._suggested(DEFAULT_MODEL)
        has_planner = not self.configured or self._has(PLANNER_MODEL) or not self._has(self.default_model)
        self.planner_model = choice.planner_model or (PLANNER_MODEL if has_planner else self.default_model)

    @property
    def configured(self) -> bool:
        """Whether any provider is configured; if not, the demo brain answers for every model."""
        return any(not account.provider.vague for account in self._accounts.values())

    @property
    def accounts(self) -> list[ProviderAccount]:
        """The configured providers, without a second name of the same server."""
        return [account for name, account in self._accounts.items() if name != "ollama_chat"]

    def describe(self) -> BrainDescription:
        """Return the configured providers."""
        return BrainDescription(
            mode="models" if self.configured else "demo",
            providers=tuple(
                ConfiguredProvider(account.provider.name, public_url(account.address)) for account in self.accounts
            ),
        )

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the model's answer, with retries and the fallback model where needed."""
        return await self._retrying.complete(request, stream)

    def is_demo(self, model: str) -> bool:
        """Whether the demo brain answers for a model; with a key of its provider somebody expects the model itself."""
        provider = provider_of(model, self._accounts)
        return not self.configured and provider.name not in self._accounts and provider.key(self._env) is None

    def is_set_by_environment(self, prefix: str) -> bool:
        """Whether the environment configures the provider of a prefix, so that a stored one is not used."""
        return is_set_by_environment(prefix, self._env)

    def provider_name(self, model: str) -> str:
        """Return the name of a model's provider, which is the prefix of its models."""
        return provider_of(model, self._accounts).name

    def proxy_for(self, url: str) -> str | None:
        """Return the proxy for a URL, if the environment sets one."""
        return _proxy(url, self._env)

    def takes_images(self, model: str) -> bool:
        """Return whether a model is known to take images, or allowed to by a rule; the demo brain names them."""
        is_known = bool(prices.takes_images(model))
        return is_known or _matches(model, self._rules.with_images) or self.is_demo(model)

    async def close(self) -> None:
        """Close all clients."""
        for client in self._clients.values():
            await client.brain.close()

    def is_allowed(self, model: str) -> bool:
        """Whether agents may use a model."""
        try:
            self.require_allowed(model)
        except ModelNotAllowed:
            return False
        return True

    def require_allowed(self, model: str) -> None:
        """Raise ModelNotAllowed if agents may not use the model; the demo brain allows any."""
        if self.configured or provider_of(model, self._accounts).name in self._accounts:
            self._rules.require(model)

    def require_configured(self, model: str) -> None:
        """Raise ModelNotConfigured unless the model's provider is configured, or the demo brain answers for it."""
        if not self.is_demo(model):
            self._account_of(model)

    def require_price(self, model: str) -> None:
        """Raise ModelNotAllowed if a node's model has no known price and no rule allows that."""
        if model != prices.DEMO:
            self._rules.require_price(model)

    def _choose(self, model: str) -> Brain:
        self.require_allowed(model)
        if self.is_demo(model):
            return self._demo
        account = self._account_of(model)
        name = account.provider.name
        if name not in self._clients:
            self._clients[name] = RetiringClient(self._open(account), account)
        return self._clients[name]

    def _account_of(self, model: str) -> ProviderAccount:
        provider = provider_of(model, self._accounts)
        account = self._accounts.get(provider.name)
        if account is not None and account.stored is not None and account.stored.problem is not None:
            raise ModelNotConfigured(f"{model} can't be used: {account.stored.problem}")
        if account is not None:
            return account
        names = ", ".join(self._available())
        choice = f" Choose another model under Agents: {names}." if names else ""
        text = (
            f"No provider is configured for {model}.{choice} An administrator can add its provider under Models or "
            f"with `artel models add`, or set {provider.missing(self._env)}."
        )
        openai = self._accounts.get(OPENAI)
        if provider.name != OPENAI and openai is not None and openai.address:
            text += f" To use the server at {openai.variables.address}, name the model openai/{model}."
        raise ModelNotConfigured(text)

    def _available(self) -> list[str]:
        """Return some models that agents can use instead, the default first, or the beginnings of their names."""
        names = [self.default_model] if self._has(self.default_model) else []
        for account in self.accounts:
            found = list(islice((model for model in self._models_of(account) if model not in names), MAX_NAMED))
            names += found or ([] if account.provider.vague or account.stored else [f"{account.provider.name}/…"])
        return names[:MAX_NAMED]

    def _models_of(self, account: ProviderAccount) -> Iterator[str]:
        models = account.stored.models if account.stored and account.stored.problem is None else ()
        return (model for model in models if self.is_allowed(model))

    def _has(self, model: str) -> bool:
        """Return whether a model can be called, as far as is known."""
        account = self._accounts.get(provider_of(model, self._accounts).name)
        if account is None or (account.stored is not None and account.stored.problem is not None):
            return False
        return account.stored is None or not account.stored.models or model in account.stored.models

    def _suggested(self, default: str) -> str:
        """Return the model of new agents if nobody has chosen one."""
        if not self.configured or self._has(default):
            return default
        for account in self.accounts:
            for model in (*SUGGESTED.get(account.provider.name, ()), *self._models_of(account)):
                if self._has(model) and self.is_allowed(model):
                    return model
        return default

    def _open(self, account: ProviderAccount) -> Brain:
        provider, address = account.provider, account.address
        if not account.is_direct:
            # LiteLLM itself reads the keys of providers that need more than one value.
            key = None if provider.vague else account.key
            return LiteLLM(key, address, provider=provider.name, variables=account.variables)
        url = address or OPENAI_URL
        if provider.local or account.stored:
            url = with_version(url)
        return OpenAICompatible(
            url, account.key, provider=provider.name, variables=account.variables, proxy=self.proxy_for(url)
        )


def with_version(url: str) -> str:
    """Return the address of an OpenAI-compatible API: `/v1` is added if the URL has no path."""
    return url if urlsplit(url).path.rstrip("/") else f"{url.rstrip('/')}/v1"


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


def public_url(url: str | None) -> str | None:
    """Return a URL without user, password and query."""
    if url is None:
        return None
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
