"""A scripted OpenAI-compatible server: in the test's event loop, in a thread, or in a process of its own.

`python -m tests.model_server --port 0 --delay-ms 200` prints one JSON line with its url. It echoes the last user
message; tests put other behaviours into its queue.
"""

import argparse
import asyncio
import json
import signal
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from aiohttp import web

MAX_REQUESTS = 10_000
STRUCTURED: dict[str, Any] = {
    "plan": {"tasks": [{"id": "1", "agent": "agent_coder", "description": "Do it.", "depends_on": []}]},
    "critique": {"needs_improvement": False, "critique": "It is good."},
    "understanding": {"understanding": "The user wants an answer."},
    "steps": {"steps": ["Answer."]},
}


@dataclass(frozen=True)
class ModelRequest:
    """A received request; `arrived` is in seconds of `time.time()`, `connection` the client's port."""

    body: dict[str, Any]
    headers: Mapping[str, str]
    arrived: float
    connection: int = 0

    @property
    def streamed(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def wants_usage(self) -> bool:
        return not self.streamed or bool((self.body.get("stream_options") or {}).get("include_usage"))

    @property
    def schema_name(self) -> str | None:
        name: str | None = ((self.body.get("response_format") or {}).get("json_schema") or {}).get("name")
        return name

    @cached_property
    def text(self) -> str:
        """The last user message."""
        texts = (message.get("content") for message in reversed(self.body["messages"]) if message["role"] == "user")
        return str(next(texts, ""))

    @property
    def words(self) -> int:
        return sum(len(str(message.get("content") or "").split()) for message in self.body["messages"])


class Behaviour(Protocol):
    """What the server does with one request."""

    async def __call__(self, request: ModelRequest, http: web.BaseRequest, /) -> web.StreamResponse: ...


@dataclass(frozen=True)
class Tool:
    """A tool call to answer with."""

    name: str
    arguments: str
    id: str = "call_1"


@dataclass(frozen=True)
class Say:
    """Return an answer: this text (else an echo, or a value for the requested schema), in pieces when streamed."""

    text: str | None = None
    pieces: Sequence[str] | None = None
    tools: Sequence[Tool] = ()
    finish_reason: str | None = None
    tokens: tuple[int, int] | None = None
    usage: bool = True
    delay: float = 0
    pause: float = 0

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        if self.delay:
            await asyncio.sleep(self.delay)
        if not request.streamed:
            message = {
                "role": "assistant",
                "content": self.words_for(request) or None,
                "tool_calls": self._calls() or None,
            }
            choice = {"index": 0, "message": message, "finish_reason": self._reason()}
            return _json(_document(request, "chat.completion", [choice], self._usage(request)))
        return await _stream(http, self._events(request), self.pause)

    def words_for(self, request: ModelRequest) -> str:
        if self.text is not None:
            return self.text
        if self.pieces is not None:
            return "".join(self.pieces)
        if self.tools:
            return ""
        return json.dumps(STRUCTURED[request.schema_name]) if request.schema_name else f"You said: {request.text}"

    def deltas(self, request: ModelRequest) -> Iterator[bytes]:
        """Yield the events of the answer, without those that end it."""
        pieces = self.pieces if self.pieces is not None else self.words_for(request).split(" ")
        space = "" if self.pieces is not None else " "
        for number, piece in enumerate(pieces):
            if piece:
                yield _delta(request, {"content": f"{space}{piece}" if number else piece})
        for index, call in enumerate(self._calls()):
            arguments = call["function"]["arguments"]
            first = call | {"index": index, "function": {"name": call["function"]["name"], "arguments": ""}}
            yield _delta(request, {"tool_calls": [first]})
            for start in range(0, len(arguments), 7):
                piece = arguments[start : start + 7]
                yield _delta(request, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})

    def usage_event(self, request: ModelRequest) -> bytes:
        return _event(_document(request, "chat.completion.chunk", [], self._usage(request)))

    def _events(self, request: ModelRequest) -> Iterator[bytes]:
        yield from self.deltas(request)
        yield _delta(request, {}, self._reason())
        if self.usage and request.wants_usage:
            yield self.usage_event(request)
        yield b"data: [DONE]\n\n"

    def _calls(self) -> list[dict[str, Any]]:
        return [
            {"id": tool.id, "type": "function", "function": {"name": tool.name, "arguments": tool.arguments}}
            for tool in self.tools
        ]

    def _reason(self) -> str:
        return self.finish_reason or ("tool_calls" if self.tools else "stop")

    def _usage(self, request: ModelRequest) -> dict[str, int] | None:
        if not self.usage:
            return None
        sent, received = self.tokens or (request.words, len(self.words_for(request).split()))
        return {"prompt_tokens": sent, "completion_tokens": received, "total_tokens": sent + received}


