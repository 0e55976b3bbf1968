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
    database = PartHealth(name="database", ok=True)
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await services.database.read(require_usable)
    except TimeoutError:
        detail = f"No answer within {DEADLINE_SECONDS} seconds."
        database = PartHealth(name="database", ok=False, detail=detail)
    except ArtelError as error:
        database = PartHealth(name="database", ok=False, detail=error.detail)
    response.status_code = 200 if database.ok else 503
    return Readiness(status="ready" if database.ok else "not_ready", parts=[database])


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Return the metrics for Prometheus."""
    return Response(request.app.state.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")
