"""Prices a plan with what is known of the project's agents: their models, prompts, tools and past."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection

from artel.agent_loop.context import MAX_HISTORY_TOKENS
from artel.auth.principal import Principal
from artel.brain.brain import ToolSchema
from artel.brain.tokens import count_tokens
from artel.contract.http import Agent
from artel.plans.estimates import Habits, PlanEstimate, Worker, estimate, habits_of
from artel.plans.repository import TaskRepository
from artel.plans.task_graph import TaskGraph
from artel.plans.task_prompt import REQUEST_CHARACTERS
from artel.plans.workflow import TaskStatus
from artel.tools.catalogue import SCHEMAS
from artel.turns.repository import TurnRepository

PAST = 20  # of the last tasks and turns of each agent
PAST_DAYS = 90
MEMORY_TOKENS = 300  # of what an agent is reminded of that has done something before, about
FRAME_TOKENS = 100  # of what stands around and between all of that: marks of messages, and headings
MERGE_PROMPT_TOKENS = 200
MERGE_TOKENS = 2_000
DEMO = "demo"  # answers for every model when none is configured, and costs nothing


def habits(
    connection: Connection, principal: Principal, project_id: int, agents: Sequence[Agent], *, is_demo: bool = False
) -> dict[str, Habits]:
    """Return what agents usually do, by name, from the last tasks and turns of each.

    What the demo brain did says nothing about a real model, so it counts only while the demo brain answers.
    """
    tasks, turns = TaskRepository(connection, principal), TurnRepository(connection, principal)
    since = datetime.now(UTC) - timedelta(days=PAST_DAYS)
    known = {}
    for agent in agents:
        place = project_id, agent.id, since, PAST
        done = [*tasks.done_by(*place), *turns.answered_by(*place)]
        done.sort(key=lambda one: one.finished_at, reverse=True)
        rows = [row for row in done[:PAST] if is_demo or (row.usage or {}).get("model") != DEMO]
        known[agent.name] = habits_of([_past(row) for row in rows])
    return known


class Told(Protocol):
    """A message of a session."""

    @property
    def content(self) -> str: ...

    @property
    def tokens(self) -> int: ...


M = TypeVar("M", bound=Told)


def before(said: Sequence[M], request: str) -> Sequence[M]:
    """Return what was said before a request."""
    return said[:-1] if said and said[-1].content == request else said


def told_tokens(said: Sequence[Told], request: str, graph: TaskGraph) -> int:
    """Return what every task is told beside its description: what was said, as much of it as is sent, and the request.

    `said` may end with the request, which is whole only in a plan of one task.
    """
    history = sum(one.tokens for one in before(said, request))
    asked = request if len(graph) == 1 else request[:REQUEST_CHARACTERS]
    return min(history, MAX_HISTORY_TOKENS) + count_tokens(asked)


def price(
    graph: TaskGraph,
    agents: Sequence[Agent],
    known: Mapping[str, Habits],
    said_tokens: int,
    planner_model: str,
    *,
    is_demo: bool = False,
) -> PlanEstimate:
    """Return what a plan will cost; each task is sent its description, and what was said before."""
    workers = {
        agent.name: Worker(
            DEMO if is_demo else agent.model,
            agent.max_tokens,
            FRAME_TOKENS
            + count_tokens(agent.system_prompt, None if is_demo else agent.model)
            + sum(_tool_tokens().get(tool, 0) for tool in agent.tools)
            + (MEMORY_TOKENS if agent.memory and known[agent.name].tasks else 0)
            + said_tokens,
            bool(agent.tools),
            known[agent.name],
            agent.loop.understand + agent.loop.plan + agent.loop.critique,
        )
        for agent in agents
    }
    tokens = {task.id: count_tokens(task.description) for task in graph.tasks.values()}
    planner_model = DEMO if is_demo else planner_model
    merger = Worker(planner_model, MERGE_TOKENS, MERGE_PROMPT_TOKENS + said_tokens) if len(graph) > 1 else None
    return estimate(graph, workers, tokens, merger)


@lru_cache(maxsize=1)
def _tool_tokens() -> dict[str, int]:
    """Return what the description of each tool takes, about: models are shown it as a type, not as its JSON schema."""
    return {name: count_tokens(_as_type(schema)) for name, schema in SCHEMAS.items()}


def _as_type(schema: ToolSchema) -> str:
    return "\n".join(
        [f"// {schema.description}", f"type {schema.name} = (_: {{", *_fields(schema.parameters), "}) => any;"]
    )


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    for name, field in (schema.get("properties") or {}).items():
        yield f"{name}: {field.get('type', '')} // {field.get('description', '')}"
        yield from _fields(field)


def _past(done: Any) -> Mapping[str, Any]:
    """Return what a row of a task, or of a turn, says of its agent."""
    return {
        "success": done.status == TaskStatus.COMPLETED,
        "usage": done.usage,
        "cost_usd": (done.usage or {}).get("cost_usd"),
        "seconds": _seconds(done),
    }


def _seconds(done: Any) -> float | None:
    """Return how long it took: of a task, without the time in which it waited for a person, if that was stored."""
    worked: float | None = getattr(done, "seconds", None)
    if worked is not None or not (done.started_at and done.finished_at):
        return worked
    return float((done.finished_at - done.started_at).total_seconds())
