"""Every error that Artel itself raises: one root, one class per situation, no transport in sight.

Each edge translates a `Kind` once: the HTTP API into a status, the command line into an exit code.
"""

from enum import StrEnum


class Kind(StrEnum):
    """What sort of trouble it is, which is all that an edge needs to know."""

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
    """The root. `detail` is shown to people: it says what is wrong and what to do, and holds no secret."""

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
    """Another server already holds the SQLite database."""

    kind = Kind.CONFLICT
    code = "database_in_use"


class AddressUnavailable(ArtelError):
    """The address to listen on is taken, or can't be used here."""

    kind = Kind.CONFLICT
    code = "address_unavailable"


class SchemaOutdated(ArtelError):
    """The database's schema is not the one that this version works with."""

    kind = Kind.UNAVAILABLE
    code = "schema_outdated"


class DatabaseUnavailable(ArtelError):
    """The database can't be reached, or has too much to do."""

    kind = Kind.UNAVAILABLE
    code = "database_unavailable"


class NotAuthenticated(ArtelError):
    """There is no usable token."""

    kind = Kind.UNAUTHENTICATED
    code = "not_authenticated"


class TokenInvalid(ArtelError):
    """There is a token, and it is not good: malformed, expired, forged, meant for somebody else."""

    kind = Kind.UNAUTHENTICATED
    code = "invalid_token"


class CredentialsWrong(ArtelError):
    """The e-mail address or the password is wrong; which one is not said."""

    kind = Kind.UNAUTHENTICATED
    code = "invalid_credentials"


class TooManyLogins(ArtelError):
    """Too many failed log-ins for this account or from this address."""

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
    """The path of a request is far longer than any that there is."""

    kind = Kind.TOO_LONG
    code = "path_too_long"


class RegistrationClosed(ArtelError):
    """The operator makes the accounts here."""

    kind = Kind.FORBIDDEN
    code = "registration_closed"


class HostNotAllowed(ArtelError):
    """The request names a host that is none of this server's."""

    kind = Kind.MISDIRECTED
    code = "host_not_allowed"


class OriginRefused(ArtelError):
    """A web page of another origin tries to change something, or a cookie comes without proof of its origin."""

    kind = Kind.FORBIDDEN
    code = "origin_refused"


class AdministratorOnly(ArtelError):
    """The account is not an administrator's."""

    kind = Kind.FORBIDDEN
    code = "administrator_only"


class CodeExpired(ArtelError):
    """A one-time code is too old, was used, or never was one."""

    kind = Kind.FORBIDDEN
    code = "code_expired"


class OtherAccount(ArtelError):
    """Somebody else is signed in; the user has to agree to replace the login."""

    kind = Kind.CONFLICT
    code = "other_account"


class LoginNotFound(ArtelError):
    """The user has no such login, or it has ended."""

    kind = Kind.NOT_FOUND
    code = "login_not_found"


class NoLogin(ArtelError):
    """The token was not issued by a login, which could be ended."""

    kind = Kind.CONFLICT
    code = "no_login"


class NoPassword(ArtelError):
    """The account signs in without a password."""

    kind = Kind.CONFLICT
    code = "no_password"


class PasswordWrong(ArtelError):
    """The old password is wrong, so it is not changed."""

    kind = Kind.FORBIDDEN
    code = "wrong_password"


class EmailTaken(ArtelError):
    """There is an account with this e-mail address."""

    kind = Kind.CONFLICT
    code = "email_taken"


class AccountNotFound(ArtelError):
    """No account has this e-mail address."""

    kind = Kind.NOT_FOUND
    code = "account_not_found"


class ProjectNotFound(ArtelError):
    """No such project of this user, whether it never was, is gone, or is somebody else's."""

    kind = Kind.NOT_FOUND
    code = "project_not_found"


class MemoryNotFound(ArtelError):
    """No such memory of this agent."""

    kind = Kind.NOT_FOUND
    code = "memory_not_found"


class AgentNotFound(ArtelError):
    """No such agent in this project of this user."""

    kind = Kind.NOT_FOUND
    code = "agent_not_found"


class AgentNameTaken(ArtelError):
    """An agent of the project has this name."""

    kind = Kind.CONFLICT
    code = "agent_name_taken"


class ArchiveNotFound(ArtelError):
    """No such archive of a memory in this project of this user."""

    kind = Kind.NOT_FOUND
    code = "archive_not_found"


