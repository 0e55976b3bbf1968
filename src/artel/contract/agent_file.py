"""An agent's file (YAML): everything that a node needs to know about the agent that it runs."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from artel.contract.json_schema import Mistake, schema_mistakes, value_mistakes
from artel.contract.node_messages import MAX_HEARTBEAT_SECONDS

MAX_FILE_BYTES = 262_144
MAX_CAPABILITIES = 50
MAX_NAME = 150  # with prefix and instance it still fits into the name of a queue

NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}(\.[A-Za-z0-9_-]{1,63}){0,5}")
_WORD = re.compile(r"[a-z][a-z0-9_]{0,62}")
PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]{0,63})\}")  # of a prompt template
_RESERVED = frozenset({"all", "any", "registry"})  # words with a meaning of their own in routing keys
_RESERVED_LABELS = "capability."  # the node adds a label for each capability

ToolName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Globs = Annotated[list[Annotated[str, Field(min_length=1, max_length=1_000)]], Field(max_length=100)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
LabelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$")]
LabelValue = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{0,200}$")]
JsonSchema = dict[str, Any]

# Tools that only a file can switch on; the others need no more than their name in `tools.enabled`.
OFF_BY_DEFAULT = frozenset({"file_write", "api_call", "code_execute", "shell"})
# Of these a person approves each call, whatever the file says.
ALWAYS_APPROVED = frozenset({"code_execute", "shell"})
# Parameters of a capability whose file gives no schema.
TEXT_INPUT: JsonSchema = {
    "type": "object",
    "properties": {"text": {"type": "string", "minLength": 1, "description": "The task."}},
    "required": ["text"],
    "additionalProperties": False,
}


def is_agent_name(name: str, kind: str) -> bool:
    """Return whether an agent of a type may have this name."""
    word = name.replace(".", "_")
    return len(name) <= MAX_NAME and bool(NODE_NAME.fullmatch(name)) and word not in {*_RESERVED, kind}


def _refuse(mistakes: Iterable[Mistake]) -> None:
    """Raise ValidationError if there are mistakes; each is named by its path below the validated field."""
    errors = [
        InitErrorDetails(type=PydanticCustomError("value_error", "{text}", {"text": text}), loc=path, input=None)
        for path, text in mistakes
    ]
    if errors:
        raise ValidationError.from_exception_data("agent file", errors)


def _refuse_reserved(word: str, reserved: frozenset[str]) -> None:
    if word in reserved:
        raise ValueError(f"{word!r} has a meaning of its own in commands: choose another word")


class _Section(BaseModel, defer_build=True):
    """A part of the file; unknown keys are refused, because they are most likely typos."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Display(_Section):
    """How people see the agent."""

    name: str = Field(default="", max_length=100, description="Name for people; the agent's name by default.")
    description: str = Field(default="", max_length=1_000, description="What it does, in a sentence.")
    avatar: str = Field(default="", max_length=100, description="Name of an icon.")


class Fallback(_Section):
    """What answers when the model fails."""

    enabled: bool = Field(default=False, description="Whether another model answers when the first one fails.")
    model: str | None = Field(default=None, min_length=1, max_length=200, description="That model.")
    provider: str | None = Field(
        default=None, pattern=r"^[a-z][a-z0-9_]{0,39}$", description="Its provider; that of the first model by default."
    )

    @model_validator(mode="after")
    def _has_model(self) -> "Fallback":
        if self.enabled and self.model is None:
            _refuse([(("model",), "is missing: name the model that answers when the first one fails")])
        return self


class BrainSection(_Section):
    """The model of the agent."""

    provider: str = Field(
        default="openai",
        pattern=r"^[a-z][a-z0-9_]{0,39}$",
        description="openai, anthropic, ollama, azure, or any other provider of LiteLLM.",
    )
    model: str = Field(min_length=1, max_length=200, description="Name of the model, as the provider knows it.")
    temperature: float = Field(default=0.7, ge=0, le=2, description="0 for the same answer each time.")
    max_tokens: int = Field(default=4_000, ge=1, le=1_000_000, description="Longest answer, in tokens.")
    system_prompt: str = Field(min_length=1, max_length=100_000, description="Who the agent is and how it works.")
    fallback: Fallback = Field(default=Fallback(), description="What answers when the model fails.")

    @field_validator("system_prompt")
    @classmethod
    def _says_something(cls, prompt: str) -> str:
        if not prompt.strip():
            raise ValueError("is empty: say who the agent is and how it works")
        return prompt

    @property
    def model_name(self) -> str:
        """The model with its provider, as the brain routes it."""
        return _with_provider(self.provider, self.model)

    @property
    def fallback_name(self) -> str | None:
        """The fallback model with its provider, None if there is none."""
        if not self.fallback.enabled or self.fallback.model is None:
            return None
        return _with_provider(self.fallback.provider or self.provider, self.fallback.model)


