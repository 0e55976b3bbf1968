"""The price of a plan, from the models, prompts, tools and past tasks of the project's agents."""

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

PAST = 20  # tasks and turns of each agent that count
PAST_DAYS = 90
MEMORY_TOKENS = 300  # roughly, of the memories in the prompt of an agent that has worked before
FRAME_TOKENS = 100  # of message separators and headings
MERGE_PROMPT_TOKENS = 200
MERGE_TOKENS = 2_000
DEMO = "demo"  # the built-in brain that replaces every model when none is configured; free


def habits(
    connection: Connection, principal: Principal, project_id: int, agents: Sequence[Agent], *, is_demo: bool = False
) -> dict[str, Habits]:
    """Return the statistics of agents, by name, from the last tasks and turns of each.

    Results of the demo brain say nothing about a real model, so they count only if `is_demo`.
    """
    tasks, turns = TaskRepository(connection, principal), TurnRepository(connection, principal)
    since = datetime.now(UTC) - timedelta(days=PAST_DAYS)
    by_name = {}
    for agent in agents:
        done = [
            *tasks.done_by(project_id, agent.id, since, PAST),
            *turns.answered_by(project_id, agent.id, since, PAST),
        ]
        done.sort(key=lambda row: row.finished_at, reverse=True)
        rows = [row for row in done[:PAST] if is_demo or (row.usage or {}).get("model") != DEMO]
        by_name[agent.name] = habits_of([_past(row) for row in rows])
    return by_name


class HistoryMessage(Protocol):
    """A message of a session."""

    @property
    def content(self) -> str: ...

    @property
    def tokens(self) -> int: ...


M = TypeVar("M", bound=HistoryMessage)


def before(history: Sequence[M], request: str) -> Sequence[M]:
    """Return the messages before a request, which may be the last one of the history."""
    return history[:-1] if history and history[-1].content == request else history


def told_tokens(history: Sequence[HistoryMessage], request: str, graph: TaskGraph) -> int:
    """Return the tokens that every task is sent in addition to its description: the history and the request.

    The history may end with the request, which is sent whole only in a plan of one task.
    """
    history_tokens = sum(message.tokens for message in before(history, request))
    sent_request = request if len(graph) == 1 else request[:REQUEST_CHARACTERS]
    return min(history_tokens, MAX_HISTORY_TOKENS) + count_tokens(sent_request)


def price(
    graph: TaskGraph,
    agents: Sequence[Agent],
    agent_habits: Mapping[str, Habits],
    history_tokens: int,
    planner_model: str,
    *,
    is_demo: bool = False,
) -> PlanEstimate:
    """Return the cost of a plan; every prompt contains `history_tokens` from `told_tokens`."""
    workers = {
        agent.name: Worker(
            DEMO if is_demo else agent.model,
            agent.max_tokens,
            FRAME_TOKENS
            + count_tokens(agent.system_prompt, None if is_demo else agent.model)
            + sum(_tool_tokens().get(tool, 0) for tool in agent.tools)
            + (MEMORY_TOKENS if agent.memory and agent_habits[agent.name].tasks else 0)
            + history_tokens,
            bool(agent.tools),
            agent_habits[agent.name],
            agent.loop.understand + agent.loop.plan + agent.loop.critique,
        )
        for agent in agents
    }
    tokens = {task.id: count_tokens(task.description) for task in graph.tasks.values()}
    planner_model = DEMO if is_demo else planner_model
    merger = Worker(planner_model, MERGE_TOKENS, MERGE_PROMPT_TOKENS + history_tokens) if len(graph) > 1 else None
    return estimate(graph, workers, tokens, merger)


@lru_cache(maxsize=1)
def _tool_tokens() -> dict[str, int]:
    """Return the approximate tokens of each tool; models get it as a type declaration, not as a JSON schema."""
    return {name: count_tokens(_as_type(schema)) for name, schema in SCHEMAS.items()}


def _as_type(schema: ToolSchema) -> str:
    return "\n".join(
        [f"// {schema.description}", f"type {schema.name} = (_: {{", *_fields(schema.parameters), "}) => any;"]
    )


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    for name, field in (schema.get("properties") or {}).items():
        yield f"{name}: {field.get('type', '')} // {field.get('description', '')}"
        yield from _fields(field)


def _past(row: Any) -> Mapping[str, Any]:
    """Return the input of `habits_of` from the row of a task or a turn."""
    return {
        "success": row.status == TaskStatus.COMPLETED,
        "usage": row.usage,
        "cost_usd": (row.usage or {}).get("cost_usd"),
        "seconds": _seconds(row),
    }


def _seconds(row: Any) -> float | None:
    """Return the duration; for a task with stored `seconds`, without the time that it waited for the user."""
    worked: float | None = getattr(row, "seconds", None)
    if worked is not None or not (row.started_at and row.finished_at):
        return worked
    return float((row.finished_at - row.started_at).total_seconds())
