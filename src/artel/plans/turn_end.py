"""Ends a turn of the orchestrator and its workflow in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy import Connection

from artel.agent_memory.repository import NewMemory
from artel.agent_memory.transactions import remember
from artel.approvals.approval import Approval
from artel.approvals.repository import ApprovalRepository
from artel.auth.principal import Principal
from artel.contract.http import Agent
from artel.events.session_log import SessionLog
from artel.plans import transactions as records
from artel.plans.workflow import Workflow
from artel.spaces.db_retry import patiently
from artel.spaces.worker_space import WorkerSpace
from artel.turns.lease import Lease, require_lease
from artel.turns.transactions import AgentAtWork, Outcome, TurnOver, finish_turn
from artel.turns.turn import Turn
from artel.turns.waiters import Ended


@dataclass(frozen=True, slots=True)
class AgentMemory:
    """A memory of a turn to store for an agent."""

    agent_id: int
    memory: NewMemory


async def end_turn(
    space: WorkerSpace,
    turn: Turn,
    outcome: Outcome,
    workflow: Workflow | None,
    agent: Agent | None = None,
    memories: Sequence[AgentMemory] = (),
) -> Ended | None:
    """End a turn and its workflow; return None if another process ended the turn first."""
    services = space.services
    at_work = AgentAtWork(agent.id, agent.name, "", "") if agent else None
    finish = partial(
        services.database.run, _finish, space.principal, turn, outcome, workflow, at_work, memories, space.lease
    )
    try:
        finished_at, withdrawn = await patiently(finish, "answer")
    except TurnOver:
        return None
    services.relay.stop_asking(space.principal, withdrawn)
    services.signals.session_changed(turn.session_id)
    if memories:
        services.memories.wake()
    return Ended(
        session_id=turn.session_id,
        turn_id=turn.id,
        mode=turn.mode,
        status=outcome.status,
        message_id=outcome.message_id,
        agent_id=agent.id if agent else None,
        agent=agent.name if agent else None,
        content=outcome.content,
        context=outcome.context or [],
        usage=outcome.usage or {},
        duration_ms=turn.duration_until(finished_at),
        error_code=outcome.error_code,
    )


def _finish(
    connection: Connection,
    principal: Principal,
    turn: Turn,
    outcome: Outcome,
    workflow: Workflow | None,
    agent: AgentAtWork | None,
    memories: Sequence[AgentMemory],
    lease: Lease | None,
) -> tuple[datetime, Sequence[Approval]]:
    """Return when the turn ended, and its withdrawn approvals."""
    require_lease(connection, principal, turn.project_id, lease)
    SessionLog(connection, principal, turn.session_id, 0)  # lock order: session, then workflow
    if workflow is not None:
        records.end_workflow(connection, principal, workflow)
    ended = finish_turn(connection, principal, turn.session_id, turn.id, agent, outcome, lease)
    if workflow is not None:
        records.note_spent(connection, principal, workflow)
    for item in memories:
        remember(connection, principal, turn.project_id, item.agent_id, [item.memory])
    return ended, ApprovalRepository(connection, principal).withdraw(turn.id)
