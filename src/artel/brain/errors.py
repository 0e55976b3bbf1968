"""Errors of model calls, and how error responses of model servers become such errors.

The texts are shown to users: no API key and no text of the conversation.
"""

import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, ClassVar

from artel.brain.brain import Usage
from artel.errors import ArtelError, Kind

# Optional parameters: once a model rejects one, it is left out or expressed in another way.
OPTIONAL_PARAMETERS = ("response_format", "max_tokens", "temperature", "stream_options")

# A server's error message is not shown, because it may quote the key or the conversation; names like these are.
_NAME = re.compile(r"[a-z][a-z_]{0,40}(\.[a-z_]{1,40}|\[\d{1,3}\]){0,6}")
_TOO_LONG = re.compile(r"(?i)context.{0,10}(length|window|size)|maximum context|prompt is too long|too many tokens")
_REJECTED = re.compile(r"(?i)unsupported|n[o']t.{0,6}support|only the default|not.{0,5}permitted|unrecognized|unknown")
_NO_CREDIT = ("insufficient_quota", "billing_hard_limit_reached", "insufficient_credits")
_STATUS_BY_CODE = {
    "rate_limit": HTTPStatus.TOO_MANY_REQUESTS,
    "invalid": HTTPStatus.BAD_REQUEST,
    "context": HTTPStatus.BAD_REQUEST,
}
# Sent by the model's server itself, which does not charge for them; behind a gateway (502, 504) it may still work.
_UNBILLED = frozenset({HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE, 529})


class ModelError(ArtelError, kind=Kind.UNAVAILABLE, code="model_failed"):
    """Base class. `usage` is what the failed calls used, if known."""

    transient: ClassVar[bool] = False  # whether a retry may succeed
    unbilled: bool = False  # whether the provider certainly charges nothing, because the model did no work

    def __init__(self, detail: str, *, retry_after: int | None = None, usage: Usage | None = None) -> None:
        super().__init__(detail, retry_after=retry_after)
        self.usage = usage


class ModelUnavailable(ModelError, code="model_unavailable"):
    """The model's server can't be reached, or has an internal error."""

    transient = True


class ModelRateLimited(ModelError, code="model_rate_limited"):
    """The model's server limits the rate of requests."""

    is_agents_fault = False
    transient = True
    unbilled = True


class ModelAnswerCut(ModelError, code="model_answer_cut"):
    """The connection ended before the answer did."""

    transient = True


class ModelRefused(ModelError, kind=Kind.INVALID, code="model_refused"):
    """The model's server rejects this request for good; `parameter` is the one that it rejects, if known."""

    unbilled = True

    def __init__(self, detail: str, *, parameter: str | None = None, usage: Usage | None = None) -> None:
        super().__init__(detail, usage=usage)
        self.parameter = parameter


class ModelNotConfigured(ModelRefused, code="model_not_configured"):
    """No provider is configured for this model."""

    is_agents_fault = False


class ModelNotAllowed(ModelError, kind=Kind.INVALID, code="model_not_allowed"):
    """The operator does not allow agents to use this model."""

    unbilled = True
    is_agents_fault = False


class ContextTooLarge(ModelError, kind=Kind.INVALID, code="context_too_large"):
    """Not even the prompt and the message fit into the model's window or the configured limit."""

    unbilled = True
    is_agents_fault = False


class ModelTimedOut(ModelError, code="model_timed_out"):
    """The answer was not complete before the deadline."""


class ModelAnswerInvalid(ModelError, code="model_answer_invalid"):
    """The answer can't be used: not JSON, invalid against the schema, or too long."""


@dataclass(frozen=True, slots=True)
class ServerVariables:
    """What configures a model's server, for error messages: environment variables, or an administrator's provider."""

    key: str
    address: str | None = None

    def __str__(self) -> str:
        return f"{self.address} and {self.key}" if self.address else self.key


