"""Response bodies about the activity of a project."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from artel.contract.http import ResponseBody

ActivityRange = Literal["24h", "7d", "30d"]


class ActivityFigures(ResponseBody):
    """Messages and what they took."""

    messages: int = Field(description="Messages whose turn has ended; those of deleted sessions don't count.")
    failed: int = Field(description="How many of them failed or timed out.", examples=[1])
    p50_ms: int | None = Field(
        description="Median time to answer, from the start of the work and without waiting for you.", examples=[2400]
    )
    p95_ms: int | None = Field(description="95 of 100 answers took at most this time.", examples=[6100])
    cost_usd: float = Field(description="Of the calls with a known price, also in deleted sessions.", examples=[0.42])
    tokens: int = Field(description="Input and output.", examples=[17_700])


class ActivityBucket(ActivityFigures):
    """The activity of one interval."""

    at: datetime = Field(description="Its start; the last interval is not over.")


class MonthSpending(ResponseBody):
    """What the project has spent of its monthly budget."""

    spent_usd: float = Field(examples=[3.2])
    limit_usd: float | None = Field(description="null is no limit.", examples=[20])


class AgentActivity(ResponseBody):
    """The activity of an agent: messages to it, and tasks of plans."""

    agent_id: int | None = Field(description="null is the orchestrator.", examples=[2])
    agent: str = Field(description="Empty for the orchestrator.", examples=["agent_coder"])
    messages: int
    failed: int
    cost_usd: float
    last_used_at: datetime | None


class Activity(ResponseBody):
    """The activity of a project over time."""

    range: ActivityRange
    bucket_seconds: int = Field(examples=[3600])
    buckets: list[ActivityBucket]
    totals: ActivityFigures
    month: MonthSpending
    by_agent: list[AgentActivity] = Field(description="At most 100, the most expensive first.")
