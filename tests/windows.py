"""A scripted model with a context window: it rejects longer requests, as OpenAI does."""

import json
from dataclasses import dataclass, field

from aiohttp import web

from artel.brain.tokens import count_tokens
from tests.model_server import Behaviour, Fail, ModelRequest, Say

WINDOWS = {"gpt-4": 8_192, "gpt-3.5-turbo": 16_385, "gpt-4o": 128_000}


def tokens_of(request: ModelRequest) -> int:
    """Return the tokens that a request sends, tools and schema included."""
    model = request.body["model"]
    texts = [message.get("content") or "" for message in request.body["messages"]]
    texts += [json.dumps(message["tool_calls"]) for message in request.body["messages"] if message.get("tool_calls")]
    texts += [json.dumps(tool["function"]) for tool in request.body.get("tools", ())]
    if "response_format" in request.body:
        texts.append(json.dumps(request.body["response_format"]))
    return sum(count_tokens(text, model) for text in texts) + 3 * len(request.body["messages"]) + 3


@dataclass
class Windowed:
    """Pass on requests that fit the model's window together with their `max_tokens`; reject others."""

    inner: Behaviour = field(default_factory=Say)
    refused: list[int] = field(default_factory=list)
    taken: list[ModelRequest] = field(default_factory=list)

    async def __call__(self, request: ModelRequest, http: web.BaseRequest) -> web.StreamResponse:
        window = WINDOWS[request.body["model"]]
        tokens = tokens_of(request) + request.body["max_tokens"]
        if tokens > window:
            self.refused.append(tokens)
            message = f"This model's maximum context length is {window} tokens, and you requested {tokens}."
            error = {"message": message, "type": "invalid_request_error", "code": "context_length_exceeded"}
            return await Fail(400, error)(request, http)
        self.taken.append(request)
        return await self.inner(request, http)