def _with_provider(provider: str, model: str) -> str:
    return model if provider == "openai" or model.startswith(f"{provider}/") else f"{provider}/{model}"


class ToolSecurity(_Section):
    """What one tool may do."""

    enabled: bool | None = Field(
        default=None, description="Off by default: file_write, api_call, code_execute and shell."
    )
    requires_approval: bool | None = Field(
        default=None, description="Whether a person approves each call; by default for file_write."
    )
    allowed_paths: Globs = Field(default=[], description="Globs of files that it may use; for tools that use files.")
    denied_paths: Globs = Field(default=[], description="Globs of files that it may not use, also if allowed.")


class ApiSecret(_Section):
    """A secret that is sent as a header to one host and never shown to the model."""

    header: str = Field(pattern=r"^[A-Za-z0-9-]{1,100}$", description="Name of the header, such as Authorization.")
    variable: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}$", description="Environment variable of the value.")
    prefix: str = Field(
        default="", max_length=50, pattern=r"^[ -~]*$", description="ASCII text before the value, such as `Bearer `."
    )


class ApiHost(_Section):
    """A host that api_call may reach."""

    host: str = Field(
        pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:[0-9]{1,5})?$",
        description="Host in lower case, with a port if it is not the usual one.",
    )
    methods: list[Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]] = Field(
        default=["GET"], min_length=1, description="Methods that it may use."
    )
    private: bool = Field(
        default=False, description="Whether its address may be a private one, such as 10.0.0.5; never by default."
    )
    secrets: dict[str, ApiSecret] = Field(default={}, max_length=20, description="Secrets by the name models use.")


class ApiSecurity(ToolSecurity):
    """What api_call may do."""

    hosts: list[ApiHost] = Field(default=[], max_length=100, description="Hosts that it may reach; no others.")


class SandboxSecurity(ToolSecurity):
    """What code_execute and shell may do, in a sandbox without network."""

    timeout_seconds: Seconds = Field(default=30, description="Time for one call.")
    memory_mb: int = Field(default=512, ge=16, le=65_536, description="Memory for one call.")
    output_bytes: int = Field(default=65_536, ge=1_024, le=1_048_576, description="Longest output; the rest is cut.")

    @field_validator("requires_approval")
    @classmethod
    def _always(cls, wanted: bool | None) -> bool | None:
        if wanted is False:
            raise ValueError("can't be false: a person approves each call of code_execute and shell")
        return wanted


class SearchSecurity(ToolSecurity):
    """How web_search searches."""

    searxng_url: str | None = Field(
        default=None,
        max_length=500,
        pattern=r"^https?://[^\s/?#]+",
        description="Address of a SearXNG server; ddgs is used without one.",
    )


class ToolsSecurity(_Section):
    """Rules for tools."""

    allowed_tools: list[ToolName] | None = Field(
        default=None, max_length=100, description="White list; all that are enabled by default."
    )
    web_search: SearchSecurity = Field(default=SearchSecurity(), description="Rules of web_search.")
    web_fetch: ToolSecurity = Field(default=ToolSecurity(), description="Rules of web_fetch.")
    memory_read: ToolSecurity = Field(default=ToolSecurity(), description="Rules of memory_read.")
    memory_write: ToolSecurity = Field(default=ToolSecurity(), description="Rules of memory_write.")
    file_read: ToolSecurity = Field(default=ToolSecurity(), description="Rules of file_read.")
    file_write: ToolSecurity = Field(default=ToolSecurity(), description="Rules of file_write.")
    api_call: ApiSecurity = Field(default=ApiSecurity(), description="Rules of api_call.")
    code_execute: SandboxSecurity = Field(default=SandboxSecurity(), description="Rules of code_execute.")
    shell: SandboxSecurity = Field(default=SandboxSecurity(), description="Rules of shell.")
    plugins: dict[ToolName, ToolSecurity] = Field(
        default={}, max_length=100, description="Rules for tools of other packages, by name."
    )

    @field_validator("web_search", "web_fetch", "memory_read", "memory_write", "api_call")
    @classmethod
    def _uses_no_files(cls, rule: ToolSecurity) -> ToolSecurity:
        keys = [key for key in ("allowed_paths", "denied_paths") if getattr(rule, key)]
        _refuse(((key,), "is only for tools that use files: file_read and file_write") for key in keys)
        return rule

    def rule(self, tool: str) -> ToolSecurity:
        """Return the rule of a tool."""
        rule = getattr(self, tool, None) if tool in BUILTIN_TOOLS else self.plugins.get(tool)
        return rule if isinstance(rule, ToolSecurity) else ToolSecurity()


