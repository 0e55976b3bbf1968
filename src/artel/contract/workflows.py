"""Response bodies for workflows."""

from datetime import datetime

from pydantic import Field

from artel.contract.http import Answer


class WorkflowTaskState(Answer):
    """A task of a workflow; costs are in dollars, null if a price is unknown."""

    id: str = Field(examples=["1"])
    agent: str = Field(examples=["agent_coder"])
    agent_id: int | None
    description: str
    depends_on: list[str]
    status: str = Field(examples=["completed"])
    attempts: int
    estimated_cost: float | None
    cost: float | None
    result: str | None
    error: str | None
    error_code: str | None
    started_at: datetime | None
    finished_at: datetime | None


class WorkflowState(Answer):
    """A request to the orchestrator: its plan, cost, status and answer."""

    id: str
    project_id: int
    session_id: str
    turn_id: str
    status: str = Field(examples=["completed"])
    request: str
    instruction: str
    plan_id: str | None
    planned_by: str | None = Field(examples=["model"], description="model, cache, fallback or user.")
    tasks: list[WorkflowTaskState]
    estimated_cost: float | None = Field(description="Expected cost; null if a price is unknown.")
    estimated_cost_low: float | None
    estimated_cost_high: float | None
    estimated_duration: float | None
    agreed_cost: float | None = Field(description="Approved maximum cost.")
    cost: float | None = Field(description="Actual cost, including planning and merging.")
    approval_id: str | None = Field(None, description="Pending approval, if the workflow waits for you.")
    answer: str | None
    error: str | None
    error_code: str | None
    graph: str | None = Field(description="The plan as a Mermaid flowchart.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
