"""Second tries, the fallback model, and the sum of what all of it took."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

from artel.brain.brain import Brain, Completion, Message, Request, TokenSink, Usage
from artel.brain.deadline import seconds_left
from artel.brain.errors import ContextTooLarge, ModelAnswerInvalid, ModelError
from artel.brain.paying import complete_paid, may_replace
from artel.brain.structured import NotAsAsked, parsed_answer
from artel.brain.window import fitted
from artel.logs import get_logger

RETRIES = 2
FIRST_PAUSE_SECONDS = 0.5
# Of the time that is left: a model that hangs must leave some for its fallback.
SHARE_BEFORE_FALLBACK = 2 / 3

_REPAIR = "That is not what was asked for: {problem}. Answer again, with the JSON document only."

log = get_logger(__name__)


class Persistent:
    """A brain that asks others: each model up to three times, then the fallback model, all before the deadline."""

    def __init__(
        self,
        choose: Callable[[str], Brain],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._choose = choose
        self._sleep = sleep
        self._chance = chance

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the request; usage and failure tell what all tries together took."""
        tries = _Tries(request.model, stream)
        try:
            completion = await self._ask_each_model(request, tries)
        except ModelError as failure:
            failure.usage = tries.spent
            raise
        return replace(completion, usage=tries.spent) if tries.spent != completion.usage else completion

    async def close(self) -> None:
        """Nothing is open here: who chooses the brains closes them."""

    async def _ask_each_model(self, request: Request, tries: "_Tries") -> Completion:
        if request.fallback_model is None or not may_replace(request, request.fallback_model):
            return await self._ask(request, tries)
        sooner = request.deadline - seconds_left(request) * (1 - SHARE_BEFORE_FALLBACK)
        try:
            return await self._ask(replace(request, deadline=sooner), tries)
        except ModelError as error:
            if seconds_left(request) <= 0:
                raise
            failure = error
            log.warning("model_replaced", model=request.model, by=request.fallback_model, error=failure.detail)
        try:
            return await self._ask(replace(request, model=request.fallback_model), tries)
        except ContextTooLarge:  # the fallback was not asked: what went wrong is what the model itself said
            raise failure from None

    async def _ask(self, request: Request, tries: "_Tries") -> Completion:
        """Ask one model; a structured answer that is not as asked may be mended once."""
        completion = await self._persist(request, tries)
        if request.response_format is None or completion.tool_calls:
            return completion
        if request.mends:
            try:
                return await parsed_answer(completion, request.response_format)
            except NotAsAsked as problem:
                completion = await self._persist(_mending(request, completion, problem), tries)
        try:
            return await parsed_answer(completion, request.response_format)
        except NotAsAsked as problem:
            wanted = request.response_format.name
            raise ModelAnswerInvalid(
                f"{request.model} did not give the {wanted} that it was asked for: {problem.place}."
            ) from None

    async def _persist(self, request: Request, tries: "_Tries") -> Completion:
        brain = self._choose(request.model)
        request = await fitted(request)
        for retry in range(RETRIES + 1):
            tries.begin()
            try:
                completion = await complete_paid(brain, request, tries.stream)
            except ModelError as failure:
                tries.add(failure.usage or Usage(request.model, calls=1))
                pause = self._pause(failure, retry)
                if not failure.transient or retry == RETRIES or pause >= seconds_left(request):
                    raise
                log.warning("model_retried", model=request.model, error=failure.detail, pause_seconds=pause)
                await self._sleep(pause)
            else:
                tries.add(completion.usage)
                return completion
        raise AssertionError("the last try returns or raises")

    def _pause(self, failure: ModelError, retry: int) -> float:
        """Return how long to wait: as long as the server says, or longer each time, never all at once."""
        own: float = FIRST_PAUSE_SECONDS * 2**retry * (0.5 + self._chance() / 2)
        return max(own, failure.retry_after or 0)


class _Tries:
    """What has been tried so far for one request."""

    def __init__(self, model: str, stream: TokenSink | None) -> None:
        self.stream = stream
        self.spent = Usage(model)
        self._begun = False

    def begin(self) -> None:
        """Begin a try; from the second on, what was streamed before is void."""
        if self._begun and self.stream is not None:
            self.stream.restart()
        self._begun = True

    def add(self, usage: Usage) -> None:
        """Count what a try took."""
        self.spent = self.spent.plus(usage) if self.spent.calls else usage


def _mending(request: Request, completion: Completion, problem: NotAsAsked) -> Request:
    said = (Message("assistant", completion.content, part="note"),) if completion.content else ()
    told = Message("user", _REPAIR.format(problem=problem))
    return replace(request, messages=(*request.messages, *said, told))
