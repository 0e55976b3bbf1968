"""The end of a plan's run: merges the results, ends the turn, and creates the memories of the agents."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from artel.agent_memory.repository import NewMemory
from artel.brain.brain import Brain
from artel.brain.demo.review import introduction
from artel.brain.tokens import count_tokens
from artel.contract.http import Agent
from artel.db.text import storable
from artel.plans.merged_answer import merged, plain, why_nothing
from artel.plans.task_board import TaskBoard
from artel.plans.task_events import PlanListener, TaskVoice
from artel.plans.task_transactions import DEPENDENCY_FAILED
from artel.plans.turn_end import AgentMemory, end_turn
from artel.plans.workflow import TaskStatus, Workflow, WorkflowStatus, WorkflowTask
from artel.spaces.worker_space import WorkerSpace
from artel.turns.transactions import Outcome
from artel.turns.turn import Mode, Turn, TurnStatus
from artel.turns.waiters import Ended


@dataclass(frozen=True, slots=True)
class PlanEnd:
    """A run whose tasks have all ended."""

    space: WorkerSpace
    turn: Turn
    workflow: Workflow
    board: TaskBoard
    agents: Mapping[str, Agent]
    brain: Brain
    planner_model: str
    listener: PlanListener
    message_id: str
    began: float

    async def store(self) -> Ended | None:
        """Merge the answer and end the turn with it; return None if another process ended the turn first."""
        tasks = self.board.all
        done = [task for task in tasks if task.status is TaskStatus.COMPLETED]
        if not done:
            is_timeout = all(task.status in (TaskStatus.TIMEOUT, TaskStatus.ABORTED) for task in tasks)
            codes = (task.error_code for task in tasks if task.error_code != DEPENDENCY_FAILED)
            status = TurnStatus.TIMEOUT if is_timeout else TurnStatus.FAILED
            return await self._store(status, why_nothing(tasks), next(codes, None) or "agent_failed")
        status = TurnStatus.COMPLETED if len(done) == len(tasks) else TurnStatus.PARTIAL
        text = done[0].result or "" if self.board.is_single else await self._merged()
        return await self._store(status, text, None)

    async def _merged(self) -> str:
        tasks, services = self.board.all, self.space.services
        if services.is_demo:
            done = [task.result or "" for task in tasks if task.status is TaskStatus.COMPLETED]
            return "\n\n".join(part for part in (introduction(self.workflow.request, done), plain(tasks)) if part)
        voice = TaskVoice(self.listener, self.turn.id, 0, self.message_id)
        voice.open()
        voice.phase("merging")
        text, usage = await merged(
            self.brain, self.planner_model, services.fallback_model, self.workflow.request, tasks, voice
        )
        self.board.spending.add(usage)
        return text

    async def _store(self, status: TurnStatus, text: str, code: str | None) -> Ended | None:
        await self.listener.written()
        text = storable(text)
        spending, hub = self.board.spending, self.space.services.hub
        outcome = Outcome(
            status,
            self.message_id,
            text,
            count_tokens(text),
            asdict(spending.usage) if spending.usage.calls else None,
            time.monotonic() - self.began,
            error_code=code,
            mode=Mode.ORCHESTRATED,
            partial=hub.partial_answer(self.turn.session_id, self.turn.id) if code else "",
            shares=spending.shares.to_json(),
        )
        workflow = replace(
            self.workflow,
            status=WorkflowStatus(status),
            answer=None if code else text,
            error_code=code,
            error=text if code else None,
            spent_micros=spending.micros,
            price_unknown=spending.price_unknown,
        )
        single = self.board.all[0] if self.board.is_single else None
        agent = self.agents.get(single.agent) if single and not code else None
        return await end_turn(self.space, self.turn, outcome, workflow, agent, self._memories(text, code))

    def _memories(self, text: str, code: str | None) -> list[AgentMemory]:
        """Return a memory of the request and the answer for every agent that completed a task."""
        if code is not None:
            return []
        done = dict.fromkeys(task.agent for task in self.board.all if task.status is TaskStatus.COMPLETED)
        content = f"User: {self.workflow.request}\nAnswer: {text}"
        source = _source(self.workflow)
        return [  # each memory has its own id
            AgentMemory(
                agent.id, NewMemory(content, "conversation", success=True, task_id=self.turn.id, metadata=source)
            )
            for agent in (self.agents[name] for name in done if name in self.agents)
            if agent.memory
        ]


def memories_of(workflow: Workflow, task: WorkflowTask, agent: Agent | None) -> list[NewMemory]:
    """Return the memories of a completed task; none if the agent has no memory."""
    if agent is None or not agent.memory or task.status is not TaskStatus.COMPLETED:
        return []
    content = f"Task: {task.description}\nResult: {task.result}"
    task_id = f"{workflow.id}:{task.id}"[:64]
    return [NewMemory(content, "task", success=True, task_id=task_id, metadata=_source(workflow))]


def _source(workflow: Workflow) -> dict[str, Any]:
    return {"source": "workflow", "workflow_id": workflow.id, "session_id": workflow.session_id}
