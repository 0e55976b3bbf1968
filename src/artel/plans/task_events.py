"""What a plan tells while it is carried out: pieces of answers, tools, progress."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from artel.agent_memory.context_store import Recalled
from artel.brain.brain import ToolCall
from artel.contract.events import EventData, TaskProgress
from artel.ids import uuid7
from artel.plans.workflow import Workflow, WorkflowTask
from artel.runs import task_events as telling
from artel.runs.event_writer import EventWriter
from artel.spaces.worker_space import WorkerSpace
from artel.tools.tool import ToolResult
from artel.turns.turn import Turn

PROGRESS_SECONDS = 5.0
SHOW_OTHERS_SECONDS = 0.1


def planning(workflow: Workflow, turn_id: str) -> TaskProgress:
    """Return the event that a plan is being made, or another one."""
    return TaskProgress(
        task_id=turn_id, state="running", elapsed_seconds=0.0, phase="planning", workflow_id=workflow.id
    )


def went_on(task: WorkflowTask) -> TaskProgress:
    """Return the event that a task goes on which has waited for the user."""
    elapsed = (datetime.now(UTC) - (task.started_at or datetime.now(UTC))).total_seconds()
    return TaskProgress(
        task_id=task.id,
        state="running",
        elapsed_seconds=round(elapsed, 1),
        phase="resumed",
        workflow_id=task.workflow_id,
    )


class PlanListener:
    """Tells the session what happens in a turn."""

    def __init__(self, space: WorkerSpace, turn: Turn, workflow_id: str) -> None:
        self.space = space
        self.turn = turn
        self.workflow_id = workflow_id
        self._notes = EventWriter(space, turn)

    def open(self) -> None:
        """Begin to tell."""
        self._notes.open()

    def note(self, event: EventData) -> None:
        """Tell an event soon."""
        self._notes.add(event)

    async def written(self) -> None:
        """Wait until everything is told."""
        await self._notes.written()


class TaskVoice:
    """Tells what one task does; its words are streamed under a message of its own, or as the answer itself."""

    def __init__(self, plan: PlanListener, task_id: str, agent_id: int, message_id: str | None = None) -> None:
        self._plan = plan
        self._task_id = task_id
        self._agent_id = agent_id
        self._message_id = message_id or uuid7()
        self._is_answer = message_id is not None
        self._began = time.monotonic()
        self._told = self._shown = 0.0
        self._held: list[EventData] | None = []  # what happens before it was told that the task has started

    def open(self) -> None:
        """Begin to tell: the task has started."""
        held, self._held = self._held or [], None
        for event in held:
            self._plan.note(event)

    def token(self, text: str) -> None:
        """Stream a piece."""
        place = self._plan.space.principal, self._plan.turn.session_id, self._message_id
        self._plan.space.services.hub.write(
            *place, self._task_id, text, self._plan.turn.id, is_task=not self._is_answer
        )
        self._show_others()
        self._progress("writing")

    def restart(self) -> None:
        """Stream that it begins anew."""
        place = self._plan.space.principal, self._plan.turn.session_id, self._message_id
        self._plan.space.services.hub.restart(*place, self._task_id, self._plan.turn.id, is_task=not self._is_answer)

    def phase(self, name: str) -> None:
        """Tell where it is, now and then."""
        self._progress(name)

    def note(self, event: EventData) -> None:
        """Tell what else happens."""
        if self._held is None:
            self._plan.note(event)
        else:
            self._held.append(event)

    def recalled(self, found: Sequence[Recalled]) -> None:
        """Tell that the agent's memory was searched."""
        self.note(telling.recalled(self._agent_id, found))

    def tool_called(self, call: ToolCall) -> None:
        """Tell that a tool is called."""
        self.note(telling.tool_called(self._task_id, self._agent_id, call))

    def tool_result(self, call: ToolCall, result: ToolResult) -> None:
        """Tell what came of it."""
        self.note(telling.tool_result(self._task_id, self._agent_id, call, result))

    def end(self) -> None:
        """Stream no more: what was written is in the database, or void. An answer ends with its turn."""
        if self._is_answer:
            return
        self._plan.space.services.hub.end(self._plan.turn.session_id, self._message_id)

    def _progress(self, phase: str) -> None:
        now = time.monotonic()
        if now - self._told >= PROGRESS_SECONDS:
            self._told = now
            elapsed = round(now - self._began, 1)
            self.note(
                TaskProgress(
                    task_id=self._task_id,
                    state="running",
                    elapsed_seconds=elapsed,
                    phase=phase,
                    workflow_id=self._plan.workflow_id,
                )
            )

    def _show_others(self) -> None:
        services, turn, now = self._plan.space.services, self._plan.turn, time.monotonic()
        if services.signals.has_other_processes and now - self._shown > SHOW_OTHERS_SECONDS:
            self._shown = now
            written = services.hub.snapshot_of(turn.session_id, self._message_id)
            if written is not None:
                services.signals.partial_answer(self._plan.space.principal, turn.session_id, written)
