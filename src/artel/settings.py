"""The server's configuration: read once from the environment and an optional artel.yaml, then immutable."""

import functools
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import platformdirs
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    YamlConfigSettingsSource,
)

from artel.errors import ConfigurationInvalid
from artel.web_address import MAX_RULES, WebRefused, WebRules, is_this_machine, parse_url

PREFIX = "ARTEL_"
FILE_NAME = "artel.yaml"
RESERVED_ISSUER = "urn:artel:"
MAX_AGENTS = 1000
MEMORY_PROVIDERS = ("qdrant", "chroma")
# Variables with our prefix that are not settings of the server.
OTHER_VARIABLES = frozenset({"ARTEL_SERVER", "ARTEL_TOKEN", "ARTEL_CONFIG", "ARTEL_CONFIG_DIR"})

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
_BASE_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_HOST_NAME = re.compile(r"\*|\[[0-9A-Fa-f:.]+\]|[\w.-]+")

_SCHEMES = {
    "database_url": ("sqlite", "postgresql", "postgres"),
    "bus_url": ("amqp", "amqps"),
    "redis_url": ("redis", "rediss", "unix"),
    "qdrant_url": ("http", "https"),
    "jwks_url": ("http", "https"),
}


class Settings(BaseSettings):
    """All settings of the server. Each is also an environment variable: `port` is ARTEL_PORT."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True
    )

    data_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_path("artel", appauthor=False)),
        description="Folder for the server's files: database, token secret, task workspaces.",
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8700, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    base_path: str = Field(
        default="",
        max_length=200,
        description="Path prefix under which a reverse proxy serves Artel, such as `/artel`; none by default. "
        "Requests are accepted with and without it.",
    )
    allowed_hosts: list[str] | None = Field(
        default=None,
        description="Host names that requests may use (JSON list, without ports); `*` allows any. Unset: "
        "127.0.0.1, localhost and [::1] when listening on loopback only, any name otherwise.",
    )
    trusted_proxies: list[str] = Field(
        default=[],
        description="Addresses of reverse proxies whose X-Forwarded-For and -Proto are trusted (JSON list).",
    )

    database_url: SecretStr | None = Field(
        default=None,
        description="`postgresql://user:password@host/name`, or `sqlite:///path`; SQLite in the data folder if unset.",
    )
    database_connections: int = Field(default=10, ge=2, le=200, description="Size of the PostgreSQL connection pool.")
    sqlite_synchronous: Literal["normal", "full"] = Field(
        default="normal",
        description="`normal` survives a killed process; `full` also survives a power failure and is slower.",
    )
    bus_url: SecretStr | None = Field(default=None, description="`amqp://…` of RabbitMQ; in-process by default.")
    redis_url: SecretStr | None = Field(default=None, description="`redis://…`; in memory by default.")
    qdrant_url: SecretStr | None = Field(default=None, description="`http://…` of Qdrant; in-process by default.")
    qdrant_api_key: SecretStr | None = Field(default=None, description="API key of the Qdrant server, if it needs one.")
    qdrant_layout: Literal["shared", "per_agent"] = Field(
        default="shared",
        description="On a Qdrant server: one collection for the memory of all agents, or one per agent.",
    )
    memory_provider: str = Field(
        default="qdrant", description="Vector index for memories: `qdrant`, or `chroma` (needs the extra)."
    )
    embedding_model: str | None = Field(
        default=None,
        min_length=1,
        description="Embedding model for memory search: `artel-embed-1`, which comes with Artel, by default; `minilm` "
        "after `artel memory install-embeddings`; a model of any provider that LiteLLM supports; `none` for search by "
        "words only. After a change the server indexes all memories again, in the background.",
    )
    embedding_dimensions: int | None = Field(
        default=None,
        ge=1,
        le=65_536,
        description="Dimensions of the embedding model's vectors, if LiteLLM doesn't know them.",
    )

    jwt_secret: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="Secret that signs the server's tokens; created on first start in the data folder by default. "
        "Servers that share a database need the same one.",
    )
    token_lifetime_seconds: int = Field(
        default=604_800, ge=60, le=31_536_000, description="Lifetime of the server's tokens."
    )
    registration_open: bool | None = Field(
        default=None,
        description="Whether anybody may register; otherwise create accounts with `artel users create`. "
        "Unset: open until the first account exists, and always closed under `artel up`.",
    )
    jwks_url: SecretStr | None = Field(
        default=None,
        description="URL of an external issuer's keys (JWKS); its RS256 and ES256 tokens are then accepted.",
    )
    issuer: str | None = Field(default=None, description="Required `iss` of the external issuer's tokens.")
    audience: str | None = Field(default=None, description="Required `aud` of the external issuer's tokens.")

    max_body_bytes: int = Field(
        default=1_048_576, ge=1024, le=104_857_600, description="Maximum size of a request body."
    )
    max_connectors_per_user: int = Field(
        default=20, ge=1, le=10_000, description="Maximum number of online connectors per user and process."
    )
    max_streams_per_user: int = Field(
        default=100, ge=1, le=20_000, description="Maximum number of event streams per user and process."
    )
    auto_titles: bool = Field(
        default=True,
        description="Whether the model that gave the first answer of a session also makes a title for it, in the "
        "background; else the first words are the title.",
    )
    search_seconds: float = Field(
        default=5.0, gt=0, le=60, description="Timeout of a search over all messages of a user."
    )
    max_projects_per_user: int = Field(default=1000, ge=1, description="Maximum number of projects per user.")
    max_agents_per_project: int = Field(
        default=100, ge=5, le=MAX_AGENTS, description="Maximum number of agents per project."
    )
    max_family_depth: int = Field(
        default=3, ge=0, le=10, description="Maximum generations of agents below an agent; 0 allows none."
    )
    max_children_per_agent: int = Field(
        default=10, ge=1, le=100, description="Maximum number of agents that one agent may create."
    )
    workspaces_dir: Path | None = Field(
        default=None,
        description="Folder that contains `workspaces` and `workspace-stamps`, if several processes share them; "
        "the data folder by default.",
    )
    workspace_max_bytes: int = Field(default=100_000_000, ge=0, description="Maximum bytes in one task workspace.")
    workspace_max_files: int = Field(
        default=5_000, ge=0, le=50_000, description="Maximum files and folders in one task workspace."
    )
    role: Literal["all", "api", "host"] = Field(
        default="all",
        description="Role of this process: serve HTTP (`api`), run worker spaces (`host`), or both (`all`). "
        "SQLite needs `all`.",
    )
    progress_timeout_seconds: float = Field(
        default=30.0, gt=0, le=600, description="A task is stopped after this time without progress."
    )
    task_timeout_seconds: float = Field(default=600.0, gt=0, le=86_400, description="Maximum time for one task.")
    space_idle_seconds: float = Field(
        default=3600.0, gt=0, description="A worker space that is idle for this long is cleaned up."
    )
    space_max_uptime_hours: float = Field(
        default=168.0, gt=0, description="A worker space that runs longer than this raises an alert to reset it."
    )
    space_reset_after_seconds: float = Field(
        default=600.0, gt=0, description="A worker space without any working agent for this long is reset."
    )
    max_tool_calls_per_task: int = Field(
        default=20,
        ge=0,
        le=1000,
        description="Maximum number of tool calls in one task, also of a node; an agent's own limit may be lower.",
    )
    max_api_calls_per_minute: int = Field(
        default=60,
        ge=1,
        le=100_000,
        description="Maximum number of tool calls per minute of all agents of a project, and of a project's tasks on a "
        "node.",
    )
    agent_cache_size: int = Field(
        default=MAX_AGENTS, ge=1, le=100_000, description="Maximum number of agents of one project in the memory cache."
    )
    alert_error_rate: float = Field(
        default=0.5, ge=0, le=1, description="Alert when an agent fails more than this share of ten or more tasks."
    )
    alert_queued_tasks: int = Field(
        default=50, ge=0, le=100, description="Alert when more tasks than this wait for one agent."
    )
    drain_seconds: float = Field(
        default=30.0,
        ge=0,
        le=600,
        description="Time that running tasks get to finish when their agent is deregistered, or a node gets SIGTERM.",
    )
    node_key: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="Key that the server signs approvals of nodes' tool calls with; nodes need the same one. Without "
        "it such calls are refused, except of nodes that run in the server.",
    )
    node_answer_hours: float = Field(
        default=24.0,
        gt=0,
        le=8_760,
        description="Time for which a node remembers its answers: a command that comes again gets the same one.",
    )
    host_lease_seconds: float = Field(
        default=10.0,
        ge=2,
        le=300,
        description="Lease time: a process that does not renew its lease loses its worker spaces (PostgreSQL).",
    )
    node_stuck_seconds: float = Field(
        default=90.0,
        ge=1,
        le=86_400,
        description="A task on a node is stuck after this time without progress; nodes report it every 30 s.",
    )
    node_idle_seconds: float = Field(
        default=600.0,
        ge=1,
        le=86_400,
        description="A task on a node makes no progress when its loop has not moved for this time; must be longer than "
        "any call of a model or tool.",
    )
    node_failover: bool = Field(
        default=True, description="Whether a task whose node is lost or stuck is given to another node."
    )
    fallback_model: str | None = Field(
        default=None,
        min_length=1,
        description="Model to use when an agent's own model fails; under a budget only if its price is known.",
    )
    max_context_tokens: int = Field(
        default=8_000,
        ge=1_000,
        le=2_000_000,
        description="Maximum tokens in a prompt, including history, memory and tools; "
        "never more than the model's context window.",
    )
    default_model: str | None = Field(
        default=None,
        min_length=1,
        description="Model of new agents and of the starter pack. Unset: what an administrator has chosen, else "
        "`gpt-4`, or a model of the configured provider if that is not OpenAI.",
    )
    planner_model: str = Field(
        default="gpt-4o",
        min_length=1,
        description="The orchestrator's model. Unset: what an administrator has chosen, else `gpt-4o`, or the default "
        "model if OpenAI is not configured.",
    )
    models_allowed: list[str] = Field(
        default=["*"],
        min_length=1,
        description='Glob patterns of the models that agents may use, such as `["gpt-4o*", "ollama/*"]`.',
    )
    user_monthly_budget_usd: float | None = Field(
        default=None,
        ge=0,
        le=1_000_000_000,
        description="Monthly budget of a user over all projects, unless an administrator has set another limit "
        "for the user; no limit by default.",
    )
    user_storage_bytes: int | None = Field(
        default=None,
        ge=0,
        description="Maximum bytes of messages, attachments, memories and task workspaces per user, unless an "
        "administrator has set another limit for the user; no limit by default.",
    )
    models_unpriced: list[str] | None = Field(
        default=None,
        description="Glob patterns of models without a known price that agents may use; no budget limits "
        "them. None by default, all under `artel up`.",
    )
    models_with_images: list[str] = Field(
        default=[],
        description='Glob patterns of models that take images, such as `["ollama/llava*"]`, besides those that are '
        "known to.",
    )
    node_task_cost_usd: float = Field(
        default=1.0,
        gt=0,
        le=1_000_000,
        description="Maximum cost of one command to a node; less if a budget has less left.",
    )
    nodes_dir: Path | None = Field(
        default=None,
        description="Folder with agent files (*.yaml) to run as nodes inside the server; none by default.",
    )

    searxng_url: str | None = Field(
        default=None,
        max_length=500,
        description="URL of a SearXNG server that web_search asks (its JSON format must be allowed); public search "
        "engines by default.",
    )
    web_allowed_hosts: list[str] = Field(
        default=["*"],
        max_length=MAX_RULES,
        description='Hosts that web_fetch may read (globs, JSON list), such as `["example.com", "*.example.com"]`.',
    )
    web_denied_hosts: list[str] = Field(
        default=[],
        max_length=MAX_RULES,
        description="Hosts that web_fetch may not read, also if they are allowed: globs, or networks such as "
        "`203.0.113.0/24` (JSON list).",
    )
    web_private_hosts: list[str] = Field(
        default=[],
        max_length=MAX_RULES,
        description="Hosts that web_fetch may read although their addresses are private, such as `wiki.example.com` "
        "or `wiki:8080` (JSON list, no globs). All users' agents can read them.",
    )
    web_ports: list[int] = Field(
        default=[80, 443],
        max_length=100,
        description="Ports that web_fetch may connect to (JSON list).",
    )

    log_format: Literal["auto", "console", "json"] = Field(
        default="auto", description="`auto`: console in a terminal, otherwise JSON."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Minimum level to log.")

    @field_validator(*_SCHEMES)
    @classmethod
    def _known_scheme(cls, value: SecretStr | None, info: Any) -> SecretStr | None:
        if value is not None:
            schemes = _SCHEMES[info.field_name]
            url = value.get_secret_value()
            scheme = url.partition("://")[0]
            if scheme not in schemes:
                raise ValueError(f"must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}")
            if info.field_name == "jwks_url" and scheme == "http" and not is_this_machine(_host_of(url)):
                raise ValueError("must begin with https://, except for an issuer on this machine")
            if scheme == "sqlite" and not url.removeprefix("sqlite://").strip("/"):
                raise ValueError("must name a file, as in sqlite:///artel.db or sqlite:////var/lib/artel.db")
        return value

    @field_validator("base_path")
    @classmethod
    def _path_prefix(cls, value: str) -> str:
        prefix = value.rstrip("/")
        if prefix and (not _BASE_PATH.fullmatch(prefix) or any(part in {".", ".."} for part in prefix.split("/"))):
            raise ValueError("must be a path such as /artel, of letters, digits and . _ ~ -")
        return prefix

    @field_validator("allowed_hosts")
    @classmethod
    def _names_of_hosts(cls, value: list[str] | None) -> list[str] | None:
        for name in value or ():
            if not _HOST_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a host name: write it without scheme, port and path, or use `*`")
        return value

    @field_validator("memory_provider")
    @classmethod
    def _known_provider(cls, value: str) -> str:
        if value not in MEMORY_PROVIDERS:
            raise ValueError(f"{value!r} is not a memory provider: choose {' or '.join(MEMORY_PROVIDERS)}")
        return value

    @field_validator("issuer")
    @classmethod
    def _foreign_issuer(cls, value: str | None) -> str | None:
        if value is not None and value.startswith(RESERVED_ISSUER):
            raise ValueError(f"must not begin with {RESERVED_ISSUER}, which is reserved")
        return value

    @field_validator("searxng_url")
    @classmethod
    def _search_server(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                parse_url(value)
            except WebRefused as refused:
                raise ValueError(f"is not the URL of a SearXNG server: {refused}") from None
        return value

    @field_validator("web_allowed_hosts", "web_denied_hosts", "web_private_hosts")
    @classmethod
    def _web_hosts(cls, value: list[str], info: Any) -> list[str]:
        rules: dict[str, Any] = {info.field_name.removeprefix("web_"): value}
        WebRules(**rules)
        return value

    @field_validator("web_ports")
    @classmethod
    def _web_port_numbers(cls, value: list[int]) -> list[int]:
        for port in value:
            if not 0 < port < 65_536:  # noqa: PLR2004 - ports have 16 bits
                raise ValueError(f"{port} is not a port: use numbers from 1 to 65535")
        return value

    @model_validator(mode="after")
    def _fit_together(self) -> "Settings":
        required = {"jwks_url": self.jwks_url, "issuer": self.issuer, "audience": self.audience}
        missing = [name for name, value in required.items() if not value]
        if 0 < len(missing) < len(required):
            raise ValueError(
                f"an external issuer needs jwks_url, issuer and audience together; missing: {', '.join(missing)}"
            )
        if self.role != "all" and self.is_embedded:
            raise ValueError("role api or host needs PostgreSQL: only one process can use a SQLite database")
        if self.role == "api" and self.nodes_dir is not None:
            raise ValueError("nodes_dir needs role all or host: a process that only serves HTTP runs no nodes")
        if self.role == "host" and self.nodes_dir is not None and self.bus_url is None:
            raise ValueError("nodes_dir with role host needs bus_url: only RabbitMQ connects nodes to all processes")
        return self

    @property
    def sqlalchemy_url(self) -> str:
        """SQLAlchemy URL of the database, with the driver."""
        url = self.database_url.get_secret_value() if self.database_url else f"sqlite:///{self.data_dir / 'artel.db'}"
        if url.startswith("sqlite"):
            return url
        return "postgresql+psycopg" + url[url.index("://") :]

    @property
    def psycopg_url(self) -> str:
        """URL of the PostgreSQL database for libpq."""
        return self.sqlalchemy_url.replace("postgresql+psycopg", "postgresql", 1)

    @property
    def listens_on_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_this_machine(self.host)

    @property
    def hosts(self) -> frozenset[str] | None:
        """Allowed hosts in lower case; None allows any."""
        if self.allowed_hosts is not None:
            return None if "*" in self.allowed_hosts else frozenset(name.lower() for name in self.allowed_hosts)
        return LOOPBACK_HOSTS | {self.host.lower()} if self.listens_on_loopback else None

    @property
    def web_rules(self) -> WebRules:
        """What web_fetch may read."""
        return WebRules(
            allowed_hosts=self.web_allowed_hosts,
            denied_hosts=self.web_denied_hosts,
            private_hosts=self.web_private_hosts,
            ports=self.web_ports,
        )

    @property
    def sqlite_file(self) -> Path | None:
        """File of the SQLite database, which only one server may use; None with PostgreSQL."""
        return Path(self.sqlalchemy_url.removeprefix("sqlite:///")) if self.is_embedded else None

    @property
    def is_embedded(self) -> bool:
        """Whether the database is SQLite."""
        return self.sqlalchemy_url.startswith("sqlite")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = config_file(init_settings().get("data_dir"))
        return init_settings, env_settings, YamlConfigSettingsSource(settings_cls, yaml_file=file)


def load_settings(**overrides: Any) -> Settings:
    """Read the settings; precedence: overrides (command line), environment variables, artel.yaml."""
    import yaml  # lazy: commands that read no settings start faster

    file = config_file(overrides.get("data_dir"))
    _warn_of_unread_file(file)
    try:
        return Settings(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as invalid:
        raise ConfigurationInvalid("\n".join(_explain(error, file) for error in invalid.errors())) from None
    except SettingsError as invalid:
        raise ConfigurationInvalid(f"{invalid}; lists are written as JSON") from None
    except yaml.YAMLError as invalid:
        raise ConfigurationInvalid(f"{file} is not valid YAML: {invalid}") from None
    except (ValueError, TypeError, OSError):
        raise ConfigurationInvalid(
            f"{file} must be a readable YAML mapping of settings, such as `port: 8700`"
        ) from None


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the ARTEL_ variables that are not settings, which are most likely typos."""
    settings = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | OTHER_VARIABLES
    return sorted(name for name in environment if name.startswith(PREFIX) and name not in settings)


