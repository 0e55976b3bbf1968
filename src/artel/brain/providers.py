"""Model providers: name prefixes, environment variables, and the client that each one needs."""

from collections.abc import Mapping
from dataclasses import dataclass

OPENAI = "openai"


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider and its environment variables: any one of `keys`, and optionally an address.

    `direct`: its API is OpenAI-compatible. `local`: it needs an address and no key. `vague`: its keys also serve other
    purposes (AWS, GitHub), so that they alone don't mean that models are configured.
    """

    name: str
    keys: tuple[str, ...]
    addresses: tuple[str, ...] = ()
    direct: bool = False
    local: bool = False
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
        return has_address or (not self.local and self.key(env) is not None)


def _first(names: tuple[str, ...], env: Mapping[str, str]) -> str | None:
    # Stripped, because a line end from a secret file would make an invalid header.
    return next((value for name in names if (value := env.get(name, "").strip())), None)


_ALL = (
    Provider(OPENAI, ("OPENAI_API_KEY",), ("OPENAI_BASE_URL", "OPENAI_API_BASE"), direct=True),
    Provider("ollama", ("OLLAMA_API_KEY",), ("OLLAMA_API_BASE",), direct=True, local=True),
    Provider("ollama_chat", ("OLLAMA_API_KEY",), ("OLLAMA_API_BASE",), direct=True, local=True),
    Provider("hosted_vllm", ("HOSTED_VLLM_API_KEY",), ("HOSTED_VLLM_API_BASE",), direct=True, local=True),
    Provider("lm_studio", ("LM_STUDIO_API_KEY",), ("LM_STUDIO_API_BASE",), direct=True, local=True),
    Provider("anthropic", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL")),
    Provider("azure", ("AZURE_API_KEY",), ("AZURE_API_BASE",)),
    Provider("azure_ai", ("AZURE_AI_API_KEY",), ("AZURE_AI_API_BASE",)),
    Provider("bedrock", ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"), vague=True),
    Provider("sagemaker", ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"), vague=True),
    Provider("cohere", ("COHERE_API_KEY", "CO_API_KEY")),
    Provider("databricks", ("DATABRICKS_API_KEY",), ("DATABRICKS_API_BASE",), vague=True),
    Provider("fireworks_ai", ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY")),
    Provider("gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    Provider("github", ("GITHUB_API_KEY",), vague=True),
    Provider("huggingface", ("HUGGINGFACE_API_KEY", "HF_TOKEN"), vague=True),
    Provider("nvidia_nim", ("NVIDIA_NIM_API_KEY",)),
    Provider("perplexity", ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY")),
    Provider("replicate", ("REPLICATE_API_KEY", "REPLICATE_API_TOKEN"), vague=True),
    Provider("together_ai", ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY")),
    Provider("vertex_ai", ("GOOGLE_APPLICATION_CREDENTIALS", "VERTEXAI_PROJECT"), vague=True),
    Provider("watsonx", ("WATSONX_APIKEY", "WATSONX_API_KEY"), ("WATSONX_URL",)),
    *(
        Provider(name, (f"{name.upper()}_API_KEY",), (f"{name.upper()}_API_BASE",))
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
PROVIDERS: Mapping[str, Provider] = {provider.name: provider for provider in _ALL}

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


def provider_of(model: str, env: Mapping[str, str]) -> Provider:
    """Return the provider of a model."""
    prefix, slash, _ = model.partition("/")
    if slash and prefix in PROVIDERS:
        return PROVIDERS[prefix]
    if PROVIDERS[OPENAI].address(env) is None:  # else that server serves every model without a prefix
        for start, name in _BY_NAME.items():
            if model.startswith(start):
                return PROVIDERS[name]
    return PROVIDERS[OPENAI]
