"""Return that are being written: stored now and then, so that a crash loses no more than their last moment."""

from collections.abc import Sequence

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.db.tables import drafts
from artel.db.tenant import TenantRepository
from artel.db.text import storable
from artel.events.hub import Draft
from artel.turns.repository import TurnRepository

MAX_CHARACTERS = 200_000


class DraftRepository(TenantRepository):
    """Half-written answers to one user."""

    table = drafts

    def put(self, project_id: int, session_id: str, turn_id: str, content: str) -> None:
        """Store how far an answer is written."""
        known = self.connection.execute(self._update({"content": content}).where(drafts.c.turn_id == turn_id))
        if not known.rowcount:
            row = {"turn_id": turn_id, "project_id": project_id, "session_id": session_id, "content": content}
            self._add([row])

    def take(self, turn_id: str) -> str:
        """Return how far the answer of a turn was written, and remove it; an empty text if it is not stored."""
        removed = self._delete().where(drafts.c.turn_id == turn_id).returning(drafts.c.content)
        return self.connection.execute(removed).scalar_one_or_none() or ""


def save_drafts(connection: Connection, written: Sequence[Draft]) -> None:
    """Store how far answers are written whose turns go on.

    The lock on its turn is held to the commit: whoever ends the turn finds the draft, or it is not stored.
    """
    for draft in sorted(written, key=lambda draft: draft.turn_id):
        owner = Principal(draft.user_id)
        project_id = TurnRepository(connection, owner).lock_unfinished(draft.turn_id)
        if project_id is not None:
            content = storable(draft.text[:MAX_CHARACTERS])
            DraftRepository(connection, owner).put(project_id, draft.session_id, draft.turn_id, content)
