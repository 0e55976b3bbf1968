"""Search engines for web_search: ddgs, which needs no key, or a SearXNG server of the operator."""

import asyncio
import importlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

from artel.text import encodable, one_line
from artel.tools.http_response import WebFailed
from artel.tools.user_threads import UserThreads
from artel.tools.web_client import WebClient
from artel.web_address import MAX_URL_CHARACTERS, WebRefused, WebRules, parse_url

SEARCH_SECONDS = 20.0
ENGINE_SECONDS = 6  # for each of the engines that ddgs uses
SEARCHES = 8  # with ddgs at the same time; one that takes long can't be stopped
SEARCHES_PER_USER = 2
TITLE_CHARACTERS = 200
SNIPPET_CHARACTERS = 500
NO_RESULTS = "No results found."  # ddgs raises an error that says so


@dataclass(frozen=True, slots=True)
class WebHit:
    """A page that a search has found."""

    title: str
    url: str
    snippet: str


class SearchEngine(Protocol):
    """Searches the web."""

    async def search(self, query: str, most: int, user_id: int = 0) -> list[WebHit]:
        """Return at most `most` pages, the best first; raise WebFailed with a text that says what to do.

        `user_id` is whose searches are counted together.
        """

    async def close(self) -> None:
        """End what is not busy."""


def search_engine(searxng_url: str | None = None) -> SearchEngine:
    """Return the engine of these settings; raise ValueError if the URL can't be used."""
    return Ddgs() if searxng_url is None else Searxng(searxng_url)


class Ddgs:
    """Asks several public engines through the library ddgs."""

    def __init__(self) -> None:
        self._threads = UserThreads("artel-search", SEARCHES, SEARCHES_PER_USER)

    async def search(self, query: str, most: int, user_id: int = 0) -> list[WebHit]:
        """Return what public engines find."""
        try:
            async with asyncio.timeout(SEARCH_SECONDS):
                found = await self._threads.run(user_id, self._search, query, most)
        except TimeoutError:
            raise _failed(f"no engine answered within {SEARCH_SECONDS:g} seconds") from None
        return _hits(found, ("title", "href", "body"), most)

    async def close(self) -> None:
        """End the threads that are not busy, and start no more."""
        self._threads.close()

    def _search(self, query: str, most: int) -> list[dict[str, Any]]:
        # Lazy, and on the thread: the import takes half a second, and few agents search.
        try:
            ddgs, errors = importlib.import_module("ddgs"), importlib.import_module("ddgs.exceptions")
        except ModuleNotFoundError:
            raise WebFailed(
                "The web search isn't installed on this server. Go on without it and say so. The operator can install "
                "it (pip install 'artel-ai[web]') or configure a search server of their own (searxng_url)."
            ) from None
        try:
            found: list[dict[str, Any]] = ddgs.DDGS(timeout=ENGINE_SECONDS).text(query, max_results=most)
        except errors.TimeoutException:
            raise _failed("no engine answered in time") from None
        except errors.DDGSException as problem:
            if str(problem) == NO_RESULTS:
                return []
            raise _failed("no engine could be reached, or all of them refuse") from None
        return found


class Searxng:
    """Asks a SearXNG server, and no other host."""

    def __init__(self, url: str) -> None:
        try:
            target = parse_url(url)
        except WebRefused as refused:
            raise ValueError(f"{url[:200]!r} can't be used as the URL of a SearXNG server: {refused}") from None
        base = target.url.partition("?")[0].rstrip("/")
        self._url = base if base.endswith("/search") else f"{base}/search"
        self._name = target.authority
        authority = f"[{target.host}]" if ":" in target.host else target.host
        own_host = WebRules(allowed_hosts=(), private_hosts=(f"{authority}:{target.port}",), ports=())
        self._client = WebClient(own_host)

    async def search(self, query: str, most: int, user_id: int = 0) -> list[WebHit]:
        """Return what the server finds."""
        url = f"{self._url}?{urlencode({'q': query, 'format': 'json'})}"
        if len(url) > MAX_URL_CHARACTERS:
            raise WebFailed("The query is too long. Use fewer words.")
        try:
            answer = json.loads((await self._client.fetch(url, user_id)).body)
        except (WebFailed, WebRefused) as problem:
            raise WebFailed(
                f"The search server {self._name} failed: {problem} If this goes on, its operator should look whether "
                "it runs and allows the format json (search.formats in its settings.yml)."
            ) from None
        except (ValueError, RecursionError):
            raise WebFailed(
                f"The search server {self._name} does not answer in JSON. Its operator must allow the format json "
                "(search.formats in its settings.yml)."
            ) from None
        found = answer.get("results") if isinstance(answer, dict) else None
        return _hits(found if isinstance(found, list) else [], ("title", "url", "content"), most)

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()


def _failed(why: str) -> WebFailed:
    return WebFailed(
        f"The web search failed: {why}. Try again in a minute, or go on without it and say so. The operator can "
        "configure a search server of their own (searxng_url)."
    )


def _hits(found: Iterable[Any], keys: Sequence[str], most: int) -> list[WebHit]:
    """Return usable results, in short: with an http(s) URL, and each URL once."""
    hits: dict[str, WebHit] = {}
    for item in found:
        if len(hits) >= most:
            break
        title, url, snippet = (_text(item, key) for key in keys)
        if url.startswith(("http://", "https://")) and len(url) <= MAX_URL_CHARACTERS:
            hits.setdefault(url, WebHit(one_line(title, TITLE_CHARACTERS), url, one_line(snippet, SNIPPET_CHARACTERS)))
    return list(hits.values())


def _text(item: object, key: str) -> str:
    value = item.get(key) if isinstance(item, Mapping) else None
    return encodable(value).strip() if isinstance(value, str) else ""
