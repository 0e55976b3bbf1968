"""Response bodies for worker spaces."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from artel.contract.http import Answer


class AgentStatusAnswer(Answer):
    """Status of an agent."""

    agent_id: int = Field(examples=[2])
    status: str = Field(description="idle, processing, at_capacity or error", examples=["idle"])
    registered: bool
    active_tasks: int
    queued_tasks: int
    concurrency_limit: int = Field(examples=[3])


class AgentFiguresAnswer(Answer):
    """Statistics of an agent since its worker space started."""

    agent_id: int = Field(examples=[2])
    tasks_processed: int
    tasks_failed: int
    avg_processing_time: float = Field(description="Seconds.")
    last_activity: datetime | None
    error_rate: float = Field(description="0 to 1")


class SpaceSample(Answer):
    """Statistics of a worker space at one point in time."""

    at: datetime
    active_tasks: int
    queued_tasks: int
    total_tasks_processed: int


class SpaceState(Answer):
    """Statistics of a worker space."""

    user_id: int
    project_id: int
    user_prefix: str = Field(examples=["user1_project1"])
    active_agents: int = Field(examples=[4])
    cache_size: int = Field(examples=[4])
    queued_tasks: int
    active_tasks: int
    total_tasks_processed: int
    uptime: float = Field(description="Seconds.")
    is_healthy: bool
    direct_calls_count: int
    orchestrated_calls_count: int
    direct_average_ms: float
    orchestrated_average_ms: float
    history: list[SpaceSample] = Field(
        description="Samples of the last hour, every 30 seconds while the space is in use."
    )


class HealthDetail(Answer):
    """A health problem."""

    part: str = Field(examples=["agent_error"])
    severity: str = Field(examples=["warning"])
    message: str


class SpaceHealth(Answer):
    """Health of a worker space."""

    status: Literal["healthy", "degraded", "unhealthy"]
    details: list[HealthDetail]
    notes: list[str] = Field(description="Hints that do not affect the status.")


class Alert(Answer):
    """An alert of a project."""

    id: str = Field(examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"])
    project_id: int = Field(examples=[1])
    kind: str = Field(examples=["agent_error"])
    severity: str = Field(examples=["warning"])
    message: str = Field(examples=["Agent 2 has failed several times in a row."])
    raised_at: datetime
    resolved_at: datetime | None = Field(description="Null while the alert is open.")
