"""Model providers: name prefixes, environment variables, and the client that each one needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from artel.brain.errors import ServerVariables

OPENAI = "openai"


@dataclass(frozen=True, slots=True)
class KnownProvider:
    """A provider and its environment variables: any one of `keys`, and optionally an address.

    `direct`: its API is OpenAI-compatible. `local`: it needs an address and no key. `own_address`: it needs both,
    because every customer has an address of their own. `vague`: its keys also serve other
    purposes (AWS, GitHub), so that they alone don't mean that models are configured.
    """

    name: str
    keys: tuple[str, ...]
    addresses: tuple[str, ...] = ()
    direct: bool = False
    local: bool = False
    own_address: bool = False
    vague: bool = False

    def key(self, env: Mapping[str, str]) -> str | None:
        """Return the API key, if it is set."""
        return _first(self.keys, env)

    def address(self, env: Mapping[str, str]) -> str | None:
        """Return the base URL, if it is set."""
        return _first(self.addresses, env)

    def is_configured(self, env: Mapping[str, str]) -> bool:
        """Return whether the environment configures this provider."""
        has_address = self.direct and self.address(env) is not None
        return has_address or (not self.local and self.missing(env) is None)

    def missing(self, env: Mapping[str, str]) -> str | None:
        """Return the first variable that must be set before the provider can be used."""
        if not self.local and self.key(env) is None:
            return self.keys[0]
        return self.addresses[0] if (self.local or self.own_address) and self.address(env) is None else None

    def is_touched(self, env: Mapping[str, str]) -> bool:
        """Return whether the environment sets any of its variables, even if others are missing."""
        return self.key(env) is not None or self.address(env) is not None


def _first(names: tuple[str, ...], env: Mapping[str, str]) -> str | None:
    # Stripped, because a line end from a secret file would make an invalid header.
    return next((value for name in names if (value := env.get(name, "").strip())), None)


_ALL = (
    KnownProvider(OPENAI, ("OPENAI_API_KEY",), ("OPENAI_BASE_URL", "OPENAI_API_BASE"), direct=True),
    KnownProvider("ollama", ("OLLAMA_API_KEY",), ("OLLAMA_API_BASE",), direct=True, local=True),
    KnownProvider("ollama_chat", ("OLLAMA_API_KEY",), ("OLLAMA_API_BASE",), direct=True, local=True),
    KnownProvider("hosted_vllm", ("HOSTED_VLLM_API_KEY",), ("HOSTED_VLLM_API_BASE",), direct=True, local=True),
    KnownProvider("lm_studio", ("LM_STUDIO_API_KEY",), ("LM_STUDIO_API_BASE",), direct=True, local=True),
    KnownProvider(
        "anthropic", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL")
    ),
    KnownProvider("azure", ("AZURE_API_KEY",), ("AZURE_API_BASE",), own_address=True),
    KnownProvider("azure_ai", ("AZURE_AI_API_KEY",), ("AZURE_AI_API_BASE",), own_address=True),
    KnownProvider("bedrock", ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"), vague=True),
    KnownProvider("sagemaker", ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"), vague=True),
    KnownProvider("cohere", ("COHERE_API_KEY", "CO_API_KEY")),
    KnownProvider("databricks", ("DATABRICKS_API_KEY",), ("DATABRICKS_API_BASE",), vague=True),
    KnownProvider("fireworks_ai", ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY")),
    KnownProvider("gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    KnownProvider("github", ("GITHUB_API_KEY",), vague=True),
    KnownProvider("huggingface", ("HUGGINGFACE_API_KEY", "HF_TOKEN"), vague=True),
    KnownProvider("nvidia_nim", ("NVIDIA_NIM_API_KEY",)),
    KnownProvider("perplexity", ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY")),
    KnownProvider("replicate", ("REPLICATE_API_KEY", "REPLICATE_API_TOKEN"), vague=True),
    KnownProvider("together_ai", ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY")),
    KnownProvider("vertex_ai", ("GOOGLE_APPLICATION_CREDENTIALS", "VERTEXAI_PROJECT"), vague=True),
    KnownProvider("watsonx", ("WATSONX_APIKEY", "WATSONX_API_KEY"), ("WATSONX_URL",)),
    *(
        KnownProvider(name, (f"{name.upper()}_API_KEY",), (f"{name.upper()}_API_BASE",))
        for name in (
            "ai21",
            "cerebras",
            "dashscope",
            "deepinfra",
            "deepseek",
            "groq",
            "minimax",
            "mistral",
            "moonshot",
            "nebius",
            "novita",
            "openrouter",
            "sambanova",
            "volcengine",
            "voyage",
            "xai",
            "zai",
        )
    ),
)
PROVIDERS: Mapping[str, KnownProvider] = {provider.name: provider for provider in _ALL}

# Prefixes of model names that are used without a provider but don't belong to OpenAI.
_BY_NAME = {
    "claude": "anthropic",
    "gemini": "gemini",
    "command-": "cohere",
    "mistral-": "mistral",
    "codestral": "mistral",
    "deepseek-": "deepseek",
    "grok-": "xai",
}


@dataclass(frozen=True, slots=True)
class StoredProvider:
    """A provider that an administrator has added. Model names with `prefix` belong to it.

    `problem` says why it can't be used, if it can't.
    """

    id: int
    name: str
    prefix: str
    base_url: str | None
    api_key: str | None = field(repr=False)
    is_direct: bool  # whether its API is OpenAI-compatible
    models: tuple[str, ...] = ()  # what its server listed when it was last tested
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ProviderAccount:
    """A configured provider with its key and address, from the environment or stored."""

    provider: KnownProvider
    key: str | None = field(repr=False)
    address: str | None
    variables: ServerVariables
    stored: StoredProvider | None = None

    @property
    def is_direct(self) -> bool:
        """Whether its API is OpenAI-compatible."""
        return self.stored.is_direct if self.stored else self.provider.direct

    @classmethod
    def of_environment(cls, provider: KnownProvider, env: Mapping[str, str]) -> "ProviderAccount":
        """Return the account that the environment configures."""
        variables = ServerVariables(provider.keys[0], provider.addresses[0] if provider.addresses else None)
        return cls(provider, provider.key(env), provider.address(env), variables)

    @classmethod
    def of_stored(cls, stored: StoredProvider) -> "ProviderAccount":
        """Return the account of a provider that an administrator has added."""
        provider = PROVIDERS.get(stored.prefix) or KnownProvider(stored.prefix, (), direct=True, local=True)
        where = f"of the provider {stored.name} (an administrator changes it under Models)"
        variables = ServerVariables(f"the key {where}", f"the address {where}")
        return cls(provider, stored.api_key, stored.base_url, variables, stored)


def accounts_of(env: Mapping[str, str], stored: Mapping[str, StoredProvider]) -> dict[str, ProviderAccount]:
    """Return the configured providers by name. The environment wins, for each provider as a whole.

    Key and address of one provider never come from different places: the key would be sent to the wrong server.
    """
    accounts = {
        provider.name: ProviderAccount.of_environment(provider, env)
        for provider in PROVIDERS.values()
        if provider.is_configured(env)
    }
    for prefix, added in stored.items():
        if not is_set_by_environment(prefix, env):
            accounts[prefix] = ProviderAccount.of_stored(added)
    return accounts


def is_set_by_environment(prefix: str, env: Mapping[str, str]) -> bool:
    """Return whether the environment configures the provider of a prefix, so that a stored one is not used."""
    return prefix in PROVIDERS and PROVIDERS[prefix].is_touched(env)


def provider_of(model: str, accounts: Mapping[str, ProviderAccount]) -> KnownProvider:
    """Return the provider of a model."""
    prefix, slash, _ = model.partition("/")
    if slash and prefix in PROVIDERS:
        return PROVIDERS[prefix]
    if slash and prefix in accounts:
        return accounts[prefix].provider
    openai = accounts.get(OPENAI)
    if openai is None or openai.address is None:  # else that server serves every model without a prefix
        for start, name in _BY_NAME.items():
            if model.startswith(start):
                return PROVIDERS[name]
    return PROVIDERS[OPENAI]