BUILTIN_TOOLS = frozenset(ToolsSecurity.model_fields) - {"allowed_tools", "plugins"}


class ToolsSection(_Section):
    """The tools of the agent."""

    enabled: list[ToolName] = Field(default=[], max_length=100, description="Names of tools.")
    security: ToolsSecurity = Field(default=ToolsSecurity(), description="Rules for tools.")

    @model_validator(mode="after")
    def _has_fitting_rules(self) -> "ToolsSection":
        _refuse((("security", tool, key), text) for tool, key, text in self._wrong_rules())
        return self

    def _wrong_rules(self) -> Iterator[tuple[str, str, str]]:
        """Yield rules without which a tool of the agent could do nothing, and those that it has in vain."""
        for tool in sorted(self.usable & {"file_read", "file_write"}):
            if not self.security.rule(tool).allowed_paths:
                advice = '["/data/**"] on this machine, or ["**"] in the agent\'s own folder'
                yield tool, "allowed_paths", f"is missing: name the files that {tool} may use, such as {advice}"
        if "api_call" in self.usable and not self.security.api_call.hosts:
            yield "api_call", "hosts", "is missing: list the hosts that api_call may reach, with their methods"
        for tool in sorted(self.usable & ALWAYS_APPROVED):
            for key in ("allowed_paths", "denied_paths"):
                if getattr(self.security.rule(tool), key):
                    yield tool, key, "is not for this tool: its sandbox has no files of the machine"

    @property
    def usable(self) -> frozenset[str]:
        """Names of the tools that are enabled, allowed and not switched off."""
        allowed = self.security.allowed_tools
        return frozenset(name for name in self.enabled if (allowed is None or name in allowed) and self._is_on(name))

    def needs_approval(self, tool: str) -> bool:
        """Return whether a person approves each call of a tool."""
        rule = self.security.rule(tool).requires_approval
        return tool in ALWAYS_APPROVED or (tool == "file_write" if rule is None else rule)

    def _is_on(self, tool: str) -> bool:
        enabled = self.security.rule(tool).enabled
        return tool not in OFF_BY_DEFAULT if enabled is None else enabled


class ShortTerm(_Section):
    """Memory of one task: the state of the loop."""

    enabled: Literal[True] = Field(default=True, description="Always true: an agent can't work without it.")
    max_context_tokens: int = Field(default=8_000, ge=1_000, le=2_000_000, description="Longest prompt, in tokens.")


class LongTerm(_Section):
    """Memory between tasks."""

    enabled: bool = Field(default=False, description="Whether the agent remembers anything between tasks.")
    provider: str = Field(default="qdrant", description="qdrant or chroma.")
    collection: str = Field(
        default="agent_memory", pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,99}$", description="Where its memories are kept."
    )
    embedding_model: str | None = Field(default=None, max_length=200, description="The built-in one by default.")

    @field_validator("provider")
    @classmethod
    def _check_provider(cls, provider: str) -> str:
        if provider not in ("qdrant", "chroma"):
            raise ValueError(f"{provider!r} is not a provider of memory: choose qdrant or chroma")
        return provider


class MemorySection(_Section):
    """What the agent remembers."""

    short_term: ShortTerm = Field(default=ShortTerm(), description="Memory of one task: the state of the loop.")
    long_term: LongTerm = Field(default=LongTerm(), description="Memory between tasks.")


