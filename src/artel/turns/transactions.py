"""Transactions on turns: accept, start, finish. The lock on the session's row orders them."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from artel.agent_memory.repository import NewMemory
from artel.agent_memory.transactions import remember
from artel.agents.repository import AgentRepository
from artel.auth.principal import Principal
from artel.brain.tokens import count_tokens
from artel.budgets.month import Month, effective_limit, month_for
from artel.budgets.repository import BudgetRepository, settle_turn
from artel.budgets.usage import Share, UsageRepository
from artel.contract.events import (
    AgentStatusChanged,
    DirectAgentCall,
    EventData,
    MessageCompleted,
    MessageCreated,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from artel.errors import AgentNotFound, AgentQueueFull, IdempotencyKeyReused, SessionBusy
from artel.events.session_log import SessionLog
from artel.ids import uuid7
from artel.plans.repository import WorkflowRepository, end_workflow_of
from artel.projects.repository import ProjectRepository
from artel.sessions.message_repository import MessageRepository, StoredMessage
from artel.sessions.repository import SessionRepository
from artel.sessions.transactions import DEFAULT_TITLE
from artel.text import one_line, storable
from artel.turns.drafts import MAX_CHARACTERS, DraftRepository
from artel.turns.lease import Lease, require_lease
from artel.turns.repository import TurnRepository
from artel.turns.turn import Mode, Turn, TurnStatus

MAX_UNFINISHED = 11  # one runs, ten wait
MAX_WAITING_FOR_AGENT = 100
TITLE_CHARACTERS = 60

# Raises if an agent of a project can't take a message now.
Gate = Callable[[int, int], None]
# Stores what else belongs to an accepted turn.
Also = Callable[[Connection, Principal, "Turn"], None]


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
        """The event for the change of status."""
        return AgentStatusChanged(agent_id=self.id, old_status=self.old_status, new_status=self.new_status)


@dataclass(frozen=True, slots=True)
class Started:
    """What a turn starts with: the conversation, the version of the project's agents, the budget."""

    messages: list[StoredMessage]
    config_version: int
    month: Month | None = None  # if the project or its user has a monthly limit


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a turn: an answer, or an error."""

    status: TurnStatus
    message_id: str
    content: str
    tokens: int
    usage: dict[str, Any] | None
    duration: float = 0.0
    error_code: str | None = None
    context: list[dict[str, Any]] | None = None
    mode: Mode = Mode.DIRECT
    partial: str = ""  # streamed before a failure; if empty, the stored draft is used
    shares: Sequence[Share] = ()  # usage per agent; if empty, all of it is the turn's agent's
    has_draft: bool = True  # False: no draft can be stored, so none is looked up

    @property
    def failed(self) -> bool:
        """Whether there is an error instead of an answer."""
        return self.error_code is not None


def accept_message(
    connection: Connection,
    principal: Principal,
    session_id: str,
    new: NewTurn,
    gate: Gate = lambda *_: None,
    also: Also | None = None,
) -> Turn:
    """Store a message and its turn; return the earlier turn of the same request if its key was used before.

    `also` stores what else belongs to a new turn.
    """
    turns = TurnRepository(connection, principal)
    if new.idempotency_key is None:
        log = SessionLog(connection, principal, session_id, 1)
    else:
        log = SessionLog(connection, principal, session_id, 0)
        if earlier := turns.by_key(session_id, new.idempotency_key):
            turn, request_hash = earlier
            if request_hash != new.request_hash:
                raise IdempotencyKeyReused("This idempotency key was used for another message. Use a new one.")
            return turn
        log.expect(1)
    agent_id = _target(connection, principal, log.project_id, new.target, gate)
    unfinished, waiting_for_agent = turns.count_unfinished(log.project_id, session_id, agent_id)
    refuse_if_busy(unfinished)
    if waiting_for_agent >= MAX_WAITING_FOR_AGENT:
        raise AgentQueueFull(
            f"{MAX_WAITING_FOR_AGENT} tasks are waiting for this agent. Try again in a moment.", retry_after=5
        )
    turn = Turn(
        id=new.turn_id,
        session_id=session_id,
        project_id=log.project_id,
        number=log.first,
        mode=new.mode,
        agent_id=agent_id,
        status=TurnStatus.QUEUED,
        error_code=None,
        error=None,
        usage=None,
        context=None,
        created_at=datetime.now(UTC),
        started_at=None,
        finished_at=None,
        retry_of=new.retry_of,
    )
    turns.add(turn, new.idempotency_key, new.request_hash)
    messages = MessageRepository(connection, principal)
    if new.retry_of is not None:
        messages.supersede(session_id, new.retry_of)
    messages.add(
        {
            "id": new.message_id,
            "project_id": turn.project_id,
            "session_id": session_id,
            "number": turn.number,
            "turn_number": turn.number,
            "turn_id": turn.id,
            "role": "user",
            "content": new.content,
            "created_at": turn.created_at,
            "retry_of": new.retry_of,
            "tokens": new.tokens,
        }
    )
    if also is not None:
        also(connection, principal, turn)
    log.write(
        new.turn_id,
        MessageCreated(message_id=new.message_id, role="user", content=new.content, retry_of=new.retry_of),
    )
    if log.first == 1:
        SessionRepository(connection, principal).name_after(session_id, _title(new.content), DEFAULT_TITLE)
    return turn


def was_accepted(connection: Connection, principal: Principal, session_id: str, key: str) -> bool:
    """Return whether a message with this idempotency key was accepted."""
    return TurnRepository(connection, principal).by_key(session_id, key) is not None


def refuse_if_busy(unfinished: int) -> None:
    """Raise SessionBusy if a session has the maximum of unfinished turns."""
    if unfinished >= MAX_UNFINISHED:
        raise SessionBusy("Ten messages are waiting in this session. Wait for an answer.", retry_after=5)


def start_turn(
    connection: Connection,
    principal: Principal,
    turn: Turn,
    agent: AgentAtWork | None,
    history: int,
    lease: Lease | None = None,
    default_user_micros: int | None = None,
) -> Started:
    """Mark the turn as running and return its context; raise TurnOver if it is not the session's next queued turn."""
    version = require_lease(connection, principal, turn.project_id, lease)
    happened: list[EventData] = []
    if agent is not None:
        began = [] if turn.parked else [DirectAgentCall(agent_id=agent.id, task_id=turn.id)]
        happened = [*began, agent.change]
    log = SessionLog(connection, principal, turn.session_id, len(happened))
    if not TurnRepository(connection, principal).start(turn.session_id, turn.id):
        raise TurnOver
    if happened:
        log.write(turn.id, *happened)
    messages = MessageRepository(connection, principal).conversation(turn.session_id, turn.number, history)
    settings, own = ProjectRepository(connection, principal).settings(turn.project_id)
    user_micros = effective_limit(own, default_user_micros)
    return Started(messages, version, month_for(connection, principal, turn.project_id, settings, user_micros))


