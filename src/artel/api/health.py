"""Endpoints for health checks and Prometheus metrics."""

import asyncio

from fastapi import APIRouter, Request, Response

from artel import __version__
from artel.api.dependencies import Services
from artel.contract.http import Health, PartHealth, Readiness
from artel.db.schema import require_usable
from artel.errors import ArtelError

DEADLINE_SECONDS = 2

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> Health:
    """Check that the process is alive."""
    return Health(status="ok", version=__version__)


@router.get("/readyz", responses={503: {"model": Readiness, "description": "A component does not work."}})
async def readyz(services: Services, response: Response) -> Readiness:
    """Check whether the server can serve requests, per component."""
    components = [await _database(services)]
    ready = all(component.ok for component in components)
    response.status_code = 200 if ready else 503
    return Readiness(status="ready" if ready else "not_ready", parts=components)


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Return the metrics for Prometheus."""
    return Response(request.app.state.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _database(services: Services) -> PartHealth:
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await services.database.read(require_usable)
    except TimeoutError:
        return PartHealth(name="database", ok=False, detail=f"No answer within {DEADLINE_SECONDS} seconds.")
    except ArtelError as error:
        return PartHealth(name="database", ok=False, detail=error.detail)
    return PartHealth(name="database", ok=True)
