"""Drafts: answers that are being written, stored periodically so that a crash loses little of them."""

from collections.abc import Sequence

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.db.tables import drafts
from artel.db.tenant import TenantRepository
from artel.events.hub import Draft
from artel.text import storable
from artel.turns.repository import TurnRepository

MAX_CHARACTERS = 200_000


class DraftRepository(TenantRepository):
    """Drafts of answers to one user."""

    table = drafts

    def put(self, project_id: int, session_id: str, turn_id: str, content: str) -> None:
        if not self._change({"content": content}, drafts.c.turn_id == turn_id):
            row = {"turn_id": turn_id, "project_id": project_id, "session_id": session_id, "content": content}
            self._add([row])

    def take(self, turn_id: str) -> str:
        """Delete the draft of a turn and return its text; an empty one if there is none."""
        removed = self._delete().where(drafts.c.turn_id == turn_id).returning(drafts.c.content)
        return self.connection.execute(removed).scalar_one_or_none() or ""


def save_drafts(connection: Connection, written: Sequence[Draft]) -> None:
    """Store the drafts of unfinished turns.

    The lock on the turn is held until the commit, so that finishing it either finds the draft or prevents it.
    """
    for draft in sorted(written, key=lambda draft: draft.turn_id):
        owner = Principal(draft.user_id)
        project_id = TurnRepository(connection, owner).lock_unfinished(draft.turn_id)
        if project_id is not None:
            content = storable(draft.text[:MAX_CHARACTERS])
            DraftRepository(connection, owner).put(project_id, draft.session_id, draft.turn_id, content)
