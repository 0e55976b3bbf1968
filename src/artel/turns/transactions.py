"""Transactions on turns: accept a message, add, start, write events. The lock on the session's row orders them."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection

from artel import kill_points
from artel.agents.repository import AgentRepository
from artel.auth.principal import Principal
from artel.budgets.month import Month, effective_limit, month_for
from artel.contract.events import (
    AgentStatusChanged,
    DirectAgentCall,
    EventData,
    MessageCreated,
)
from artel.db.tx import Tx
from artel.errors import AgentQueueFull, IdempotencyKeyReused, SessionBusy
from artel.events.session_log import SessionLog
from artel.projects.repository import ProjectRepository
from artel.sessions.message_repository import MessageRepository, StoredMessage
from artel.sessions.repository import SessionRepository
from artel.sessions.transactions import DEFAULT_TITLE
from artel.text import one_line
from artel.turns.repository import TurnRepository
from artel.turns.turn import Mode, Turn, TurnStatus

MAX_UNFINISHED = 11  # one runs, ten wait
MAX_WAITING_FOR_AGENT = 100
TITLE_CHARACTERS = 60

# Raises if an agent of a project can't take a message now.
Gate = Callable[[int, int], None]
# Stores what else belongs to an accepted turn.
Also = Callable[[Tx, Turn], object]


class TurnOver(Exception):
    """The turn was started or finished by another process, or others come first. Nothing was written."""

    is_agents_fault = False


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A message to accept; its ids are made before the transaction, so that a retry inserts the same rows."""

    turn_id: str
    message_id: str
    content: str
    tokens: int
    target: str | None
    idempotency_key: str | None = None
    retry_of: str | None = None  # the turn whose message is sent again

    @property
    def mode(self) -> Mode:
        """Direct with an agent, orchestrated without."""
        return Mode.ORCHESTRATED if self.target is None else Mode.DIRECT

    @property
    def request_hash(self) -> str:
        """Tells requests with the same idempotency key apart."""
        repeated = [] if self.retry_of is None else [self.retry_of]
        return hashlib.sha256(json.dumps([self.content, self.target, *repeated]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class AgentAtWork:
    """The agent of a turn, and its status before and after."""

    id: int
    name: str
    old_status: str
    new_status: str

    @property
    def change(self) -> AgentStatusChanged:
        return AgentStatusChanged(agent_id=self.id, old_status=self.old_status, new_status=self.new_status)


@dataclass(frozen=True, slots=True)
class Started:
    """What a turn starts with: the conversation, the version of the project's agents, the budget."""

    messages: list[StoredMessage]
    config_version: int
    month: Month | None = None  # if the project or its user has a monthly limit


@dataclass(frozen=True, slots=True)
class QueuedTurn:
    """A turn to run, with the text of its message; a hint after it was accepted."""

    principal: Principal
    turn: Turn
    text: str

    @property
    def ids(self) -> tuple[int, str, str]:
        return self.principal.user_id, self.turn.session_id, self.turn.id


@kill_points.transaction("turn.accept")
def accept_message(
    tx: Tx, session_id: str, new: NewTurn, gate: Gate = lambda *_: None, also: Also | None = None
) -> Turn:
    """Store a message and its turn; return the earlier turn of the same request if its key was used before.

    `also` stores what else belongs to a new turn.
    """
    turns = TurnRepository(tx)
    log = SessionLog(tx, session_id, 0 if new.idempotency_key else 1)
    if new.idempotency_key is not None and (earlier := turns.by_key(session_id, new.idempotency_key)):
        turn, request_hash = earlier
        if request_hash != new.request_hash:
            raise IdempotencyKeyReused("This idempotency key was used for another message. Use a new one.")
        return turn
    agent_id = None
    if new.target is not None:
        agent_id = AgentRepository(tx).named(log.project_id, new.target)
        gate(log.project_id, agent_id)
    ids = new.turn_id, session_id, log.project_id
    turn = Turn(*ids, log.first, new.mode, agent_id, TurnStatus.QUEUED, datetime.now(UTC), retry_of=new.retry_of)
    add_turn(tx, turn, new.request_hash, new.idempotency_key)
    messages = MessageRepository(tx)
    if new.retry_of is not None:
        messages.supersede(session_id, new.retry_of)
    named = new.message_id, turn.number, turn.number, turn.id
    question = StoredMessage(*named, "user", new.content, new.tokens, turn.created_at, retry_of=new.retry_of)
    messages.add(turn.project_id, session_id, question)
    if also is not None:
        also(tx, turn)
    log.write(
        new.turn_id,
        MessageCreated(message_id=new.message_id, role="user", content=new.content, retry_of=new.retry_of),
    )
    if log.first == 1:
        SessionRepository(tx).name_after(session_id, _title(new.content), DEFAULT_TITLE)
    tx.after_commit(QueuedTurn(tx.principal, turn, new.content))
    return turn


def add_turn(tx: Tx, turn: Turn, request_hash: str, key: str | None = None) -> Turn:
    """Add a turn and return it; raise if too many wait in the session or for the agent."""
    rows = TurnRepository(tx)
    unfinished, waiting_for_agent = rows.count_unfinished(turn.project_id, turn.session_id, turn.agent_id)
    if unfinished >= MAX_UNFINISHED:
        raise SessionBusy("Ten messages are waiting in this session. Wait for an answer.", retry_after=5)
    if waiting_for_agent >= MAX_WAITING_FOR_AGENT and turn.status is TurnStatus.QUEUED:
        raise AgentQueueFull(
            f"{MAX_WAITING_FOR_AGENT} tasks are waiting for this agent. Try again in a moment.", retry_after=5
        )
    rows.add(turn, key, request_hash)
    return turn


def was_accepted(connection: Connection, principal: Principal, session_id: str, key: str) -> bool:
    """Return whether a message with this idempotency key was accepted."""
    return TurnRepository(connection, principal).by_key(session_id, key) is not None


@kill_points.transaction("turn.start")
def start_turn(
    tx: Tx, turn: Turn, agent: AgentAtWork | None, history: int, default_user_micros: int | None = None
) -> Started:
    """Mark the turn as running and return its context; raise TurnOver if it is not the session's next queued turn."""
    happened: list[EventData] = []
    if agent is not None:
        began = [] if turn.parked else [DirectAgentCall(agent_id=agent.id, task_id=turn.id)]
        happened = [*began, agent.change]
    log = SessionLog(tx, turn.session_id, len(happened))
    if not TurnRepository(tx).start(turn.session_id, turn.id):
        raise TurnOver
    if happened:
        log.write(turn.id, *happened)
    messages = MessageRepository(tx).conversation(turn.session_id, turn.number, history)
    settings, own = ProjectRepository(tx).settings(turn.project_id)
    user_micros = effective_limit(own, default_user_micros)
    month = month_for(tx, turn.project_id, settings, user_micros)
    return Started(messages, tx.agents_version, month)


def note_events(tx: Tx, turn: Turn, happened: Sequence[EventData]) -> None:
    """Write events of a running turn; raise TurnOver if it is finished."""
    log = SessionLog(tx, turn.session_id, len(happened))
    if TurnRepository(tx).get(turn.session_id, turn.id).status.is_terminal:
        raise TurnOver
    log.write(turn.id, *happened)


def _title(content: str) -> str:
    """Return the title of a session after its first message."""
    begin = content[: 10 * TITLE_CHARACTERS]
    printable = "".join(letter if letter.isprintable() else " " for letter in begin)
    return one_line(printable, TITLE_CHARACTERS) or DEFAULT_TITLE
