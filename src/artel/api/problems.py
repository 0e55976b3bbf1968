"""Translates errors into HTTP statuses and problem documents (RFC 9457)."""

import asyncio
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match

from artel.contract.http import FieldError, Problem
from artel.errors import ArtelError, Kind, ServerBusy
from artel.logs import get_logger
from artel.nodes.yaml_mistakes import AgentFileInvalid
from artel.paths.errors import PathError
from artel.text import encodable

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
_PATH_STATUS = {
    "file_not_found": 404,
    "workspace_not_assigned": 404,
    "path_traversal_blocked": 403,
    "permission_denied": 403,
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
    404: "Nothing is at this path. GET /openapi.json lists all paths.",
    405: "This path does not support this method. The Allow header lists the supported ones.",
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


def problem_of(scope: Any, error: BaseException) -> Response:
    """Return the problem document of an error; an unexpected one is logged, and its details are not shown."""
    if isinstance(error, asyncio.CancelledError):
        error = ServerBusy("The server is stopping. Try again in a moment.", retry_after=5)
    if not isinstance(error, ArtelError):
        log.error("request_crashed", exc_info=error)
        detail = "Internal server error. The operator finds it in the log by request_id."
        return problem(scope, 500, "internal_error", detail)
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    if error.kind is Kind.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    return problem(scope, STATUS[error.kind], error.code, error.detail, _mistakes_of(error), headers)


def _mistakes_of(error: ArtelError) -> list[FieldError] | None:
    """Return the mistakes of a file, each with its key and line."""
    if not isinstance(error, AgentFileInvalid):
        return None
    mistakes = error.mistakes[:MAX_FIELD_ERRORS]
    return [
        FieldError(field=mistake.key or mistake.file, message=f"line {mistake.line}: {mistake.text}")
        for mistake in mistakes
    ]


def install_problem_handlers(app: FastAPI) -> None:
    """Return problem documents for FastAPI's own errors too."""

    @app.exception_handler(ArtelError)
    async def artel_error(request: Request, error: ArtelError) -> Response:
        return problem_of(request.scope, error)

    @app.exception_handler(PathError)
    async def path_error(request: Request, error: PathError) -> Response:
        code = "file_not_found" if error.code == "invalid_path" else error.code  # an impossible name has no file
        return problem(request.scope, _PATH_STATUS.get(code, 409), code, error.message)

    @app.exception_handler(RequestValidationError)
    async def validation_error(request: Request, error: RequestValidationError) -> Response:
        # Only locations and messages: the input itself may contain a password or invalid Unicode. The name of an
        # unknown field is the client's input too.
        fields = [
            FieldError(field=".".join(encodable(str(part)[:100]) for part in item["loc"]), message=item["msg"])
            for item in error.errors()[:MAX_FIELD_ERRORS]
        ]
        detail = "; ".join(f"{field.field}: {field.message}" for field in fields[:3])
        return problem(request.scope, 422, "invalid_request", f"The request is not valid. {detail}", fields)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        status, headers = error.status_code, dict(error.headers or {})
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            # FastAPI lists only the methods of the first matching route.
            routes = [route for route in app.routes if isinstance(route, APIRoute)]
            matching = (route for route in routes if route.matches(request.scope)[0] is not Match.NONE)
            headers["Allow"] = ", ".join(sorted({method for route in matching for method in route.methods or ()}))
        detail = _DETAILS.get(status, error.detail)
        return problem(request.scope, status, _CODES.get(status, "http_error"), detail, headers=headers)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of an operation's error responses."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }
