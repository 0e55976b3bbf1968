"""Operations on worker spaces for the API; each returns JSON, because another process may run the space."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, Literal

from artel.auth.principal import Principal
from artel.contract.spaces import AgentFiguresAnswer, AgentStatusAnswer, HealthDetail, SpaceHealth
from artel.db.engine import Database
from artel.db.tx import Tx
from artel.errors import ArtelError
from artel.ids import uuid7
from artel.logs import get_logger
from artel.projects.repository import ProjectRepository
from artel.spaces.spaces import Spaces
from artel.spaces.worker_space import WorkerSpace
from artel.turns.end import Outcome, end_turn
from artel.turns.repository import TurnRepository
from artel.turns.tool_calls import ToolCallRow, finish_call, note_call
from artel.turns.transactions import TurnOver
from artel.turns.turn import TurnStatus

RESET = "The worker space was reset before this was answered. Send the message again."
WORDS_ONLY = (
    "There is no embedding model, so memory is searched by words alone."
    " To install one, run: artel memory install-embeddings"
)

Json = dict[str, Any]
Initiator = Literal["user", "administrator", "system"]

log = get_logger(__name__)


async def carry_out(spaces: Spaces, principal: Principal, project_id: int, operation: str, agent_id: int) -> Json:
    """Run an operation on a project's worker space, which is created if needed."""
    space = await spaces.get(principal, project_id)
    if operation == "clean_up":
        await spaces.clean_up(project_id)
        return {}
    return await OPERATIONS[operation](space, agent_id)


async def _ensure(_space: WorkerSpace, _agent_id: int) -> Json:
    return {}


async def _state(space: WorkerSpace, _agent_id: int) -> Json:
    return space.get_metrics().model_dump(mode="json")


async def _health(space: WorkerSpace, _agent_id: int) -> Json:
    status, findings = await space.health()
    memory = await space.services.memories.health()
    details = [HealthDetail(part=found.kind, severity=found.severity, message=found.message) for found in findings]
    notes = [WORDS_ONLY] if memory.words_only else []
    return SpaceHealth(status=status, details=details, notes=notes).model_dump(mode="json")


async def _reset(space: WorkerSpace, _agent_id: int) -> Json:
    return {"cancelled_turns": await reset_space(space)}


async def _clear_cache(space: WorkerSpace, _agent_id: int) -> Json:
    await space.clear_agent_cache()
    return {}


async def _status(space: WorkerSpace, agent_id: int) -> Json:
    agent = await space.cache.get(agent_id)
    active, queued = space.bus.tasks(agent_id)
    return AgentStatusAnswer(
        agent_id=agent_id,
        status=space.get_agent_status(agent_id).value,
        registered=agent_id in space.bus.registered,
        active_tasks=active,
        queued_tasks=queued,
        concurrency_limit=agent.concurrency_limit,
    ).model_dump(mode="json")


async def _metrics(space: WorkerSpace, agent_id: int) -> Json:
    await space.cache.get(agent_id)
    figures = asdict(space.get_agent_metrics(agent_id))
    return AgentFiguresAnswer(agent_id=agent_id, **figures).model_dump(mode="json")


async def _register(space: WorkerSpace, agent_id: int) -> Json:
    await space.register_agent(agent_id)
    return await _status(space, agent_id)


async def _deregister(space: WorkerSpace, agent_id: int) -> Json:
    await space.cache.get(agent_id)
    await space.deregister_agent(agent_id)
    return await _status(space, agent_id)


async def _invalidate(space: WorkerSpace, agent_id: int) -> Json:
    await space.cache.get(agent_id)
    await space.invalidate_agent(agent_id)
    return await _status(space, agent_id)


async def _remove(space: WorkerSpace, agent_id: int) -> Json:
    await space.remove_agent(agent_id)
    return {}


OPERATIONS: dict[str, Callable[[WorkerSpace, int], Awaitable[Json]]] = {
    "ensure": _ensure,
    "state": _state,
    "health": _health,
    "reset": _reset,
    "clear_cache": _clear_cache,
    "status": _status,
    "metrics": _metrics,
    "register": _register,
    "deregister": _deregister,
    "invalidate": _invalidate,
    "remove": _remove,
}


async def reset_space(space: WorkerSpace) -> int:
    """Cancel every unfinished turn of a space and reset it; return the number of cancelled turns."""
    services, principal = space.services, space.principal
    left = await services.database.read(lambda c: TurnRepository(c, principal).unfinished(space.project_id))
    for turn in reversed(left):  # queued turns first, so that none starts when the one before it is cancelled
        partial = services.hub.partial_answer(turn.session_id, turn.id)
        with suppress(TurnOver, ArtelError):
            await space.database.run(
                end_turn, turn, Outcome.failure(TurnStatus.CANCELLED, "space_reset", RESET, partial)
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
        session_id=None,
        turn_id=None,
        agent_id=None,
        agent=initiator,
        tool="space_reset",
        arguments={"initiator": initiator, "user_id": by_user_id},
        level="critical",
        status="sent",
    )
    await database.of(owner).run(_begin_reset, call)
    log.warning("space_reset_started", project_id=project_id, initiator=initiator, by_user_id=by_user_id)
    try:
        await reset()
    except ArtelError as failure:
        await database.of(owner).run(finish_call, replace(call, status="failed", error=failure.detail))
        raise
    await database.of(owner).run(finish_call, replace(call, status="done"))


def _begin_reset(tx: Tx, call: ToolCallRow) -> None:
    ProjectRepository(tx).get(call.project_id)
    note_call(tx, call)
