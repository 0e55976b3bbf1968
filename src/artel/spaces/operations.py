"""Operations on worker spaces for the API; each returns a model, because another process may run the space."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel

from artel.auth.audit_log import Action, record
from artel.auth.principal import Principal
from artel.contract.process_calls import SpaceDone, SpaceReset
from artel.contract.spaces import AgentFiguresAnswer, AgentStatusAnswer, HealthDetail, SpaceHealth
from artel.db.engine import Database
from artel.db.tx import Tx
from artel.errors import ArtelError
from artel.ids import uuid7
from artel.logs import get_logger
from artel.projects.repository import ProjectRepository
from artel.spaces.spaces import Spaces
from artel.spaces.worker_space import WorkerSpace
from artel.turns.end import TurnOutcome, end_turn
from artel.turns.repository import TurnRepository
from artel.turns.tool_calls import ToolCallRow, finish_call, note_call
from artel.turns.transactions import TurnOver
from artel.turns.turn import TurnStatus

RESET = "The worker space was reset before this was answered. Send the message again."
WORDS_ONLY = (
    "There is no embedding model, so memory is searched by words alone."
    " To search by meaning, remove ARTEL_EMBEDDING_MODEL, or install MiniLM: artel memory install-embeddings"
)

Initiator = Literal["user", "administrator", "system"]

log = get_logger(__name__)


async def carry_out(spaces: Spaces, principal: Principal, project_id: int, operation: str, agent_id: int) -> BaseModel:
    """Run an operation on a project's worker space, which is created if needed."""
    space = await spaces.get(principal, project_id)
    match operation:
        case "ensure":
            pass
        case "clean_up":
            await spaces.clean_up(project_id)
        case "clear_cache":
            await space.clear_agent_cache()
        case "remove":
            await space.remove_agent(agent_id)
        case "reset":
            return SpaceReset(cancelled_turns=await reset_space(space))
        case "state":
            return space.get_metrics()
        case "health":
            return await _health(space)
        case _:
            return await _carry_out_on_agent(space, operation, agent_id)
    return SpaceDone()


async def _health(space: WorkerSpace) -> SpaceHealth:
    status, findings = await space.health()
    memory = await space.services.memories.health()
    details = [HealthDetail(part=found.kind, severity=found.severity, message=found.message) for found in findings]
    return SpaceHealth(status=status, details=details, notes=[WORDS_ONLY] if memory.words_only else [])


async def _carry_out_on_agent(
    space: WorkerSpace, operation: str, agent_id: int
) -> AgentStatusAnswer | AgentFiguresAnswer:
    await space.cache.get(agent_id)  # or raise AgentNotFound
    match operation:
        case "metrics":
            return AgentFiguresAnswer.of(space.get_agent_metrics(agent_id), agent_id=agent_id)
        case "register":
            await space.register_agent(agent_id)
        case "deregister":
            await space.deregister_agent(agent_id)
        case "invalidate":
            await space.invalidate_agent(agent_id)
        case "status":
            pass
        case _:
            raise ValueError(f"worker spaces have no operation {operation}")
    active, queued = space.bus.tasks(agent_id)
    return AgentStatusAnswer(
        agent_id=agent_id,
        status=space.get_agent_status(agent_id).value,
        registered=agent_id in space.bus.registered,
        active_tasks=active,
        queued_tasks=queued,
        concurrency_limit=(await space.cache.get(agent_id)).concurrency_limit,
    )


async def reset_space(space: WorkerSpace) -> int:
    """Cancel every unfinished turn of a space and reset it; return the number of cancelled turns."""
    services, principal = space.services, space.principal
    left = await services.database.read(lambda c: TurnRepository(c, principal).unfinished(space.project_id))
    for turn in reversed(left):  # queued turns first, so that none starts when the one before it is cancelled
        partial = services.hub.partial_answer(turn.session_id, turn.id)
        with suppress(TurnOver, ArtelError):
            await space.database.run(
                end_turn, turn, TurnOutcome.failure(TurnStatus.CANCELLED, "space_reset", RESET, partial)
            )
    await space.reset()
    return len(left)


async def audited_reset(
    database: Database,
    owner: Principal,
    project_id: int,
    initiator: Initiator,
    reset: Callable[[], Awaitable[object]],
    by_user_id: int | None = None,
) -> None:
    """Reset a space and record it in the project's audit log; `by_user_id` is None for the server itself."""
    call = ToolCallRow(
        id=uuid7(),
        project_id=project_id,
        agent=initiator,
        tool="space_reset",
        arguments={"initiator": initiator, "user_id": by_user_id},
        level="critical",
        status="sent",
    )
    rows = database.of(owner)
    administrator = by_user_id if initiator == "administrator" else None
    await rows.run(_begin_reset, call, administrator)
    log.warning("space_reset_started", project_id=project_id, initiator=initiator, by_user_id=by_user_id)
    try:
        await reset()
    except ArtelError as failure:
        await rows.run(finish_call, replace(call, status="failed", error=failure.detail))
        raise
    await rows.run(finish_call, replace(call, status="done"))


def _begin_reset(tx: Tx, call: ToolCallRow, administrator_id: int | None) -> None:
    ProjectRepository(tx).get(call.project_id)
    note_call(tx, call)
    if administrator_id is not None:
        by, owner_id = Principal(administrator_id, is_admin=True), tx.principal.user_id
        target = f"project {call.project_id}"
        record(tx.connection, Action.SPACE_RESET, by, target=target, target_user_id=owner_id)
