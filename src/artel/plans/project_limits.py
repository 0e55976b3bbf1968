"""The plan settings of a project: approval thresholds, approval timeout and monthly budget."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from artel.budgets.money import micros
from artel.plans.task_graph import MAX_TASKS
from artel.tools.policy import PolicySettings


class ApprovalRules(BaseModel):
    """The thresholds from which a plan needs approval."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    approve_from_tasks: int = Field(3, ge=1, le=MAX_TASKS + 1)
    approve_over_usd: float = Field(0.10, ge=0, le=1_000_000)


class PlanSettings(BaseModel):
    """The part of a project's settings that is about plans."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    plans: ApprovalRules = Field(default_factory=ApprovalRules)
    monthly_budget_usd: float | None = Field(None, ge=0, le=1_000_000_000)


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """The limits of a project, with defaults for what it does not set."""

    approve_from_tasks: int = 3
    approve_over_micros: int = 100_000
    approval_seconds: int = 300

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Return the limits of a project; invalid settings of an older version make every plan need approval."""
        seconds = PolicySettings.of(settings).approval_seconds
        try:
            plan_settings = PlanSettings.model_validate(settings)
        except ValidationError:
            return cls(approve_from_tasks=1, approval_seconds=seconds)
        return cls(
            approve_from_tasks=plan_settings.plans.approve_from_tasks,
            approve_over_micros=micros(plan_settings.plans.approve_over_usd),
            approval_seconds=seconds,
        )

    def needs_approval(self, tasks: int, expected_micros: int, unasked_micros: int, *, price_unknown: bool) -> bool:
        """Return whether a plan needs approval: it has many tasks, or is expensive, or its price is unknown.

        The unapproved cost of earlier plans of the session counts only for plans of several tasks.
        """
        before = max(0, unasked_micros) if tasks > 1 else 0
        is_expensive = expected_micros + before > self.approve_over_micros
        return price_unknown or is_expensive or tasks >= self.approve_from_tasks