def without_password(url: str) -> str:
    """Return a URL without credentials and query, for messages. Not parsed, because it may be malformed."""
    scheme, separator, rest = url.partition("://")
    login, at, address = rest.rpartition("@")
    return f"{scheme}{separator}{'***@' if login or at else ''}{address.partition('?')[0].partition('#')[0]}"


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def config_file(data_dir: Path | None) -> Path:
    """Return the file of ARTEL_CONFIG, else of the config folder, else of the data folder.

    Never that of the current folder: agents and cloned repositories write there.
    """
    configured = os.environ.get("ARTEL_CONFIG")
    if configured:
        if not Path(configured).is_file():
            raise ConfigurationInvalid(f"ARTEL_CONFIG names {configured}, which is not a file")
        return Path(configured)
    in_config = config_folder() / FILE_NAME
    if in_config.is_file():
        return in_config
    folder = data_dir or os.environ.get("ARTEL_DATA_DIR") or platformdirs.user_data_path("artel", appauthor=False)
    return Path(folder) / FILE_NAME


def config_folder() -> Path:
    """Return the folder of artel.yaml, agent files and logins."""
    return Path(os.environ.get("ARTEL_CONFIG_DIR") or platformdirs.user_config_path("artel", appauthor=False))


@functools.cache  # some commands load the settings twice
def _warn_of_unread_file(file: Path) -> None:
    """Warn about an artel.yaml in the current folder, which earlier versions read."""
    here = Path(FILE_NAME)
    if here.is_file() and not (file.is_file() and here.samefile(file)):
        sys.stderr.write(
            f"artel: not read: {FILE_NAME} in the current folder. "
            f"Move it to {config_folder() / FILE_NAME}, or name it in ARTEL_CONFIG.\n"
        )


def _explain(error: Any, file: Path) -> str:
    name = ".".join(str(part) for part in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        return f"{file}: {name} is not a setting; docs/reference/settings.md lists them"
    return f"{name} ({PREFIX}{name.upper()}): {message}" if name else message
