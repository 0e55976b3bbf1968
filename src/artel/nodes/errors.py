"""How errors become ERROR messages: each kind has a code of google.rpc."""

from artel.brain.errors import ModelError, ModelNotAllowed, ModelRefused, ModelTimedOut
from artel.contract.envelope import ErrorCode, ErrorInfo
from artel.errors import ArtelError, BudgetExceeded, Kind
from artel.nodes.capability import ParamsInvalid
from artel.nodes.task import ActionUnknown

_CODES: dict[Kind, ErrorCode] = {
    Kind.INVALID: "INVALID_ARGUMENT",
    Kind.UNAUTHENTICATED: "UNAUTHENTICATED",
    Kind.FORBIDDEN: "PERMISSION_DENIED",
    Kind.NOT_FOUND: "NOT_FOUND",
    Kind.CONFLICT: "FAILED_PRECONDITION",
    Kind.TOO_LARGE: "INVALID_ARGUMENT",
    Kind.MISDIRECTED: "FAILED_PRECONDITION",
    Kind.TOO_LONG: "INVALID_ARGUMENT",
    Kind.TOO_MANY: "RESOURCE_EXHAUSTED",
    Kind.UNAVAILABLE: "UNAVAILABLE",
    Kind.FAILED: "INTERNAL",
    Kind.TIMED_OUT: "DEADLINE_EXCEEDED",
}
# Of errors whose kind says too little to the sender of a command.
_CODES_BY_CLASS: tuple[tuple[type[ArtelError], ErrorCode], ...] = (
    (ActionUnknown, "UNIMPLEMENTED"),
    (BudgetExceeded, "RESOURCE_EXHAUSTED"),
    (ModelTimedOut, "DEADLINE_EXCEEDED"),
    (ModelNotAllowed, "PERMISSION_DENIED"),
    (ModelRefused, "FAILED_PRECONDITION"),  # the node's key or model is wrong
)


def error_info(problem: BaseException, seconds: float) -> ErrorInfo:
    """Return what the sender is told about a failed command."""
    if isinstance(problem, TimeoutError):
        message = f"The task was not done within {seconds:.1f} s. Raise timeout_seconds, or the agent's limit."
        return ErrorInfo(code="DEADLINE_EXCEEDED", message=message)
    if not isinstance(problem, ArtelError):
        return ErrorInfo(code="INTERNAL", message="The task failed because of an error inside the node; see its log.")
    code = next((code for kind, code in _CODES_BY_CLASS if isinstance(problem, kind)), _CODES[problem.kind])
    is_transient = not isinstance(problem, ModelError) or problem.transient
    details: dict[str, object] = {"code": problem.code}
    if isinstance(problem, ParamsInvalid):
        details["violations"] = [
            {"property": violation.property, "message": violation.message} for violation in problem.violations
        ]
    if problem.retry_after is not None:
        details["retry_after_seconds"] = problem.retry_after
    return ErrorInfo.model_validate(
        {
            "code": code,
            "message": problem.detail,
            "retryable": code == "UNAVAILABLE" and is_transient,
            "details": details,
        }
    )
