"""Rows of alerts."""

from datetime import UTC, datetime
from typing import Any

from artel.contract.http import PageRequest
from artel.contract.spaces import Alert
from artel.db.tables import alerts
from artel.db.tenant import TenantRepository

MAX_PER_PROJECT = 1_000


class AlertRepository(TenantRepository):
    """Alerts of one user's projects."""

    table = alerts

    def add(self, alert: Alert, subject: str) -> None:
        self._add([alert.model_dump() | {"subject": subject, "resolved_at": None}])

    def is_open(self, project_id: int, kind: str, subject: str) -> bool:
        """Return whether such an alert is unresolved."""
        return bool(self._count(alerts.c.project_id == project_id, *_open(kind, subject)))

    def resolve(self, project_id: int, kind: str, subject: str) -> bool:
        """Mark an alert as resolved; return whether there was one."""
        values = {"resolved_at": datetime.now(UTC)}
        return self._change(values, alerts.c.project_id == project_id, *_open(kind, subject))

    def unresolved(self, project_id: int) -> list[tuple[str, str]]:
        """Return kind and subject of the unresolved alerts."""
        unresolved = alerts.c.project_id == project_id, alerts.c.resolved_at.is_(None)
        rows = self.connection.execute(self._select(alerts.c.kind, alerts.c.subject).where(*unresolved))
        return [(row.kind, row.subject) for row in rows]

    def count(self, project_id: int) -> int:
        return self._count(alerts.c.project_id == project_id)

    def page(self, project_id: int, paging: PageRequest) -> list[Alert]:
        """Return a page of alerts, newest first."""
        newest = alerts.c.raised_at.desc(), alerts.c.id.desc()
        rows = self._find(alerts.c.project_id == project_id, order_by=newest, limit=paging.limit, offset=paging.offset)
        return [Alert.model_validate(row, from_attributes=True) for row in rows]

    def trim(self, project_id: int) -> None:
        """Delete the oldest resolved alerts above the maximum per project."""
        surplus = self.count(project_id) - MAX_PER_PROJECT
        if surplus > 0:
            resolved = alerts.c.project_id == project_id, alerts.c.resolved_at.is_not(None)
            oldest = self._select(alerts.c.id).where(*resolved).order_by(alerts.c.raised_at).limit(surplus)
            self._remove(alerts.c.id.in_(oldest))


def _open(kind: str, subject: str) -> tuple[Any, ...]:
    return alerts.c.kind == kind, alerts.c.subject == subject, alerts.c.resolved_at.is_(None)
