"""Whether the server lives, whether it can work, and its figures."""

import asyncio

from fastapi import APIRouter, Request, Response

from artel import __version__
from artel.api.dependencies import Parts
from artel.contract.http import Health, PartHealth, Readiness
from artel.db.schema import require_usable
from artel.errors import ArtelError

DEADLINE_SECONDS = 2

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> Health:
    """Say that the process is alive."""
    return Health(status="ok", version=__version__)


@router.get("/readyz", responses={503: {"model": Readiness, "description": "A part does not work."}})
async def readyz(parts: Parts, response: Response) -> Readiness:
    """Return whether the server can take requests, part by part."""
    checked = [await _database(parts)]
    ready = all(part.ok for part in checked)
    response.status_code = 200 if ready else 503
    return Readiness(status="ready" if ready else "not_ready", parts=checked)


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Return the figures for Prometheus."""
    return Response(request.app.state.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _database(parts: Parts) -> PartHealth:
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await parts.database.read(require_usable)
    except TimeoutError:
        return PartHealth(name="database", ok=False, detail=f"No answer within {DEADLINE_SECONDS} seconds.")
    except ArtelError as error:
        return PartHealth(name="database", ok=False, detail=error.detail)
    return PartHealth(name="database", ok=True)
