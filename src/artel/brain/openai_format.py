"""Chat completions in the OpenAI format: request bodies, answers (whole or streamed), and what its clients share."""

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from artel.brain import prices
from artel.brain.brain import Completion, Message, Request, TokenSink, ToolCall, Usage
from artel.brain.errors import (
    OPTIONAL_PARAMETERS,
    ModelAnswerCut,
    ModelAnswerInvalid,
    ModelError,
    ModelRefused,
    ServerVariables,
)
from artel.brain.window import estimated_tokens
from artel.logs import get_logger

MAX_TOOL_CALLS = 128
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

log = get_logger(__name__)

Refused = frozenset[str]


class ChatClient(ABC):
    """A `Brain` for one server, without retries. It remembers the parameters that each model rejects."""

    def __init__(self, variables: ServerVariables) -> None:
        self._variables = variables
        self._refused: dict[str, Refused] = {}

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the model's answer, or raise a `ModelError`; retry without parameters that the model rejects."""
        remembered = refused = self._refused.get(request.model, frozenset())
        calls = 0
        while True:
            try:
                completion = await self._attempt(request, refused, stream)
                break
            except ModelRefused as refusal:
                parameter = refusal.parameter
                if parameter not in OPTIONAL_PARAMETERS or parameter in refused:
                    raise
                refused |= {parameter}
                calls += refusal.usage.calls if refusal.usage else 1
        if refused == remembered:
            return completion
        self._refused[request.model] = refused
        log.info("model_parameters_refused", model=request.model, parameters=sorted(refused))
        return replace(completion, usage=replace(completion.usage, calls=completion.usage.calls + calls))

    async def _attempt(self, request: Request, refused: Refused, stream: TokenSink | None) -> Completion:
        answer = ModelAnswer(request.model)
        try:
            await self._send(request, refused, answer, stream)
        except ModelError as failure:
            if answer.tokens:
                failure.usage = _usage(request.model, *answer.tokens)
            failure.unbilled = failure.unbilled and not answer.begun
            raise
        content, calls = answer.content, answer.tool_calls
        tokens = answer.tokens or await estimated_tokens(request, content, calls)
        finish_reason = answer.finish_reason or ("tool_calls" if calls else "stop")
        return Completion(content, calls, finish_reason, _usage(request.model, *tokens))

    @abstractmethod
    async def _send(self, request: Request, refused: Refused, answer: "ModelAnswer", stream: TokenSink | None) -> None:
        """Send the request, and add the response to the answer and the stream as it arrives."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""


def body_of(request: Request, model: str, refused: Refused, *, stream: bool) -> dict[str, Any]:
    """Return the request as a chat completion of the OpenAI API, without the parameters that the model rejects."""
    messages, schema = request.messages, request.response_format
    if schema is not None and "response_format" in refused:
        system_count = len(list(takewhile(lambda message: message.role == "system", messages)))
        text = json.dumps(schema.schema, ensure_ascii=False)
        rule = Message("system", f"Answer with JSON only, no other text, valid against this JSON schema:\n{text}")
        messages, schema = (*messages[:system_count], rule, *messages[system_count:]), None
    body: dict[str, Any] = {"model": model, "messages": _documents(messages)}
    body["max_completion_tokens" if "max_tokens" in refused else "max_tokens"] = request.max_tokens
    if "temperature" not in refused:
        body["temperature"] = request.temperature
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in request.tools
        ]
    if schema is not None:
        document = {"name": schema.name, "strict": _can_be_strict(schema.schema), "schema": schema.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": document}
    if stream:
        body["stream"] = True
        if "stream_options" not in refused:
            body["stream_options"] = {"include_usage": True}
    return body


@dataclass(slots=True)
class _Call:
    """A tool call whose chunks are still arriving."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class ModelAnswer:
    """The answer received so far. Servers differ a lot, so every field is validated."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.begun = False  # whether the server sent a choice, even an empty one
        self.finish_reason: str | None = None
        self.tokens: tuple[int, int] | None = None
        self._text: list[str] = []
        self._calls: dict[int, _Call] = {}

    @property
    def content(self) -> str:
        """The text received so far."""
        return "".join(self._text)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that the model requests, in its order."""
        return tuple(
            ToolCall(call.id or f"call_{index}", call.name, "".join(call.arguments) or "{}")
            for index, call in sorted(self._calls.items())
        )

    def take(self, document: Any) -> str:
        """Add a whole answer or one chunk of a stream; return the text that it adds."""
        choices = document.get("choices") if isinstance(document, dict) else None
        if not isinstance(document, dict) or (choices is None and "usage" not in document):
            raise ModelAnswerInvalid("The model's server sent a response that is not a chat completion.")
        match document.get("usage"):
            case {"prompt_tokens": int(input_tokens), "completion_tokens": int(output_tokens)} if (
                input_tokens > 0 and output_tokens >= 0
            ):
                self.tokens = input_tokens, output_tokens
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return ""
        self.begun = True
        if isinstance(choice.get("finish_reason"), str):
            self.finish_reason = choice["finish_reason"]
        part = choice.get("delta") or choice.get("message")
        if not isinstance(part, dict):
            return ""
        for call in part.get("tool_calls") or ():
            self._take_call(call)
        text = _text_of(part.get("content") or part.get("refusal"))
        if text:
            self._text.append(text)
        return text

    def require_begun(self) -> None:
        """Raise ModelAnswerInvalid if a whole response had no choice."""
        if not self.begun:
            raise ModelAnswerInvalid(f"The server of {self.model} sent a response without an answer.")

    def cut(self) -> ModelAnswerCut:
        """Return the error for an answer that ended too early."""
        return ModelAnswerCut(f"The answer of {self.model} was cut off.")

    def _take_call(self, delta: Any) -> None:
        if not isinstance(delta, dict) or not isinstance(delta.get("function"), dict):
            return
        index = delta.get("index")
        if not isinstance(index, int):  # servers that send whole calls omit it
            last = max(self._calls, default=-1)
            continues = last >= 0 and delta.get("id") in (None, "", self._calls[last].id)
            index = last if continues else last + 1
        call = self._calls.setdefault(index, _Call())
        if len(self._calls) > MAX_TOOL_CALLS:
            raise ModelAnswerInvalid(f"The model requested more than {MAX_TOOL_CALLS} tool calls at once.")
        function = delta["function"]
        # Some servers repeat id and name in every chunk.
        call.id = call.id or str(delta.get("id") or "")
        call.name = call.name or str(function.get("name") or "")
        arguments = function.get("arguments")
        if arguments:
            call.arguments.append(arguments if isinstance(arguments, str) else json.dumps(arguments))


