"""The client for OpenAI and compatible servers: Ollama, vLLM, LM Studio and others."""

import asyncio
import importlib
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic_core import from_json

from artel.brain import prices
from artel.brain.brain import Request, TokenSink
from artel.brain.errors import ModelAnswerInvalid, ModelError, ServerError, ServerVariables, explain, unreachable
from artel.brain.openai_format import ChatClient, EventParser, LineTooLong, ModelAnswer, Refused, body_of

if TYPE_CHECKING:
    import aiohttp

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_VARIABLES = ServerVariables("OPENAI_API_KEY", "OPENAI_BASE_URL")
# More concurrent requests than this wait for a connection.
CONNECTIONS = 512
KEEP_ALIVE_SECONDS = 30
CONNECT_SECONDS = 10
MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_LINE_BYTES = 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
# How long a server may take to close the stream after its last event, before we close it.
CLOSING_SECONDS = 0.25
OK = 200


class OpenAICompatible(ChatClient):
    """A `Brain` for one server over pooled connections, without retries."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        provider: str = "openai",
        variables: ServerVariables = OPENAI_VARIABLES,
        proxy: str | None = None,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        super().__init__(variables)
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._prefix = f"{provider}/"
        self._proxy = proxy
        self._max_answer_bytes = max_answer_bytes
        # Uncompressed, because a compressor would delay streamed tokens.
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "artel"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._session: aiohttp.ClientSession | None = None
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _open(self) -> "aiohttp.ClientSession":
        async with self._opening:
            if self._session is None:
                await prices.load()
                # In a thread, because the import takes a quarter of a second.
                await asyncio.to_thread(importlib.import_module, "aiohttp")
                import aiohttp

                self._session = aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(limit=CONNECTIONS, keepalive_timeout=KEEP_ALIVE_SECONDS),
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                    cookie_jar=aiohttp.DummyCookieJar(),
                    headers=self._headers,
                    proxy=self._proxy,
                )
            return self._session

    async def _send(self, request: Request, refused: Refused, answer: ModelAnswer, stream: TokenSink | None) -> None:
        session = self._session or await self._open()
        import aiohttp

        body = body_of(request, request.model.removeprefix(self._prefix), refused, stream=stream is not None)
        try:
            async with session.post(self._url, data=json.dumps(body).encode(), allow_redirects=False) as response:
                if response.status != OK:
                    text = await response.content.read(MAX_ERROR_BYTES)
                    try:
                        document = json.loads(text)
                    except ValueError:
                        document = text.decode(errors="replace")
                    error = ServerError.read(response.status, document, response.headers)
                    raise explain(error, answer.model, self._variables)
                await self._read(response, answer, stream)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL):
            raise unreachable(request.model, self._variables, connected=False) from None
        except (aiohttp.ClientError, OSError):  # the model may have started already
            raise unreachable(request.model, self._variables, connected=True) from None

    async def _read(self, response: "aiohttp.ClientResponse", answer: ModelAnswer, stream: TokenSink | None) -> None:
        pieces = self._pieces(response.content, answer)
        if stream is None or response.content_type == "application/json":
            text = self._take(b"".join([piece async for piece in pieces]), answer)
            answer.require_begun()
            if stream is not None and text:  # a server that does not stream
                stream.token(text)
            return
        is_done = await self._read_events(pieces, answer, stream)
        if is_done and not response.content.at_eof():
            # Wait briefly for the end of the body, because only then the connection can be reused.
            with suppress(TimeoutError, ModelError):
                async with asyncio.timeout(CLOSING_SECONDS):
                    async for _ in pieces:
                        pass
        if not answer.begun or not (is_done or answer.finish_reason):
            raise answer.cut()

    async def _read_events(self, pieces: AsyncIterator[bytes], answer: ModelAnswer, stream: TokenSink) -> bool:
        """Add the events to the answer as they arrive; return whether the server sent [DONE]."""
        parser = EventParser(MAX_LINE_BYTES)
        try:
            async for piece in pieces:
                if self._take_events(parser.feed(piece), answer, stream):
                    return True
            return self._take_events(parser.finish(), answer, stream)
        except LineTooLong:
            raise ModelAnswerInvalid(f"The server of {answer.model} sent a line that is too long.") from None

    async def _pieces(self, content: "aiohttp.StreamReader", answer: ModelAnswer) -> AsyncIterator[bytes]:
        """Yield the body as it arrives; raise if it is cut off or too long."""
        import aiohttp

        received = 0
        while True:
            try:
                piece = await content.readany()
            except (aiohttp.ClientError, OSError):
                raise answer.cut() from None
            if not piece:
                return
            received += len(piece)
            if received > self._max_answer_bytes:
                raise ModelAnswerInvalid(f"The answer of {answer.model} is longer than {self._max_answer_bytes} bytes.")
            yield piece

    def _take_events(self, events: list[bytes], answer: ModelAnswer, stream: TokenSink) -> bool:
        for event in events:
            if event.strip() == b"[DONE]":
                return True
            if text := self._take(event, answer):
                stream.token(text)
        return False

    def _take(self, text: bytes, answer: ModelAnswer) -> str:
        try:
            try:
                document = from_json(text)  # five times as fast as json.loads, which counts for every streamed token
            except ValueError:
                document = json.loads(text)  # accepts more, such as half of a surrogate pair
        except (ValueError, RecursionError):
            raise ModelAnswerInvalid(f"The server of {answer.model} sent a response that is not JSON.") from None
        if isinstance(document, dict) and document.get("error"):
            raise explain(ServerError.read_late(document), answer.model, self._variables)
        return answer.take(document)
