"""Endpoints for models, their providers, and the settings that administrators change while the server runs."""

from fastapi import APIRouter, status

from artel.api.dependencies import Administrator, CurrentUser, Paging, ProviderId, Services
from artel.api.problems import documented
from artel.contract.http import Page
from artel.contract.models import (
    DiscoveredServers,
    Models,
    NewProvider,
    Provider,
    ProviderChanges,
    ProviderTestResult,
    ProviderToTest,
    ServerSettings,
    ServerSettingsChanges,
)

router = APIRouter(prefix="/my/models", tags=["models"], responses=documented(401, 503))
admin_router = APIRouter(prefix="/admin", tags=["models"], responses=documented(401, 403, 422, 503))


@router.get("")
async def list_models(_user: CurrentUser, services: Services) -> Models:
    """List the models that agents can be given, with price and context window."""
    return await services.model_catalogue.models()


@admin_router.get("/providers")
async def list_providers(_administrator: Administrator, services: Services, paging: Paging) -> Page[Provider]:
    """List the providers of models: those of the environment, then the stored ones. Keys are never shown."""
    return await services.model_providers.list(paging)


@admin_router.post("/providers", status_code=status.HTTP_201_CREATED, responses=documented(400, 409, 413))
async def add_provider(body: NewProvider, administrator: Administrator, services: Services) -> Provider:
    """Add a provider. Its models can be used at once; test it to list them."""
    return await services.model_providers.add(administrator, body)


@admin_router.post("/providers/test", responses=documented(400, 413))
async def try_provider(body: ProviderToTest, _administrator: Administrator, services: Services) -> ProviderTestResult:
    """Test a provider without storing it, by default that of the environment. It takes ten seconds at most."""
    return await services.model_providers.test(body)


@admin_router.get("/providers/discover")
async def discover_providers(_administrator: Administrator, services: Services) -> DiscoveredServers:
    """Look for Ollama and LM Studio on the server's machine."""
    return await services.model_providers.discover()


@admin_router.patch("/providers/{provider_id:int}", responses=documented(400, 404, 409, 413))
async def change_provider(
    provider_id: ProviderId, body: ProviderChanges, administrator: Administrator, services: Services
) -> Provider:
    """Change a provider. With a new address, send the key again: the stored one is never sent there."""
    return await services.model_providers.change(administrator, provider_id, body)


@admin_router.delete("/providers/{provider_id:int}", status_code=status.HTTP_204_NO_CONTENT, responses=documented(404))
async def remove_provider(provider_id: ProviderId, administrator: Administrator, services: Services) -> None:
    """Remove a provider with its key. Agents that use its models fail until they get others."""
    await services.model_providers.remove(administrator, provider_id)


@admin_router.post("/providers/{provider_id:int}/test", responses=documented(404))
async def try_stored_provider(provider_id: ProviderId, administrator: Administrator, services: Services) -> Provider:
    """Test a provider, which also reads its list of models again. It takes ten seconds at most."""
    return await services.model_providers.test_stored(administrator, provider_id)


@admin_router.get("/settings")
async def show_settings(_administrator: Administrator, services: Services) -> ServerSettings:
    """Show the settings that can be changed while the server runs, and what sets them."""
    return await services.model_providers.settings()


@admin_router.patch("/settings", responses=documented(400, 409, 413))
async def change_settings(
    body: ServerSettingsChanges, administrator: Administrator, services: Services
) -> ServerSettings:
    """Change settings, at once. 409 if the environment sets one of them."""
    return await services.model_providers.change_settings(administrator, body)
