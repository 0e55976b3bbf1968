"""What calls to models have taken, as the API shows it."""

from datetime import date

from pydantic import Field

from artel.contract.http import Answer, Page


class UsageSum(Answer):
    """Calls to models, their tokens and their cost."""

    calls: int = Field(examples=[12])
    input_tokens: int = Field(examples=[15_300])
    output_tokens: int = Field(examples=[2_400])
    cost_usd: float = Field(description="Of the calls whose price is known.", examples=[0.42])
    unpriced_calls: int = Field(description="Calls whose price is not known.", examples=[0])


class UsageGroup(UsageSum):
    """What belongs together; fields that were not asked for are null."""

    day: date | None = Field(default=None, description="The day on which the turn ended, in UTC.")
    project_id: int | None = None
    agent_id: int | None = None
    agent: str | None = Field(default=None, description="Empty for the orchestrator.", examples=["agent_coder"])
    model: str | None = Field(default=None, examples=["gpt-4o"])


class UsageReport(Page[UsageGroup]):
    """What your calls took, by group, and in all."""

    first_day: date
    last_day: date
    sum: UsageSum = Field(description="Of all groups, also of those on other pages.")
