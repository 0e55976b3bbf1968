"""Operations on worker spaces for the API; each returns JSON, because another process may run the space."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from artel.auth.principal import Principal
from artel.contract.spaces import (
    AgentFiguresAnswer,
    AgentStatusAnswer,
    HealthDetail,
    SpaceHealth,
    SpaceSample,
    SpaceState,
)
from artel.errors import ArtelError
from artel.spaces.services import SpaceServices
from artel.spaces.spaces import Spaces
from artel.spaces.worker_space import WorkerSpace
from artel.turns.end import Outcome, end_turn
from artel.turns.repository import TurnRepository
from artel.turns.transactions import TurnOver
from artel.turns.turn import TurnStatus

RESET = "The worker space was reset before this was answered. Send the message again."

Json = dict[str, Any]
Operation = Callable[[Spaces, SpaceServices, WorkerSpace, int], Awaitable[Json]]


async def carry_out(
    spaces: Spaces, services: SpaceServices, principal: Principal, project_id: int, operation: str, agent_id: int | None
) -> Json:
    """Run an operation on a project's worker space, which is created if needed."""
    space = await spaces.get(principal, project_id)
    return await OPERATIONS[operation](spaces, services, space, agent_id or 0)


async def _status(_spaces: Spaces, _services: SpaceServices, space: WorkerSpace, agent_id: int) -> Json:
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


async def _metrics(_spaces: Spaces, _services: SpaceServices, space: WorkerSpace, agent_id: int) -> Json:
    await space.cache.get(agent_id)
    figures = asdict(space.get_agent_metrics(agent_id))
    return AgentFiguresAnswer(agent_id=agent_id, **figures).model_dump(mode="json")


async def _register(spaces: Spaces, services: SpaceServices, space: WorkerSpace, agent_id: int) -> Json:
    await space.register_agent(agent_id)
    return await _status(spaces, services, space, agent_id)


async def _deregister(spaces: Spaces, services: SpaceServices, space: WorkerSpace, agent_id: int) -> Json:
    await space.cache.get(agent_id)
    await space.deregister_agent(agent_id)
    return await _status(spaces, services, space, agent_id)


async def _invalidate(spaces: Spaces, services: SpaceServices, space: WorkerSpace, agent_id: int) -> Json:
    await space.cache.get(agent_id)
    await space.invalidate_agent(agent_id)
    return await _status(spaces, services, space, agent_id)


async def _remove(_spaces: Spaces, _services: SpaceServices, space: WorkerSpace, agent_id: int) -> Json:
    await space.remove_agent(agent_id)
    return {}


async def _state(_spaces: Spaces, _services: SpaceServices, space: WorkerSpace, _agent_id: int) -> Json:
    samples = [SpaceSample(**asdict(sample)) for sample in space.samples]
    state = SpaceState(**asdict(space.get_metrics()), user_prefix=space.user_prefix, history=samples)
    return state.model_dump(mode="json")


async def _health(_spaces: Spaces, services: SpaceServices, space: WorkerSpace, _agent_id: int) -> Json:
    status, findings = await space.health()
    memory = await services.memories.health()
    details = [HealthDetail(part=one.kind, severity=one.severity, message=one.message) for one in findings]
    notes = []
    if memory.words_only:
        notes.append(
            "There is no embedding model, so memory is searched by words alone."
            " To install one, run: artel memory install-embeddings"
        )
    return SpaceHealth(status=status, details=details, notes=notes).model_dump(mode="json")


async def _reset(_spaces: Spaces, services: SpaceServices, space: WorkerSpace, _agent_id: int) -> Json:
    return {"cancelled_turns": await reset_space(services, space)}


async def reset_space(services: SpaceServices, space: WorkerSpace) -> int:
    """Cancel every unfinished turn of a space and reset it; return the number of cancelled turns."""
    principal = space.principal
    left = await services.database.read(lambda c: TurnRepository(c, principal).unfinished(space.project_id))
    for turn in reversed(left):  # queued turns first, so that none starts when the one before it is cancelled
        partial = services.hub.partial_answer(turn.session_id, turn.id)
        with suppress(TurnOver, ArtelError):
            await space.database.run(
                end_turn, turn, Outcome.failure(TurnStatus.CANCELLED, "space_reset", RESET, partial)
            )
    await space.reset()
    return len(left)


async def _clean_up(spaces: Spaces, _services: SpaceServices, space: WorkerSpace, _agent_id: int) -> Json:
    await spaces.clean_up(space.project_id)
    return {}


async def _clear_cache(_spaces: Spaces, _services: SpaceServices, space: WorkerSpace, _agent_id: int) -> Json:
    await space.clear_agent_cache()
    return {}


async def _ensure(_spaces: Spaces, _services: SpaceServices, _space: WorkerSpace, _agent_id: int) -> Json:
    return {}


OPERATIONS: dict[str, Operation] = {
    "status": _status,
    "metrics": _metrics,
    "register": _register,
    "deregister": _deregister,
    "invalidate": _invalidate,
    "remove": _remove,
    "state": _state,
    "health": _health,
    "reset": _reset,
    "clean_up": _clean_up,
    "clear_cache": _clear_cache,
    "ensure": _ensure,
}
