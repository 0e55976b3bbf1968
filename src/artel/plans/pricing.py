"""The price of a plan (in millionths of a dollar), its duration, and the limits from which it needs approval.

The expected cost assumes the usual output of the agents; the high one assumes their maximum, and is the plan's budget.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import Connection

from artel.agent_loop.context import MAX_HISTORY_TOKENS, ConversationMessage
from artel.auth.principal import Principal
from artel.brain import prices
from artel.brain.retries import INPUT_EXTRA, INPUT_MARGIN
from artel.brain.tokens import count_tokens
from artel.budgets.money import dollars, micros, micros_or_none
from artel.contract.estimates import StoredEstimate
from artel.contract.http import Agent
from artel.contract.project_settings import ApprovalRules
from artel.plans.plan import TaskGraph, TaskStatus
from artel.plans.repository import TaskRepository
from artel.sessions.message_repository import StoredMessage
from artel.tools.catalogue import SCHEMAS
from artel.turns.repository import TurnRepository

REQUEST_CHARACTERS = 4_000  # about 1,000 tokens
USUAL_TOKENS = 500  # of an answer, before an agent has a history
SHARE_LOW = 0.5
TOKENS_PER_SECOND = 40
FIRST_SECONDS = 2.0
MOST_RESULT_TOKENS = 1_000  # of each dependency, in the prompt of the dependent task
TOOL_CALLS = 3  # extra model calls of an agent with tools
PAST = 20  # tasks and turns of each agent that count
PAST_DAYS = 90
MEMORY_TOKENS = 300  # roughly, of the memories in the prompt of an agent that has worked before
FRAME_TOKENS = 100  # of message separators and headings
MERGE_PROMPT_TOKENS = 200
MERGE_TOKENS = 2_000
DEMO = "demo"  # the built-in brain that replaces every model when none is configured; free

M = TypeVar("M", ConversationMessage, StoredMessage)


def needs_approval(
    rules: ApprovalRules, tasks: int, expected_micros: int, unasked_micros: int, *, price_unknown: bool
) -> bool:
    """Return whether a plan needs approval: it has many tasks, or is expensive, or its price is unknown.

    The unapproved cost of earlier plans of the session, and a price that is unknown, count only for plans of several
    tasks: one task is a message to one agent, which nobody is asked about either.
    """
    is_single = tasks == 1
    before = 0 if is_single else max(0, unasked_micros)
    is_expensive = expected_micros + before > micros(rules.approve_over_usd)
    return (price_unknown and not is_single) or is_expensive or tasks >= rules.approve_from_tasks


@dataclass(frozen=True, slots=True)
class AgentStatistics:
    """Statistics of an agent's past tasks: averages per task, and the success rate."""

    tasks: int = 0
    output_tokens: float = USUAL_TOKENS
    calls: float = 1.0
    seconds: float | None = None
    success_rate: float | None = None
    average_cost_usd: float | None = None

    def of_one_call(self) -> "AgentStatistics":
        """Return the statistics scaled to a single model call."""
        return replace(self, output_tokens=self.output_tokens / self.calls, calls=1.0)


@dataclass(frozen=True, slots=True)
class PricedAgent:
    """The data of an agent that its estimate needs.

    `prompt_tokens` is the prompt without the task; `phases` is the number of optional phases of its loop, which call
    the model once each, or twice if a draft is sent back.
    """

    model: str
    max_tokens: int
    prompt_tokens: int
    has_tools: bool = False
    statistics: AgentStatistics = AgentStatistics()
    phases: int = 0


@dataclass(frozen=True, slots=True)
class TaskEstimate:
    """The estimate of one task; its costs are None if the price of the model is unknown."""

    model: str
    input_tokens: int
    output_tokens: int
    low_micros: int | None
    expected_micros: int | None
    high_micros: int | None
    seconds: float

    @property
    def stored(self) -> StoredEstimate:
        """The estimate as it is stored with the task."""
        return StoredEstimate(**asdict(self))


