"""The settings of a project that the server uses; the others are stored as they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

APPROVAL_SECONDS = 300
MAX_APPROVAL_SECONDS = 7 * 24 * 3600
MAX_TASKS = 20  # of a plan

WILDCARDS = frozenset("*?[")
MAX_WILDCARDS = 32  # in a glob
MAX_ALL_WILDCARDS = 300  # in a list of globs
MAX_GLOB_CHARACTERS = 20_000  # in a list of globs


def count_wildcards(glob: str) -> int:
    """Return how many signs of a glob match more than themselves; `**` counts as one."""
    return sum(sign in WILDCARDS for sign in glob.replace("**", "*"))


def _bounded(globs: list[str]) -> list[str]:
    """Raise ValueError for globs that take long to match: each entry of a listing is matched with each of them."""
    for glob in globs:
        if count_wildcards(glob) > MAX_WILDCARDS:
            raise ValueError(f"a glob may have at most {MAX_WILDCARDS} wildcards: {glob[:100]!r}")
    if sum(map(count_wildcards, globs)) > MAX_ALL_WILDCARDS:
        raise ValueError(f"the globs of a list may have at most {MAX_ALL_WILDCARDS} wildcards together")
    if sum(map(len, globs)) > MAX_GLOB_CHARACTERS:
        raise ValueError(f"the globs of a list may have at most {MAX_GLOB_CHARACTERS} characters together")
    return globs


Globs = Annotated[list[Annotated[str, Field(max_length=1_000)]], Field(max_length=100), AfterValidator(_bounded)]
NodeGlobs = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=255)]], Field(max_length=100), AfterValidator(_bounded)
]


class ToolRule(BaseModel, defer_build=True):
    """A project's rule for one tool."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    enabled: bool = True
    requires_approval: bool = False
    allowed_paths: Globs = []
    denied_paths: Globs = []


class PolicySettings(BaseModel, defer_build=True):
    """The part of a project's settings that is about tools."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    tools: dict[str, ToolRule] = {}
    approval_seconds: int = Field(APPROVAL_SECONDS, ge=1, le=MAX_APPROVAL_SECONDS)
    _problem: str | None = PrivateAttr(None)

    @property
    def problem(self) -> str | None:
        """Why all tools are off if the stored settings are invalid, and what to do."""
        return self._problem

    def rule(self, tool: str) -> ToolRule:
        """Return a tool's own rule merged with the rule for all tools (`*`)."""
        common, own = self.tools.get("*") or ToolRule(), self.tools.get(tool) or ToolRule()
        return ToolRule.model_construct(  # not validated: the merged lists may be longer than each may be
            enabled=common.enabled and own.enabled,
            requires_approval=common.requires_approval or own.requires_approval,
            allowed_paths=own.allowed_paths or common.allowed_paths,
            denied_paths=[*common.denied_paths, *own.denied_paths],
        )

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "PolicySettings":
        """Parse the settings of a project; invalid settings allow nothing."""
        try:
            return cls.model_validate(settings)
        except ValidationError as invalid:
            first = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
            field = ".".join(str(step)[:100] for step in ("settings", *first["loc"]))
            closed = cls(tools={"*": ToolRule(enabled=False, requires_approval=True)})
            closed._problem = (
                f"All tools are off because the project's stored settings can't be used: {field}: {first['msg']}. "
                "Correct the settings of the project."
            )
            return closed


class ApprovalRules(BaseModel, defer_build=True):
    """The thresholds from which a plan needs approval."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    approve_from_tasks: int = Field(3, ge=1, le=MAX_TASKS + 1)
    approve_over_usd: float = Field(0.10, ge=0, le=1_000_000)


class PlanSettings(BaseModel, defer_build=True):
    """The part of a project's settings that is about plans."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    plans: ApprovalRules = Field(default_factory=ApprovalRules)
    monthly_budget_usd: float | None = Field(None, ge=0, le=1_000_000_000)


class NodeSettings(BaseModel, defer_build=True):
    """The part of a project's settings that is about nodes."""

    model_config = ConfigDict(extra="ignore")

    nodes_allowed: NodeGlobs = ["*"]  # globs of the names of nodes that the project's agents may use


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """A project's settings as the server uses them; parts of earlier versions that are not valid become strict."""

    policy: PolicySettings
    plans: ApprovalRules
    monthly_budget_usd: float | None
    nodes_allowed: tuple[str, ...] = ("*",)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "EffectiveSettings":
        """Parse stored settings."""
        try:
            plans = PlanSettings.model_validate(stored).plans
        except ValidationError:
            plans = ApprovalRules(approve_from_tasks=1)
        limit = stored.get("monthly_budget_usd")
        if not isinstance(limit, int | float) or isinstance(limit, bool) or limit < 0:
            limit = None
        try:
            nodes = tuple(NodeSettings.model_validate(stored).nodes_allowed)
        except ValidationError:
            nodes = ()
        return cls(PolicySettings.of(stored), plans, limit, nodes)
