"""What a failed call to a model's server means, in words for people."""

import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from artel.brain.dialect import OPTIONAL_PARAMETERS
from artel.brain.errors import ModelError, ModelRateLimited, ModelRefused, ModelUnavailable

# What a server says about its own error is not shown: it may quote the key or the conversation. Names like these are.
_NAME = re.compile(r"[a-z][a-z_]{0,40}(\.[a-z_]{1,40}|\[\d{1,3}\]){0,6}")
_TOO_LONG = re.compile(r"(?i)context.{0,10}(length|window|size)|maximum context|prompt is too long|too many tokens")
_NOT_TAKEN = re.compile(r"(?i)unsupported|n[o']t.{0,6}support|only the default|not.{0,5}permitted|unrecognized|unknown")
_NO_CREDIT = ("insufficient_quota", "billing_hard_limit_reached", "insufficient_credits")
_LATE = {
    "rate_limit": HTTPStatus.TOO_MANY_REQUESTS,
    "invalid": HTTPStatus.BAD_REQUEST,
    "context": HTTPStatus.BAD_REQUEST,
}


@dataclass(frozen=True, slots=True)
class Place:
    """How to speak to people about a model's server: by the variables that lead to it."""

    key_variable: str
    address_variable: str | None = None

    @property
    def variables(self) -> str:
        """The variables, for a sentence."""
        return f"{self.address_variable} and {self.key_variable}" if self.address_variable else self.key_variable


@dataclass(frozen=True, slots=True)
class ServerError:
    """An error answer of a model's server; `message` is for us to judge by, never to show."""

    status: int
    message: str = ""
    code: str = ""
    parameter: str = ""
    retry_after: int | None = None

    @classmethod
    def read(cls, status: int, document: Any, headers: Mapping[str, str]) -> "ServerError":
        """Read the answer, whatever it is."""
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
        """Read an error that came after a status that promised a good answer."""
        error = cls.read(HTTPStatus.INTERNAL_SERVER_ERROR, document, {})
        inner = document["error"]
        told = inner.get("code") or inner.get("status") if isinstance(inner, dict) else None
        if isinstance(told, int):
            return replace(error, status=max(told, HTTPStatus.BAD_REQUEST))
        return replace(
            error, status=next((status for word, status in _LATE.items() if word in error.code), error.status)
        )

    @property
    def refused_parameter(self) -> str | None:
        """The parameter that made the server refuse, when it is one that the model can do without."""
        for name in OPTIONAL_PARAMETERS:
            if self.parameter.partition(".")[0] == name or name in self.message:
                return name if _can_do_without(name, f"{self.code} {self.message}") else None
        return None


# Said by the model's server itself, which takes no money for it; behind a gateway (502, 504) one may be at work.
_NOT_AT_WORK = frozenset({HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE, 529})


def explain(error: ServerError, model: str, place: Place) -> ModelError:
    """Return the error to raise for an error answer."""
    if error.code in _NO_CREDIT or error.status == HTTPStatus.PAYMENT_REQUIRED:
        return ModelRefused(f"The account that pays for {model} has no credit left ({error.status}).")
    if error.status == HTTPStatus.TOO_MANY_REQUESTS:
        return ModelRateLimited(
            f"The server of {model} takes no more requests for now (429). Try again in a moment.",
            retry_after=error.retry_after,
        )
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR or error.status == HTTPStatus.REQUEST_TIMEOUT:
        failure = ModelUnavailable(
            f"The server of {model} has trouble of its own ({error.status}). Try again in a moment.",
            retry_after=error.retry_after,
        )
        failure.unbilled = error.status in _NOT_AT_WORK
        return failure
    return ModelRefused(_refusal(error, model, place), parameter=error.refused_parameter)


def unreachable(model: str, place: Place, *, connected: bool) -> ModelUnavailable:
    """Return the error for a server that can't be connected to, or that was and has gone without an answer."""
    where = f": check {place.address_variable}" if place.address_variable else ""
    failure = ModelUnavailable(f"The server of {model} can't be reached{where}.")
    failure.unbilled = not connected
    return failure


def retry_after_of(headers: Mapping[str, str]) -> int | None:
    """Return how many seconds the server wants to be left alone, in any of the usual ways of saying it."""
    milliseconds, seconds = headers.get("retry-after-ms"), headers.get("retry-after")
    for text, unit in ((milliseconds, 1000), (seconds, 1)):
        if text and re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text.strip()):
            return math.ceil(float(text) / unit)
    try:
        moment = email.utils.parsedate_to_datetime(seconds or "")
    except ValueError:
        return None
    return max(0, math.ceil(moment.timestamp() - time.time()))


def _refusal(error: ServerError, model: str, place: Place) -> str:
    status = error.status
    if error.code == "context_length_exceeded" or _TOO_LONG.search(error.message):
        return f"The conversation is longer than {model} can take ({status})."
    match status:
        case HTTPStatus.UNAUTHORIZED:
            return f"The server of {model} does not accept the key (401): check {place.key_variable}."
        case HTTPStatus.FORBIDDEN:
            return f"The key may not use {model} (403): check {place.key_variable} and the agent's model."
        case HTTPStatus.NOT_FOUND:
            return f"The server does not know the model {model} (404): check the agent's model and {place.variables}."
        case _ if status < HTTPStatus.BAD_REQUEST:
            return f"The server of {model} sends us elsewhere ({status}): check {place.variables}."
    names = "".join(f", {name}" for name in (error.code, error.parameter) if name)
    return f"The server of {model} refused the request ({status}{names})."


def _can_do_without(name: str, said: str) -> bool:
    if name == "response_format":
        return True
    if name == "max_tokens":  # and not: its value is too large
        return "max_completion_tokens" in said
    return _NOT_TAKEN.search(said) is not None


def _name(value: Any) -> str:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""