@dataclass(frozen=True)
class Fail:
    """Return an error response."""

    status: int
    error: Mapping[str, Any] = field(default_factory=lambda: {"message": "It does not work.", "type": "server_error"})
    headers: Mapping[str, str] = field(default_factory=dict)

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:  # noqa: ARG002
        return _json({"error": self.error}, self.status, self.headers)


@dataclass(frozen=True)
class Cut:
    """Begin an answer and stop: end the stream too early, or abort the connection."""

    text: str = "one two three"
    usage: bool = False
    broken: bool = False

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        if not request.streamed:
            response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
            await response.prepare(http)
            await response.write(b'{"choices": [')
            _break(http)
            return response
        answer = Say(self.text)
        events = [*answer.deltas(request), *([answer.usage_event(request)] if self.usage else [])]
        response = await _stream(http, events, end=not self.broken)
        if self.broken:
            _break(http)
        return response


@dataclass(frozen=True)
class Raw:
    """Return these bytes, `times` times."""

    body: bytes
    content_type: str = "application/json"
    times: int = 1
    status: int = 200

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:  # noqa: ARG002
        response = web.StreamResponse(status=self.status, headers={"Content-Type": self.content_type})
        await response.prepare(http)
        for _ in range(self.times):
            await response.write(self.body)
        await response.write_eof()
        return response


@dataclass(frozen=True)
class Hang:
    """Send nothing, or one word, until the client disconnects, which sets `abandoned`."""

    word: str = ""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    abandoned: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        try:
            if self.word:
                await _stream(http, Say(self.word).deltas(request), end=False)
            self.begun.set()
            await asyncio.Event().wait()
        finally:
            self.abandoned.set()
        raise AssertionError("nobody sets that event")


class Hold:
    """Return an answer when released, from any thread; the first word may be sent before."""

    def __init__(self, text: str = "done", word: str = "", tokens: tuple[int, int] | None = None) -> None:
        self.says = Say(text, tokens=tokens)
        self.word = word
        self.arrived: deque[float] = deque()
        self.abandoned = threading.Event()
        self._released = threading.Event()

    def release(self) -> None:
        """Let all waiting and later requests finish."""
        self._released.set()

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        self.arrived.append(time.monotonic())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        try:
            if self.word:
                await response.prepare(http)
                await response.write(_delta(request, {"content": self.word}))
            while not self._released.is_set():  # noqa: ASYNC110 - it is released from another thread
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            self.abandoned.set()
            raise
        if not self.word:
            return await self.says(request, http)
        for event in self.says._events(request):
            await response.write(event)
        await response.write_eof()
        return response


class ByMark:
    """Choose the behaviour by a mark in the last user message, so that concurrent tests don't disturb each other.

    The last behaviour of a mark stays.
    """

    def __init__(self) -> None:
        self._scripts: dict[str, deque[Behaviour]] = {}

    def __setitem__(self, mark: str, behaviours: "Behaviour | Sequence[Behaviour]") -> None:
        self._scripts[mark] = deque(behaviours if isinstance(behaviours, Sequence) else [behaviours])

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        behaviour: Behaviour = Say()
        for mark, script in list(self._scripts.items()):
            if mark in request.text:
                behaviour = script.popleft() if len(script) > 1 else script[0]
        return await behaviour(request, http)


