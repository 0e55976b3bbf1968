"""Transactions on messages that were sent: change one that is queued, go on with an answer that was cut off."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection

from artel import kill_points
from artel.agents.repository import AgentRepository
from artel.auth.principal import Principal
from artel.contract.events import AnswerContinued, MessageChanged
from artel.contract.http import PageRequest
from artel.db.tx import Tx
from artel.errors import IdempotencyKeyReused, NotCutOff, TurnNotOver, TurnStarted
from artel.events.session_log import SessionLog
from artel.plans.plan import OPEN
from artel.plans.repository import WorkflowRepository
from artel.sessions.message_repository import MessageRepository
from artel.sessions.repository import SessionRepository
from artel.turns.repository import TurnRepository
from artel.turns.transactions import Gate, QueuedTurn, add_turn, words_of
from artel.turns.turn import Mode, Turn, TurnStatus


@dataclass(frozen=True, slots=True)
class QueuedTextChanged:
    """The message of a queued turn was changed; a hint for the host that has the turn in its queue."""

    turn_id: str
    text: str


def change_message(tx: Tx, session_id: str, turn_id: str, content: str, tokens: int) -> tuple[Turn, int]:
    """Change the message of a turn that has not begun; return the turn and the size of the message before."""
    log = SessionLog(tx, session_id, 1)  # a turn that starts meanwhile waits for this transaction
    turn = TurnRepository(tx).get(session_id, turn_id)
    messages = MessageRepository(tx)
    question = messages.question_of(session_id, turn_id)
    if question is None or turn.status is not TurnStatus.QUEUED or turn.started_at is not None or turn.parked:
        raise TurnStarted("This message is not queued any more. Send another one, or retry its turn with other words.")
    messages.rewrite(session_id, question.id, content, tokens)
    if turn.mode is Mode.ORCHESTRATED and (workflow := WorkflowRepository(tx).of_turn(turn_id)):
        WorkflowRepository(tx).move(workflow.id, OPEN, request=content)
    if turn.number == 1:
        SessionRepository(tx).name_after_words(session_id, words_of(content))
        log.note_state()
    log.write(turn_id, MessageChanged(message_id=question.id, content=content))
    tx.after_commit(QueuedTextChanged(turn_id, content))
    return turn, len(question.content.encode())


@kill_points.transaction("turn.accept")
def continue_answer(tx: Tx, session_id: str, cut_off_turn_id: str, turn_id: str, key: str | None, gate: Gate) -> Turn:
    """Queue a turn that goes on with the cut-off answer of another; with a key that was used before, return that turn.

    The new turn has no message of its own.
    """
    turns = TurnRepository(tx)
    log = SessionLog(tx, session_id, 0 if key else 1)
    request_hash = hashlib.sha256(json.dumps(["continue", cut_off_turn_id]).encode()).hexdigest()
    if key is not None and (earlier := turns.by_key(session_id, key)):
        if earlier[1] != request_hash:
            raise IdempotencyKeyReused("This idempotency key was used for another message. Use a new one.")
        return earlier[0]
    messages = MessageRepository(tx)
    if not turns.get(session_id, cut_off_turn_id).status.is_terminal:
        raise TurnNotOver("The turn is still running. Cancel it first, or wait for its end.")
    cut_off = messages.cut_off_of(session_id, cut_off_turn_id)
    if cut_off is None:
        raise NotCutOff("This turn has no cut-off answer that could be continued. Retry it instead.")
    if turns.has_unfinished_after(session_id, cut_off.id):
        raise NotCutOff("This answer is being continued already.")
    if cut_off.agent_id is None:
        raise NotCutOff("Several agents worked for this answer. Go on with their plan: POST /my/workflows/{id}/retry")
    agent_id = AgentRepository(tx).named(session_id, str(cut_off.agent_id))()
    gate(log.project_id, agent_id)
    ids, now = (turn_id, session_id, log.project_id), datetime.now(UTC)
    turn = Turn(*ids, log.first, Mode.DIRECT, agent_id, TurnStatus.QUEUED, now, continues=cut_off.id)
    add_turn(tx, turn, request_hash, key)
    log.write(turn_id, AnswerContinued(message_id=cut_off.id))
    log.note_state()
    question = messages.question_before(session_id, cut_off)
    tx.after_commit(QueuedTurn(tx.principal, turn, question.content if question else ""))
    return turn


def list_turns(
    connection: Connection, principal: Principal, session_id: str, statuses: Sequence[str], paging: PageRequest
) -> tuple[list[Turn], int]:
    """Return a page of the turns of a session with these statuses, oldest first, and their number."""
    project_id = SessionRepository(connection, principal).get(session_id).project_id
    return TurnRepository(connection, principal).page(project_id, session_id, statuses, paging)
