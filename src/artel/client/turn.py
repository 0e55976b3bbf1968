"""The client's view of a turn: the growing answer, the agent, the phase and the result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from artel.client.plan import PlanView
from artel.client.sse import ServerEvent

ENDINGS = frozenset({"turn_completed", "turn_failed", "turn_cancelled"})
PHASES = {
    "message_created": "waits for its turn",
    "answer_continued": "waits for its turn",
    "direct_agent_call": "thinks",
    "task_started": "thinks",
    "tool_result": "thinks",
    "connection_lost": "is not reachable, reconnecting",
}
PROGRESS = {
    "planning": "plans",
    "retry": "starts again",
    "resumed": "continues",
    "understand": "reads the request",
    "plan": "plans",
    "execute": "thinks",
    "tool_call": "uses a tool",
    "writing": "writes",
    "critique": "checks the answer",
    "finish": "finishes",
    "merging": "combines the results",
}


@dataclass(slots=True)
class StreamedAnswer:
    """A message that is being streamed: deltas extend it, snapshots and the stored message replace it."""

    n: int = 0
    text: str = ""
    complete: bool = False
    broken: bool = False  # a delta was lost: ignore deltas until a snapshot or the whole message comes
    tool_calls: int = 0  # so far; the text after a call replaces the text before it

    def add(self, n: int, text: str) -> None:
        """Append a delta; ignore one that is already contained."""
        if self.complete or self.broken or n <= self.n:
            return
        self.broken = n > self.n + 1
        if not self.broken:
            self.n, self.text = n, self.text + text

    def replace(self, n: int, text: str) -> None:
        if not self.complete:
            self.n, self.text, self.broken = n, text, False

    def finish(self, text: str) -> None:
        self.text, self.complete, self.broken = text, True, False


@dataclass(slots=True)
class TurnView:
    """The state of a turn after the events so far."""

    id: str | None = None
    message_id: str | None = None
    answer: StreamedAnswer = field(default_factory=StreamedAnswer)
    agent_id: int | None = None
    phase: str = ""
    approval: dict[str, Any] | None = None  # that the turn waits for
    plan: PlanView | None = None  # if the orchestrator answers
    is_planning: bool = False  # also when an earlier plan is replaced
    ended: bool = False
    status: str = "queued"
    usage: dict[str, Any] = field(default_factory=dict)
    error_code: str | None = None
    error: str | None = None

    @classmethod
    def of_workflow(cls, workflow: Mapping[str, Any]) -> "TurnView":
        is_planning = workflow["status"] == "planning"
        return cls(
            id=str(workflow["turn_id"]),
            phase=PROGRESS["planning"] if is_planning else "is working",
            plan=PlanView.of_workflow(workflow) if workflow["tasks"] and not is_planning else None,
            is_planning=is_planning,
            status="running",
        )

    @property
    def succeeded(self) -> bool:
        """Whether the turn ended with an answer."""
        return self.status in ("completed", "partial")

    def apply(self, event: ServerEvent) -> None:
        data = event.data
        self.id = self.id or data.get("turn_id")
        match event.type:
            case "message_delta" | "message_snapshot":
                self._write(event)
            case "message_completed":
                self._complete(data)
            case "tool_request" | "plan_request":
                self.approval, self.status = data, "waiting"
                if self.plan is not None:
                    self.plan.apply(event)
                elif event.type == "plan_request":  # the plan was made in an earlier turn
                    self.plan = PlanView.of_event(data)
            case "task_plan_created":
                self.plan, self.is_planning = PlanView.of_event(data), False
                self._follow(event)
            case kind if kind in ENDINGS:
                self.ended, self.status, self.approval = True, data["status"], None
                self.usage = data.get("usage") or {}
                self.error_code, self.error = data.get("code"), data.get("error")
            case _:
                self._follow(event)

    def _write(self, event: ServerEvent) -> None:
        data = event.data
        self.phase = "writes"
        if data.get("task_id") not in (None, self.id) and not (self.plan and self.plan.is_single):
            return  # the result of one of several tasks is not the answer
        answer = self._answer(data["message_id"])
        write = answer.add if event.type == "message_delta" else answer.replace
        write(data["n"], data["text"])

    def _complete(self, data: dict[str, Any]) -> None:
        # Not a failure message or a partial answer: the event that ends the turn has the error.
        if data["role"] == "assistant" and data.get("status") != "cut_off":
            self.agent_id = data.get("agent_id")
            self._answer(data["message_id"]).finish(data["content"])

    def _answer(self, message_id: str) -> StreamedAnswer:
        if message_id != self.message_id:
            self.message_id, self.answer = message_id, StreamedAnswer()
        return self.answer

    def _follow(self, event: ServerEvent) -> None:
        if self.plan is None or self.plan.is_single:  # several tasks: the answer has no single agent
            self.agent_id = event.data.get("agent_id") or self.agent_id
        if event.type == "tool_called":
            self.answer.tool_calls += 1
        is_decided = event.type in ("approval_resolved", "approval_timeout")
        if is_decided and self.approval and self.approval.get("approval_id") == event.data.get("approval_id"):
            self.approval = None
        if self.plan is not None:
            self.plan.apply(event)
        if event.type == "task_progress":
            self.is_planning = event.data.get("phase") == "planning"
        if event.type not in ("message_created", "answer_continued", "connection_lost"):
            self.status = "running"
        self.phase = _phase(event) or self.phase


def _phase(event: ServerEvent) -> str | None:
    """Return the phase that an event starts, as text for the user."""
    data = event.data
    match event.type:
        case "context_retrieved":
            return f"thinks, with {data['count']} memories" if data.get("count") else "thinks"
        case "tool_called":
            return f"uses {data.get('tool', 'a tool')}"
        case "task_progress":
            return PROGRESS.get(str(data.get("phase")), data.get("phase"))
        case "task_plan_created":
            return f"has a plan of {len(data.get('tasks', ()))} tasks"
        case kind:
            return PHASES.get(kind)
