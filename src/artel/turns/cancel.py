"""Ending a turn before it is answered."""

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.turns.transactions import Outcome, finish_turn
from artel.turns.turn import Turn, TurnStatus
from artel.turns.turn_repository import TurnRepository

CANCELLED = "This was cancelled before it was answered."


def cancel_turn(
    connection: Connection, principal: Principal, session_id: str, turn_id: str, message_id: str, tokens: int
) -> Turn:
    """Cancel a turn that waits or runs, and answer it; one that has ended is left as it is."""
    turns = TurnRepository(connection, principal)
    turn = turns.get(session_id, turn_id)
    outcome = Outcome(TurnStatus.CANCELLED, message_id, CANCELLED, tokens, None, error_code="cancelled", mode=turn.mode)
    if not turn.status.is_terminal:
        finish_turn(connection, principal, session_id, turn_id, None, outcome)
    return turns.get(session_id, turn_id)