@dataclass(frozen=True, slots=True)
class PlanEstimate:
    """The estimate of a plan: the sum of its tasks and of merging their results."""

    tasks: Mapping[str, TaskEstimate]
    low_micros: int
    expected_micros: int
    high_micros: int
    seconds: float
    unknown_models: tuple[str, ...] = ()

    def plus(self, spent_micros: int) -> "PlanEstimate":
        """Return the estimate plus what is already spent: the user approves the total."""
        return replace(
            self,
            low_micros=self.low_micros + spent_micros,
            expected_micros=self.expected_micros + spent_micros,
            high_micros=self.high_micros + spent_micros,
        )

    def in_dollars(self) -> dict[str, Any]:
        """Return the totals as users see them; the expected cost is None if a price is unknown."""
        return {
            "estimated_cost": None if self.unknown_models else dollars(self.expected_micros),
            "estimated_cost_low": dollars(self.low_micros),
            "estimated_cost_high": dollars(self.high_micros),
            "estimated_duration": self.seconds,
        }

    @property
    def stored(self) -> StoredEstimate:
        """The totals as they are stored with the workflow."""
        names = "low_micros", "expected_micros", "high_micros", "seconds", "unknown_models"
        return StoredEstimate(**{name: getattr(self, name) for name in names})


def estimate(
    graph: TaskGraph, agents: Mapping[str, PricedAgent], tokens: Mapping[str, int], merger: PricedAgent | None
) -> PlanEstimate:
    """Return the estimate of a plan, given the tokens of each task; `merger` is None if nothing has to be merged."""
    priced: dict[str, TaskEstimate] = {}
    for task_id in graph.order:
        task = graph.tasks[task_id]
        received = sum(min(priced[needed].output_tokens, MOST_RESULT_TOKENS) for needed in task.depends_on)
        priced[task_id] = _task(agents[task.agent], tokens[task_id] + received)
    total = [*priced.values()]
    if merger is not None:
        total.append(_task(merger, sum(min(item.output_tokens, MOST_RESULT_TOKENS) for item in total)))
    seconds = graph.critical_path({task_id: task_estimate.seconds for task_id, task_estimate in priced.items()})
    return PlanEstimate(
        tasks={task_id: priced[task_id] for task_id in graph.tasks},
        low_micros=sum(item.low_micros or 0 for item in total),
        expected_micros=sum(item.expected_micros or 0 for item in total),
        high_micros=sum(item.high_micros or 0 for item in total),
        seconds=round(seconds + (total[-1].seconds if merger is not None else 0.0), 1),
        unknown_models=tuple(sorted({item.model for item in total if item.expected_micros is None})),
    )


def statistics_of(done: Sequence[Any]) -> AgentStatistics:
    """Return the statistics of past tasks, from their rows."""
    if not done:
        return AgentStatistics()
    completed = [row for row in done if row.status == TaskStatus.COMPLETED]
    used = [row for row in completed if row.usage]
    return AgentStatistics(
        tasks=len(done),
        output_tokens=_mean([row.usage.get("output_tokens", 0) for row in used]) or USUAL_TOKENS,
        calls=max(1.0, _mean([row.usage.get("calls", 1) for row in used]) or 1.0),
        seconds=_mean([_seconds(row) for row in used]),
        success_rate=round(len(completed) / len(done), 2),
        average_cost_usd=_mean([row.usage.get("cost_usd") for row in used]),
    )