@dataclass(frozen=True, slots=True)
class ServerError:
    """An error response of a model's server; `message` is used to classify it and never shown."""

    status: int
    message: str = ""
    code: str = ""
    parameter: str = ""
    retry_after: int | None = None

    @classmethod
    def read(cls, status: int, document: Any, headers: Mapping[str, str]) -> "ServerError":
        """Parse an error response, which may be any JSON value or text."""
        error = document.get("error", document) if isinstance(document, dict) else document
        if not isinstance(error, dict):
            error = {"message": error if isinstance(error, str) else ""}
        return cls(
            status=status,
            message=str(error.get("message") or json.dumps(error, default=str)),
            code=_name(error.get("code")) or _name(error.get("type")),
            parameter=_name(error.get("param")),
            retry_after=retry_after_of(headers),
        )

    @classmethod
    def read_late(cls, document: dict[str, Any]) -> "ServerError":
        """Parse an error that came inside a response with status 200."""
        error = cls.read(HTTPStatus.INTERNAL_SERVER_ERROR, document, {})
        inner = document["error"]
        status = inner.get("code") or inner.get("status") if isinstance(inner, dict) else None
        if not isinstance(status, int):
            status = next((status for word, status in _STATUS_BY_CODE.items() if word in error.code), error.status)
        return replace(error, status=max(status, HTTPStatus.BAD_REQUEST))

    @property
    def refused_parameter(self) -> str | None:
        """The parameter that the server rejects, if it is optional."""
        for name in OPTIONAL_PARAMETERS:
            if self.parameter.partition(".")[0] == name or name in self.message:
                text = f"{self.code} {self.message}"
                is_rejected = name == "response_format" or _REJECTED.search(text) is not None
                if name == "max_tokens":  # else its value may be too large
                    is_rejected = "max_completion_tokens" in text
                return name if is_rejected else None
        return None


def explain(error: ServerError, model: str, variables: ServerVariables) -> ModelError:
    """Return the error to raise for an error response."""
    if error.code in _NO_CREDIT or error.status == HTTPStatus.PAYMENT_REQUIRED:
        return ModelRefused(f"The account that pays for {model} has no credit left ({error.status}).")
    if error.status == HTTPStatus.TOO_MANY_REQUESTS:
        return ModelRateLimited(
            f"The server of {model} limits the rate of requests (429). Try again in a moment.",
            retry_after=error.retry_after,
        )
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR or error.status == HTTPStatus.REQUEST_TIMEOUT:
        failure = ModelUnavailable(
            f"The server of {model} failed ({error.status}). Try again in a moment.",
            retry_after=error.retry_after,
        )
        failure.unbilled = error.status in _UNBILLED
        return failure
    status = error.status
    texts: dict[int, str] = {
        401: f"The server of {model} does not accept the key (401): check {variables.key}.",
        403: f"The key may not use {model} (403): check {variables.key} and the agent's model.",
        404: f"The server does not know the model {model} (404): check the agent's model and {variables}.",
    }
    if error.code == "context_length_exceeded" or _TOO_LONG.search(error.message):
        text = f"The conversation is longer than {model} can take ({status})."
    elif status < HTTPStatus.BAD_REQUEST:
        text = f"The server of {model} redirects requests ({status}): check {variables}."
    else:
        names = "".join(f", {name}" for name in (error.code, error.parameter) if name)
        text = texts.get(status, f"The server of {model} refused the request ({status}{names}).")
    return ModelRefused(text, parameter=error.refused_parameter)


def unreachable(model: str, variables: ServerVariables, *, connected: bool) -> ModelUnavailable:
    """Return the error for a failed connection, or one that closed before the response."""
    hint = f": check {variables.address}" if variables.address else ""
    failure = ModelUnavailable(f"The server of {model} can't be reached{hint}.")
    failure.unbilled = not connected
    return failure


def retry_after_of(headers: Mapping[str, str]) -> int | None:
    """Return the seconds to wait before a retry, from `Retry-After` (seconds or a date) or `Retry-After-Ms`."""
    milliseconds, seconds = headers.get("retry-after-ms"), headers.get("retry-after")
    for text, unit in ((milliseconds, 1000), (seconds, 1)):
        if text and re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text.strip()):
            return math.ceil(float(text) / unit)
    try:
        moment = email.utils.parsedate_to_datetime(seconds or "")
    except ValueError:
        return None
    return max(0, math.ceil(moment.timestamp() - time.time()))


def _name(value: Any) -> str:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""
