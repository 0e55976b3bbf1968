"""Retries with backoff, the fallback model, and the total usage of all attempts."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from artel.brain.brain import Brain, Completion, Message, Request, TokenSink, Usage
from artel.brain.deadline import seconds_left
from artel.brain.errors import ContextTooLarge, ModelAnswerInvalid, ModelError
from artel.brain.paying import complete_paid, may_replace
from artel.brain.structured import SchemaMismatch, parsed_answer
from artel.brain.window import fit_to_model
from artel.logs import get_logger
from artel.retry import Backoff

RETRIES = 2
BACKOFF = Backoff(0.5)
# Of the remaining time: a model that hangs must leave time for its fallback.
SHARE_BEFORE_FALLBACK = 2 / 3

_REPAIR = "That is not what was asked for: {problem}. Answer again, with the JSON document only."

log = get_logger(__name__)


class RetryingBrain:
    """A brain that calls each model up to three times, then the fallback model, all before the deadline."""

    def __init__(
        self,
        choose: Callable[[str], Brain],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._choose = choose
        self._sleep = sleep

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the model's answer; its usage, or that of the error, is the total of all attempts."""
        attempts = _Attempts(request.model, stream)
        try:
            completion = await self._ask_each_model(request, attempts)
        except ModelError as failure:
            failure.usage = attempts.spent
            raise
        return replace(completion, usage=attempts.spent) if attempts.spent != completion.usage else completion

    async def close(self) -> None:
        """Do nothing: the owner of the brains closes them."""

    async def _ask_each_model(self, request: Request, attempts: "_Attempts") -> Completion:
        if request.fallback_model is None or not may_replace(request, request.fallback_model):
            return await self._ask(request, attempts)
        sooner = request.deadline - seconds_left(request) * (1 - SHARE_BEFORE_FALLBACK)
        try:
            return await self._ask(replace(request, deadline=sooner), attempts)
        except ModelError as error:
            if seconds_left(request) <= 0:
                raise
            failure = error
            log.warning("model_replaced", model=request.model, by=request.fallback_model, error=failure.detail)
        try:
            return await self._ask(replace(request, model=request.fallback_model), attempts)
        except ContextTooLarge:  # the fallback was not called: report the error of the first model
            raise failure from None

    async def _ask(self, request: Request, attempts: "_Attempts") -> Completion:
        """Call one model; an invalid structured answer may be repaired once."""
        completion = await self._complete_with_retries(request, attempts)
        if request.response_format is None or completion.tool_calls:
            return completion
        if request.repair_invalid:
            try:
                return await parsed_answer(completion, request.response_format)
            except SchemaMismatch as problem:
                repair = _repair_request(request, completion, problem)
                completion = await self._complete_with_retries(repair, attempts)
        try:
            return await parsed_answer(completion, request.response_format)
        except SchemaMismatch as problem:
            name = request.response_format.name
            raise ModelAnswerInvalid(f"{request.model} sent an invalid {name}: {problem.location}.") from None

    async def _complete_with_retries(self, request: Request, attempts: "_Attempts") -> Completion:
        brain = self._choose(request.model)
        request = await fit_to_model(request)
        for retry in range(RETRIES + 1):
            attempts.begin()
            try:
                completion = await complete_paid(brain, request, attempts.stream)
            except ModelError as failure:
                attempts.add(failure.usage or Usage(request.model, calls=1))
                pause = self._pause(failure, retry)
                if not failure.transient or retry == RETRIES or pause >= seconds_left(request):
                    raise
                log.warning("model_retried", model=request.model, error=failure.detail, pause_seconds=pause)
                await self._sleep(pause)
            else:
                attempts.add(completion.usage)
                return completion
        raise AssertionError("the last attempt returns or raises")

    def _pause(self, failure: ModelError, retry: int) -> float:
        """Return the seconds to wait: exponential backoff with jitter, but at least what the server demands."""
        return max(BACKOFF.seconds(retry), failure.retry_after or 0)


class _Attempts:
    """The attempts for one request, and their total usage."""

    def __init__(self, model: str, stream: TokenSink | None) -> None:
        self.stream = stream
        self.spent = Usage(model)
        self._begun = False

    def begin(self) -> None:
        """Begin an attempt; from the second on, discard what was streamed before."""
        if self._begun and self.stream is not None:
            self.stream.restart()
        self._begun = True

    def add(self, usage: Usage) -> None:
        """Add the usage of an attempt."""
        self.spent = self.spent.plus(usage) if self.spent.calls else usage


def _repair_request(request: Request, completion: Completion, problem: SchemaMismatch) -> Request:
    invalid = (Message("assistant", completion.content, part="note"),) if completion.content else ()
    demand = Message("user", _REPAIR.format(problem=problem))
    return replace(request, messages=(*request.messages, *invalid, demand))