def _task(agent: PricedAgent, own_tokens: int) -> TaskEstimate:
    past, given = agent.statistics, agent.prompt_tokens + own_tokens
    usual = max(1, min(agent.max_tokens, round(past.output_tokens)))
    calls = past.calls if past.tasks else 1 + agent.phases
    most_calls = 1 + 2 * agent.phases + (TOOL_CALLS if agent.has_tools else 0)
    if past.tasks:
        most_calls = max(most_calls, math.ceil(2 * past.calls))

    def price_of(input_tokens: int, output_tokens: int) -> int | None:
        return micros_or_none(prices.cost(agent.model, input_tokens, output_tokens))

    # Every call before the last one writes about the usual output, which the later calls are sent too.
    most_given = given * most_calls + usual * (most_calls - 1) * most_calls // 2
    return TaskEstimate(
        agent.model,
        given,
        usual,
        low_micros=price_of(given, math.ceil(usual * SHARE_LOW)),
        expected_micros=price_of(round(given * calls), usual),
        high_micros=price_of(
            math.ceil(most_given * INPUT_MARGIN) + INPUT_EXTRA * most_calls, agent.max_tokens * most_calls
        ),
        seconds=round(past.seconds or FIRST_SECONDS + usual / TOKENS_PER_SECOND, 1),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the known values."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _seconds(row: Any) -> float | None:
    """Return the duration; for a task with stored `seconds`, without the time that it waited for the user."""
    worked: float | None = getattr(row, "seconds", None)
    if worked is not None or not (row.started_at and row.finished_at):
        return worked
    return float((row.finished_at - row.started_at).total_seconds())


def agent_statistics(
    connection: Connection, principal: Principal, project_id: int, agents: Sequence[Agent], *, is_demo: bool = False
) -> dict[str, AgentStatistics]:
    """Return the statistics of agents, by name, from the last tasks and turns of each.

    Results of the demo brain say nothing about a real model, so they count only if `is_demo`.
    """
    tasks, turns = TaskRepository(connection, principal), TurnRepository(connection, principal)
    since = datetime.now(UTC) - timedelta(days=PAST_DAYS)
    by_name = {}
    for agent in agents:
        past = project_id, agent.id, since, PAST
        done = [*tasks.done_by(*past), *turns.answered_by(*past)]
        done.sort(key=lambda row: row.finished_at, reverse=True)
        rows = [row for row in done[:PAST] if is_demo or (row.usage or {}).get("model") != DEMO]
        by_name[agent.name] = statistics_of(rows)
    return by_name


def before(history: Sequence[M], request: str) -> Sequence[M]:
    """Return the messages before a request, which may be the last one of the history."""
    return history[:-1] if history and history[-1].content == request else history


@dataclass(frozen=True, slots=True)
class Pricing:
    """Prices plans for the agents of a project; with the demo brain everything is free."""

    agents: Sequence[Agent]
    statistics: Mapping[str, AgentStatistics]
    planner_model: str
    is_demo: bool = False
    attached_tokens: Mapping[str, int] | None = None  # of the attached files, by model

    def price(
        self, graph: TaskGraph, history: Sequence[ConversationMessage] | Sequence[StoredMessage], request: str
    ) -> PlanEstimate:
        """Return the cost of a plan; every task is sent the history, the request and the attached files.

        The request is sent whole only in a plan of one task.
        """
        sent_request = request if len(graph) == 1 else request[:REQUEST_CHARACTERS]
        history_tokens = min(sum(message.tokens for message in history), MAX_HISTORY_TOKENS)
        shared_tokens = history_tokens + count_tokens(sent_request)
        priced_agents = {
            agent.name: PricedAgent(
                DEMO if self.is_demo and agent.runtime == "local" else agent.model,
                agent.max_tokens,
                FRAME_TOKENS
                + count_tokens(agent.system_prompt, None if self.is_demo else agent.model)
                + sum(_tool_tokens().get(tool, 0) for tool in agent.tools)
                + (MEMORY_TOKENS if agent.memory and self.statistics[agent.name].tasks else 0)
                + shared_tokens
                + (self.attached_tokens or {}).get(agent.model, 0),
                bool(agent.tools),
                self.statistics[agent.name],
                agent.loop.understand + agent.loop.plan + agent.loop.critique,
            )
            for agent in self.agents
        }
        tokens = {task.id: count_tokens(task.description) for task in graph.tasks.values()}
        model = DEMO if self.is_demo else self.planner_model
        merger = PricedAgent(model, MERGE_TOKENS, MERGE_PROMPT_TOKENS + shared_tokens) if len(graph) > 1 else None
        return estimate(graph, priced_agents, tokens, merger)

    def cost_of_request(self, graph: TaskGraph, request: str) -> int:
        """Return the expected cost in micros of a plan without history, if each agent calls its model once.

        The history is sent with every message, also with those that need no approval. So whether a plan of one task
        needs approval must not depend on the length of the conversation, nor on tool calls for earlier requests.
        """
        usual = {name: statistics.of_one_call() for name, statistics in self.statistics.items()}
        return replace(self, statistics=usual).price(graph, (), request).expected_micros


@lru_cache(maxsize=1)
def _tool_tokens() -> dict[str, int]:
    """Return the approximate tokens of each tool; models get it as a type declaration, not as a JSON schema."""
    tokens = {}
    for name, schema in SCHEMAS.items():
        head = f"// {schema.description}", f"type {schema.name} = (_: {{"
        tokens[name] = count_tokens("\n".join([*head, *_fields(schema.parameters), "}) => any;"]))
    return tokens


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    for name, field in (schema.get("properties") or {}).items():
        yield f"{name}: {field.get('type', '')} // {field.get('description', '')}"
        yield from _fields(field)
