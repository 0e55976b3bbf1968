"""The client for every other provider, through LiteLLM, which is imported when it is first needed."""

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
from artel.brain.failures import Place, ServerError, explain

MAX_ANSWER_CHARACTERS = 16 * 1024 * 1024
# Our own deadline ends a call. It must be the same for all: LiteLLM opens new connections for every other value.
TIMEOUT_SECONDS = 3600


class LiteLLM:
    """Asks one provider, once for each request; it is a `Brain` without second tries."""

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        place: Place = Place("OPENAI_API_KEY"),  # noqa: B008 - immutable
        max_answer_characters: int = MAX_ANSWER_CHARACTERS,
    ) -> None:
        self._account = {"api_key": api_key, "api_base": base_url}
        self._place = place
        self._max_answer_characters = max_answer_characters
        self._dialects = Dialects()

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the request, or raise a `ModelError`."""
        async with before_deadline(request):
            await prices.load()
            library = await _library()
            return await self._dialects.ask(request, partial(self._attempt, library, request, stream))

    async def close(self) -> None:
        """Close what LiteLLM has opened for the whole process; it opens it anew when it is asked again."""
        if _imported is not None:
            await _imported.close_litellm_async_clients()
            _imported.in_memory_llm_clients_cache.flush_cache()

    async def _attempt(self, library: Any, request: Request, stream: TokenSink | None, refused: Refused) -> Completion:
        _keep_quiet()
        answer = Answer()
        options = body_of(request, request.model, refused, stream=stream is not None)
        try:
            response = await library.acompletion(
                **options,
                **self._account,
                timeout=TIMEOUT_SECONDS,
                max_retries=0,  # we have our own
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
        except Exception as failure:  # noqa: BLE001 - providers fail in LiteLLM with whatever they like
            explained = _explained(failure, request, self._place)
            explained.unbilled = explained.unbilled and not answer.begun
            raise explained from None
        content, calls = answer.content, answer.tool_calls
        tokens = answer.tokens or await estimated_tokens(request, content, calls)
        finish_reason = answer.finish_reason or ("tool_calls" if calls else "stop")
        return Completion(content, calls, finish_reason, _usage(request, *tokens))

    async def _read_stream(self, response: Any, request: Request, answer: Answer, stream: TokenSink) -> None:
        written = 0
        try:
            async for chunk in response:
                text = self._take(chunk, request, answer)
                written += len(text)
                if written > self._max_answer_characters:
                    raise _too_long(request, self._max_answer_characters)
                if text:
                    stream.token(text)
        finally:
            await response.aclose()
        if not _has_finished(response, answer):
            raise ModelAnswerCut(f"The answer of {request.model} stopped in the middle.")

    def _take_whole(self, response: Any, request: Request, answer: Answer) -> None:
        self._take(response, request, answer)
        if not answer.begun:
            raise ModelAnswerInvalid(f"The server of {request.model} answered without an answer.")

    def _take(self, part: Any, request: Request, answer: Answer) -> str:
        text = answer.take(part.model_dump())
        if len(text) > self._max_answer_characters:
            raise _too_long(request, self._max_answer_characters)
        return text


def _has_finished(response: Any, answer: Answer) -> bool:
    """Return whether the provider itself ended the stream: LiteLLM says "stop" in any case, but keeps what it heard."""
    heard = [getattr(response, name, answer.finish_reason) for name in _HEARD]
    return any(reason is not None for reason in heard)


_HEARD = ("received_finish_reason", "intermittent_finish_reason")


def _usage(request: Request, given: int, written: int) -> Usage:
    return Usage(request.model, given, written, prices.cost(request.model, given, written), calls=1)


def _too_long(request: Request, limit: int) -> ModelAnswerInvalid:
    return ModelAnswerInvalid(f"The answer of {request.model} is longer than {limit} characters.")


def _explained(failure: Exception, request: Request, place: Place) -> ModelError:
    if type(failure).__name__ == "MidStreamFallbackError":
        return ModelAnswerCut(f"The answer of {request.model} stopped in the middle.")
    status = getattr(failure, "status_code", None)
    if not isinstance(status, int):
        return ModelAnswerInvalid(f"The answer of {request.model} can't be understood ({type(failure).__name__}).")
    body = getattr(failure, "body", None)
    document = body if isinstance(body, dict) else {"message": str(failure)}
    headers = getattr(failure, "litellm_response_headers", None) or {}
    explained = explain(ServerError.read(status, document, headers), request.model, place)
    if type(failure).__name__ == "UnsupportedParamsError":  # LiteLLM knew, and has asked nobody
        explained.usage = Usage(request.model)
    explained.unbilled = explained.unbilled or _was_not_connected(failure)
    return explained


def _was_not_connected(failure: BaseException | None) -> bool:
    """Return whether behind a failure there is one of the line, before anything was asked."""
    while failure is not None:
        if type(failure).__name__ in _NOT_CONNECTED:
            return True
        failure = failure.__cause__ or failure.__context__
    return False


_NOT_CONNECTED = ("ConnectError", "ConnectTimeout")


_imported: Any = None
_importing = threading.Lock()


def _keep_quiet() -> None:
    """Silence what LiteLLM's own streaming makes pydantic warn of; again, where somebody has reset the filters."""
    from pydantic import PydanticDeprecatedSince211

    quiet = ("ignore", None, PydanticDeprecatedSince211, _LITELLM_MODULES, 0)
    if quiet not in warnings.filters:
        warnings.filterwarnings("ignore", category=PydanticDeprecatedSince211, module=_LITELLM_MODULES.pattern)


_LITELLM_MODULES = re.compile(r"litellm\.")


async def _library() -> Any:
    return _imported if _imported is not None else await asyncio.to_thread(_import)


def _import() -> Any:
    """Import LiteLLM (2 s and 174 MB), with everything off that is not about asking a model."""
    global _imported  # noqa: PLW0603 - the library is one for the process, and is imported late
    with _importing:
        if _imported is None:
            os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or the import goes to the network
            os.environ["LITELLM_MODE"] = "PRODUCTION"  # or the import loads a .env file, of whatever folder it is in
            _imported = _prepared(importlib.import_module("litellm"))
        return _imported


def _prepared(library: Any) -> Any:
    library.telemetry = False
    library.suppress_debug_info = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "openai"):
        # What went wrong is told by our own errors; these lines may hold whole requests.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # What the first call would else do on the event loop: half a second of imports, and types that are completed late.
    importlib.import_module("openai.resources")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Item .* is using the `ReadOnly` qualifier", category=UserWarning)
        library.ModelResponse()
        library.ModelResponseStream()
    return library