class Capability(_Section):
    """Something that the agent can do, with the schemas of its parameters and its output."""

    name: str = Field(description="Name, which is the action of a command.")
    version: str = Field(
        default="1.0", min_length=1, max_length=50, description="Version of its parameters and output."
    )
    description: str = Field(default="", max_length=2_000, description="What it does; planners choose by it.")
    input_schema: JsonSchema = Field(
        default=TEXT_INPUT, description="JSON Schema (2020-12) of the parameters; one `text` by default."
    )
    output_schema: JsonSchema | None = Field(
        default=None, description="JSON Schema (2020-12) of the output; any text by default."
    )
    tools_required: list[ToolName] = Field(default=[], max_length=50, description="Tools that it can't do without.")
    prompt_template: str | None = Field(
        default=None,
        max_length=100_000,
        description="The task; `{name}` stands for the parameter `name`.",
    )
    parameters: dict[str, Any] = Field(
        default={}, max_length=100, description="Facts for the passport, such as languages."
    )
    examples: list[dict[str, Any]] = Field(default=[], max_length=20, description="Parameters to try it with.")

    @model_validator(mode="before")
    @classmethod
    def _text_is_the_task(cls, given: Any) -> Any:
        if isinstance(given, dict) and "input_schema" not in given:
            return {"prompt_template": "{text}", **given}
        return given

    @field_validator("name")
    @classmethod
    def _word(cls, name: str) -> str:
        _refuse_reserved(name, _RESERVED | {"answer", "continue"})
        if not _WORD.fullmatch(name):
            raise ValueError(f"{name!r} can't be the name of a capability: use lower-case words such as write_article")
        return name

    @field_validator("input_schema", "output_schema")
    @classmethod
    def _is_schema(cls, schema: JsonSchema | None, info: ValidationInfo) -> JsonSchema | None:
        if schema is not None:
            _refuse(schema_mistakes(schema))
            if info.field_name == "input_schema" and schema.get("type") != "object":
                _refuse([(("type",), "must be object: the parameters of a command have names")])
        return schema

    @field_validator("prompt_template")
    @classmethod
    def _uses_parameters(cls, template: str | None, info: ValidationInfo) -> str | None:
        schema = info.data.get("input_schema")  # absent if it is not valid
        if template is not None and schema is not None:
            properties = schema.get("properties", {})
            named = dict.fromkeys(PLACEHOLDER.findall(template))
            if unknown := [f"{{{name}}}" for name in named if name not in properties]:
                raise ValueError(
                    f"{', '.join(unknown[:10])} is not in the properties of input_schema: "
                    f"use {', '.join(f'{{{name}}}' for name in properties) or 'no names in braces'}"
                )
        return template

    @field_validator("examples")
    @classmethod
    def _fit_schema(cls, examples: list[dict[str, Any]], info: ValidationInfo) -> list[dict[str, Any]]:
        schema = info.data.get("input_schema")
        if schema is not None:
            _refuse(
                ((number, *path), text)
                for number, example in enumerate(examples)
                for path, text in value_mistakes(schema, example)
            )
        return examples


class LoopSection(_Section):
    """The phases of the agent's loop and their limits."""

    max_iterations: int = Field(default=5, ge=0, le=20, description="How often a draft is sent back at most.")
    max_tool_calls: int = Field(default=10, ge=0, le=100, description="Tool calls of a task at most.")
    enable_understanding: bool = Field(default=True, description="Whether it first says how it understands the task.")
    enable_planning: bool = Field(default=False, description="Whether it then plans its steps.")
    enable_self_critique: bool = Field(default=True, description="Whether it reviews its draft.")


class Limits(_Section):
    """Limits of a task and of the process."""

    max_execution_time_seconds: Seconds = Field(default=300, description="Time for a task; the shortest limit wins.")
    max_retries: int = Field(
        default=3, ge=0, le=20, description="How often a task is tried again while its model is unavailable."
    )
    max_concurrent_tasks: int = Field(default=1, ge=1, le=100, description="Tasks at the same time.")
    max_memory_mb: int | None = Field(default=None, ge=64, description="Declared; the node reports when it is over.")
    max_cpu_percent: int | None = Field(
        default=None, ge=1, le=10_000, description="Declared, 100 is one core; the node reports when it is over."
    )


class RegistrySection(_Section):
    """How the node announces itself."""

    enabled: bool = Field(default=True, description="Whether the node registers, so that others find it.")
    heartbeat_interval_seconds: Annotated[float, Field(ge=0.1, le=MAX_HEARTBEAT_SECONDS)] = Field(
        default=10, description="Time between heartbeats; a node is not ready after 15 s without one."
    )


