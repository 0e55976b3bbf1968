"""Usage of model calls in the HTTP API."""

from datetime import date

from pydantic import Field

from artel.contract.http import Answer, Page


class UsageSum(Answer):
    """Number, tokens and cost of model calls."""

    calls: int = Field(examples=[12])
    input_tokens: int = Field(examples=[15_300])
    output_tokens: int = Field(examples=[2_400])
    cost_usd: float = Field(description="Cost of the calls with a known price.", examples=[0.42])
    unpriced_calls: int = Field(description="Calls without a known price.", examples=[0])


class UsageGroup(UsageSum):
    """Usage of one group; fields that are not grouped by are null."""

    day: date | None = Field(default=None, description="Day on which the turn ended (UTC).")
    project_id: int | None = None
    agent_id: int | None = None
    agent: str | None = Field(default=None, description="Empty for the orchestrator.", examples=["agent_coder"])
    model: str | None = Field(default=None, examples=["gpt-4o"])


class UsageReport(Page[UsageGroup]):
    """Your usage by group and in total."""

    first_day: date
    last_day: date
    sum: UsageSum = Field(description="Total of all groups on all pages.")