class LineTooLong(ValueError):
    """A line exceeds the length limit."""


class EventParser:
    """Turns chunks of a byte stream into the data of its server-sent events."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._rest = b""
        self._data: list[bytes] = []
        self._begun = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Parse the next chunk and return the data of the events that it completes."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        events: list[bytes] = []
        for line in lines:
            self._take(line.removesuffix(b"\r"), events)
        if len(self._rest) > self._max_line_bytes + 1:  # a carriage return may be the last byte
            raise LineTooLong(f"a line has more than {self._max_line_bytes} bytes")
        return events

    def finish(self) -> list[bytes]:
        """End the stream; return the data of an event that no empty line has closed."""
        return self.feed(b"\n\n")

    def _take(self, line: bytes, events: list[bytes]) -> None:
        if len(line) > self._max_line_bytes:
            raise LineTooLong(f"a line has more than {self._max_line_bytes} bytes")
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            if self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        elif line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        # Everything else is a comment, or a field (event, id, retry) that is ignored.


def _usage(model: str, input_tokens: int, output_tokens: int) -> Usage:
    return Usage(model, input_tokens, output_tokens, prices.cost(model, input_tokens, output_tokens), calls=1)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, Iterable):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""


def _can_be_strict(schema: Any) -> bool:
    """Return whether OpenAI accepts the schema as strict: no extra properties, and all of them required."""
    if isinstance(schema, list):
        return all(_can_be_strict(item) for item in schema)
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        closed = schema.get("additionalProperties") is False
        if not closed or set(properties) != set(schema.get("required") or ()):
            return False
    return all(_can_be_strict(part) for part in schema.values())


def _documents(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Return the messages; attached files are parts of the message that they belong to."""
    documents: list[dict[str, Any]] = []
    files: list[Message] = []  # of the next message
    for message in messages:
        if message.file is not None:
            files.append(message)
        else:
            documents.append(_message(message))
            if files:
                documents[-1]["content"] = _parts([*files, message])
                files = []
    return documents


def _parts(messages: list[Message]) -> str | list[dict[str, Any]]:
    """Return the content of several messages as one: a text, or parts if there are images."""
    if not any(message.file and message.file.image for message in messages):
        return "\n\n".join(message.content for message in messages)
    parts: list[dict[str, Any]] = []
    for message in messages:
        parts.append({"type": "text", "text": message.content})
        if message.file is not None and message.file.image:
            data = base64.b64encode(message.file.image).decode()
            parts.append({"type": "image_url", "image_url": {"url": f"data:{message.file.media_type};base64,{data}"}})
    return parts


def _message(message: Message) -> dict[str, Any]:
    document: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        # Null, because some servers reject an empty text next to tool calls.
        document["content"] = message.content or None
        document["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        document["tool_call_id"] = message.tool_call_id
    return document
