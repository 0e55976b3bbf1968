"""The end of a turn: every turn ends here, answered, failed, cancelled or interrupted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from artel import kill_points
from artel.agent_memory.repository import NewMemory
from artel.agent_memory.transactions import remember
from artel.agents.repository import AgentRepository
from artel.approvals.repository import ApprovalRepository, stop_asking
from artel.brain.tokens import count_tokens
from artel.budgets.money import micros
from artel.budgets.repository import BudgetRepository, settle_turn_later
from artel.budgets.usage import UsageRepository
from artel.contract.chat import AnswerUsage, ContextItem, UsageShown
from artel.contract.events import (
    EventData,
    MessageCompleted,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnUsage,
)
from artel.contract.parked_run import UsageShare
from artel.db.hints import MemoriesChanged, SessionHasEvents, TitleWanted, TurnStopped
from artel.db.tx import Tx
from artel.errors import AgentNotFound
from artel.events.session_log import SessionLog
from artel.ids import uuid7
from artel.plans.plan import OPEN, TaskStatus, WorkflowStatus
from artel.plans.repository import TaskRepository, WorkflowRepository
from artel.sessions.message_repository import MessageRepository, StoredMessage
from artel.sessions.repository import BY_WORDS, SessionRepository, TurnEffect
from artel.text import storable
from artel.turns.drafts import MAX_CHARACTERS, DraftRepository
from artel.turns.repository import TurnRepository
from artel.turns.transactions import AgentAtWork, TurnOver
from artel.turns.turn import PLAN_EXPIRED, Mode, Turn, TurnStatus
from artel.turns.waiters import Ended

CANCELLED = "You stopped this."


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """The result of a turn: an answer, or an error."""

    status: TurnStatus
    message_id: str
    content: str
    tokens: int
    usage: UsageShown | None
    duration: float = 0.0
    error_code: str | None = None
    context: Sequence[ContextItem] | None = None  # memories in the prompt
    partial: str = ""  # streamed before a failure; if empty, the stored draft is used
    shares: Sequence[UsageShare] = ()  # usage per agent; if empty, all of it is the turn's agent's
    has_draft: bool = True  # False: no draft can be stored, so none is looked up
    agent: AgentAtWork | None = None  # who answered
    memories: Mapping[int, Sequence[NewMemory]] = field(default_factory=dict)  # to store, by agent
    noted: Sequence[EventData] = ()  # what happened before, and is not written yet
    spent: tuple[int, bool] | None = None  # by the run of a plan: micros, and whether a price is unknown

    @property
    def failed(self) -> bool:
        return self.error_code is not None

    @property
    def effect(self) -> TurnEffect:
        """What the session shows of it: nothing has failed if the user stopped, rejected or did not answer it."""
        failed = self.status in (TurnStatus.FAILED, TurnStatus.TIMEOUT) and self.error_code != PLAN_EXPIRED
        if self.usage is None:
            return TurnEffect(failed)
        return TurnEffect(failed, micros(self.usage.cost_usd or 0.0), self.usage.cost_usd is None)

    @classmethod
    def failure(cls, status: TurnStatus, code: str, text: str, partial: str = "") -> "TurnOutcome":
        """Return the outcome of a turn that somebody else than its runner ends."""
        return cls(status, uuid7(), text, count_tokens(text), None, error_code=code, partial=partial)


@kill_points.transaction("turn.end")
def end_turn(tx: Tx, turn: Turn, outcome: TurnOutcome) -> Ended:
    """End a turn with its workflow, tasks, approvals and reservations; raise TurnOver if it has ended before."""
    now, agent, is_direct = datetime.now(UTC), outcome.agent, turn.mode is Mode.DIRECT
    figures = _figures(turn, outcome, now)
    message = MessageCompleted(
        message_id=outcome.message_id,
        role="system" if outcome.failed else "assistant",
        content=outcome.content,
        agent_id=agent.id if agent else None,
        status="failed" if outcome.failed else "ok",
        error_code=outcome.error_code,
        **({} if outcome.failed else figures),
    )
    happened: list[EventData] = [message]
    if agent is not None and is_direct:  # tasks of plans write it themselves
        happened.append(agent.change)
    count = len(outcome.noted) + len(happened) + (2 if is_direct else 1)
    log = SessionLog(tx, turn.session_id, count, outcome.effect, wait=False)
    values: dict[str, Any] = {"error_code": outcome.error_code, "error": outcome.content if outcome.failed else None}
    values["usage"] = outcome.usage and outcome.usage.model_dump()
    values["context"] = None if outcome.context is None else [item.model_dump() for item in outcome.context]
    finished = TurnRepository(tx).finish(turn.session_id, turn.id, outcome.status, now, **values)
    settle = settle_turn_later(tx, turn.id)
    _announce_in_lists(tx, turn, outcome, log)
    if not finished():
        raise TurnOver
    settle()
    task_end, turn_end = _end_events(turn, outcome)
    happened += [task_end] if is_direct else _end_workflow(tx, turn, outcome)
    cut_off = _cut_off(tx, turn, outcome, figures)
    number = log.first + len(outcome.noted)
    turn_number = turn.number if outcome.failed and not cut_off else _place_in_conversation(tx, turn)
    if cut_off:
        happened.insert(0, cut_off)
        name = _name_of(tx, turn.project_id, cut_off.agent_id)
        _add_message(tx, turn, (number, turn_number), cut_off, name, count_tokens(cut_off.content))
        number += 1
    log.write(turn.id, *outcome.noted, *happened, turn_end)
    _add_message(tx, turn, (number, turn_number), message, agent.name if agent else None, outcome.tokens)
    if outcome.usage:
        _add_usage(tx, turn, outcome.usage, outcome.shares, now, agent)
    for agent_id, memories in sorted(outcome.memories.items()):  # in lock order
        remember(tx, turn.project_id, agent_id, memories)
        tx.after_commit(MemoriesChanged())
    if agent is None or not is_direct:  # else nothing is pending: a direct run that asks is parked
        stop_asking(tx, ApprovalRepository(tx).withdraw(turn.id))
    ended = _ended(tx, turn, outcome, now)
    tx.after_commit(ended)
    if outcome.status is TurnStatus.CANCELLED:
        tx.after_commit(TurnStopped(turn.id))
    return ended


def _ended(tx: Tx, turn: Turn, outcome: TurnOutcome, now: datetime) -> Ended:
    """Return what the waiters of a turn get to know of its end."""
    agent, may_have_waited = outcome.agent, turn.parked is not None or turn.mode is not Mode.DIRECT
    return Ended(
        session_id=turn.session_id,
        turn_id=turn.id,
        mode=turn.mode,
        status=outcome.status,
        message_id=outcome.message_id,
        agent_id=agent.id if agent else turn.agent_id,
        agent=agent.name if agent else None,
        content=outcome.content,
        context=outcome.context or (),
        usage=outcome.usage,
        duration_ms=turn.duration_until(now),
        error_code=outcome.error_code,
        waited_ms=round(ApprovalRepository(tx).seconds_waited(turn.id) * 1000) if may_have_waited else 0,
    )


@kill_points.transaction("turn.cancel")
def cancel_turn(tx: Tx, session_id: str, turn_id: str, partial: str = "") -> Turn:
    """Cancel an unfinished turn and return it; a finished one stays as it is.

    `partial` is the text streamed so far, as far as this process has it.
    """
    turns = TurnRepository(tx)
    turn = turns.get(session_id, turn_id)
    if not turn.status.is_terminal:
        # The usage from before it was parked; a running turn reports its own.
        used = turn.parked if turn.status is not TurnStatus.RUNNING else None
        outcome = replace(
            TurnOutcome.failure(TurnStatus.CANCELLED, "cancelled", CANCELLED, partial),
            usage=used.usage if used else None,
            shares=used.shares if used else (),
        )
        end_turn(tx, turn, outcome)
    else:  # the response to an earlier cancellation may have got lost
        tx.after_commit(SessionHasEvents(session_id))
        tx.after_commit(TurnStopped(turn_id))
    return turns.get(session_id, turn_id)


def note_usage(tx: Tx, session_id: str, turn_id: str, usage: UsageShown, shares: Sequence[UsageShare] = ()) -> None:
    """Store the usage of a turn that another process finished."""
    turns = TurnRepository(tx)
    if turns.note_usage(session_id, turn_id, usage):
        turn = turns.get(session_id, turn_id)
        _add_usage(tx, turn, usage, shares, turn.finished_at or datetime.now(UTC))
        cost = micros(usage.cost_usd or 0.0)
        SessionRepository(tx).add_cost(session_id, cost, price_unknown=usage.cost_usd is None)


def _add_usage(
    tx: Tx, turn: Turn, usage: UsageShown, shares: Sequence[UsageShare], now: datetime, agent: AgentAtWork | None = None
) -> None:
    if not shares:
        agent_id = agent.id if agent else turn.agent_id
        name = agent.name if agent else _name_of(tx, turn.project_id, agent_id) or ""
        shares = [UsageShare(agent_id=agent_id, agent=name, usage=usage)]
    UsageRepository(tx).add(turn.project_id, turn.session_id, turn.id, now, shares)


def _announce_in_lists(tx: Tx, turn: Turn, outcome: TurnOutcome, log: SessionLog) -> None:
    log.note_state()
    if log.session.title_source == BY_WORDS and not outcome.failed:
        tx.after_commit(TitleWanted(tx.principal.user_id, turn.session_id, turn.id))


def _figures(turn: Turn, outcome: TurnOutcome, now: datetime) -> dict[str, Any]:
    """Return what the event of an answer says about its turn."""
    return {
        "continues": turn.continues,
        "usage": AnswerUsage.of(outcome.usage) if outcome.usage else None,
        "duration_ms": turn.duration_until(now),
        "context": None if outcome.context is None else len(outcome.context),
    }


def _cut_off(tx: Tx, turn: Turn, outcome: TurnOutcome, figures: Mapping[str, Any]) -> MessageCompleted | None:
    """Return what was streamed of the answer before the turn failed, if anything; delete its draft."""
    if not outcome.failed and not outcome.has_draft:
        return None
    draft = DraftRepository(tx).take(turn.id)
    content = storable((outcome.partial or draft)[:MAX_CHARACTERS])
    if not outcome.failed or not content.strip():
        return None
    return MessageCompleted(
        message_id=uuid7(),
        role="assistant",
        content=content,
        agent_id=outcome.agent.id if outcome.agent else turn.agent_id or _only_agent(tx, turn),
        status="cut_off",
        error_code=outcome.error_code,
        **figures,
    )


def _place_in_conversation(tx: Tx, turn: Turn) -> int:
    """Return the turn number of an answer: if it goes on from another one, that one's, which is then continued."""
    if turn.continues is None:
        return turn.number
    return MessageRepository(tx).mark_continued(turn.session_id, turn.continues)


