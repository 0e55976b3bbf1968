"""Request and response bodies about models, their providers, and the settings that administrators change."""

from datetime import datetime
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import AfterValidator, Field, SecretStr

from artel.contract.http import ModelName, RequestBody, ResponseBody, unset
from artel.web_address import WebRefused, parse_url

MAX_KEY_CHARACTERS = 500
MAX_URL_CHARACTERS = 500
MAX_GLOBS = 100

T = TypeVar("T")


def _good_key(key: SecretStr) -> SecretStr:
    text = key.get_secret_value().strip()
    if not 1 <= len(text) <= MAX_KEY_CHARACTERS:
        raise ValueError(f"must have 1 to {MAX_KEY_CHARACTERS} characters")
    if not (text.isascii() and text.isprintable() and " " not in text):
        raise ValueError("must be one word of ASCII characters, as the provider shows it")
    return SecretStr(text)


def _good_base_url(url: str) -> str:
    try:
        parse_url(url)
    except WebRefused as refused:
        raise ValueError(f"is not the address of a server: {refused}") from None
    if "?" in url or "#" in url:
        raise ValueError("must have no query and no fragment, as in http://127.0.0.1:11434")
    return url.rstrip("/")


Kind = Literal["openai", "anthropic", "gemini", "mistral", "openrouter", "ollama", "lmstudio", "openai_compatible"]
ApiKey = Annotated[
    SecretStr, AfterValidator(_good_key), Field(json_schema_extra={"minLength": 1, "maxLength": MAX_KEY_CHARACTERS})
]
BaseUrl = Annotated[
    str, Field(max_length=MAX_URL_CHARACTERS, pattern=r"^https?://[!-~]+$"), AfterValidator(_good_base_url)
]
ProviderName = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$")]
Glob = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[!-~]+$")]


class ModelShown(ResponseBody):
    """A model that agents can be given."""

    id: str = Field(description="What goes into an agent's `model`.", examples=["ollama/qwen3"])
    provider: str = Field(examples=["Ollama"])
    provider_id: int | None = Field(description="null: the environment configures the provider.", examples=[1])
    input_usd_per_million: float | None = Field(description="null: the price is unknown.", examples=[2.5])
    output_usd_per_million: float | None = Field(description="null: the price is unknown.", examples=[10.0])
    context_window: int | None = Field(description="Maximum input tokens; null: unknown.", examples=[128_000])
    max_output_tokens: int | None = Field(description="null: unknown.", examples=[16_384])
    supports_images: bool | None = Field(description="Whether it takes images as input; null: unknown.")
    source: Literal["stored", "environment", "demo"]
    allowed: bool = Field(description="Whether the server's rules let agents use it.")


class Models(ResponseBody):
    """The models that are configured, and those that are used unless another is chosen."""

    items: list[ModelShown]
    default_model: str = Field(description="Model of new agents and of the starter pack.", examples=["gpt-4"])
    planner_model: str = Field(description="Model that plans.", examples=["gpt-4o"])
    demo: bool = Field(description="Whether the demo brain answers, because no model is configured.")


class Provider(ResponseBody):
    """A provider of models, as administrators see it; its key is never shown."""

    id: int | None = Field(description="null: the environment configures it.", examples=[1])
    kind: Kind | Literal["other"] = Field(description="`other`: only the environment can configure it.")
    name: str = Field(examples=["Ollama"])
    prefix: str = Field(description="Names of its models begin with it, except OpenAI's.", examples=["ollama"])
    base_url: str | None = Field(description="null: the provider's own address.", examples=["http://127.0.0.1:11434"])
    key_set: bool
    key_hint: str | None = Field(description="Last four characters of a stored key.", examples=["x7Qd"])
    source: Literal["stored", "environment"]
    variable: str | None = Field(description="Environment variable that sets it.", examples=["OPENAI_API_KEY"])
    status: Literal["untested", "ok", "failed"] = Field(description="Result of the last test.")
    error: str | None = Field(description="What is wrong and what to do.")
    tested_at: datetime | None
    latency_ms: int | None = Field(examples=[42])
    models: list[str] = Field(description="Names for an agent's `model`.", examples=[["ollama/qwen3"]])


