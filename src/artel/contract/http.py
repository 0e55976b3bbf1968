"""Request and response bodies of the HTTP API. Requests refuse unknown fields and text that no database can store."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    JsonValue,
    SecretStr,
    model_validator,
)

from artel.text import HIDDEN_PATTERN, is_encodable

MAX_ID = 2**63 - 1
MAX_JSON_INTEGER = 2**53 - 1  # larger integers lose precision in programs that read JSON numbers as floats
MAX_EMAIL_CHARACTERS = 254
MIN_PASSWORD_CHARACTERS = 8
MAX_PASSWORD_CHARACTERS = 256
MAX_SETTINGS_CHARACTERS = 16_384
MAX_SETTINGS_DEPTH = 16
MAX_INTEGER_BITS = 1024
MAX_FIELDS = 64

# Default tools of a new agent: read the user's files, and use its task workspace and memory.
WORKSPACE_READING = ("tool_read_file", "tool_list_directory", "tool_search_files", "tool_stat")
TASK_WORKSPACE = ("write_file", "read_file", "list_files", "get_workspace_info")
MEMORY = ("memory_read", "memory_write")
DEFAULT_TOOLS = (*WORKSPACE_READING, *TASK_WORKSPACE, *MEMORY)

T = TypeVar("T")


def _json_characters(value: JsonValue, max_depth: int, depth: int = 0) -> int:
    """Return the approximate length of the value as JSON; raise ValueError if it can't be stored."""
    if depth > max_depth:
        raise ValueError(f"must not be nested deeper than {max_depth} levels")
    match value:
        case str():
            if not is_encodable(value):
                raise ValueError("must be valid Unicode")
            return len(value) + 2
        case float() if not math.isfinite(value):
            raise ValueError("must not contain NaN or Infinity")
        case dict():
            return sum(
                _json_characters(key, max_depth) + _json_characters(item, max_depth, depth + 1) + 2
                for key, item in value.items()
            )
        case list():
            return sum(_json_characters(item, max_depth, depth + 1) + 1 for item in value)
        case int() if value.bit_length() > MAX_INTEGER_BITS:
            raise ValueError("must not contain integers of more than 300 digits")
        case _:
            return len(str(value))


