"""Raises alerts for findings about worker spaces, and resolves them."""

from datetime import UTC, datetime

from artel.alerts.transactions import open_alerts, raise_alert, resolve_alert
from artel.contract.spaces import Alert
from artel.errors import ArtelError
from artel.ids import uuid7
from artel.logs import get_logger
from artel.spaces.services import SpaceServices
from artel.spaces.worker_space import Finding, WorkerSpace

QUIET_SECONDS = 60.0  # spaces idle for longer are skipped
SAMPLE_SECONDS = 30.0

log = get_logger(__name__)


class AlertWatch:
    """Checks worker spaces periodically."""

    def __init__(self, services: SpaceServices) -> None:
        self._services = services

    async def check(self, space: WorkerSpace) -> None:
        """Raise alerts for the current findings about a space, and resolve the others."""
        if space.idle_seconds > QUIET_SECONDS and not space.open_alerts:
            return
        space.sample_every(SAMPLE_SECONDS)
        found = {(one.kind, one.subject): one for one in space.findings()}
        try:
            if space.open_alerts is None:
                before = await self._services.database.read(open_alerts, space.principal, space.project_id)
                space.open_alerts = dict.fromkeys(before, Finding("", "", "warning", ""))
            for key in found.keys() - space.open_alerts.keys():
                await self._raise(space, found[key])
                space.open_alerts[key] = found[key]
            for key in space.open_alerts.keys() - found.keys():
                await self._resolve(space, *key)
                del space.open_alerts[key]
        except ArtelError as failure:  # the project was deleted, or the database is unavailable: try again later
            log.info("alerts_not_written", project_id=space.project_id, reason=failure.detail)

    async def _raise(self, space: WorkerSpace, finding: Finding) -> None:
        alert = Alert(
            id=uuid7(),
            project_id=space.project_id,
            kind=finding.kind,
            severity=finding.severity,
            message=finding.message,
            raised_at=datetime.now(UTC),
            resolved_at=None,
        )
        if await self._services.database.of(space.principal).run(raise_alert, alert, finding.subject):
            log.warning("alert_raised", kind=finding.kind, project_id=space.project_id, message=finding.message)
            self._services.figures.alerted(finding.kind)

    async def _resolve(self, space: WorkerSpace, kind: str, subject: str) -> None:
        database = self._services.database.of(space.principal)
        if await database.run(resolve_alert, space.project_id, kind, subject):
            log.info("alert_resolved", kind=kind, project_id=space.project_id)
