"""The client for all other providers, through LiteLLM, which is imported on first use."""

import asyncio
import importlib
import logging
import os
import re
import threading
import warnings
from functools import partial
from typing import Any

from artel.brain import prices
from artel.brain.answers import Answer
from artel.brain.brain import Completion, Request, TokenSink, Usage
from artel.brain.deadline import before_deadline
from artel.brain.dialect import Dialects, Refused, body_of
from artel.brain.errors import ModelAnswerCut, ModelAnswerInvalid, ModelError
from artel.brain.estimate import estimated_tokens
from artel.brain.failures import ServerError, ServerVariables, explain

MAX_ANSWER_CHARACTERS = 16 * 1024 * 1024
# The deadline of the request ends a call. The same for all: LiteLLM opens new connections for every other value.
TIMEOUT_SECONDS = 3600


class LiteLLM:
    """A `Brain` for one provider, without retries."""

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        variables: ServerVariables = ServerVariables("OPENAI_API_KEY"),  # noqa: B008 - immutable
        max_answer_characters: int = MAX_ANSWER_CHARACTERS,
    ) -> None:
        self._account = {"api_key": api_key, "api_base": base_url}
        self._variables = variables
        self._max_answer_characters = max_answer_characters
        self._dialects = Dialects()

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the model's answer, or raise a `ModelError`."""
        async with before_deadline(request):
            await prices.load()
            library = await _library()
            return await self._dialects.ask(request, partial(self._attempt, library, request, stream))

    async def close(self) -> None:
        """Close LiteLLM's connections, which the whole process shares; LiteLLM reopens them when needed."""
        if _imported is not None:
            await _imported.close_litellm_async_clients()
            _imported.in_memory_llm_clients_cache.flush_cache()

    async def _attempt(self, library: Any, request: Request, stream: TokenSink | None, refused: Refused) -> Completion:
        _silence_warnings()
        answer = Answer()
        options = body_of(request, request.model, refused, stream=stream is not None)
        try:
            response = await library.acompletion(
                **options,
                **self._account,
                timeout=TIMEOUT_SECONDS,
                max_retries=0,  # RetryingBrain retries
                num_retries=0,
                _skip_mcp_handler=True,  # else tools need the package mcp, which we don't install
            )
            if stream is None:
                self._take_whole(response, request, answer)
            else:
                await self._read_stream(response, request, answer, stream)
        except ModelError as failure:
            if answer.tokens:
                failure.usage = _usage(request, *answer.tokens)
            failure.unbilled = failure.unbilled and not answer.begun
            raise
        except Exception as failure:  # noqa: BLE001 - LiteLLM raises exceptions of any type
            explained = _explained(failure, request, self._variables)
            explained.unbilled = explained.unbilled and not answer.begun
            raise explained from None
        content, calls = answer.content, answer.tool_calls
        tokens = answer.tokens or await estimated_tokens(request, content, calls)
        finish_reason = answer.finish_reason or ("tool_calls" if calls else "stop")
        return Completion(content, calls, finish_reason, _usage(request, *tokens))

    async def _read_stream(self, response: Any, request: Request, answer: Answer, stream: TokenSink) -> None:
        characters = 0
        try:
            async for chunk in response:
                text = self._take(chunk, request, answer)
                characters += len(text)
                if characters > self._max_answer_characters:
                    raise _too_long(request, self._max_answer_characters)
                if text:
                    stream.token(text)
        finally:
            await response.aclose()
        if not _has_finished(response, answer):
            raise ModelAnswerCut(f"The answer of {request.model} was cut off.")

    def _take_whole(self, response: Any, request: Request, answer: Answer) -> None:
        self._take(response, request, answer)
        if not answer.begun:
            raise ModelAnswerInvalid(f"The server of {request.model} sent a response without an answer.")

    def _take(self, part: Any, request: Request, answer: Answer) -> str:
        text = answer.take(part.model_dump())
        if len(text) > self._max_answer_characters:
            raise _too_long(request, self._max_answer_characters)
        return text


def _has_finished(response: Any, answer: Answer) -> bool:
    """Return whether the provider finished the stream: LiteLLM itself reports "stop" even for one that was cut off."""
    reasons = [getattr(response, name, answer.finish_reason) for name in _PROVIDER_REASONS]
    return any(reason is not None for reason in reasons)


_PROVIDER_REASONS = ("received_finish_reason", "intermittent_finish_reason")


def _usage(request: Request, input_tokens: int, output_tokens: int) -> Usage:
    cost = prices.cost(request.model, input_tokens, output_tokens)
    return Usage(request.model, input_tokens, output_tokens, cost, calls=1)


def _too_long(request: Request, limit: int) -> ModelAnswerInvalid:
    return ModelAnswerInvalid(f"The answer of {request.model} is longer than {limit} characters.")


def _explained(failure: Exception, request: Request, variables: ServerVariables) -> ModelError:
    if type(failure).__name__ == "MidStreamFallbackError":
        return ModelAnswerCut(f"The answer of {request.model} was cut off.")
    status = getattr(failure, "status_code", None)
    if not isinstance(status, int):
        return ModelAnswerInvalid(f"The answer of {request.model} can't be parsed ({type(failure).__name__}).")
    body = getattr(failure, "body", None)
    document = body if isinstance(body, dict) else {"message": str(failure)}
    headers = getattr(failure, "litellm_response_headers", None) or {}
    explained = explain(ServerError.read(status, document, headers), request.model, variables)
    if type(failure).__name__ == "UnsupportedParamsError":  # LiteLLM raises it before it sends anything
        explained.usage = Usage(request.model)
    explained.unbilled = explained.unbilled or _was_not_connected(failure)
    return explained


def _was_not_connected(failure: BaseException | None) -> bool:
    """Return whether a failure was caused by a connection that could not be opened, so that nothing was sent."""
    while failure is not None:
        if type(failure).__name__ in _NOT_CONNECTED:
            return True
        failure = failure.__cause__ or failure.__context__
    return False


_NOT_CONNECTED = ("ConnectError", "ConnectTimeout")


_imported: Any = None
_importing = threading.Lock()


def _silence_warnings() -> None:
    """Ignore pydantic's deprecation warnings about LiteLLM; repeated, because the filters may have been reset."""
    from pydantic import PydanticDeprecatedSince211

    entry = ("ignore", None, PydanticDeprecatedSince211, _LITELLM_MODULES, 0)
    if entry not in warnings.filters:
        warnings.filterwarnings("ignore", category=PydanticDeprecatedSince211, module=_LITELLM_MODULES.pattern)


_LITELLM_MODULES = re.compile(r"litellm\.")


async def _library() -> Any:
    return _imported if _imported is not None else await asyncio.to_thread(_import)


def _import() -> Any:
    """Import LiteLLM (2 s and 174 MB) with telemetry, logging and network access at import disabled."""
    global _imported  # noqa: PLW0603 - imported once per process, on first use
    with _importing:
        if _imported is None:
            os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else the import downloads it
            os.environ["LITELLM_MODE"] = "PRODUCTION"  # else the import loads a .env file of the working folder
            _imported = _prepared(importlib.import_module("litellm"))
        return _imported


def _prepared(library: Any) -> Any:
    library.telemetry = False
    library.suppress_debug_info = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "openai"):
        # Our own errors report failures; these log lines may hold whole requests.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Do now what the first call would do on the event loop: half a second of imports and lazy model building.
    importlib.import_module("openai.resources")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Item .* is using the `ReadOnly` qualifier", category=UserWarning)
        library.ModelResponse()
        library.ModelResponseStream()
    return library
