"""Rows of events."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Select, bindparam

from artel.contract.events import EventData, StoredEvent
from artel.db.tables import events
from artel.db.tenant import TenantRepository, prepared

MAX_PAGE = 500


class EventRepository(TenantRepository):
    """Events of one user's sessions."""

    table = events

    @prepared
    def _after(cls) -> Select[Any]:  # noqa: N805
        return (
            cls._prepare_select()
            .where(events.c.session_id == bindparam("session"), events.c.number > bindparam("number_before"))
            .order_by(events.c.number)
            .limit(bindparam("most"))
        )

    def add(
        self, project_id: int, session_id: str, first: int, turn_id: str | None, happened: Sequence[EventData]
    ) -> None:
        """Add events, numbered from `first` on."""
        now = datetime.now(UTC)
        common = {"project_id": project_id, "session_id": session_id, "turn_id": turn_id, "created_at": now}
        self._add(
            [
                common | {"number": number, "type": event.type, "data": event.model_dump(mode="json")}
                for number, event in enumerate(happened, first)
            ]
        )

    def after(self, session_id: str, number: int, limit: int = MAX_PAGE) -> list[StoredEvent]:
        """Return the next events of a session after a number."""
        rows = self._run(self._after, session=session_id, number_before=number, most=min(limit, MAX_PAGE))
        return [
            StoredEvent(
                number=row.number,
                type=row.type,
                session_id=row.session_id,
                turn_id=row.turn_id,
                timestamp=row.created_at,
                data=row.data,
            )
            for row in rows
        ]
