"""Calls to worker spaces that another process runs."""

from dataclasses import dataclass

from artel.db.tables import space_calls
from artel.remote_calls import CallRepository


@dataclass(frozen=True, slots=True)
class SpaceCall:
    """One call."""

    id: str
    user_id: int
    project_id: int
    operation: str
    agent_id: int | None


class SpaceCallRepository(CallRepository):
    """Calls to the worker spaces of one user."""

    table = space_calls
