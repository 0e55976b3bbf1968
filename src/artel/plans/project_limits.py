"""What a project says about plans: when the user is asked, for how long, and what may be spent in a month."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from artel.budgets.money import micros
from artel.plans.task_graph import MAX_TASKS
from artel.tools.policy import PolicySettings


class ApprovalRules(BaseModel):
    """When the user is asked about a plan."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    approve_from_tasks: int = Field(3, ge=1, le=MAX_TASKS + 1)
    approve_over_usd: float = Field(0.10, ge=0, le=1_000_000)


class PlanSettings(BaseModel):
    """What a project's settings say of plans; what else they say is for others."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    plans: ApprovalRules = Field(default_factory=ApprovalRules)
    monthly_budget_usd: float | None = Field(None, ge=0, le=1_000_000_000)


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """The project's own limits; the defaults where it says nothing."""

    approve_from_tasks: int = 3
    approve_over_micros: int = 100_000
    approval_seconds: int = 300

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Read a project's settings; senseless ones, which only an older version can have stored, ask for all."""
        seconds = PolicySettings.of(settings).approval_seconds
        try:
            said = PlanSettings.model_validate(settings)
        except ValidationError:
            return cls(approve_from_tasks=1, approval_seconds=seconds)
        return cls(
            approve_from_tasks=said.plans.approve_from_tasks,
            approve_over_micros=micros(said.plans.approve_over_usd),
            approval_seconds=seconds,
        )

    def needs_approval(self, tasks: int, expected_micros: int, unasked_micros: int, *, price_unknown: bool) -> bool:
        """Return whether the user is asked: for many tasks, much money, or when nobody knows how much.

        A single task is asked about only for what it costs itself; what other plans of the session have cost that
        nobody was asked about counts for plans of several tasks.
        """
        before = max(0, unasked_micros) if tasks > 1 else 0
        too_dear = expected_micros + before > self.approve_over_micros
        return price_unknown or too_dear or tasks >= self.approve_from_tasks
