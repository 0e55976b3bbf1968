"""Operations on alerts; each function is one transaction."""

from sqlalchemy import Connection

from artel.alerts.repository import AlertRepository
from artel.auth.principal import Principal
from artel.contract.events import AlertRaised, AlertResolved
from artel.contract.http import Page
from artel.contract.spaces import Alert
from artel.events.project_log import ProjectLog
from artel.projects.repository import ProjectRepository


def raise_alert(connection: Connection, principal: Principal, alert: Alert, subject: str) -> bool:
    """Raise an alert unless it is already open; return whether it was new."""
    log = ProjectLog(connection, principal, alert.project_id)
    repository = AlertRepository(connection, principal)
    if repository.is_open(alert.project_id, alert.kind, subject):
        return False
    repository.add(alert, subject)
    repository.trim(alert.project_id)
    log.write(AlertRaised(alert_id=alert.id, kind=alert.kind, severity=alert.severity, message=alert.message))
    return True


def resolve_alert(connection: Connection, principal: Principal, project_id: int, kind: str, subject: str) -> bool:
    """Mark an alert as resolved; return whether there was one."""
    log = ProjectLog(connection, principal, project_id)
    if not AlertRepository(connection, principal).resolve(project_id, kind, subject):
        return False
    log.write(AlertResolved(kind=kind, subject=subject))
    return True


def open_alerts(connection: Connection, principal: Principal, project_id: int) -> list[tuple[str, str]]:
    """Return kind and subject of the project's unresolved alerts."""
    return AlertRepository(connection, principal).unresolved(project_id)


def list_alerts(connection: Connection, principal: Principal, project_id: int, limit: int, offset: int) -> Page[Alert]:
    """Return a page of a project's alerts."""
    ProjectRepository(connection, principal).get(project_id)
    repository = AlertRepository(connection, principal)
    items = repository.page(project_id, limit, offset)
    return Page(items=items, total=repository.count(project_id), limit=limit, offset=offset)
