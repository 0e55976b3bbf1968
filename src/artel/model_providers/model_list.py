"""Asks a provider for its models, which also tests address and key.

Time and size are bounded, and no redirect is followed, because the key would be sent there.
"""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from artel.brain import prices
from artel.brain.router import with_version
from artel.contract.http import MAX_MODEL_CHARACTERS, MODEL_NAME
from artel.model_providers.kinds import ProviderKind
from artel.web_address import WebRefused, parse_url

if TYPE_CHECKING:
    import aiohttp

MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_MODELS = 500
CHUNK_BYTES = 65_536
OK = 200
_MODEL_NAME = re.compile(MODEL_NAME)
_EMBEDDING = re.compile(r"embed|rerank|whisper", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelList:
    """What a provider answered: its models, or what is wrong and what to do. `url` is the address that was tried."""

    url: str
    models: tuple[str, ...] = ()
    error: str | None = None
    latency_ms: int | None = None


class _Failed(Exception):
    """The provider did not return a list of models; the text says why."""


async def fetch_models(
    kind: ProviderKind, base_url: str | None, key: str | None, prefix: str, *, proxy: str | None, seconds: float
) -> ModelList:
    """Return the models of a provider by the names that agents use."""
    url, *checks = reversed(_urls(kind, base_url or kind.url or ""))
    began = time.monotonic()
    tried = url
    try:
        async with asyncio.timeout(seconds):
            await prices.load()
            document: Any = None
            for tried in (*checks, url):
                document = await _get(tried, _headers(kind, key), proxy)
        names = sorted(set(_names(document)))
    except TimeoutError:
        return ModelList(tried, error=f"{tried} did not answer within {seconds:g} s. {kind.if_unreachable}")
    except _Refused as refused:
        return ModelList(tried, error=f"{tried} {_explained(refused, has_key=key is not None)}")
    except _Unreachable as unreachable:
        return ModelList(tried, error=f"{tried} can't be reached: {unreachable}. {kind.if_unreachable}")
    except _Failed as failed:
        return ModelList(tried, error=f"{tried} {failed}")
    models = [model for model in (_full_name(prefix, name) for name in names) if _is_usable(model)]
    return ModelList(url, tuple(models[:MAX_MODELS]), latency_ms=round((time.monotonic() - began) * 1000))


class _Refused(Exception):
    def __init__(self, status: int, location: str) -> None:
        super().__init__(status)
        self.status, self.location = status, location


class _Unreachable(Exception):
    """No connection; the text says why."""


def _urls(kind: ProviderKind, base: str) -> list[str]:
    """Return the URLs to get in this order; the last one is the list of models."""
    base = base.rstrip("/")
    match kind.kind:
        case "anthropic":
            return [f"{base.removesuffix('/v1')}/v1/models?limit=1000"]
        case "gemini":
            return [f"{base}/models?pageSize=1000"]
        case "openrouter":  # everybody may read its list, so the key is tested first
            return [f"{base}/key", f"{base}/models"]
        case _:
            return [f"{with_version(base)}/models"]


def _headers(kind: ProviderKind, key: str | None) -> dict[str, str]:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "artel"}
    if kind.kind == "anthropic":
        headers["anthropic-version"] = "2023-06-01"
    if key is not None:
        headers[kind.key_header] = f"Bearer {key}" if kind.key_header == "Authorization" else key
    return headers


async def _get(url: str, headers: dict[str, str], proxy: str | None) -> Any:
    import aiohttp

    try:
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False) as session,
            session.get(url, headers=headers, allow_redirects=False, proxy=proxy) as response,
        ):
            if response.status != OK:
                raise _Refused(response.status, urljoin(url, response.headers.get("Location", "")))
            body = await _bounded(response.content)
    except aiohttp.ClientConnectorDNSError:
        raise _Unreachable("the host name is not known") from None
    except aiohttp.ClientSSLError:
        raise _Unreachable("its certificate is not valid, or it does not speak TLS") from None
    except aiohttp.ClientConnectorError as failure:
        raise _Unreachable((failure.strerror or "no connection").lower()) from None
    except (aiohttp.ClientError, OSError, ValueError):
        raise _Unreachable("it closed the connection, or does not speak HTTP") from None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise _Failed("did not answer with JSON. Check the address: most end with /v1.") from None


async def _bounded(content: "aiohttp.StreamReader") -> bytes:
    body = bytearray()
    async for chunk in content.iter_chunked(CHUNK_BYTES):
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise _Failed(f"answered with more than {MAX_ANSWER_BYTES // 1_048_576} MB. Check the address.")
    return bytes(body)


def _explained(refused: _Refused, *, has_key: bool) -> str:
    status = refused.status
    if 300 <= status < 400:  # noqa: PLR2004 - redirects
        return (
            f"redirects to {_host(refused.location)} ({status}). Nothing was sent there: enter that address if it is "
            "the right one."
        )
    texts = {
        401: "does not accept the key (401). Check the key." if has_key else "needs a key (401). Enter one.",
        403: "does not accept the key (403). Check the key and what it may do." if has_key else "needs a key (403).",
        404: "has no list of models (404). Check the address: most end with /v1.",
        429: "limits the rate of requests (429). Try again in a moment.",
    }
    if status == 400 and has_key:  # noqa: PLR2004 - Gemini answers so
        return "refused the request (400). Check the key."
    return texts.get(status, f"failed ({status}). Try again in a moment, or check the address.")


def _host(location: str) -> str:
    try:
        return parse_url(location).authority
    except WebRefused:
        return "another address"


def _names(document: Any) -> Iterator[str]:
    """Yield the names of the listed models; the answer may be any JSON."""
    lists = [document.get(name) for name in ("data", "models")] if isinstance(document, dict) else []
    listed = next((found for found in lists if isinstance(found, list)), None)
    if listed is None:
        raise _Failed("did not answer with a list of models. Check the address: most end with /v1.")
    for entry in listed:
        if not isinstance(entry, dict):
            continue
        methods = entry.get("supportedGenerationMethods")  # Gemini's
        if isinstance(methods, list) and "generateContent" not in methods:
            continue
        name = entry.get("id") or entry.get("name")
        if isinstance(name, str):
            yield name.removeprefix("models/")


def _full_name(prefix: str, name: str) -> str:
    """Return the name that agents use; OpenAI's own models have no prefix."""
    is_plain = not prefix or (prefix == "openai" and "/" not in name)
    return name if is_plain else f"{prefix}/{name}"


def _is_usable(model: str) -> bool:
    is_name = len(model) <= MAX_MODEL_CHARACTERS and _MODEL_NAME.fullmatch(model) is not None
    return is_name and not _EMBEDDING.search(model) and prices.is_chat(model)
