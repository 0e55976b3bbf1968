"""Cancelling a turn."""

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.turns.repository import TurnRepository
from artel.turns.transactions import Outcome, finish_turn
from artel.turns.turn import Turn, TurnStatus

CANCELLED = "You stopped this."


def cancel_turn(
    connection: Connection,
    principal: Principal,
    session_id: str,
    turn_id: str,
    message_id: str,
    tokens: int,
    partial: str = "",
) -> Turn:
    """Cancel an unfinished turn and return it; a finished one stays as it is.

    `partial` is the text streamed so far, as far as this process has it.
    """
    turns = TurnRepository(connection, principal)
    turn = turns.get(session_id, turn_id)
    # The usage from before it was parked; a running turn reports its own.
    used = turn.parked if turn.status is not TurnStatus.RUNNING else None
    outcome = Outcome(
        TurnStatus.CANCELLED,
        message_id,
        CANCELLED,
        tokens,
        used.usage.model_dump() if used and used.usage else None,
        error_code="cancelled",
        mode=turn.mode,
        partial=partial,
        shares=[share.model_dump() for share in used.shares] if used else (),
    )
    if not turn.status.is_terminal:
        finish_turn(connection, principal, session_id, turn_id, None, outcome)
    return turns.get(session_id, turn_id)
