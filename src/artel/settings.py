"""The server's configuration: read once from the environment and an optional artel.yaml, then immutable.

The file is never taken from the current folder: agents and cloned repositories write there.
"""

import functools
import ipaddress
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

PREFIX = "ARTEL_"
FILE_NAME = "artel.yaml"
RESERVED_ISSUER = "urn:artel:"
MAX_AGENTS = 1000
MEMORY_PROVIDERS = ("qdrant", "chroma")
# Variables of the command line and of this file itself, which are no settings of the server.
OTHER_VARIABLES = frozenset({"ARTEL_SERVER", "ARTEL_TOKEN", "ARTEL_CONFIG", "ARTEL_CONFIG_DIR"})

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
_HOST_NAME = re.compile(r"\*|\[[0-9A-Fa-f:.]+\]|[\w.-]+")

_SCHEMES = {
    "database_url": ("sqlite", "postgresql", "postgres"),
    "bus_url": ("amqp", "amqps"),
    "redis_url": ("redis", "rediss", "unix"),
    "qdrant_url": ("http", "https"),
    "jwks_url": ("http", "https"),
}


class Settings(BaseSettings):
    """Everything an operator can set. Each is also a variable: `port` is ARTEL_PORT."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True
    )

    data_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_path("artel", appauthor=False)),
        description="Where the server keeps its files: database, token secret, task workspaces.",
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8700, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    allowed_hosts: list[str] | None = Field(
        default=None,
        description="Names that requests may be addressed to (JSON list, without ports); `*` allows any. Unset: "
        "127.0.0.1, localhost and [::1] when listening on this machine only, any name otherwise.",
    )
    trusted_proxies: list[str] = Field(
        default=[],
        description="Addresses of reverse proxies whose X-Forwarded-For and -Proto are believed (JSON list).",
    )

    database_url: SecretStr | None = Field(
        default=None,
        description="`postgresql://user:password@host/name`, or `sqlite:///path`; SQLite in the data folder if unset.",
    )
    database_connections: int = Field(default=10, ge=2, le=200, description="Size of the PostgreSQL connection pool.")
    sqlite_synchronous: Literal["normal", "full"] = Field(
        default="normal",
        description="`normal` survives a killed process; `full` also survives a power cut, and is slower.",
    )
    bus_url: SecretStr | None = Field(default=None, description="`amqp://…` of RabbitMQ; in the process by default.")
    redis_url: SecretStr | None = Field(default=None, description="`redis://…`; in memory by default.")
    qdrant_url: SecretStr | None = Field(default=None, description="`http://…` of Qdrant; in the process by default.")
    qdrant_api_key: SecretStr | None = Field(default=None, description="The key for the Qdrant server, if it has one.")
    qdrant_layout: Literal["shared", "per_agent"] = Field(
        default="shared",
        description="On a Qdrant server: one collection for the memory of all agents, or one for each.",
    )
    memory_provider: str = Field(
        default="qdrant", description="What indexes memories: `qdrant`, or `chroma`, which is an extra."
    )
    embedding_model: str | None = Field(
        default=None,
        min_length=1,
        description="A model of any provider that LiteLLM knows, to find memories by meaning; "
        "the built-in all-MiniLM-L6-v2 by default, if it is installed.",
    )
    embedding_dimensions: int | None = Field(
        default=None,
        ge=1,
        le=65_536,
        description="How long the embedding model's vectors are, if LiteLLM doesn't know.",
    )

    jwt_secret: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="Signs our own tokens; made on first start and kept in the data folder by default. "
        "Servers that share a database need the same one.",
    )
    token_lifetime_seconds: int = Field(
        default=604_800, ge=60, le=31_536_000, description="How long a token of ours is good for."
    )
    registration_open: bool | None = Field(
        default=None,
        description="Whether anybody may register; else `artel users create` makes the accounts. "
        "Unset: open until the first account exists, and always closed under `artel up`.",
    )
    jwks_url: SecretStr | None = Field(
        default=None, description="Keys of an external issuer (JWKS); its RS256 and ES256 tokens are accepted then."
    )
    issuer: str | None = Field(default=None, description="The `iss` that tokens of the external issuer must carry.")
    audience: str | None = Field(default=None, description="The `aud` that tokens of the external issuer must carry.")

    max_body_bytes: int = Field(
        default=1_048_576, ge=1024, le=104_857_600, description="Largest body of a request that is taken."
    )
    max_connectors_per_user: int = Field(
        default=20, ge=1, le=10_000, description="How many connectors of one user may be online at each process."
    )
    max_streams_per_user: int = Field(
        default=100, ge=1, le=20_000, description="How many streams of events one user may follow at each process."
    )
    search_seconds: float = Field(
        default=5.0, gt=0, le=60, description="How long a search over all messages of a user may take."
    )
    max_projects_per_user: int = Field(default=1000, ge=1, description="How many projects one user may have.")
    max_agents_per_project: int = Field(
        default=100, ge=5, le=MAX_AGENTS, description="How many agents one project may have."
    )
    max_family_depth: int = Field(
        default=3, ge=0, le=10, description="How many generations of agents an agent may have below it; 0 allows none."
    )
    max_children_per_agent: int = Field(default=10, ge=1, le=100, description="How many agents one agent may create.")
    workspaces_dir: Path | None = Field(
        default=None,
        description="Where the folders `workspaces` and `workspace-stamps` lie, if several processes share them; "
        "the data folder by default.",
    )
    workspace_max_bytes: int = Field(
        default=100_000_000, ge=0, description="How many bytes one task workspace may hold."
    )
    workspace_max_files: int = Field(
        default=5_000, ge=0, le=50_000, description="How many files and folders one task workspace may hold."
    )
    role: Literal["all", "api", "host"] = Field(
        default="all",
        description="What this process does: answer HTTP (`api`), run worker spaces (`host`), or both. "
        "With SQLite one process does both.",
    )
    progress_timeout_seconds: float = Field(
        default=30.0, gt=0, le=600, description="A task is stopped after so long without progress."
    )
    task_timeout_seconds: float = Field(default=600.0, gt=0, le=86_400, description="Longest time for one task.")
    space_idle_seconds: float = Field(
        default=3600.0, gt=0, description="A worker space that nobody uses for so long is cleaned up."
    )
    space_max_uptime_hours: float = Field(
        default=168.0, gt=0, description="A worker space that is up for longer asks to be reset."
    )
    space_reset_after_seconds: float = Field(
        default=600.0, gt=0, description="A worker space none of whose agents works for so long is reset by the server."
    )
    agent_cache_size: int = Field(
        default=MAX_AGENTS, ge=1, le=100_000, description="How many agents of one project are cached in memory."
    )
    alert_error_rate: float = Field(
        default=0.5, ge=0, le=1, description="An agent that fails more than this part of ten or more tasks is an alert."
    )
    alert_queued_tasks: int = Field(
        default=50, ge=0, le=100, description="More tasks than this that wait for one agent are an alert."
    )
    drain_seconds: float = Field(
        default=30.0, ge=0, le=600, description="How long tasks of an agent that leaves the bus may go on."
    )
    host_lease_seconds: float = Field(
        default=10.0,
        ge=2,
        le=300,
        description="A process that is not heard of for so long loses its worker spaces to others (PostgreSQL).",
    )
    fallback_model: str | None = Field(
        default=None,
        min_length=1,
        description="Answers when an agent's own model fails; where money is counted, only at a known price.",
    )
    max_context_tokens: int = Field(
        default=8_000,
        ge=1_000,
        le=2_000_000,
        description="How many tokens an agent's model is sent at most, with history, memory and tools; "
        "never more than the model's window.",
    )
    planner_model: str = Field(default="gpt-4o", min_length=1, description="The orchestrator's model.")
    models_allowed: list[str] = Field(
        default=["*"],
        min_length=1,
        description='Globs of the models that agents may use, as `["gpt-4o*", "ollama/*"]`.',
    )
    user_monthly_budget_usd: float | None = Field(
        default=None,
        ge=0,
        le=1_000_000_000,
        description="What a user may spend in a month over all projects, unless an administrator has set another limit "
        "for the user; no limit by default.",
    )
    user_storage_bytes: int | None = Field(
        default=None,
        ge=0,
        description="How many bytes of messages, memories and task workspaces a user may have, unless an administrator "
        "has set another limit for the user; no limit by default.",
    )
    models_unpriced: list[str] | None = Field(
        default=None,
        description="Globs of the models that agents may use though their price is not known, so that no budget limits "
        "them; none by default, and all under `artel up`.",
    )

    log_format: Literal["auto", "console", "json"] = Field(
        default="auto", description="`auto` is console in a terminal and JSON elsewhere."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least level logged.")

    @field_validator(*_SCHEMES)
    @classmethod
    def _known_scheme(cls, value: SecretStr | None, info: Any) -> SecretStr | None:
        if value is not None:
            schemes = _SCHEMES[info.field_name]
            url = value.get_secret_value()
            scheme = url.partition("://")[0]
            if scheme not in schemes:
                raise ValueError(f"must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}")
            if info.field_name == "jwks_url" and scheme == "http" and not _is_loopback(_host_of(url)):
                raise ValueError("must begin with https://, except for an issuer on this machine")
            if scheme == "sqlite" and not url.removeprefix("sqlite://").strip("/"):
                raise ValueError("must name a file, as in sqlite:///artel.db or sqlite:////var/lib/artel.db")
        return value

    @field_validator("allowed_hosts")
    @classmethod
    def _names_of_hosts(cls, value: list[str] | None) -> list[str] | None:
        for name in value or ():
            if not _HOST_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name of a host: write it without scheme, port and path, or `*`")
        return value

    @field_validator("memory_provider")
    @classmethod
    def _known_provider(cls, value: str) -> str:
        if value not in MEMORY_PROVIDERS:
            raise ValueError(f"there is no memory provider {value!r}: choose {' or '.join(MEMORY_PROVIDERS)}")
        return value

    @field_validator("issuer")
    @classmethod
    def _foreign_issuer(cls, value: str | None) -> str | None:
        if value is not None and value.startswith(RESERVED_ISSUER):
            raise ValueError(f"must not begin with {RESERVED_ISSUER}, which is our own")
        return value

    @model_validator(mode="after")
    def _external_issuer_is_complete(self) -> "Settings":
        parts = {"jwks_url": self.jwks_url, "issuer": self.issuer, "audience": self.audience}
        missing = [name for name, value in parts.items() if not value]
        if 0 < len(missing) < len(parts):
            raise ValueError(
                f"an external issuer needs jwks_url, issuer and audience together; missing: {', '.join(missing)}"
            )
        return self

    @model_validator(mode="after")
    def _sqlite_is_one_process(self) -> "Settings":
        if self.role != "all" and self.is_embedded:
            raise ValueError("role api or host needs PostgreSQL: only one process can use a SQLite database")
        return self

    @property
    def sqlalchemy_url(self) -> str:
        """The database's URL with the driver that we use."""
        url = self.database_url.get_secret_value() if self.database_url else f"sqlite:///{self.data_dir / 'artel.db'}"
        if url.startswith("sqlite"):
            return url
        return "postgresql+psycopg" + url[url.index("://") :]

    @property
    def listens_on_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return _is_loopback(self.host)

    @property
    def hosts(self) -> frozenset[str] | None:
        """The hosts that requests may name, in lower case; None for any."""
        if self.allowed_hosts is not None:
            return None if "*" in self.allowed_hosts else frozenset(name.lower() for name in self.allowed_hosts)
        return LOOPBACK_HOSTS | {self.host.lower()} if self.listens_on_loopback else None

    @property
    def sqlite_file(self) -> Path | None:
        """The file of the database, if it is SQLite, which one server has to itself."""
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
        file = _config_file(init_settings().get("data_dir"))
        return init_settings, env_settings, YamlConfigSettingsSource(settings_cls, yaml_file=file)