def bounded_json(max_characters: int, max_depth: int) -> AfterValidator:
    """Return the validator of a JSON object that is stored."""

    def check(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if _json_characters(value, max_depth) > max_characters:
            raise ValueError(f"must not be longer than {max_characters} characters")
        return value

    return AfterValidator(check)


def _normal_email(email: str) -> str:
    normal = email.lower()
    if len(normal) > MAX_EMAIL_CHARACTERS:  # lower-casing can add characters
        raise ValueError(f"must have at most {MAX_EMAIL_CHARACTERS} characters")
    if HIDDEN_PATTERN.search(normal):  # an address is a name: people read it before they trust the account
        raise ValueError("must not contain invisible characters")
    return normal


def _good_password(password: SecretStr) -> SecretStr:
    if not is_encodable(password.get_secret_value()):
        raise ValueError("must be valid Unicode")
    if not MIN_PASSWORD_CHARACTERS <= len(password.get_secret_value()) <= MAX_PASSWORD_CHARACTERS:
        raise ValueError(f"must have {MIN_PASSWORD_CHARACTERS} to {MAX_PASSWORD_CHARACTERS} characters")
    return password


def whole(value: Any) -> Any:
    """Convert 3.0 to 3, as JSON Schema does; leave anything else to the type's validation."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _all_different(names: list[str]) -> list[str]:
    if len(set(names)) != len(names):
        raise ValueError("must not contain duplicates")
    return names


def unset() -> Any:
    """Return the placeholder of a field that a PATCH omits; it is never read, because unset fields are excluded."""
    return None


# The patterns are in the OpenAPI document, so that clients can validate with them.
_VISIBLE_LINE = r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"
_ANY_TEXT = r"^[^\x00]*$"
_TOKEN = r"^[a-z][a-z0-9_.-]{0,62}$"  # noqa: S105 - a pattern for names, not a secret

Email = Annotated[
    str,
    Field(max_length=MAX_EMAIL_CHARACTERS, pattern=r"^[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f]+$"),
    AfterValidator(_normal_email),
]
Password = Annotated[
    SecretStr,
    AfterValidator(_good_password),
    Field(json_schema_extra={"minLength": MIN_PASSWORD_CHARACTERS, "maxLength": MAX_PASSWORD_CHARACTERS}),
]
ProjectName = Annotated[str, Field(min_length=1, max_length=200, pattern=_VISIBLE_LINE)]
ProjectSettings = Annotated[
    dict[str, JsonValue],
    bounded_json(MAX_SETTINGS_CHARACTERS, MAX_SETTINGS_DEPTH),
    Field(
        description="Settings of the project: a JSON object of at most 16,384 characters. The settings for tools, "
        "nodes and plans (`tools`, `approval_seconds`, `plans`, `monthly_budget_usd`, `nodes_allowed`) are validated."
    ),
]
AgentName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$", description="Unique in the project.")]
Role = Annotated[str, Field(min_length=1, max_length=64, pattern=_VISIBLE_LINE)]
# No URLs and no `..`: a provider's library might request them.
MODEL_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.+:@-]*(/[A-Za-z0-9_+@-][A-Za-z0-9_.+:@-]*)*$"
MAX_MODEL_CHARACTERS = 200
ModelName = Annotated[
    str,
    Field(
        max_length=MAX_MODEL_CHARACTERS,
        pattern=MODEL_NAME,
        description="Model name of LiteLLM: `gpt-4o`, `anthropic/claude-sonnet-4-5`, `ollama/llama3:8b`.",
    ),
]
Temperature = Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)]
MaxTokens = Annotated[int, Field(ge=1, le=1_000_000), BeforeValidator(whole)]
SystemPrompt = Annotated[str, Field(max_length=100_000, pattern=_ANY_TEXT)]
NameList = Annotated[
    list[Annotated[str, Field(pattern=_TOKEN)]],
    FailFast(),
    AfterValidator(_all_different),
    Field(max_length=64, json_schema_extra={"uniqueItems": True}),
]
ConcurrencyLimit = Annotated[
    int, Field(ge=1, le=10, description="Maximum number of concurrent tasks."), BeforeValidator(whole)
]
MaxIterations = Annotated[
    int,
    Field(ge=1, le=10, description="Maximum number of drafts that the critique sends back."),
    BeforeValidator(whole),
]
MaxToolCalls = Annotated[
    int, Field(ge=0, le=20, description="Maximum number of tool calls in a task."), BeforeValidator(whole)
]
RowId = Annotated[int, Field(ge=0, le=MAX_JSON_INTEGER), BeforeValidator(whole)]
Title = Annotated[str, Field(min_length=1, max_length=200, pattern=_VISIBLE_LINE)]
Runtime = Annotated[
    Literal["local", "node"],
    Field(
        description="Where it runs: in the server, or on a node that has all its `capabilities` (without capabilities: "
        "the node with its name)."
    ),
]


class RequestBody(BaseModel):
    """A request body: strict, without unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _not_too_many_fields(cls, body: Any) -> Any:
        # Each unknown field creates a validation error, which costs far more memory than the field itself.
        if isinstance(body, dict) and len(body) > MAX_FIELDS:
            raise ValueError(f"must not have more than {MAX_FIELDS} fields")
        return body


class ResponseBody(BaseModel):
    """A response body."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def of(cls, source: object, **values: Any) -> Self:
        """Return the answer with the attributes of an object, except for the fields whose values are given."""
        copied = {name: getattr(source, name) for name in cls.model_fields if hasattr(source, name)}
        return cls(**copied | values)


class Page(ResponseBody, Generic[T]):
    """One page of a list."""

    items: list[T]
    total: int = Field(description="Total number of items on all pages.", examples=[1])
    limit: int = Field(examples=[50])
    offset: int = Field(examples=[0])


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which page of a list is wanted: `limit` items, after the first `offset`."""

    limit: int
    offset: int = 0

    def page(self, items: list[T], total: int) -> Page[T]:
        """Return the page with these items."""
        return Page(items=items, total=total, limit=self.limit, offset=self.offset)

    def cut(self, items: Sequence[T]) -> list[T]:
        """Return those of all items that are on the page."""
        return list(items[self.offset : self.offset + self.limit])


class FieldError(ResponseBody):
    """An invalid field of a request."""

    field: str = Field(examples=["body.name"])
    message: str = Field(examples=["Field required"])


class Problem(ResponseBody):
    """An error (RFC 9457, application/problem+json)."""

    type: str = Field(examples=["urn:artel:problem:project_not_found"])
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(description="What happened and what to do.", examples=["Project not found"])
    code: str = Field(description="Stable error code for programs.", examples=["project_not_found"])
    request_id: str = Field(examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"])
    errors: list[FieldError] | None = Field(default=None, description="Invalid fields of the request.")


class AgentLoop(RequestBody):
    """Extra phases of an agent's loop, and its limits; each phase calls the model once more."""

    understand: bool = Field(default=False, description="Whether it first says what the message asks for.")
    plan: bool = Field(default=False, description="Whether it lists its steps before it answers.")
    critique: bool = Field(default=False, description="Whether it reviews each draft, and improves it if needed.")
    max_iterations: MaxIterations = 5
    max_tool_calls: MaxToolCalls = 10


class AgentLoopChanges(RequestBody):
    """Changes of an agent's loop; omitted fields do not change."""

    understand: bool = Field(default_factory=unset)
    plan: bool = Field(default_factory=unset)
    critique: bool = Field(default_factory=unset)
    max_iterations: MaxIterations = Field(default_factory=unset)
    max_tool_calls: MaxToolCalls = Field(default_factory=unset)


def _stored_loop(loop: Any) -> Any:
    """Return stored loop settings without fields of later versions; agents of earlier versions have none."""
    if isinstance(loop, AgentLoop):
        return loop
    return {name: value for name, value in (loop or {}).items() if name in AgentLoop.model_fields}


class AgentFallback(RequestBody):
    """The model that answers when the agent's own fails."""

    enabled: bool = Field(default=True, description="Whether another model may answer.")
    model: ModelName | None = Field(default=None, description="That model; null is the server's fallback model.")

    def or_default(self, default: str | None) -> str | None:
        """Return the model that answers when the agent's own fails; None if there is none."""
        return (self.model or default) if self.enabled else None


class AgentFallbackChanges(RequestBody):
    """Changes of an agent's fallback; omitted fields do not change."""

    enabled: bool = Field(default_factory=unset)
    model: ModelName | None = Field(default_factory=unset)


def _stored_fallback(fallback: Any) -> Any:
    """Return the stored fallback without fields of later versions; agents of earlier versions have none."""
    if isinstance(fallback, AgentFallback):
        return fallback
    return {name: value for name, value in (fallback or {}).items() if name in AgentFallback.model_fields}


class NewAgent(RequestBody):
    """A new agent; only name, role and system_prompt are required."""

    name: AgentName = Field(examples=["agent_reviewer"])
    role: Role = Field(examples=["reviewer"])
    model: ModelName = Field(
        default_factory=unset, description="By default the server's `default_model`.", examples=["gpt-4"]
    )
    system_prompt: SystemPrompt = Field(examples=["You review changes and say what matters, most important first."])
    temperature: Temperature = 0.7
    max_tokens: MaxTokens = 2048
    tools: NameList = Field(default=list(DEFAULT_TOOLS), examples=[list(DEFAULT_TOOLS)])
    concurrency_limit: ConcurrencyLimit = 3
    capabilities: NameList = Field(default=[], examples=[["review_code"]])
    memory: bool = True
    runtime: Runtime = "local"
    loop: AgentLoop = AgentLoop()
    fallback: AgentFallback = AgentFallback()


class AgentChanges(RequestBody):
    """Changes of an agent; omitted fields do not change."""

    name: AgentName = Field(default_factory=unset)
    role: Role = Field(default_factory=unset)
    model: ModelName = Field(default_factory=unset)
    system_prompt: SystemPrompt = Field(default_factory=unset)
    temperature: Temperature = Field(default_factory=unset, examples=[0.2])
    max_tokens: MaxTokens = Field(default_factory=unset)
    tools: NameList = Field(default_factory=unset)
    concurrency_limit: ConcurrencyLimit = Field(default_factory=unset)
    capabilities: NameList = Field(default_factory=unset)
    memory: bool = Field(default_factory=unset)
    runtime: Runtime = Field(default_factory=unset)
    loop: AgentLoopChanges = Field(default_factory=unset)
    fallback: AgentFallbackChanges = Field(default_factory=unset)


class Agent(ResponseBody):
    """An agent of a project."""

    id: int = Field(examples=[2])
    project_id: int = Field(examples=[1])
    parent_agent_id: int | None = Field(
        default=None,
        description="Agent that created it, or the project's orchestrator, which is never listed.",
        examples=[1],
    )
    name: str = Field(examples=["agent_coder"])
    role: str = Field(examples=["developer"])
    model: str = Field(examples=["gpt-4"])
    temperature: float = Field(examples=[0.3])
    max_tokens: int = Field(examples=[4096])
    system_prompt: str
    tools: list[str]
    concurrency_limit: int = Field(examples=[3])
    capabilities: list[str]
    memory: bool
    runtime: Runtime
    loop: Annotated[AgentLoop, BeforeValidator(_stored_loop)] = AgentLoop()
    fallback: Annotated[AgentFallback, BeforeValidator(_stored_fallback)] = AgentFallback()
    created_at: datetime
    updated_at: datetime


class NewProject(RequestBody):
    """A new project."""

    name: ProjectName = Field(examples=["Website"])
    settings: ProjectSettings = Field(default_factory=dict, examples=[{}])


class ProjectChanges(RequestBody):
    """Changes of a project; omitted fields do not change, `settings` is replaced as a whole."""

    name: ProjectName = Field(default_factory=unset, examples=["Website, second attempt"])
    settings: ProjectSettings = Field(default_factory=unset)


class Project(ResponseBody):
    """A project."""

    id: int = Field(examples=[1])
    name: str = Field(examples=["Website"])
    settings: dict[str, JsonValue] = Field(examples=[{}])
    is_default: bool = Field(description="Whether new sessions without a project use it.")
    created_at: datetime
    updated_at: datetime


class ProjectWithAgents(Project):
    """A project with its agents."""

    agents: list[Agent]

    @property
    def team(self) -> list[Agent]:
        """Agents that the orchestrator works with: without those created by other agents."""
        listed = {agent.id for agent in self.agents}
        return [agent for agent in self.agents if agent.parent_agent_id not in listed]


PlanMode = Literal["auto", "ask", "never"]
_PLAN_MODE = (
    "What the orchestrator does with messages. auto: it plans, and asks about plans as the project's settings say. "
    "ask: it asks about every plan. never: one agent answers, without a plan."
)


class NewSession(RequestBody):
    """A new session, by default in the user's default project."""

    project_id: RowId = Field(default_factory=unset, examples=[1])
    title: Title = Field(default_factory=unset, examples=["A new landing page"])
    plan_mode: PlanMode = Field(default="auto", description=_PLAN_MODE)
    idempotency_key: Annotated[str, Field(min_length=1, max_length=200, pattern=_ANY_TEXT)] | None = Field(
        default=None, description="The same key returns the session that was created with it before."
    )


class SessionChanges(RequestBody):
    """Changes of a session; omitted fields do not change."""

    title: Title = Field(default_factory=unset, examples=["The landing page, again"])
    pinned: bool = Field(default_factory=unset)
    archived: bool = Field(default_factory=unset, description="Whether lists of sessions leave it out.")
    recipient: Annotated[str, Field(min_length=1, max_length=200, pattern=_ANY_TEXT)] | None = Field(
        default_factory=unset,
        description="Name, name without `agent_`, or id of an agent; null for the orchestrator.",
        examples=["coder"],
    )
    plan_mode: PlanMode = Field(default_factory=unset, description=_PLAN_MODE)


class Session(ResponseBody):
    """A conversation in a project."""

    session_id: str = Field(examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"])
    project_id: int = Field(examples=[1])
    title: str = Field(examples=["A new landing page"])
    title_source: Literal["auto", "user"] = Field(description="Whether you named it, or the server did.")
    pinned: bool
    archived: bool = Field(description="Whether lists of sessions leave it out.")
    recipient: str | None = Field(
        description="Agent that the last message was sent to; null: the orchestrator.", examples=["agent_coder"]
    )
    plan_mode: PlanMode = Field(description=_PLAN_MODE)
    state: Literal["idle", "working", "waiting", "failed"] = Field(
        description="working: a turn runs or is queued; waiting: it waits for your decision; failed: the last turn did."
    )
    waiting: int = Field(description="Number of pending approvals.", examples=[0])
    cost_usd: float | None = Field(description="Cost of its model calls; null if a price is unknown.", examples=[0.02])
    changed_files: int = Field(
        description="Number of your files that agents changed, also if the change was undone.", examples=[2]
    )
    created_at: datetime
    updated_at: datetime


class Health(ResponseBody):
    """The process is alive."""

    status: Literal["ok"]
    version: str = Field(examples=["0.1.0"])


class PartHealth(ResponseBody):
    """Health of one component of the server."""

    name: str = Field(examples=["database"])
    ok: bool
    detail: str | None = Field(default=None, description="What happened and what to do.")


class Readiness(ResponseBody):
    """Whether the server can serve requests."""

    status: Literal["ready", "not_ready"]
    parts: list[PartHealth]
