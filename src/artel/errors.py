"""Artel's own errors: one root class and one class per situation, independent of the transport.

Each edge translates `Kind` once: the HTTP API into a status, the command line into an exit code.
"""

from enum import StrEnum


class Kind(StrEnum):
    """Category of an error, which the edges translate."""

    INVALID = "invalid"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    TOO_LARGE = "too_large"
    MISDIRECTED = "misdirected"
    TOO_LONG = "too_long"
    TOO_MANY = "too_many"
    UNAVAILABLE = "unavailable"
    FAILED = "failed"
    TIMED_OUT = "timed_out"


class ArtelError(Exception):
    """Root of all errors. `detail` is shown to users: it says what happened and what to do, without secrets."""

    kind: Kind
    code: str

    def __init__(self, detail: str, *, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after = retry_after


class ConfigurationInvalid(ArtelError):
    """A setting is wrong, or two settings contradict each other."""

    kind = Kind.INVALID
    code = "configuration_invalid"


class DatabaseInUse(ArtelError):
    """Another server has locked the SQLite database."""

    kind = Kind.CONFLICT
    code = "database_in_use"


class AddressUnavailable(ArtelError):
    """The address to listen on is in use or not available on this machine."""

    kind = Kind.CONFLICT
    code = "address_unavailable"


class SchemaOutdated(ArtelError):
    """The database schema does not match this version."""

    kind = Kind.UNAVAILABLE
    code = "schema_outdated"


class DatabaseUnavailable(ArtelError):
    """The database can't be reached or is overloaded."""

    kind = Kind.UNAVAILABLE
    code = "database_unavailable"


class NotAuthenticated(ArtelError):
    """The request has no usable token."""

    kind = Kind.UNAUTHENTICATED
    code = "not_authenticated"


class TokenInvalid(ArtelError):
    """The token is malformed, expired, forged, or for another audience."""

    kind = Kind.UNAUTHENTICATED
    code = "invalid_token"


class CredentialsWrong(ArtelError):
    """The e-mail address or the password is wrong; the message does not say which."""

    kind = Kind.UNAUTHENTICATED
    code = "invalid_credentials"


class TooManyLogins(ArtelError):
    """Too many failed logins for this account or from this address."""

    kind = Kind.TOO_MANY
    code = "too_many_logins"


class IdentityProviderUnavailable(ArtelError):
    """The keys of the external issuer can't be fetched."""

    kind = Kind.UNAVAILABLE
    code = "identity_provider_unavailable"


class ServerBusy(ArtelError):
    """A bounded queue inside the server is full."""

    kind = Kind.UNAVAILABLE
    code = "server_busy"


class PathTooLong(ArtelError):
    """The path of a request exceeds the limit."""

    kind = Kind.TOO_LONG
    code = "path_too_long"


class RegistrationClosed(ArtelError):
    """Registration is closed; the operator creates the accounts."""

    kind = Kind.FORBIDDEN
    code = "registration_closed"


class HostNotAllowed(ArtelError):
    """The Host header names a host that this server does not serve."""

    kind = Kind.MISDIRECTED
    code = "host_not_allowed"


class OriginRefused(ArtelError):
    """A page of another origin tries to change something, or a request with a cookie does not prove its origin."""

    kind = Kind.FORBIDDEN
    code = "origin_refused"


class AdministratorOnly(ArtelError):
    """The account has no administrator rights."""

    kind = Kind.FORBIDDEN
    code = "administrator_only"


class CodeExpired(ArtelError):
    """A one-time code is expired, already used, or unknown."""

    kind = Kind.FORBIDDEN
    code = "code_expired"


class OtherAccount(ArtelError):
    """Another account is signed in; the user must agree to replace it."""

    kind = Kind.CONFLICT
    code = "other_account"


class LoginNotFound(ArtelError):
    """The user has no such login, or it has ended."""

    kind = Kind.NOT_FOUND
    code = "login_not_found"


class NoLogin(ArtelError):
    """The token belongs to no login, so there is nothing to end."""

    kind = Kind.CONFLICT
    code = "no_login"


class NoPassword(ArtelError):
    """The account signs in without a password."""

    kind = Kind.CONFLICT
    code = "no_password"


class PasswordWrong(ArtelError):
    """The old password is wrong."""

    kind = Kind.FORBIDDEN
    code = "wrong_password"


class EmailTaken(ArtelError):
    """An account with this e-mail address exists."""

    kind = Kind.CONFLICT
    code = "email_taken"


class AccountNotFound(ArtelError):
    """No account has this e-mail address or id."""

    kind = Kind.NOT_FOUND
    code = "account_not_found"


class ProjectNotFound(ArtelError):
    """The user has no such project; projects of other users are reported the same way."""

    kind = Kind.NOT_FOUND
    code = "project_not_found"


class MemoryNotFound(ArtelError):
    """The agent has no such memory."""

    kind = Kind.NOT_FOUND
    code = "memory_not_found"


class AgentNotFound(ArtelError):
    """The project has no such agent."""

    kind = Kind.NOT_FOUND
    code = "agent_not_found"


class AgentNameTaken(ArtelError):
    """The project already has an agent with this name."""

    kind = Kind.CONFLICT
    code = "agent_name_taken"


class ArchiveNotFound(ArtelError):
    """The project has no such memory archive."""

    kind = Kind.NOT_FOUND
    code = "archive_not_found"


class SessionNotFound(ArtelError):
    """The user has no such session."""

    kind = Kind.NOT_FOUND
    code = "session_not_found"


class TurnNotFound(ArtelError):
    """The session has no such turn."""

    kind = Kind.NOT_FOUND
    code = "turn_not_found"


class MessageNotFound(ArtelError):
    """The session has no such message."""

    kind = Kind.NOT_FOUND
    code = "message_not_found"


class SessionBusy(ArtelError):
    """The session's message queue is full."""

    kind = Kind.TOO_MANY
    code = "session_busy"


class AgentQueueFull(ArtelError):
    """The agent's task queue is full."""

    kind = Kind.UNAVAILABLE
    code = "agent_queue_full"


class BudgetExceeded(ArtelError):
    """The maximum cost of a model call exceeds the remaining budget."""

    kind = Kind.CONFLICT
    code = "budget_exceeded"
    is_agents_fault = False

    def __init__(self, detail: str, *, budget_id: str = "") -> None:
        super().__init__(detail)
        self.budget_id = budget_id


class AgentInError(ArtelError):
    """The agent has failed several times in a row and takes no tasks for a while."""

    is_agents_fault = False
    kind = Kind.UNAVAILABLE
    code = "agent_in_error"


class TaskStopped(ArtelError):
    """A task was stopped while it waited or ran."""

    is_agents_fault = False
    kind = Kind.UNAVAILABLE
    code = "task_stopped"


class AgentNotRegistered(ArtelError):
    """The agent is not registered on the bus."""

    is_agents_fault = False

    kind = Kind.UNAVAILABLE
    code = "agent_not_registered"


class SpaceUnavailable(ArtelError):
    """No process currently runs the project's worker space."""

    kind = Kind.UNAVAILABLE
    code = "space_unavailable"


class AgentFailed(ArtelError):
    """The agent could not answer."""

    kind = Kind.FAILED
    code = "agent_failed"


class TurnTimedOut(ArtelError):
    """The agent took too long."""

    kind = Kind.TIMED_OUT
    code = "timeout"


class TurnCancelledByUser(ArtelError):
    """The turn was cancelled before the answer was complete."""

    kind = Kind.CONFLICT
    code = "cancelled"


class IdempotencyKeyReused(ArtelError):
    """The idempotency key was used for another message."""

    kind = Kind.INVALID
    code = "idempotency_key_reused"


class StorageFull(ArtelError):
    """The user's storage quota is used up."""

    kind = Kind.CONFLICT
    code = "storage_full"
    is_agents_fault = False


class LimitReached(ArtelError):
    """The user has reached the server's limit for this kind of object."""

    kind = Kind.CONFLICT
    code = "limit_reached"


class OtherConnector(ArtelError):
    """Another connector is connected for the project."""

    kind = Kind.CONFLICT
    code = "other_connector"


class TooManyConnectors(ArtelError):
    """The user has reached this process's limit of connectors."""

    kind = Kind.TOO_MANY
    code = "too_many_connectors"


class TooManyStreams(ArtelError):
    """The user has reached this process's limit of event streams."""

    kind = Kind.TOO_MANY
    code = "too_many_streams"


class SearchTooLong(ArtelError):
    """A search over all messages exceeded its timeout."""

    kind = Kind.TIMED_OUT
    code = "search_timeout"


class TooManySearches(ArtelError):
    """The user's search queue is full."""

    kind = Kind.TOO_MANY
    code = "too_many_searches"


class WorkflowNotOver(ArtelError):
    """A workflow that is running or completed can't be retried."""

    kind = Kind.CONFLICT
    code = "workflow_not_over"


class TurnNotOver(ArtelError):
    """A turn that is running or has no message of its own can't be retried."""

    kind = Kind.CONFLICT
    code = "turn_not_over"


class PlanRejected(ArtelError):
    """The user rejected the plan."""

    kind = Kind.CONFLICT
    code = "plan_rejected"


class RangeInvalid(ArtelError):
    """A range of days is too long, or ends before it starts."""

    kind = Kind.INVALID
    code = "range_invalid"


class ToolNotAvailable(ArtelError):
    """A tool that agents can't have yet."""

    kind = Kind.INVALID
    code = "tool_not_available"


class PlanNotPossible(ArtelError):
    """A plan with the user's changes can't be run."""

    kind = Kind.INVALID
    code = "plan_not_possible"


class WorkflowNotFound(ArtelError):
    """The user has no such workflow."""

    kind = Kind.NOT_FOUND
    code = "workflow_not_found"


class ApprovalNotFound(ArtelError):
    """The user has no such approval."""

    kind = Kind.NOT_FOUND
    code = "approval_not_found"


class ApprovalDecided(ArtelError):
    """The approval was already decided, or no run waits for it."""

    kind = Kind.CONFLICT
    code = "approval_decided"


class ToolFailed(ArtelError):
    """A tool call that was approved late has failed."""

    kind = Kind.FAILED
    code = "tool_failed"


class ConnectorUnreachable(ArtelError):
    """The connector is offline or did not answer in time."""

    kind = Kind.UNAVAILABLE
    code = "connector_offline"


class UndoRefused(ArtelError):
    """The connector refused to undo changes and says why."""

    kind = Kind.CONFLICT
    code = "undo_refused"