def load_settings(**overrides: Any) -> Settings:
    """Read the settings; overrides (from the command line) win over variables, and those over artel.yaml."""
    import yaml  # here, because commands that read no settings must not pay for it

    file = _config_file(overrides.get("data_dir"))
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
        raise ConfigurationInvalid(f"{file} must be a readable list of settings, as `port: 8700`") from None


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the ARTEL_ variables that mean nothing to us, which are most likely typing mistakes."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | OTHER_VARIABLES
    return sorted(name for name in environment if name.startswith(PREFIX) and name not in known)


def without_password(url: str) -> str:
    """Return a URL that may be shown: nothing of who logs in, no query. Taken as text, because it may be malformed."""
    scheme, separator, rest = url.partition("://")
    login, at, place = rest.rpartition("@")
    return f"{scheme}{separator}{'***@' if login or at else ''}{place.partition('?')[0].partition('#')[0]}"


def _is_loopback(host: str) -> bool:
    """Return whether only this machine has the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _config_file(data_dir: Path | None) -> Path:
    """Return the file of ARTEL_CONFIG, else that of the config folder, else that of the data folder."""
    configured = os.environ.get("ARTEL_CONFIG")
    if configured:
        if not Path(configured).is_file():
            raise ConfigurationInvalid(f"ARTEL_CONFIG names {configured}, which is not a file")
        return Path(configured)
    in_config = _config_folder() / FILE_NAME
    if in_config.is_file():
        return in_config
    folder = data_dir or os.environ.get("ARTEL_DATA_DIR") or platformdirs.user_data_path("artel", appauthor=False)
    return Path(folder) / FILE_NAME


def _config_folder() -> Path:
    return Path(os.environ.get("ARTEL_CONFIG_DIR") or platformdirs.user_config_path("artel", appauthor=False))


@functools.cache  # some commands load the settings twice
def _warn_of_unread_file(file: Path) -> None:
    """Tell an operator whose file lies where it was read before that it no longer is."""
    here = Path(FILE_NAME)
    if here.is_file() and not (file.is_file() and here.samefile(file)):
        sys.stderr.write(
            f"artel: not read: {FILE_NAME} in the current folder. "
            f"Move it to {_config_folder() / FILE_NAME}, or name it in ARTEL_CONFIG.\n"
        )


def _explain(error: Any, file: Path) -> str:
    name = ".".join(str(part) for part in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        return f"{file}: {name} is no setting; docs/reference/settings.md lists them"
    return f"{name} ({PREFIX}{name.upper()}): {message}" if name else message