class SessionNotFound(ArtelError):
    """No such session of this user."""

    kind = Kind.NOT_FOUND
    code = "session_not_found"


class TurnNotFound(ArtelError):
    """No such turn in this session of this user."""

    kind = Kind.NOT_FOUND
    code = "turn_not_found"


class MessageNotFound(ArtelError):
    """No such message in this session of this user."""

    kind = Kind.NOT_FOUND
    code = "message_not_found"


class SessionBusy(ArtelError):
    """As many messages wait in the session as may."""

    kind = Kind.TOO_MANY
    code = "session_busy"


class AgentQueueFull(ArtelError):
    """As many tasks wait for the agent as may."""

    kind = Kind.UNAVAILABLE
    code = "agent_queue_full"


class BudgetExceeded(ArtelError):
    """What a call to a model may cost is more than is left to spend."""

    kind = Kind.CONFLICT
    code = "budget_exceeded"
    is_agents_fault = False

    def __init__(self, detail: str, *, budget_id: str = "") -> None:
        super().__init__(detail)
        self.budget_id = budget_id


class AgentInError(ArtelError):
    """The agent has failed several times in a row and is left alone for a while."""

    is_agents_fault = False
    kind = Kind.UNAVAILABLE
    code = "agent_in_error"


class TaskStopped(ArtelError):
    """A task was stopped while it waited or ran."""

    is_agents_fault = False
    kind = Kind.UNAVAILABLE
    code = "task_stopped"


class AgentNotRegistered(ArtelError):
    """The agent was taken off the bus."""

    is_agents_fault = False

    kind = Kind.UNAVAILABLE
    code = "agent_not_registered"


class SpaceUnavailable(ArtelError):
    """Nobody runs the project's worker space at the moment."""

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
    """The turn was cancelled before it was answered."""

    kind = Kind.CONFLICT
    code = "cancelled"


class IdempotencyKeyReused(ArtelError):
    """The key was used for another message."""

    kind = Kind.INVALID
    code = "idempotency_key_reused"


class StorageFull(ArtelError):
    """The user has stored as much as an administrator allows."""

    kind = Kind.CONFLICT
    code = "storage_full"
    is_agents_fault = False


class LimitReached(ArtelError):
    """The user has as many of these as the server allows."""

    kind = Kind.CONFLICT
    code = "limit_reached"


class OtherConnector(ArtelError):
    """Another connector serves the project's files."""

    kind = Kind.CONFLICT
    code = "other_connector"


class TooManyConnectors(ArtelError):
    """The user has as many connectors online as this process takes."""

    kind = Kind.TOO_MANY
    code = "too_many_connectors"


class TooManyStreams(ArtelError):
    """The user follows as many streams of events as this process serves for one."""

    kind = Kind.TOO_MANY
    code = "too_many_streams"


class SearchTooLong(ArtelError):
    """A search over all messages took longer than it may."""

    kind = Kind.TIMED_OUT
    code = "search_timeout"


class TooManySearches(ArtelError):
    """As many searches of the user wait as may."""

    kind = Kind.TOO_MANY
    code = "too_many_searches"


class WorkflowNotOver(ArtelError):
    """A workflow that goes on, or was done, can't be tried again."""

    kind = Kind.CONFLICT
    code = "workflow_not_over"


class TurnNotOver(ArtelError):
    """A turn that goes on, or has no message of its own, can't be tried again."""

    kind = Kind.CONFLICT
    code = "turn_not_over"


class PlanRejected(ArtelError):
    """The user did not want the plan for their message."""

    kind = Kind.CONFLICT
    code = "plan_rejected"


class RangeInvalid(ArtelError):
    """A range of days is too long, or ends before it begins."""

    kind = Kind.INVALID
    code = "range_invalid"


class PlanNotPossible(ArtelError):
    """A plan as the user wants it can't be run."""

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
    """It was decided before, or nobody waits for it any more."""

    kind = Kind.CONFLICT
    code = "approval_decided"


class ToolFailed(ArtelError):
    """A call of a tool that was approved late did not work."""

    kind = Kind.FAILED
    code = "tool_failed"


class ConnectorUnreachable(ArtelError):
    """The user's files can't be reached, or not in time."""

    kind = Kind.UNAVAILABLE
    code = "connector_offline"


class UndoRefused(ArtelError):
    """Nothing was put back; the connector says why."""

    kind = Kind.CONFLICT
    code = "undo_refused"