def note_events(
    connection: Connection, principal: Principal, turn: Turn, happened: Sequence[EventData], lease: Lease | None
) -> None:
    """Write events of a running turn; raise TurnOver if it is finished."""
    require_lease(connection, principal, turn.project_id, lease)
    log = SessionLog(connection, principal, turn.session_id, len(happened))
    if TurnRepository(connection, principal).get(turn.session_id, turn.id).status.is_terminal:
        raise TurnOver
    log.write(turn.id, *happened)


def note_usage(
    connection: Connection,
    principal: Principal,
    session_id: str,
    turn_id: str,
    usage: dict[str, Any],
    shares: Sequence[Share] = (),
) -> None:
    """Store the usage of a turn that another process finished."""
    turns = TurnRepository(connection, principal)
    if turns.note_usage(session_id, turn_id, usage):
        turn = turns.get(session_id, turn_id)
        shares = shares or [_share(connection, principal, turn.project_id, turn.agent_id, usage)]
        now = turn.finished_at or datetime.now(UTC)
        UsageRepository(connection, principal).add(turn.project_id, session_id, turn_id, now, shares)


def finish_turn(
    connection: Connection,
    principal: Principal,
    session_id: str,
    turn_id: str,
    agent: AgentAtWork | None,
    outcome: Outcome,
    lease: Lease | None = None,
    memories: Sequence[NewMemory] = (),
) -> datetime:
    """Finish the turn: status, message, events, usage, memories. Return when; raise TurnOver if it was finished."""
    now = datetime.now(UTC)
    if lease is not None:
        require_lease(connection, principal, lease.project_id, lease)
    agent_id = agent.id if agent else None
    role = "system" if outcome.failed else "assistant"
    status = "failed" if outcome.failed else "ok"
    happened: list[EventData] = [
        MessageCompleted(
            message_id=outcome.message_id,
            role=role,
            content=outcome.content,
            agent_id=agent_id,
            status=status,
            error_code=outcome.error_code,
        )
    ]
    is_direct = outcome.mode is Mode.DIRECT
    if agent is not None and is_direct:  # tasks of plans write it themselves
        happened.append(agent.change)
    log = SessionLog(connection, principal, session_id, len(happened) + (2 if is_direct else 1))
    ended = TurnRepository(connection, principal).finish(
        session_id,
        turn_id,
        outcome.status,
        now,
        usage=outcome.usage,
        context=outcome.context,
        error_code=outcome.error_code,
        error=outcome.content if outcome.failed else None,
    )
    if ended is None:
        raise TurnOver
    settle_turn(connection, principal, turn_id)
    cut_off = _cut_off(connection, principal, turn_id, agent_id or ended.agent_id, outcome)
    if cut_off is not None:
        log.expect(1)
        happened.insert(0, cut_off)
    if is_direct:
        happened.append(_task_ending(turn_id, outcome))
    else:
        workflow_events = _end_workflow(connection, principal, log.project_id, turn_id, outcome)
        log.expect(len(workflow_events))
        happened += workflow_events
    log.write(turn_id, *happened, _turn_ending(outcome))
    message = {
        "project_id": log.project_id,
        "session_id": session_id,
        "turn_number": ended.number,
        "turn_id": turn_id,
        "error_code": outcome.error_code,
    }
    if cut_off is not None:
        _add_cut_off(connection, principal, cut_off, message | {"number": log.first})
    MessageRepository(connection, principal).add(
        message
        | {
            "id": outcome.message_id,
            "number": log.first + (cut_off is not None),
            "role": role,
            "content": outcome.content,
            "agent_id": agent_id,
            "agent": agent.name if agent else None,
            "status": status,
            "tokens": outcome.tokens,
        }
    )
    _keep_usage(connection, principal, log.project_id, session_id, turn_id, agent or ended.agent_id, outcome, now)
    if memories and agent_id is not None:
        remember(connection, principal, log.project_id, agent_id, memories)
    return now


