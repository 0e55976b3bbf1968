"""Providers of models and settings of the server: stored, tested, and used at once."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from artel.auth.login import Login
from artel.auth.principal import Principal
from artel.brain.providers import PROVIDERS, StoredProvider
from artel.brain.router import BrainRouter, ModelChoice, ModelRules
from artel.contract.http import Page, PageRequest
from artel.contract.models import (
    DiscoveredServer,
    DiscoveredServers,
    Kind,
    NewProvider,
    Provider,
    ProviderChanges,
    ProviderTestResult,
    ProviderToTest,
    ServerSettings,
    ServerSettingsChanges,
)
from artel.db.engine import Database
from artel.errors import ProviderExists, ProviderInvalid, SettingFixed
from artel.logs import get_logger
from artel.model_providers import repository
from artel.model_providers.catalogue import environment_provider, shown_provider
from artel.model_providers.key_cipher import KeyCipher, KeyUnreadable
from artel.model_providers.kinds import COMPATIBLE, KIND_OF_PREFIX, KINDS, addresses_to_try
from artel.model_providers.model_list import ModelList, fetch_models
from artel.model_providers.repository import ProviderRow, StoredSettings
from artel.settings import PREFIX, Settings

TEST_SECONDS = 10.0
DISCOVERY_SECONDS = 2.0
MAX_TESTS = 8  # at the same time; more wait
HINT_CHARACTERS = 4
MIN_KEY_FOR_HINT = 12  # of a shorter key four characters say too much
KEY_UNREADABLE = (
    "its stored key can't be read, because the server's secret or the stored address has changed. "
    "An administrator has to enter the key again."
)

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Effective:
    """The settings in effect: those of the environment, else the stored ones."""

    stored: StoredSettings
    default_model: str | None
    planner_model: str | None
    registration_open: bool | None
    models_unpriced: Sequence[str]


class ModelProviders:
    """Adds, changes and tests providers, changes settings, and applies both to this process."""

    def __init__(self, settings: Settings, database: Database, brain: BrainRouter, login: Login, secret: str) -> None:
        self._settings = settings
        self._database = database
        self._brain = brain
        self._login = login
        self._cipher = KeyCipher(secret)
        self._effective = self._effective_of(StoredSettings(-1, (), {}))
        self._loading = asyncio.Lock()
        self._tests = asyncio.Semaphore(MAX_TESTS)

    # Use

    async def load(self) -> None:
        """Read what is stored and use it from now on."""
        async with self._loading:
            stored = await self._database.read(repository.read_stored)
            effective = self._effective_of(stored)
            providers = [self._usable(row) for row in stored.providers]
            choice = ModelChoice(effective.default_model, effective.planner_model)
            await self._brain.configure(providers, self._rules(effective.models_unpriced), choice)
            self._login.registration_open = effective.registration_open
            self._effective = effective

    async def refresh(self) -> None:
        """Read again what is stored if it has changed, perhaps by another process."""
        if await self._database.read(repository.settings_version) != self._effective.stored.version:
            await self.load()

    # Providers

    async def list(self, paging: PageRequest) -> Page[Provider]:
        """Return a page of providers: those of the environment, then the stored ones, oldest first."""
        await self.refresh()
        accounts = [account for account in self._brain.accounts if not account.stored and not account.provider.vague]
        found = [environment_provider(account) for account in accounts]
        found += [self._shown(row) for row in self._effective.stored.providers]
        return paging.page(paging.cut(found), len(found))

    async def add(self, administrator: Principal, new: NewProvider) -> Provider:
        """Store a provider; its models can be used at once."""
        kind, base_url = KINDS[new.kind], new.base_url
        key = new.api_key.get_secret_value() if new.api_key else None
        _require_complete(new.kind, base_url, key)
        name = new.name or kind.name_for(base_url)
        prefix = kind.prefix_for(name)
        if self._brain.is_set_by_environment(prefix):
            provider = PROVIDERS[prefix]
            names = " or ".join((*provider.keys[:1], *provider.addresses[:1]))
            raise ProviderExists(f"{names} in the server's environment configures {name}, and wins. Change it there.")
        values = {"kind": new.kind, "name": name, "prefix": prefix, "base_url": base_url}
        row = await self._change(
            administrator, repository.add_provider, values | self._key_values(prefix, base_url, key)
        )
        log.info("model_provider_added", provider=prefix, kind=new.kind, by_user_id=administrator.user_id)
        return self._shown(row)

    async def change(self, administrator: Principal, provider_id: int, changes: ProviderChanges) -> Provider:
        """Change a provider. The stored key is never sent to a new address."""
        before = await self._database.read(repository.get_provider, provider_id)
        changed = changes.model_fields_set
        base_url = changes.base_url if "base_url" in changed else before.base_url
        values: dict[str, Any] = {"name": changes.name} if "name" in changed else {}
        has_key = before.encrypted_key is not None
        if base_url != before.base_url:
            if has_key and "api_key" not in changed:
                raise ProviderInvalid(
                    f"Enter the key again: the stored one is sent only to {before.base_url or 'the provider itself'}."
                )
            values |= {"base_url": base_url, "models": []}
        if "api_key" in changed:
            key = changes.api_key.get_secret_value() if changes.api_key else None
            values |= self._key_values(before.prefix, base_url, key)
            has_key = key is not None
        _require_complete(cast("Kind", before.kind), base_url, has_key or None)
        if values.keys() - {"name"}:
            values |= {"status": "untested", "error": None, "tested_at": None, "latency_ms": None}
        row = await self._change(administrator, repository.change_provider, provider_id, before, values)
        log.info(
            "model_provider_changed", provider=row.prefix, fields=sorted(changed), by_user_id=administrator.user_id
        )
        return self._shown(row)

    async def remove(self, administrator: Principal, provider_id: int) -> None:
        """Remove a provider with its key. A default model of it is not the default any more."""
        row = await self._database.read(repository.get_provider, provider_id)
        await self.refresh()
        chosen = {name: self._effective.stored.settings.get(name) for name in ("default_model", "planner_model")}
        dangling = [name for name, model in chosen.items() if model and self._brain.provider_name(model) == row.prefix]
        await self._change(administrator, repository.remove_provider, provider_id, dangling)
        log.info("model_provider_removed", provider=row.prefix, by_user_id=administrator.user_id)

    async def test_stored(self, administrator: Principal, provider_id: int) -> Provider:
        """Ask a stored provider for its models, and store them or what is wrong."""
        row = await self._database.read(repository.get_provider, provider_id)
        try:
            key = self._decrypted(row)
        except KeyUnreadable:
            return self._shown(row)
        tested = await self.fetch(cast("Kind", row.kind), row.base_url, key, row.prefix)
        values: dict[str, Any] = {"status": "failed" if tested.error else "ok", "error": tested.error}
        values |= {"latency_ms": tested.latency_ms} | ({} if tested.error else {"models": list(tested.models)})
        row = await self._change(administrator, repository.note_test, row, values)
        log.info("model_provider_tested", provider=row.prefix, status=row.status, by_user_id=administrator.user_id)
        return self._shown(row)

    async def test(self, tested: ProviderToTest) -> ProviderTestResult:
        """Ask a provider for its models without storing anything; without key and address, that of the environment."""
        kind = KINDS[tested.kind]
        base_url: str | None = tested.base_url
        key = tested.api_key.get_secret_value() if tested.api_key else None
        if not tested.model_fields_set & {"base_url", "api_key"}:
            for account in self._brain.accounts:
                if not account.stored and KIND_OF_PREFIX.get(account.provider.name) == tested.kind:
                    base_url, key = account.address, account.key
        _require_complete(tested.kind, base_url, key)
        found = await self.fetch(tested.kind, base_url, key, kind.prefix)
        return ProviderTestResult(
            ok=found.error is None,
            error=found.error,
            url=found.url,
            latency_ms=found.latency_ms,
            models=list(found.models),
        )

    async def discover(self) -> DiscoveredServers:
        """Return the model servers that run on this machine."""
        addresses = addresses_to_try()
        fetch = partial(self.fetch, key=None, seconds=DISCOVERY_SECONDS)
        found = await asyncio.gather(*(fetch(kind, url, prefix=KINDS[kind].prefix) for kind, url in addresses.items()))
        items = [
            DiscoveredServer(kind=cast("Any", kind), base_url=url, models=list(answer.models))
            for (kind, url), answer in zip(addresses.items(), found, strict=True)
            if answer.error is None
        ]
        return DiscoveredServers(items=items, tried=list(addresses.values()))

    # Settings

    async def settings(self) -> ServerSettings:
        """Return the settings that administrators can change, and what sets them."""
        await self.refresh()
        effective = self._effective
        values = {
            "default_model": self._brain.default_model,
            "planner_model": self._brain.planner_model,
            "registration_open": effective.registration_open,
            "models_unpriced": list(effective.models_unpriced),
        }
        return ServerSettings.model_validate({name: self._setting(name, value) for name, value in values.items()})

    async def change_settings(self, administrator: Principal, changes: ServerSettingsChanges) -> ServerSettings:
        """Change settings, at once; raise SettingFixed if the environment sets one of them."""
        values = changes.model_dump(exclude_unset=True)
        for name in values:
            if name in self._settings.model_fields_set:
                raise SettingFixed(
                    f"{name} is set by {PREFIX}{name.upper()}, artel.yaml or the command line of the server, and can't "
                    "be changed here. Change it there and restart the server."
                )
        await self.refresh()
        unpriced = values.get("models_unpriced", self._effective.models_unpriced)
        rules = self._rules(unpriced or ())
        for model in (values.get("default_model"), values.get("planner_model")):
            if model is not None:
                self._brain.require_configured(model)
                if self._brain.configured:
                    rules.require(model)
        if values:
            await self._change(administrator, repository.set_settings, values)
            log.info("server_settings_changed", names=sorted(values), by_user_id=administrator.user_id)
        return await self.settings()

    # Helpers

    async def _change(self, administrator: Principal, transaction: Any, *args: Any) -> Any:
        """Run a transaction that changes what is stored, and use the change in this process before returning."""
        result = await self._database.of(administrator).run(transaction, *args)
        await self.load()
        return result

    async def fetch(
        self, kind: Kind, base_url: str | None, key: str | None, prefix: str, seconds: float = TEST_SECONDS
    ) -> ModelList:
        """Ask a provider for its models."""
        proxy = self._brain.proxy_for(base_url or KINDS[kind].url or "")
        async with self._tests:
            return await fetch_models(KINDS[kind], base_url, key, prefix, proxy=proxy, seconds=seconds)

    def _effective_of(self, stored: StoredSettings) -> _Effective:
        def value(name: str) -> Any:
            is_set = name in self._settings.model_fields_set
            return getattr(self._settings, name) if is_set else stored.settings.get(name)

        return _Effective(
            stored,
            value("default_model"),
            value("planner_model"),
            value("registration_open"),
            value("models_unpriced") or (),
        )

    def _rules(self, unpriced: Sequence[str]) -> ModelRules:
        return model_rules(self._settings, unpriced)

    def _setting(self, name: str, value: Any) -> dict[str, Any]:
        is_set, is_stored = name in self._settings.model_fields_set, name in self._effective.stored.settings
        source = "environment" if is_set else "stored" if is_stored else "default"
        return {"value": value, "source": source, "variable": f"{PREFIX}{name.upper()}"}

    def _usable(self, row: ProviderRow) -> StoredProvider:
        kind = KINDS[cast("Kind", row.kind)]
        key, problem = None, None
        try:
            key = self._decrypted(row)
        except KeyUnreadable:
            problem = f"the provider {row.name} is not ready: {KEY_UNREADABLE}"
        base_url = row.base_url or (kind.url if kind.direct and kind.kind != "openai" else None)
        if base_url and kind.kind == "anthropic":
            base_url = base_url.removesuffix("/v1")  # LiteLLM adds it
        return StoredProvider(
            row.id, row.name, row.prefix, base_url, key, kind.direct, tuple(row.models), problem=problem
        )

    def _shown(self, row: ProviderRow) -> Provider:
        provider = shown_provider(row)
        if self._brain.is_set_by_environment(row.prefix):
            text = f"It is not used: the server's environment configures {row.name}, and wins."
            return provider.model_copy(update={"status": "failed", "error": text})
        try:
            self._decrypted(row)
        except KeyUnreadable:
            text = f"{KEY_UNREADABLE[0].upper()}{KEY_UNREADABLE[1:]}"
            return provider.model_copy(update={"status": "failed", "error": text})
        return provider

    def _key_values(self, prefix: str, base_url: str | None, key: str | None) -> dict[str, str | None]:
        if key is None:
            return {"encrypted_key": None, "key_hint": None}
        hint = key[-HINT_CHARACTERS:] if len(key) >= MIN_KEY_FOR_HINT else None
        return {"encrypted_key": self._cipher.encrypt(key, _context(prefix, base_url)), "key_hint": hint}

    def _decrypted(self, row: ProviderRow) -> str | None:
        if row.encrypted_key is None:
            return None
        return self._cipher.decrypt(row.encrypted_key, _context(row.prefix, row.base_url))


def model_rules(settings: Settings, unpriced: Sequence[str]) -> ModelRules:
    """Return which models agents may use; those that the operator has configured are always allowed."""
    chosen = [model for model in (settings.default_model, settings.planner_model, settings.fallback_model) if model]
    return ModelRules(settings.models_allowed, unpriced, chosen, settings.models_with_images)


def _context(prefix: str, base_url: str | None) -> str:
    """Return what a stored key is bound to: the provider, and the address that it may be sent to."""
    return f"{prefix} {base_url or ''}"


def _require_complete(kind: Kind, base_url: str | None, key: str | bool | None) -> None:
    """Raise ProviderInvalid if a provider of this kind lacks its key or its address."""
    if kind == COMPATIBLE and base_url is None:
        raise ProviderInvalid(
            "An OpenAI-compatible server needs its address: base_url, as in http://127.0.0.1:8000/v1."
        )
    if KINDS[kind].needs_key and base_url is None and key is None:
        raise ProviderInvalid(f"{KINDS[kind].title} needs a key: api_key.")
