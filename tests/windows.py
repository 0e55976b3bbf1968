"""Models with a window: they refuse what is too long for them, as OpenAI's do."""

import json
from dataclasses import dataclass, field

from aiohttp import web

from artel.brain.tokens import count_tokens
from tests.model_server import Asked, Behaviour, Fail, Say

WINDOWS = {"gpt-4": 8_192, "gpt-3.5-turbo": 16_385, "gpt-4o": 128_000}


def tokens_of(asked: Asked) -> int:
    """Return the tokens that a request sends, tools and schema included."""
    model = asked.body["model"]
    texts = [message.get("content") or "" for message in asked.body["messages"]]
    texts += [json.dumps(message["tool_calls"]) for message in asked.body["messages"] if message.get("tool_calls")]
    texts += [json.dumps(tool["function"]) for tool in asked.body.get("tools", ())]
    if "response_format" in asked.body:
        texts.append(json.dumps(asked.body["response_format"]))
    return sum(count_tokens(text, model) for text in texts) + 3 * len(asked.body["messages"]) + 3


@dataclass
class Windowed:
    """Another behaviour, for requests that fit the model's window together with the answer that they allow."""

    inner: Behaviour = field(default_factory=Say)
    refused: list[int] = field(default_factory=list)
    taken: list[Asked] = field(default_factory=list)

    async def __call__(self, asked: Asked, http: web.BaseRequest) -> web.StreamResponse:
        window = WINDOWS[asked.body["model"]]
        wanted = tokens_of(asked) + asked.body["max_tokens"]
        if wanted > window:
            self.refused.append(wanted)
            message = f"This model's maximum context length is {window} tokens, and you requested {wanted}."
            error = {"message": message, "type": "invalid_request_error", "code": "context_length_exceeded"}
            return await Fail(400, error)(asked, http)
        self.taken.append(asked)
        return await self.inner(asked, http)
