"""Operations on alerts; each function is one transaction."""

from sqlalchemy import Connection

from artel.alerts.repository import AlertRepository
from artel.auth.principal import Principal
from artel.contract.events import AlertRaised, AlertResolved
from artel.contract.http import Page, PageRequest
from artel.contract.spaces import Alert
from artel.db.tx import Tx
from artel.events.project_log import write_project_events
from artel.projects.repository import ProjectRepository

# Alerts of the registry of nodes, which raises and resolves them itself.
NODE_LOST = "node_lost"
TASK_STUCK = "task_stuck"
NODE_OVER_LIMIT = "node_over_limit"
NODE_ALERTS = frozenset({NODE_LOST, TASK_STUCK, NODE_OVER_LIMIT})


def raise_alert(tx: Tx, alert: Alert, subject: str) -> bool:
    """Raise an alert unless it is already open; return whether it was new."""
    repository = AlertRepository(tx)
    if repository.is_open(alert.project_id, alert.kind, subject):
        return False
    repository.add(alert, subject)
    repository.trim(alert.project_id)
    event = AlertRaised(alert_id=alert.id, kind=alert.kind, severity=alert.severity, message=alert.message)
    write_project_events(tx, alert.project_id, [event])
    return True


def resolve_alert(tx: Tx, project_id: int, kind: str, subject: str) -> bool:
    """Mark an alert as resolved; return whether there was one."""
    if not AlertRepository(tx).resolve(project_id, kind, subject):
        return False
    write_project_events(tx, project_id, [AlertResolved(kind=kind, subject=subject)])
    return True


def open_alerts(connection: Connection, principal: Principal, project_id: int) -> list[tuple[str, str]]:
    """Return kind and subject of the project's unresolved alerts."""
    return AlertRepository(connection, principal).unresolved(project_id)


def list_alerts(connection: Connection, principal: Principal, project_id: int, paging: PageRequest) -> Page[Alert]:
    ProjectRepository(connection, principal).get(project_id)
    repository = AlertRepository(connection, principal)
    items = repository.page(project_id, paging)
    return paging.page(items, repository.count(project_id))