def _only_agent(tx: Tx, turn: Turn) -> int | None:
    """Return the agent of a plan of one task, which writes the answer."""
    workflow = WorkflowRepository(tx).of_turn(turn.id)
    tasks = TaskRepository(tx).of(workflow.id) if workflow else []
    return tasks[0].agent_id if len(tasks) == 1 else None


def _add_message(
    tx: Tx, turn: Turn, numbers: tuple[int, int], message: MessageCompleted, agent: str | None, tokens: int
) -> None:
    stored = StoredMessage(
        message.message_id,
        *numbers,
        turn.id,
        message.role,
        message.content,
        tokens,
        datetime.now(UTC),
        agent_id=message.agent_id,
        agent=agent,
        status=message.status,
        error_code=message.error_code,
        continues=message.continues,
    )
    MessageRepository(tx).add(turn.project_id, turn.session_id, stored)


def _name_of(tx: Tx, project_id: int, agent_id: int | None) -> str | None:
    """Return the name of an agent; None if it was deleted."""
    try:
        return None if agent_id is None else AgentRepository(tx).get(project_id, agent_id).name
    except AgentNotFound:
        return None


def _end_workflow(tx: Tx, turn: Turn, outcome: TurnOutcome) -> list[EventData]:
    """End the workflow that a turn works on, record its cost, and return the events of its unfinished tasks.

    Completed tasks stay, so that a retry continues from there.
    """
    rows = WorkflowRepository(tx)
    workflow = rows.of_turn(turn.id)
    if workflow is None:
        return []
    code, text = outcome.error_code, outcome.content
    values: dict[str, Any] = {"status": WorkflowStatus(outcome.status), "error_code": code}
    values |= {"error": text if code else None, "finished_at": datetime.now(UTC)}
    if outcome.spent is not None:
        values |= {"answer": None if code else text}
        values |= {"spent_micros": outcome.spent[0], "price_unknown": outcome.spent[1]}
    if not rows.move(workflow.id, OPEN, **values):
        return []
    status = TaskStatus.CANCELLED if outcome.status is TurnStatus.CANCELLED else TaskStatus.FAILED
    events: list[EventData] = []
    for task in TaskRepository(tx).end_unfinished(workflow.id, status, code or "interrupted", text):
        if task.status is TaskStatus.RUNNING and status is TaskStatus.FAILED:
            events.append(TaskFailed(task_id=task.id, code=code or "interrupted", error=text))
        elif task.status is not TaskStatus.PENDING:
            events.append(TaskCancelled(task_id=task.id))
    # The budget knows more than the run: it includes lost calls.
    if budget := BudgetRepository(tx).find(turn.project_id, "plan", workflow.id):
        rows.note_spent(workflow.id, budget.spent_micros)
    return events


def _end_events(turn: Turn, outcome: TurnOutcome) -> tuple[EventData, EventData]:
    """Return the events for the end of a direct turn's only task, and of the turn."""
    code, text, status = outcome.error_code, outcome.content, outcome.status
    if code is None:
        usage = TurnUsage()
        if used := outcome.usage:
            usage = TurnUsage(
                model=used.model,
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
                cost_usd=used.cost_usd,
                calls=used.calls,
            )
        completed = TaskCompleted(task_id=turn.id, result=text, duration=outcome.duration)
        return completed, TurnCompleted(status=status, usage=usage)
    if status is TurnStatus.CANCELLED:
        return TaskCancelled(task_id=turn.id), TurnCancelled(status=status)
    failed = {"code": code, "error": text}
    return TaskFailed(task_id=turn.id, **failed), TurnFailed(status=status, **failed)