class ProgressSection(_Section):
    """How the node reports that it works."""

    enabled: bool = Field(default=True, description="Whether the node reports progress during a task.")
    interval_seconds: Annotated[float, Field(ge=0.1, le=3_600)] = Field(
        default=30, description="Time between reports; a task is stuck after three silent intervals."
    )


class SingletonSection(_Section):
    """The lock that allows one instance of an agent."""

    enabled: bool = Field(default=True, description="Whether a second instance with the same name is refused.")
    queue_prefix: str = Field(
        default="singleton", pattern=r"^[A-Za-z0-9_-]{1,63}$", description="The lock is the queue PREFIX.NAME."
    )


class AgentFile(_Section):
    """One agent."""

    name: str = Field(max_length=MAX_NAME, description="Unique name, such as agent.writer.001.")
    type: str = Field(description="Kind of agent, such as writer; nodes of a type share the commands to it.")
    version: str = Field(default="1.0.0", min_length=1, max_length=50, description="Version of the agent.")
    labels: dict[LabelName, LabelValue] = Field(default={}, max_length=50, description="Labels for selectors.")
    display: Display = Field(default=Display(), description="How people see the agent.")
    brain: BrainSection = Field(description="The model of the agent.")
    tools: ToolsSection = Field(default=ToolsSection(), description="The tools of the agent.")
    memory: MemorySection = Field(default=MemorySection(), description="What the agent remembers.")
    capabilities: list[Capability] = Field(
        min_length=1, max_length=MAX_CAPABILITIES, description="What the agent can do: the actions of commands to it."
    )
    agent_loop: LoopSection = Field(default=LoopSection(), description="The phases of the agent's loop.")
    limits: Limits = Field(default=Limits(), description="Limits of a task and of the process.")
    registry: RegistrySection = Field(default=RegistrySection(), description="How the node announces itself.")
    progress_heartbeat: ProgressSection = Field(
        default=ProgressSection(), description="How the node reports that it works."
    )
    singleton: SingletonSection = Field(
        default=SingletonSection(), description="The lock that allows one instance of an agent."
    )

    @field_validator("name")
    @classmethod
    def _good_name(cls, name: str) -> str:
        _refuse_reserved(name.replace(".", "_"), _RESERVED)
        if not NODE_NAME.fullmatch(name):
            raise ValueError(f"{name!r} can't be the name of an agent: use letters, digits, - and _, separated by dots")
        return name

    @field_validator("type")
    @classmethod
    def _good_type(cls, kind: str, info: ValidationInfo) -> str:
        _refuse_reserved(kind, _RESERVED)
        if not _WORD.fullmatch(kind):
            raise ValueError(f"{kind!r} can't be a type of agents: use lower-case letters, digits and _")
        if kind == info.data.get("name", "").replace(".", "_"):
            raise ValueError("must differ from the name, because both are addresses of commands")
        return kind

    @field_validator("labels")
    @classmethod
    def _own_labels(cls, labels: dict[str, str]) -> dict[str, str]:
        own = [name for name in labels if name.startswith(_RESERVED_LABELS)]
        _refuse(((name,), "is a label that the node makes itself, from its capabilities") for name in own)
        return labels

    @field_validator("capabilities")
    @classmethod
    def _fit_together(cls, capabilities: list[Capability], info: ValidationInfo) -> list[Capability]:
        tools = info.data.get("tools")  # absent if it is not valid
        mistakes: list[Mistake] = []
        names: set[str] = set()
        for number, capability in enumerate(capabilities):
            if capability.name in names:
                mistakes.append(((number, "name"), f"two capabilities are named {capability.name}"))
            names.add(capability.name)
            if tools is not None:
                mistakes += (((number, "tools_required", *place), text) for place, text in _missing(capability, tools))
        _refuse(mistakes)
        return capabilities


def _missing(capability: Capability, tools: ToolsSection) -> list[Mistake]:
    """Return the tools that a capability needs and the agent doesn't have."""
    advice = "add it to tools.enabled, and switch it on in tools.security if it is off by default"
    return [
        ((number,), f"{capability.name} needs {tool}, which the agent can't use: {advice}")
        for number, tool in enumerate(capability.tools_required)
        if tool not in tools.usable
    ]


class AgentDocument(_Section):
    """The whole file: one agent under the key `agent`."""

    agent: AgentFile = Field(description="The agent.")
