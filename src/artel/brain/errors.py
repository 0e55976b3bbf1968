"""How a model can fail. The texts are for people: they hold no key and nothing of the conversation."""

from typing import ClassVar

from artel.brain.brain import Usage
from artel.errors import ArtelError, Kind


class ModelError(ArtelError):
    """The root. `usage` is what was spent all the same, if that is known."""

    kind = Kind.UNAVAILABLE
    code = "model_failed"
    # Whether the same request may well succeed a moment later.
    transient: ClassVar[bool] = False
    # Whether it is known that the model has done nothing, so that nobody sends a bill.
    unbilled: bool = False

    def __init__(self, detail: str, *, retry_after: int | None = None, usage: Usage | None = None) -> None:
        super().__init__(detail, retry_after=retry_after)
        self.usage = usage


class ModelUnavailable(ModelError):
    """The model's server can't be reached, or has trouble of its own."""

    code = "model_unavailable"
    transient = True


class ModelRateLimited(ModelError):
    """The model's server takes no more requests for now."""

    is_agents_fault = False
    code = "model_rate_limited"
    transient = True
    unbilled = True


class ModelAnswerCut(ModelError):
    """The answer stopped in the middle."""

    code = "model_answer_cut"
    transient = True


class ModelRefused(ModelError):
    """The model's server does not take this request, now or later; `parameter` is what it stumbled over."""

    kind = Kind.INVALID
    code = "model_refused"
    unbilled = True

    def __init__(self, detail: str, *, parameter: str | None = None, usage: Usage | None = None) -> None:
        super().__init__(detail, usage=usage)
        self.parameter = parameter


class ModelNotAllowed(ModelError):
    """The operator does not let agents use this model."""

    kind = Kind.INVALID
    code = "model_not_allowed"
    unbilled = True
    is_agents_fault = False


class ContextTooLarge(ModelError):
    """Not even the prompt and the message fit into what the model takes, or may be sent."""

    kind = Kind.INVALID
    code = "context_too_large"
    unbilled = True
    is_agents_fault = False


class ModelTimedOut(ModelError):
    """There was no whole answer before the deadline."""

    code = "model_timed_out"


class ModelAnswerInvalid(ModelError):
    """The answer is not one that can be used: no JSON, not what the schema asks for, or endless."""

    code = "model_answer_invalid"
