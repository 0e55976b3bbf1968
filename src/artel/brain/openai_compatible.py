"""The client for OpenAI and compatible servers: Ollama, vLLM, LM Studio and others."""

import asyncio
import importlib
import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from artel.brain import prices
from artel.brain.answers import Answer
from artel.brain.brain import Completion, Request, TokenSink, Usage
from artel.brain.deadline import before_deadline
from artel.brain.dialect import Dialects, Refused, body_of
from artel.brain.errors import ModelAnswerCut, ModelAnswerInvalid, ModelError
from artel.brain.estimate import estimated_tokens
from artel.brain.failures import ServerError, ServerVariables, explain, unreachable
from artel.brain.sse import EventParser, LineTooLong

if TYPE_CHECKING:
    import aiohttp

OPENAI_URL = "https://api.openai.com/v1"
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


class OpenAICompatible:
    """A `Brain` for one server over pooled connections, without retries."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        provider: str = "openai",
        variables: ServerVariables = ServerVariables("OPENAI_API_KEY", "OPENAI_BASE_URL"),  # noqa: B008 - immutable
        proxy: str | None = None,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._prefix = f"{provider}/"
        self._variables = variables
        self._proxy = proxy
        self._max_answer_bytes = max_answer_bytes
        # Uncompressed, because a compressor would delay streamed tokens.
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "artel"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._dialects = Dialects()
        self._session: aiohttp.ClientSession | None = None
        self._opening = asyncio.Lock()

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the model's answer, or raise a `ModelError`."""
        async with before_deadline(request):
            session = self._session or await self._open()
            return await self._dialects.ask(request, partial(self._attempt, session, request, stream))

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

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

    async def _attempt(
        self, session: "aiohttp.ClientSession", request: Request, stream: TokenSink | None, refused: Refused
    ) -> Completion:
        import aiohttp

        body = body_of(request, request.model.removeprefix(self._prefix), refused, stream=stream is not None)
        answer = Answer()
        try:
            async with session.post(self._url, data=json.dumps(body).encode(), allow_redirects=False) as response:
                if response.status != OK:
                    raise await self._failure(response, request)
                await self._read(response, request, answer, stream)
        except ModelError as failure:
            if answer.tokens:
                failure.usage = self._usage(request, *answer.tokens)
            failure.unbilled = failure.unbilled and not answer.begun
            raise
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL):
            raise unreachable(request.model, self._variables, connected=False) from None
        except (aiohttp.ClientError, OSError):  # the model may have started already
            raise unreachable(request.model, self._variables, connected=True) from None
        return await self._completion(request, answer)

    async def _completion(self, request: Request, answer: Answer) -> Completion:
        content, calls = answer.content, answer.tool_calls
        tokens = answer.tokens or await estimated_tokens(request, content, calls)
        finish_reason = answer.finish_reason or ("tool_calls" if calls else "stop")
        return Completion(content, calls, finish_reason, self._usage(request, *tokens))

    @staticmethod
    def _usage(request: Request, input_tokens: int, output_tokens: int) -> Usage:
        cost = prices.cost(request.model, input_tokens, output_tokens)
        return Usage(request.model, input_tokens, output_tokens, cost, calls=1)

    async def _failure(self, response: "aiohttp.ClientResponse", request: Request) -> ModelError:
        text = await response.content.read(MAX_ERROR_BYTES)
        try:
            document = json.loads(text)
        except ValueError:
            document = text.decode(errors="replace")
        return explain(ServerError.read(response.status, document, response.headers), request.model, self._variables)

    async def _read(
        self, response: "aiohttp.ClientResponse", request: Request, answer: Answer, stream: TokenSink | None
    ) -> None:
        body = _Body(response, request.model, self._max_answer_bytes)
        if stream is None or response.content_type == "application/json":
            text = self._take(await body.read(), request, answer)
            if not answer.begun:
                raise ModelAnswerInvalid(f"The server of {request.model} sent a response without an answer.")
            if stream is not None and text:  # a server that does not stream
                stream.token(text)
        else:
            done = await self._read_events(body, request, answer, stream)
            if not answer.begun or not (done or answer.finish_reason):
                raise body.cut()

    async def _read_events(self, body: "_Body", request: Request, answer: Answer, stream: TokenSink) -> bool:
        """Add the events to the answer as they arrive; return whether the server sent [DONE]."""
        parser = EventParser(MAX_LINE_BYTES)
        try:
            while piece := await body.next():
                if self._take_events(parser.feed(piece), request, answer, stream):
                    await body.drain()
                    return True
            return self._take_events(parser.finish(), request, answer, stream)
        except LineTooLong:
            raise ModelAnswerInvalid(f"The server of {request.model} sent a line that is too long.") from None

    def _take_events(self, events: list[bytes], request: Request, answer: Answer, stream: TokenSink) -> bool:
        for event in events:
            if event.strip() == b"[DONE]":
                return True
            if text := self._take(event, request, answer):
                stream.token(text)
        return False

    def _take(self, text: bytes, request: Request, answer: Answer) -> str:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise ModelAnswerInvalid(f"The server of {request.model} sent a response that is not JSON.") from None
        if isinstance(document, dict) and document.get("error"):
            raise explain(ServerError.read_late(document), request.model, self._variables)
        return answer.take(document)


class _Body:
    """A response body with a size limit."""

    def __init__(self, response: "aiohttp.ClientResponse", model: str, max_bytes: int) -> None:
        self._content = response.content
        self._model = model
        self._max_bytes = max_bytes
        self._received = 0

    async def next(self) -> bytes:
        """Return the next bytes, or b"" at the end."""
        import aiohttp

        try:
            piece = await self._content.readany()
        except (aiohttp.ClientError, OSError):
            raise self.cut() from None
        self._received += len(piece)
        if self._received > self._max_bytes:
            raise ModelAnswerInvalid(f"The answer of {self._model} is longer than {self._max_bytes} bytes.")
        return piece

    async def read(self) -> bytes:
        """Return the whole body."""
        pieces = []
        while piece := await self.next():
            pieces.append(piece)
        return b"".join(pieces)

    async def drain(self) -> None:
        """Wait briefly for the end of the body, because only then the connection can be reused."""
        if self._content.at_eof():
            return
        with suppress(TimeoutError, ModelError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await self.read()

    def cut(self) -> ModelAnswerCut:
        """Return the error for a body that ended too early."""
        return ModelAnswerCut(f"The answer of {self._model} was cut off.")
