"""Errors of model calls. Their texts are shown to users: no API key and no text of the conversation."""

from typing import ClassVar

from artel.brain.brain import Usage
from artel.errors import ArtelError, Kind


class ModelError(ArtelError):
    """Base class. `usage` is what the failed calls used, if known."""

    kind = Kind.UNAVAILABLE
    code = "model_failed"
    # Whether a retry may succeed.
    transient: ClassVar[bool] = False
    # Whether the provider certainly charges nothing, because the model did no work.
    unbilled: bool = False

    def __init__(self, detail: str, *, retry_after: int | None = None, usage: Usage | None = None) -> None:
        super().__init__(detail, retry_after=retry_after)
        self.usage = usage


class ModelUnavailable(ModelError):
    """The model's server can't be reached, or has an internal error."""

    code = "model_unavailable"
    transient = True


class ModelRateLimited(ModelError):
    """The model's server limits the rate of requests."""

    is_agents_fault = False
    code = "model_rate_limited"
    transient = True
    unbilled = True


class ModelAnswerCut(ModelError):
    """The connection ended before the answer did."""

    code = "model_answer_cut"
    transient = True


class ModelRefused(ModelError):
    """The model's server rejects this request for good; `parameter` is the one that it rejects, if known."""

    kind = Kind.INVALID
    code = "model_refused"
    unbilled = True

    def __init__(self, detail: str, *, parameter: str | None = None, usage: Usage | None = None) -> None:
        super().__init__(detail, usage=usage)
        self.parameter = parameter


class ModelNotAllowed(ModelError):
    """The operator does not allow agents to use this model."""

    kind = Kind.INVALID
    code = "model_not_allowed"
    unbilled = True
    is_agents_fault = False


class ContextTooLarge(ModelError):
    """Not even the prompt and the message fit into the model's window or the configured limit."""

    kind = Kind.INVALID
    code = "context_too_large"
    unbilled = True
    is_agents_fault = False


class ModelTimedOut(ModelError):
    """The answer was not complete before the deadline."""

    code = "model_timed_out"


class ModelAnswerInvalid(ModelError):
    """The answer can't be used: not JSON, invalid against the schema, or too long."""

    code = "model_answer_invalid"