class NewProvider(RequestBody):
    """A new provider: a key, an address, or both, depending on its kind."""

    kind: Kind = Field(examples=["ollama"])
    name: ProviderName = Field(
        default_factory=unset, description="By default the kind's name, or the server's host.", examples=["Lab"]
    )
    base_url: BaseUrl = Field(
        default_factory=unset,
        description="Address of the API, as in `https://llm.example.org/v1`. By default the provider's own.",
        examples=["http://127.0.0.1:11434"],
    )
    api_key: ApiKey = Field(default_factory=unset, description="Stored encrypted, and never shown again.")


class ProviderChanges(RequestBody):
    """Changes of a provider; omitted fields do not change. A new address needs the key again."""

    name: ProviderName = Field(default_factory=unset)
    base_url: BaseUrl | None = Field(default_factory=unset, description="null: the provider's own address.")
    api_key: ApiKey | None = Field(default_factory=unset, description="null removes the key.")


class ProviderToTest(RequestBody):
    """A provider to test without storing it."""

    kind: Kind = Field(examples=["ollama"])
    base_url: BaseUrl = Field(default_factory=unset, examples=["http://127.0.0.1:11434"])
    api_key: ApiKey = Field(default_factory=unset)


class ProviderTestResult(ResponseBody):
    """Result of a test: the list of models was asked for, with the key."""

    ok: bool
    error: str | None = Field(description="What is wrong and what to do.")
    url: str = Field(description="The address that was tried.", examples=["http://127.0.0.1:11434/v1/models"])
    latency_ms: int | None = Field(examples=[42])
    models: list[str] = Field(description="Names for an agent's `model`.", examples=[["ollama/qwen3"]])


class DiscoveredServer(ResponseBody):
    """A model server that runs on the machine of this server."""

    kind: Literal["ollama", "lmstudio"]
    base_url: str = Field(examples=["http://127.0.0.1:11434"])
    models: list[str] = Field(examples=[["ollama/qwen3"]])


class DiscoveredServers(ResponseBody):
    """The model servers that were found, and the addresses that were tried."""

    items: list[DiscoveredServer]
    tried: list[str] = Field(examples=[["http://127.0.0.1:11434", "http://127.0.0.1:1234"]])


class Setting(ResponseBody, Generic[T]):
    """A setting of the server, and what sets it. Only settings that the environment does not set can be changed."""

    value: T
    source: Literal["default", "stored", "environment"] = Field(
        description="environment: a variable, artel.yaml or the command line."
    )
    variable: str = Field(description="Environment variable that sets it.", examples=["ARTEL_DEFAULT_MODEL"])


class ServerSettings(ResponseBody):
    """The settings that administrators can change while the server runs."""

    default_model: Setting[str]
    planner_model: Setting[str]
    registration_open: Setting[bool | None]
    models_unpriced: Setting[list[str]]


class ServerSettingsChanges(RequestBody):
    """Changes of the settings; omitted fields do not change, null restores the default."""

    default_model: ModelName | None = Field(
        default_factory=unset, description="Model of new agents and of the starter pack.", examples=["ollama/qwen3"]
    )
    planner_model: ModelName | None = Field(default_factory=unset, description="Model that plans.")
    registration_open: bool | None = Field(
        default_factory=unset, description="Whether anybody may register; null: only the first user."
    )
    models_unpriced: Annotated[list[Glob], Field(max_length=MAX_GLOBS)] | None = Field(
        default_factory=unset,
        description="Glob patterns of models without a known price that agents may use; no budget limits them.",
        examples=[["lab/*"]],
    )