def _keep_usage(
    connection: Connection,
    principal: Principal,
    project_id: int,
    session_id: str,
    turn_id: str,
    agent: AgentAtWork | int | None,
    outcome: Outcome,
    now: datetime,
) -> None:
    if outcome.usage:
        shares = outcome.shares or [_share(connection, principal, project_id, agent, outcome.usage)]
        UsageRepository(connection, principal).add(project_id, session_id, turn_id, now, shares)


def _share(
    connection: Connection,
    principal: Principal,
    project_id: int,
    agent: AgentAtWork | int | None,
    usage: dict[str, Any],
) -> Share:
    if isinstance(agent, AgentAtWork):
        return {"agent_id": agent.id, "agent": agent.name, "usage": usage}
    name = _name_of(connection, principal, project_id, agent) or ""
    return {"agent_id": agent, "agent": name, "usage": usage}


def _cut_off(
    connection: Connection, principal: Principal, turn_id: str, agent_id: int | None, outcome: Outcome
) -> MessageCompleted | None:
    """Return what was streamed of the answer before the turn failed, if anything; delete its draft."""
    if not outcome.failed and not outcome.has_draft:
        return None
    draft = DraftRepository(connection, principal).take(turn_id)
    content = storable((outcome.partial or draft)[:MAX_CHARACTERS])
    if not outcome.failed or not content.strip():
        return None
    return MessageCompleted(
        message_id=uuid7(),
        role="assistant",
        content=content,
        agent_id=agent_id,
        status="cut_off",
        error_code=outcome.error_code,
    )


def _add_cut_off(
    connection: Connection, principal: Principal, cut_off: MessageCompleted, message: dict[str, Any]
) -> None:
    MessageRepository(connection, principal).add(
        message
        | {
            "id": cut_off.message_id,
            "role": cut_off.role,
            "content": cut_off.content,
            "agent_id": cut_off.agent_id,
            "agent": _name_of(connection, principal, message["project_id"], cut_off.agent_id),
            "status": cut_off.status,
            "tokens": count_tokens(cut_off.content),
        }
    )


def _name_of(connection: Connection, principal: Principal, project_id: int, agent_id: int | None) -> str | None:
    """Return the name of an agent; None if it was deleted."""
    try:
        return None if agent_id is None else AgentRepository(connection, principal).get(project_id, agent_id).name
    except AgentNotFound:
        return None


def _end_workflow(
    connection: Connection, principal: Principal, project_id: int, turn_id: str, outcome: Outcome
) -> list[EventData]:
    """End the turn's workflow if its run has not, record its cost, and return the events."""
    workflow_id, events = end_workflow_of(
        connection, principal, turn_id, outcome.status, outcome.error_code, outcome.content
    )
    budget = workflow_id and BudgetRepository(connection, principal).find(project_id, "plan", workflow_id)
    if workflow_id and budget:
        WorkflowRepository(connection, principal).note_spent(workflow_id, budget.spent_micros)
    return events


def _title(content: str) -> str:
    """Return the title of a session after its first message."""
    begin = content[: 10 * TITLE_CHARACTERS]
    printable = "".join(letter if letter.isprintable() else " " for letter in begin)
    return one_line(printable, TITLE_CHARACTERS) or DEFAULT_TITLE


def _target(
    connection: Connection, principal: Principal, project_id: int, target: str | None, gate: Gate
) -> int | None:
    if target is None:
        return None
    agent_id = AgentRepository(connection, principal).named(project_id, target)
    gate(project_id, agent_id)
    return agent_id


def _task_ending(turn_id: str, outcome: Outcome) -> EventData:
    """Return the event for the end of a direct turn's only task."""
    if outcome.error_code is None:
        return TaskCompleted(task_id=turn_id, result=outcome.content, duration=outcome.duration)
    if outcome.status is TurnStatus.CANCELLED:
        return TaskCancelled(task_id=turn_id)
    return TaskFailed(task_id=turn_id, code=outcome.error_code, error=outcome.content)


def _turn_ending(outcome: Outcome) -> EventData:
    if outcome.error_code is None:
        return TurnCompleted(status=outcome.status, usage=outcome.usage or {})
    if outcome.status is TurnStatus.CANCELLED:
        return TurnCancelled(status=outcome.status)
    return TurnFailed(status=outcome.status, code=outcome.error_code, error=outcome.content)
