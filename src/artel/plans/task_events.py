"""The events of a running plan: streamed tokens, tool calls and progress."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from artel.agent_memory.context_store import Recalled
from artel.brain.brain import ToolCall
from artel.contract.events import EventData, TaskProgress
from artel.ids import uuid7
from artel.plans.workflow import Workflow, WorkflowTask
from artel.runs import task_events as run_events
from artel.runs.event_writer import EventWriter
from artel.spaces.worker_space import WorkerSpace
from artel.tools.tool import ToolResult
from artel.turns.turn import Turn

PROGRESS_SECONDS = 5.0
SHOW_OTHERS_SECONDS = 0.1


def planning(workflow: Workflow, turn_id: str) -> TaskProgress:
    """Return the event that planning has started."""
    return TaskProgress(
        task_id=turn_id, state="running", elapsed_seconds=0.0, phase="planning", workflow_id=workflow.id
    )


def went_on(task: WorkflowTask) -> TaskProgress:
    """Return the event that a task is resumed after it waited for the user."""
    elapsed = (datetime.now(UTC) - (task.started_at or datetime.now(UTC))).total_seconds()
    return TaskProgress(
        task_id=task.id,
        state="running",
        elapsed_seconds=round(elapsed, 1),
        phase="resumed",
        workflow_id=task.workflow_id,
    )


class PlanListener:
    """Writes the events of a turn to its session."""

    def __init__(self, space: WorkerSpace, turn: Turn, workflow_id: str) -> None:
        self.space = space
        self.turn = turn
        self.workflow_id = workflow_id
        self._writer = EventWriter(space, turn)

    def open(self) -> None:
        """Start to write events, including those added before."""
        self._writer.open()

    def note(self, event: EventData) -> None:
        """Queue an event."""
        self._writer.add(event)

    async def written(self) -> None:
        """Wait until all queued events are written."""
        await self._writer.written()


class TaskVoice:
    """Publishes the events of one task; streams its tokens as a message of the task, or as the answer of the turn."""

    def __init__(self, plan: PlanListener, task_id: str, agent_id: int, message_id: str | None = None) -> None:
        self._plan = plan
        self._task_id = task_id
        self._agent_id = agent_id
        self._message_id = message_id or uuid7()
        self._is_answer = message_id is not None
        self._began = time.monotonic()
        self._last_progress = self._last_shared = 0.0
        self._held: list[EventData] | None = []  # events before the one that the task has started

    def open(self) -> None:
        """Publish the held events: the task has started."""
        held, self._held = self._held or [], None
        for event in held:
            self._plan.note(event)

    def token(self, text: str) -> None:
        """Stream a token."""
        self._plan.space.services.hub.write(
            self._plan.space.principal,
            self._plan.turn.session_id,
            self._message_id,
            self._task_id,
            text,
            self._plan.turn.id,
            is_task=not self._is_answer,
        )
        self._share_partial_answer()
        self._progress("writing")

    def restart(self) -> None:
        """Discard the streamed tokens."""
        self._plan.space.services.hub.restart(
            self._plan.space.principal,
            self._plan.turn.session_id,
            self._message_id,
            self._task_id,
            self._plan.turn.id,
            is_task=not self._is_answer,
        )

    def phase(self, name: str) -> None:
        """Publish the current phase, at most every PROGRESS_SECONDS."""
        self._progress(name)

    def note(self, event: EventData) -> None:
        """Publish an event, or hold it until the task has started."""
        if self._held is None:
            self._plan.note(event)
        else:
            self._held.append(event)

    def recalled(self, found: Sequence[Recalled]) -> None:
        """Publish a search of the agent's memory."""
        self.note(run_events.recalled(self._agent_id, found))

    def tool_called(self, call: ToolCall) -> None:
        """Publish a tool call."""
        self.note(run_events.tool_called(self._task_id, self._agent_id, call))

    def tool_result(self, call: ToolCall, result: ToolResult) -> None:
        """Publish the result of a tool call."""
        self.note(run_events.tool_result(self._task_id, self._agent_id, call, result))

    def end(self) -> None:
        """End the stream of a task, whose text is stored or obsolete; the stream of an answer ends with its turn."""
        if self._is_answer:
            return
        self._plan.space.services.hub.end(self._plan.turn.session_id, self._message_id)

    def _progress(self, phase: str) -> None:
        now = time.monotonic()
        if now - self._last_progress >= PROGRESS_SECONDS:
            self._last_progress = now
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

    def _share_partial_answer(self) -> None:
        """Send the text so far to other processes, at most every SHOW_OTHERS_SECONDS."""
        services, turn, now = self._plan.space.services, self._plan.turn, time.monotonic()
        if services.signals.has_other_processes and now - self._last_shared > SHOW_OTHERS_SECONDS:
            self._last_shared = now
            snapshot = services.hub.snapshot_of(turn.session_id, self._message_id)
            if snapshot is not None:
                services.signals.partial_answer(self._plan.space.principal, turn.session_id, snapshot)
