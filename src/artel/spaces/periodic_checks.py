"""Checks that a host makes periodically: approvals that expire, and alerts of worker spaces."""

from datetime import UTC, datetime, timedelta

from artel.alerts.transactions import NODE_ALERTS, open_alerts, raise_alert, resolve_alert
from artel.approvals.transactions import WARN_SECONDS, expire, warn
from artel.auth.principal import Principal
from artel.contract.spaces import Alert
from artel.errors import ApprovalDecided, ApprovalNotFound, ArtelError
from artel.ids import uuid7
from artel.logs import get_logger
from artel.spaces import leases
from artel.spaces.services import SpaceServices
from artel.spaces.worker_space import WorkerSpace

QUIET_SECONDS = 60.0  # spaces idle for longer are skipped
SAMPLE_SECONDS = 30.0

log = get_logger(__name__)


async def check_approvals(services: SpaceServices) -> None:
    """Warn a minute before an approval expires, and resume the run when it has expired."""
    now = datetime.now(UTC)
    soon = now + timedelta(seconds=WARN_SECONDS)
    for due in await services.database.read(leases.due_approvals, now, soon):
        database = services.database.of(Principal(due.user_id))
        try:
            if due.expires_at <= now:
                await database.run(expire, due.approval_id, due.expires_at)
                log.info("approval_expired", approval_id=due.approval_id, session_id=due.session_id)
            else:
                await database.run(warn, due.approval_id, due.expires_at)
        except (ApprovalDecided, ApprovalNotFound):  # decided or extended in the meantime
            continue
        except ArtelError as failure:  # one failure must not block the others
            log.warning("approval_not_ended", approval_id=due.approval_id, reason=failure.detail)


async def check_space(space: WorkerSpace) -> None:
    """Raise alerts for the current findings about a space, and resolve the others."""
    if space.idle_seconds > QUIET_SECONDS and not space.open_alerts:
        return
    space.sample_every(SAMPLE_SECONDS)
    findings = {(finding.kind, finding.subject): finding for finding in space.findings()}
    database = space.services.database.of(space.principal)
    try:
        if space.open_alerts is None:
            stored = await space.services.database.read(open_alerts, space.principal, space.project_id)
            space.open_alerts = {(kind, subject) for kind, subject in stored if kind not in NODE_ALERTS}
        for key in findings.keys() - space.open_alerts:
            kind, subject = key
            alert = Alert(
                id=uuid7(),
                project_id=space.project_id,
                kind=kind,
                severity=findings[key].severity,
                message=findings[key].message,
                raised_at=datetime.now(UTC),
                resolved_at=None,
            )
            if await database.run(raise_alert, alert, subject):
                log.warning("alert_raised", kind=kind, project_id=space.project_id, message=alert.message)
                space.services.figures.alerted(kind)
            space.open_alerts.add(key)
        for kind, subject in space.open_alerts - findings.keys():
            if await database.run(resolve_alert, space.project_id, kind, subject):
                log.info("alert_resolved", kind=kind, project_id=space.project_id)
            space.open_alerts.remove((kind, subject))
    except ArtelError as failure:  # the project was deleted, or the database is unavailable: try again later
        log.info("alerts_not_written", project_id=space.project_id, reason=failure.detail)
