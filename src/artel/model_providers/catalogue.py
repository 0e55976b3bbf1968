"""Models and providers as users and administrators see them."""

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from artel.brain import prices
from artel.brain.providers import KnownProvider, ProviderAccount
from artel.brain.router import BrainRouter, public_url
from artel.contract.models import Kind, Models, ModelShown, Provider
from artel.model_providers.kinds import COMPATIBLE, KIND_OF_PREFIX, KINDS
from artel.model_providers.model_list import ModelList
from artel.model_providers.repository import ProviderRow

MILLION = 1_000_000
LIST_SECONDS = 3.0
KEEP_SECONDS = 60.0  # how long the models of a provider of the environment are remembered

Source = Literal["stored", "environment", "demo"]
Fetch = Callable[[Kind, str | None, str | None, str, float], Awaitable[ModelList]]


class ModelCatalogue:
    """The models that agents can be given, with price and window."""

    def __init__(self, brain: BrainRouter, fetch: Fetch) -> None:
        self._brain = brain
        self._fetch = fetch
        self._listed: dict[str, tuple[float, Sequence[str]]] = {}  # of providers of the environment, with the time

    async def models(self) -> Models:
        """Return all models of the configured providers."""
        await prices.load()
        brain = self._brain
        items: list[ModelShown] = []
        if not brain.configured:
            items = [self._shown(brain.default_model, "demo brain", None, "demo", allowed=True)]
        for account in brain.accounts:
            if account.provider.vague:
                continue
            names = account.stored.models if account.stored else await self._of_environment(account)
            if account.stored and account.stored.problem:
                continue
            source: Source = "stored" if account.stored else "environment"
            provider_id = account.stored.id if account.stored else None
            title = account.stored.name if account.stored else title_of(account.provider.name)
            items += [self._shown(name, title, provider_id, source, allowed=brain.is_allowed(name)) for name in names]
        return Models(
            items=items,
            default_model=brain.default_model,
            planner_model=brain.planner_model,
            demo=not brain.configured,
        )

    def _shown(
        self, model: str, provider: str, provider_id: int | None, source: Source, *, allowed: bool
    ) -> ModelShown:
        found = prices.find(model)
        is_free = source == "demo" or prices.is_local(model)
        return ModelShown(
            id=model,
            provider=provider,
            provider_id=provider_id,
            input_usd_per_million=0.0 if is_free else _per_million(found.input if found else None),
            output_usd_per_million=0.0 if is_free else _per_million(found.output if found else None),
            context_window=found.window if found else None,
            max_output_tokens=found.max_output if found else None,
            # True also if a setting says so.
            supports_images=self._brain.takes_images(model) or (found.takes_images if found else None),
            source=source,
            allowed=allowed,
        )

    async def _of_environment(self, account: ProviderAccount) -> Sequence[str]:
        """Return the models of a provider of the environment: what its server lists, or what LiteLLM knows of it."""
        name = account.provider.name
        if account.address is None or not account.is_direct:
            known = prices.chat_models(name)
            is_plain = name == "openai"
            return sorted(each if is_plain or each.startswith(f"{name}/") else f"{name}/{each}" for each in known)
        at, names = self._listed.get(name, (0.0, ()))
        if not at or time.monotonic() - at > KEEP_SECONDS:
            # Remembered before it is fetched, so that many users at once cause one request.
            self._listed[name] = time.monotonic(), names
            kind = "openai" if name == "openai" else COMPATIBLE
            found = await self._fetch(kind, account.address, account.key, name, LIST_SECONDS)
            names = found.models if found.error is None else names
            self._listed[name] = time.monotonic(), names
        return names


def shown_provider(row: ProviderRow) -> Provider:
    """Return a stored provider without its key."""
    own = {name: getattr(row, name) for name in Provider.model_fields if hasattr(row, name)}
    return Provider(**own, key_set=row.encrypted_key is not None, source="stored", variable=None)


def environment_provider(account: ProviderAccount) -> Provider:
    """Return a provider that the environment configures; nothing of its key is shown."""
    name = account.provider.name
    return Provider(
        id=None,
        kind=KIND_OF_PREFIX.get(name, "other"),
        name=title_of(name),
        prefix=name,
        base_url=public_url(account.address),
        key_set=account.key is not None,
        key_hint=None,
        source="environment",
        variable=_variable(account.provider),
        status="untested",
        error=None,
        tested_at=None,
        latency_ms=None,
        models=[],
    )


def title_of(name: str) -> str:
    """Return the display name of a provider."""
    kind = KIND_OF_PREFIX.get(name)
    return KINDS[kind].title if kind and kind != COMPATIBLE else name


def _variable(provider: KnownProvider) -> str | None:
    return next((name for name in (*provider.keys, *provider.addresses) if os.environ.get(name, "").strip()), None)


def _per_million(dollars: float | None) -> float | None:
    return None if dollars is None else round(dollars * MILLION, 6)
