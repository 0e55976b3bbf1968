"""Errors as problem documents (RFC 9457): the one place where they get a status."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match

from artel.contract.http import FieldError, Problem
from artel.errors import ArtelError, Kind
from artel.logs import get_logger

MEDIA_TYPE = "application/problem+json"
MAX_FIELD_ERRORS = 20

STATUS = {
    Kind.INVALID: 422,
    Kind.UNAUTHENTICATED: 401,
    Kind.FORBIDDEN: 403,
    Kind.NOT_FOUND: 404,
    Kind.CONFLICT: 409,
    Kind.TOO_LARGE: 413,
    Kind.MISDIRECTED: 421,
    Kind.TOO_LONG: 414,
    Kind.TOO_MANY: 429,
    Kind.UNAVAILABLE: 503,
    Kind.FAILED: 502,
    Kind.TIMED_OUT: 504,
}
_CODES = {
    400: "malformed_request",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "body_too_large",
    415: "unsupported_media_type",
}
_DETAILS = {
    404: "There is nothing at this address. GET /openapi.json lists what there is.",
    405: "This address does not take this method; the header Allow names those that it takes.",
}

log = get_logger(__name__)


def problem(
    scope: Any,
    status: int,
    code: str,
    detail: str,
    errors: list[FieldError] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """Return a response with a problem document."""
    document = Problem(
        type=f"urn:artel:problem:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code,
        request_id=scope["state"]["request_id"],
        errors=errors,
    )
    return Response(document.model_dump_json(exclude_none=True), status, headers, MEDIA_TYPE)


def problem_of(scope: Any, error: ArtelError) -> Response:
    """Return the problem document of one of our own errors."""
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    if error.kind is Kind.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    return problem(scope, STATUS[error.kind], error.code, error.detail, headers=headers)


def problem_of_crash(scope: Any, crash: BaseException) -> Response:
    """Return for a mistake of ours; its details are in the log, under the request's id."""
    log.error("request_crashed", exc_info=crash)
    return problem(scope, 500, "internal_error", "Something went wrong on the server. The log has it by request_id.")


def install_problem_handlers(app: FastAPI, routes: Sequence[APIRoute]) -> None:
    """Make the framework's own errors problem documents too."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, ArtelError)  # noqa: S101 - what the handler is registered for
        return problem_of(request.scope, error)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101
        # Only places and messages: the input itself may hold a password, or no text at all.
        fields = [
            FieldError(field=_place(item["loc"]), message=item["msg"]) for item in error.errors()[:MAX_FIELD_ERRORS]
        ]
        detail = "; ".join(f"{field.field}: {field.message}" for field in fields[:3])
        return problem(request.scope, 422, "invalid_request", f"The request is not valid. {detail}", fields)

    async def framework(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101
        status = error.status_code
        headers = dict(error.headers or {})
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            # The framework names only the methods of the first route at this address.
            matching = (route for route in routes if route.matches(request.scope)[0] is not Match.NONE)
            headers["Allow"] = ", ".join(sorted({method for route in matching for method in route.methods or ()}))
        detail = _DETAILS.get(status, error.detail)
        return problem(request.scope, status, _CODES.get(status, "http_error"), detail, headers=headers)

    app.add_exception_handler(ArtelError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, framework)


def _place(location: tuple[int | str, ...]) -> str:
    # The name of an unknown field comes from the client and may be anything: shortened, and made encodable.
    parts = (str(part)[:100].encode(errors="replace").decode() for part in location)
    return ".".join(parts)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of the problems that an operation may answer with."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }
