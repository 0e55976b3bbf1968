"""The kinds of providers that an administrator can add."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from artel.brain.providers import PROVIDERS
from artel.contract.models import Kind

COMPATIBLE: Kind = "openai_compatible"
OLLAMA_PORT = 11434
MAX_PREFIX_CHARACTERS = 40
_NOT_IN_PREFIX = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class ProviderKind:
    """A kind of provider: names of its models begin with `prefix`, which for OpenAI-compatible servers is their name.

    `url` is the provider's own address. `direct`: its API is OpenAI-compatible, so that it is called without LiteLLM.
    """

    kind: Kind
    title: str
    prefix: str
    url: str | None
    key_header: Literal["Authorization", "x-api-key", "x-goog-api-key"] = "Authorization"
    direct: bool = True
    needs_key: bool = True
    local: bool = False
    if_unreachable: str = "Check the address, and whether the server can reach it."

    def prefix_for(self, name: str) -> str:
        """Return the prefix of the models of a provider of this kind."""
        if self.prefix:
            return self.prefix
        prefix = _NOT_IN_PREFIX.sub("-", name.lower()).strip("-")[:MAX_PREFIX_CHARACTERS].rstrip("-")
        return f"{prefix}-server" if prefix in PROVIDERS else prefix

    def name_for(self, base_url: str | None) -> str:
        """Return the name of a provider that was given none."""
        return urlsplit(base_url or "").netloc.replace(":", "-") if self.kind == COMPATIBLE else self.title


_ALL = (
    ProviderKind("openai", "OpenAI", "openai", "https://api.openai.com/v1"),
    ProviderKind("anthropic", "Anthropic", "anthropic", "https://api.anthropic.com", "x-api-key", direct=False),
    ProviderKind(
        "gemini",
        "Gemini",
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        "x-goog-api-key",
        direct=False,
    ),
    ProviderKind("mistral", "Mistral", "mistral", "https://api.mistral.ai/v1"),
    ProviderKind("openrouter", "OpenRouter", "openrouter", "https://openrouter.ai/api/v1"),
    ProviderKind(
        "ollama",
        "Ollama",
        "ollama",
        f"http://127.0.0.1:{OLLAMA_PORT}",
        needs_key=False,
        local=True,
        if_unreachable="Is Ollama running there? Start it with `ollama serve`, or check the address.",
    ),
    ProviderKind(
        "lmstudio",
        "LM Studio",
        "lm_studio",
        "http://127.0.0.1:1234",
        needs_key=False,
        local=True,
        if_unreachable="Start the server in LM Studio (Developer, or `lms server start`), or check the address.",
    ),
    ProviderKind(COMPATIBLE, "OpenAI-compatible server", "", None, needs_key=False, local=True),
)
KINDS: Mapping[Kind, ProviderKind] = {kind.kind: kind for kind in _ALL}
KIND_OF_PREFIX: Mapping[str, Kind] = {kind.prefix: kind.kind for kind in _ALL if kind.prefix} | {
    "hosted_vllm": COMPATIBLE
}


def addresses_to_try() -> dict[Kind, str]:
    """Return where Ollama and LM Studio listen on this machine; OLLAMA_HOST is what Ollama itself reads."""
    host = os.environ.get("OLLAMA_HOST", "").strip().rpartition("://")[2].partition("/")[0]
    name, _, port = host.rpartition(":") if re.search(r":\d+$", host) else (host, "", "")
    is_here = name.strip("[]") in ("", "0.0.0.0", "::", "localhost", "127.0.0.1", "::1")  # noqa: S104 - compared only
    ollama = f"http://127.0.0.1:{port or OLLAMA_PORT}" if is_here else f"http://127.0.0.1:{OLLAMA_PORT}"
    return {"ollama": ollama, "lmstudio": KINDS["lmstudio"].url or ""}
