"""The end of a turn of the orchestrator, in one transaction with that of its workflow."""

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
class Remembers:
    """What an agent is to remember of a turn."""

    agent_id: int
    memory: NewMemory


async def end_turn(
    space: WorkerSpace,
    turn: Turn,
    outcome: Outcome,
    workflow: Workflow | None,
    agent: Agent | None = None,
    remembers: Sequence[Remembers] = (),
) -> Ended | None:
    """Store the end of a turn and of its workflow; None if somebody else was first."""
    services = space.services
    at_work = AgentAtWork(agent.id, agent.name, "", "") if agent else None
    place = space.principal, turn, outcome, workflow, at_work, remembers, space.lease
    try:
        finished_at, asked = await patiently(partial(services.database.run, _finish, *place), "answer")
    except TurnOver:
        return None
    services.relay.stop_asking(space.principal, asked)
    services.signals.session_changed(turn.session_id)
    if remembers:
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
    remembers: Sequence[Remembers],
    lease: Lease | None,
) -> tuple[datetime, Sequence[Approval]]:
    """Return when it ended, and what nobody is asked any more."""
    require_lease(connection, principal, turn.project_id, lease)
    SessionLog(connection, principal, turn.session_id, 0)  # the session before its workflow, as everybody does
    if workflow is not None:
        records.end_workflow(connection, principal, workflow)
    ended = finish_turn(connection, principal, turn.session_id, turn.id, agent, outcome, lease)
    if workflow is not None:
        records.note_spent(connection, principal, workflow)
    for one in remembers:
        remember(connection, principal, turn.project_id, one.agent_id, [one.memory])
    return ended, ApprovalRepository(connection, principal).withdraw(turn.id)
