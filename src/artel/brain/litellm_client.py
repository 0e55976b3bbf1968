"""The client for all other providers, through LiteLLM, which is imported on first use."""

import asyncio
import importlib
import logging
import os
import re
import threading
import warnings
from dataclasses import replace
from typing import Any

from artel.brain import prices
from artel.brain.brain import Completion, Request, TokenSink, Usage
from artel.brain.errors import ModelAnswerCut, ModelAnswerInvalid, ModelError, ServerError, ServerVariables, explain
from artel.brain.openai_format import ChatClient, ModelAnswer, Refused, body_of

MAX_ANSWER_CHARACTERS = 16 * 1024 * 1024
# The deadline of the request ends a call. The same for all: LiteLLM opens new connections for every other value.
TIMEOUT_SECONDS = 3600
KEY_VARIABLE = ServerVariables("OPENAI_API_KEY")
# LiteLLM follows redirects, with the key in a header that no library removes: these get a client that does not.
_WITH_OWN_CLIENT = frozenset({"anthropic", "gemini"})

_LITELLM_MODULES = re.compile(r"litellm\.")
_imported: Any = None
_importing = threading.Lock()


class LiteLLM(ChatClient):
    """A `Brain` for one provider, without retries."""

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        provider: str | None = None,
        variables: ServerVariables = KEY_VARIABLE,
        max_answer_characters: int = MAX_ANSWER_CHARACTERS,
    ) -> None:
        super().__init__(variables)
        self._prefix = f"{provider}/" if provider else ""
        self._account = {"api_key": api_key, "api_base": base_url}
        self._max_answer_characters = max_answer_characters
        self._has_own_client = provider in _WITH_OWN_CLIENT
        self._own_client: Any = None

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the model's answer; the model is called by its full name."""
        if request.model.startswith(self._prefix):
            return await super().complete(request, stream)
        completion = await super().complete(replace(request, model=f"{self._prefix}{request.model}"), stream)
        return replace(completion, usage=replace(completion.usage, model=request.model))

    async def close(self) -> None:
        """Close the connections; LiteLLM's own, which the whole process shares, are reopened when needed."""
        if self._has_own_client:
            own, self._own_client = self._own_client, None
            if own is not None:
                await own.close()
        elif _imported is not None:
            await _imported.close_litellm_async_clients()
            _imported.in_memory_llm_clients_cache.flush_cache()

    async def _send(self, request: Request, refused: Refused, answer: ModelAnswer, stream: TokenSink | None) -> None:
        await prices.load()
        library = _imported if _imported is not None else await asyncio.to_thread(_import)
        _silence_warnings()
        options = body_of(request, request.model, refused, stream=stream is not None)
        if self._has_own_client:
            options["client"] = self._client_without_redirects()
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
                self._take(response, answer, 0)
                answer.require_begun()
                return
            characters = 0
            try:
                async for chunk in response:
                    text = self._take(chunk, answer, characters)
                    characters += len(text)
                    if text:
                        stream.token(text)
            finally:
                await response.aclose()
        except ModelError:
            raise
        except Exception as failure:  # noqa: BLE001 - LiteLLM raises exceptions of any type
            raise _explained(failure, request.model, self._variables) from None
        # LiteLLM itself reports "stop" even for a stream that was cut off; these are the provider's reasons.
        names = ("received_finish_reason", "intermittent_finish_reason")
        if all(getattr(response, name, answer.finish_reason) is None for name in names):
            raise answer.cut()

    def _client_without_redirects(self) -> Any:
        if self._own_client is None:
            handlers: Any = importlib.import_module("litellm.llms.custom_httpx.http_handler")
            self._own_client = handlers.AsyncHTTPHandler(timeout=TIMEOUT_SECONDS, follow_redirects=False)
        return self._own_client

    def _take(self, part: Any, answer: ModelAnswer, characters: int) -> str:
        text = answer.take(part.model_dump())
        if characters + len(text) > self._max_answer_characters:
            raise ModelAnswerInvalid(
                f"The answer of {answer.model} is longer than {self._max_answer_characters} characters."
            )
        return text


def _explained(failure: Exception, model: str, variables: ServerVariables) -> ModelError:
    if type(failure).__name__ == "MidStreamFallbackError":
        return ModelAnswerCut(f"The answer of {model} was cut off.")
    status = getattr(failure, "status_code", None)
    if not isinstance(status, int):
        return ModelAnswerInvalid(f"The answer of {model} can't be parsed ({type(failure).__name__}).")
    body = getattr(failure, "body", None)
    document = body if isinstance(body, dict) else {"message": str(failure)}
    headers = getattr(failure, "litellm_response_headers", None) or {}
    explained = explain(ServerError.read(status, document, headers), model, variables)
    if type(failure).__name__ == "UnsupportedParamsError":  # LiteLLM raises it before it sends anything
        explained.usage = Usage(model)
    cause: BaseException | None = failure
    while cause is not None and not explained.unbilled:
        # Nothing was sent if the connection could not be opened.
        explained.unbilled = type(cause).__name__ in ("ConnectError", "ConnectTimeout")
        cause = cause.__cause__ or cause.__context__
    return explained


def _silence_warnings() -> None:
    """Ignore pydantic's deprecation warnings about LiteLLM; repeated, because the filters may have been reset."""
    from pydantic import PydanticDeprecatedSince211

    entry = ("ignore", None, PydanticDeprecatedSince211, _LITELLM_MODULES, 0)
    if entry not in warnings.filters:
        warnings.filterwarnings("ignore", category=PydanticDeprecatedSince211, module=_LITELLM_MODULES.pattern)


def _import() -> Any:
    """Import LiteLLM (2 s and 174 MB) with telemetry, logging and network access at import disabled."""
    global _imported  # noqa: PLW0603 - imported once per process, on first use
    with _importing:
        if _imported is not None:
            return _imported
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else the import downloads it
        os.environ["LITELLM_MODE"] = "PRODUCTION"  # else the import loads a .env file of the working folder
        library: Any = importlib.import_module("litellm")
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
        _imported = library
        return _imported
