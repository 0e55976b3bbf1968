"""Messages as the API shows them: answers with the usage and duration of their turns."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, func

from artel.auth.principal import Principal
from artel.contract.chat import AnswerUsage, Attachment, ChatMessage, Feedback
from artel.db.tables import turns
from artel.db.tenant import TenantRepository
from artel.sessions.message_repository import StoredMessage


class AnswerFigures(TenantRepository):
    """What the turns of one user took."""

    table = turns

    def of(self, turn_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the usage, duration and number of memories of finished turns, by turn."""
        columns = turns.c.id, turns.c.usage, turns.c.created_at, turns.c.finished_at
        memories = func.json_array_length(turns.c.context)
        finished = turns.c.id.in_(list(turn_ids)), turns.c.finished_at.is_not(None)
        return {
            row.id: {
                "usage": AnswerUsage(**row.usage) if row.usage else None,
                "duration_ms": round((row.finished_at - row.created_at).total_seconds() * 1000),
                "context": row[-1],
            }
            for row in self._find(*finished, columns=(*columns, memories), by_key=True)
        }


def shown_messages(
    connection: Connection, principal: Principal, messages: Sequence[StoredMessage]
) -> list[ChatMessage]:
    """Return messages as the API shows them."""
    turn_ids = {message.turn_id for message in messages if message.role == "assistant" and message.turn_id is not None}
    figures = AnswerFigures(connection, principal).of(turn_ids) if turn_ids else {}
    return [
        ChatMessage.of(
            message,
            timestamp=message.created_at,
            feedback=Feedback.of(message.feedback) if message.feedback else None,
            attachments=[Attachment.of(file) for file in message.attachments],
            **(figures.get(message.turn_id or "", {}) if message.role == "assistant" else {}),
        )
        for message in messages
    ]