@dataclass(frozen=True)
class Dictate:
    """Stream the words that the test passes to `say`, until it calls `end`."""

    words: deque[str | None] = field(default_factory=deque)

    def say(self, *words: str) -> None:
        self.words.extend(words)

    def end(self) -> None:
        self.words.append(None)

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(http)
        while True:
            while not self.words:  # noqa: ASYNC110 - the test is in another thread
                await asyncio.sleep(0.01)
            word = self.words.popleft()
            if word is None:
                break
            await response.write(_delta(request, {"content": word}))
        for event in (_delta(request, {}, "stop"), Say("").usage_event(request), b"data: [DONE]\n\n"):
            await response.write(event)
        await response.write_eof()
        return response


class ModelServer:
    """The server: a queue of behaviours, a default one, and the received requests."""

    def __init__(self, default: Behaviour | None = None) -> None:
        self.default = default or Say()
        self.queue: deque[tuple[str, Behaviour]] = deque()
        self.asked: deque[ModelRequest] = deque(maxlen=MAX_REQUESTS)
        # What `GET …/models` returns: these names, or what the behaviour does; and the requests for it.
        self.models = ["gpt-4"]
        self.listing: Behaviour | None = None
        self.listed: deque[ModelRequest] = deque(maxlen=MAX_REQUESTS)
        # Parameters that the server rejects, as OpenAI does.
        self.refuses: set[str] = set()
        self.url = ""

    def script(self, *behaviours: Behaviour, about: str = "") -> None:
        """Use these behaviours for the next requests, one each, before the default.

        `about` must be in the last user message, so that a late request of another test uses none of them.
        """
        self.queue.extend((about, behaviour) for behaviour in behaviours)

    def asked_about(self, mark: str) -> list[ModelRequest]:
        """Return the requests with this mark in the last user message, in order of arrival."""
        return [request for request in self.asked.copy() if mark in request.text]

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncIterator["ModelServer"]:
        """Serve in this event loop."""
        runner = web.ServerRunner(web.Server(self._answer, handler_cancellation=True), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, backlog=1024)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        try:
            yield self
        finally:
            await runner.cleanup()

    @contextmanager
    def running_in_thread(self) -> Iterator["ModelServer"]:
        """Serve in a thread of its own, for tests that are not asynchronous."""
        loop, ready, stopped = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

        async def serve() -> None:
            async with self.running():
                ready.set()
                await stopped.wait()
            await asyncio.sleep(0)  # connections that were closed just now end in the next cycle of the loop

        thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="model-server")
        thread.start()
        try:
            assert ready.wait(10)
            yield self
        finally:
            loop.call_soon_threadsafe(stopped.set)
            thread.join(10)
            loop.close()

    async def _answer(self, http: web.BaseRequest) -> web.StreamResponse:
        if http.method != "POST":
            if not http.path.startswith("/asked"):
                self.listed.append(ModelRequest({"path": http.path_qs}, http.headers, time.time()))
                if self.listing is not None:
                    return await self.listing(self.listed[-1], http)
            return self._information(http)
        arrived = time.time()
        peer = http.transport.get_extra_info("peername") if http.transport else ("", 0)
        request = ModelRequest(json.loads(await http.content.read()), http.headers, arrived, peer[1])
        self.asked.append(request)
        for parameter in self.refuses & request.body.keys():
            return await _refusal(parameter)(request, http)
        return await self._next(request)(request, http)

    def _next(self, request: ModelRequest) -> Behaviour:
        for entry in self.queue:
            if entry[0] in request.text:
                self.queue.remove(entry)
                return entry[1]
        return self.default

    def _information(self, http: web.BaseRequest) -> web.Response:
        """Return the received requests (`GET /asked`, and `DELETE /asked` to clear them), or the list of models."""
        if http.path != "/asked":
            return _json({"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]})
        requests = [
            {"arrived": request.arrived, "model": request.body["model"], "text": request.text} for request in self.asked
        ]
        if http.method == "DELETE":
            self.asked.clear()
        return _json(requests)


def _refusal(parameter: str) -> Fail:
    hint = " Use 'max_completion_tokens' instead." if parameter == "max_tokens" else ""
    message = f"Unsupported parameter: '{parameter}' is not supported with this model.{hint}"
    return Fail(
        400,
        {"message": message, "type": "invalid_request_error", "param": parameter, "code": "unsupported_parameter"},
    )


def _document(
    request: ModelRequest, kind: str, choices: list[Any], usage: dict[str, int] | None = None
) -> dict[str, Any]:
    document = {"id": "chatcmpl-1", "object": kind, "created": 1, "model": request.body["model"], "choices": choices}
    return document if usage is None else document | {"usage": usage}


def _delta(request: ModelRequest, delta: dict[str, Any], reason: str | None = None) -> bytes:
    return _event(_document(request, "chat.completion.chunk", [{"index": 0, "delta": delta, "finish_reason": reason}]))


def _event(document: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % json.dumps(document).encode()


def _json(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    body = json.dumps(document).encode()
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


async def _stream(
    http: web.BaseRequest, events: Iterator[bytes] | Sequence[bytes], pause: float = 0, *, end: bool = True
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(http)
    for event in events:
        await response.write(event)
        if pause:
            await asyncio.sleep(pause)
    if end:
        await response.write_eof()
    return response


def _break(http: web.BaseRequest) -> None:
    if http.transport is not None:
        http.transport.abort()


@dataclass(frozen=True)
class CallOnce:
    """Call a tool, then answer after its result."""

    tool: Tool
    answer: Say

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        has_result = request.body["messages"][-1]["role"] == "tool"
        return await (self.answer if has_result else Say(tools=[self.tool]))(request, http)


async def _serve(port: int, default: Behaviour) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with ModelServer(default).running(port) as server:
        print(json.dumps({"url": server.url}), flush=True)  # noqa: T201
        await stopped.wait()


@dataclass(frozen=True)
class Plans:
    """Plan so many independent tasks, spread over the agents with the prefix; answer other requests."""

    count: int
    prefix: str
    answer: Say

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        if request.schema_name != "plan":
            return await self.answer(request, http)
        task = request.body["response_format"]["json_schema"]["schema"]["properties"]["tasks"]["items"]
        agents = [name for name in task["properties"]["agent"]["enum"] if name.startswith(self.prefix)]
        tasks = [
            {"id": str(n), "agent": agents[n % len(agents)], "description": f"Part {n}", "depends_on": []}
            for n in range(self.count)
        ]
        return await Say(json.dumps({"tasks": tasks}), delay=self.answer.delay)(request, http)


def main() -> None:
    """Serve until SIGTERM."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--delay-ms", type=float, default=0, help="time before the first word")
    options.add_argument("--pause-ms", type=float, default=0, help="time after each word of a stream")
    options.add_argument("--words", type=int, help="answer with so many words instead of an echo")
    options.add_argument("--tool", help="a tool to call once before the answer, as JSON: name, arguments")
    options.add_argument("--plan", type=int, help="plan so many tasks, for agents whose names begin with bench")
    chosen = options.parse_args()
    text = " ".join(["word"] * chosen.words) if chosen.words else None
    answer = Say(text, delay=chosen.delay_ms / 1000, pause=chosen.pause_ms / 1000)
    behaviour: Behaviour = CallOnce(Tool(**json.loads(chosen.tool)), answer) if chosen.tool else answer
    if chosen.plan:
        behaviour = Plans(chosen.plan, "bench", answer)
    asyncio.run(_serve(chosen.port, behaviour))


if __name__ == "__main__":
    main()
