"""Builds request bodies in the OpenAI format, without the parameters that a model rejects."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

from artel.brain.brain import Completion, Message, Request
from artel.brain.errors import ModelRefused
from artel.logs import get_logger

log = get_logger(__name__)

Refused = frozenset[str]

# Optional parameters: once a model rejects one, it is left out or expressed in another way.
OPTIONAL_PARAMETERS = ("response_format", "max_tokens", "temperature", "stream_options")


class Dialects:
    """Remembers the parameters that each model rejects."""

    def __init__(self) -> None:
        self._refused: dict[str, Refused] = {}

    async def ask(self, request: Request, attempt: Callable[[Refused], Awaitable[Completion]]) -> Completion:
        """Call `attempt`, and retry without each parameter that the model rejects; remember those."""
        remembered = refused = self._refused.get(request.model, frozenset())
        calls = 0
        while True:
            try:
                completion = await attempt(refused)
            except ModelRefused as refusal:
                parameter = refusal.parameter
                if parameter not in OPTIONAL_PARAMETERS or parameter in refused:
                    raise
                refused |= {parameter}
                calls += refusal.usage.calls if refusal.usage else 1
            else:
                break
        if refused == remembered:
            return completion
        self._refused[request.model] = refused
        log.info("model_parameters_refused", model=request.model, parameters=sorted(refused))
        return replace(completion, usage=replace(completion.usage, calls=completion.usage.calls + calls))


def body_of(request: Request, model: str, refused: Refused, *, stream: bool) -> dict[str, Any]:
    """Return the request as a chat completion of the OpenAI API."""
    if "response_format" in refused:
        request = _with_schema_in_prompt(request)
    body: dict[str, Any] = {"model": model, "messages": [_message(message) for message in request.messages]}
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
    if request.response_format:
        schema = request.response_format.schema
        document = {"name": request.response_format.name, "strict": _can_be_strict(schema), "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": document}
    if stream:
        body["stream"] = True
        if "stream_options" not in refused:
            body["stream_options"] = {"include_usage": True}
    return body


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


def _with_schema_in_prompt(request: Request) -> Request:
    if request.response_format is None:
        return request
    system_count = len(list(takewhile(lambda message: message.role == "system", request.messages)))
    schema = json.dumps(request.response_format.schema, ensure_ascii=False)
    rule = Message("system", f"Answer with JSON only, no other text, valid against this JSON schema:\n{schema}")
    messages = (*request.messages[:system_count], rule, *request.messages[system_count:])
    return replace(request, messages=messages, response_format=None)
