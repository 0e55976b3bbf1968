"""Artel's own errors: one class per situation, with a kind that each edge translates: HTTP status, exit code."""

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
    is_agents_fault = True  # whether it counts as a failure of the agent whose task raises it

    def __init_subclass__(cls, *, kind: Kind | None = None, code: str | None = None) -> None:
        if kind is not None:
            cls.kind = kind
        if code is not None:
            cls.code = code

    def __init__(self, detail: str, *, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after = retry_after


class ConfigurationInvalid(ArtelError, kind=Kind.INVALID, code="configuration_invalid"):
    """A setting is wrong, or two settings contradict each other."""


class DatabaseInUse(ArtelError, kind=Kind.CONFLICT, code="database_in_use"):
    """Another server has locked the SQLite database."""


class AddressUnavailable(ArtelError, kind=Kind.CONFLICT, code="address_unavailable"):
    """The address to listen on is in use or not available on this machine."""


class SchemaOutdated(ArtelError, kind=Kind.UNAVAILABLE, code="schema_outdated"):
    """The database schema does not match this version."""


class DatabaseUnavailable(ArtelError, kind=Kind.UNAVAILABLE, code="database_unavailable"):
    """The database can't be reached or is overloaded."""


class NotAuthenticated(ArtelError, kind=Kind.UNAUTHENTICATED, code="not_authenticated"):
    """The request has no usable token."""


class TokenInvalid(ArtelError, kind=Kind.UNAUTHENTICATED, code="invalid_token"):
    """The token is malformed, expired, forged, or for another audience."""


class CredentialsWrong(ArtelError, kind=Kind.UNAUTHENTICATED, code="invalid_credentials"):
    """The e-mail address or the password is wrong; the message does not say which."""


class TooManyLogins(ArtelError, kind=Kind.TOO_MANY, code="too_many_logins"):
    """Too many failed logins for this account or from this address."""


class IdentityProviderUnavailable(ArtelError, kind=Kind.UNAVAILABLE, code="identity_provider_unavailable"):
    """The keys of the external issuer can't be fetched."""


class ServerBusy(ArtelError, kind=Kind.UNAVAILABLE, code="server_busy"):
    """A bounded queue inside the server is full."""


class PathTooLong(ArtelError, kind=Kind.TOO_LONG, code="path_too_long"):
    """The path of a request exceeds the limit."""


class RegistrationClosed(ArtelError, kind=Kind.FORBIDDEN, code="registration_closed"):
    """Registration is closed; the operator creates the accounts."""


class HostNotAllowed(ArtelError, kind=Kind.MISDIRECTED, code="host_not_allowed"):
    """The Host header names a host that this server does not serve."""


class OriginRefused(ArtelError, kind=Kind.FORBIDDEN, code="origin_refused"):
    """A page of another origin tries to change something, or a request with a cookie does not prove its origin."""


class AdministratorOnly(ArtelError, kind=Kind.FORBIDDEN, code="administrator_only"):
    """The account has no administrator rights."""


class CodeExpired(ArtelError, kind=Kind.FORBIDDEN, code="code_expired"):
    """A one-time code is expired, already used, or unknown."""


class OtherAccount(ArtelError, kind=Kind.CONFLICT, code="other_account"):
    """Another account is signed in; the user must agree to replace it."""


class LoginNotFound(ArtelError, kind=Kind.NOT_FOUND, code="login_not_found"):
    """The user has no such login, or it has ended."""


class NoLogin(ArtelError, kind=Kind.CONFLICT, code="no_login"):
    """The token belongs to no login, so there is nothing to end."""


class NoPassword(ArtelError, kind=Kind.CONFLICT, code="no_password"):
    """The account signs in without a password."""


class LifetimeTooLong(ArtelError, kind=Kind.INVALID, code="lifetime_too_long"):
    """An API key would be valid for longer than this server allows."""


class PasswordWrong(ArtelError, kind=Kind.FORBIDDEN, code="wrong_password"):
    """The old password is wrong."""


class EmailTaken(ArtelError, kind=Kind.CONFLICT, code="email_taken"):
    """An account with this e-mail address exists."""


class OwnAccount(ArtelError, kind=Kind.CONFLICT, code="own_account"):
    """An administrator can't do this to the own account."""


class AccountNotFound(ArtelError, kind=Kind.NOT_FOUND, code="account_not_found"):
    """No account has this e-mail address or id."""


class ProjectNotFound(ArtelError, kind=Kind.NOT_FOUND, code="project_not_found"):
    """The user has no such project; projects of other users are reported the same way."""


class MemoryNotFound(ArtelError, kind=Kind.NOT_FOUND, code="memory_not_found"):
    """The agent has no such memory."""


class AgentNotFound(ArtelError, kind=Kind.NOT_FOUND, code="agent_not_found"):
    """The project has no such agent."""


class AgentNameTaken(ArtelError, kind=Kind.CONFLICT, code="agent_name_taken"):
    """The project already has an agent with this name."""


class ArchiveNotFound(ArtelError, kind=Kind.NOT_FOUND, code="archive_not_found"):
    """The project has no such memory archive."""


class SessionNotFound(ArtelError, kind=Kind.NOT_FOUND, code="session_not_found"):
    """The user has no such session."""


class TurnNotFound(ArtelError, kind=Kind.NOT_FOUND, code="turn_not_found"):
    """The session has no such turn."""


class MessageNotFound(ArtelError, kind=Kind.NOT_FOUND, code="message_not_found"):
    """The session has no such message."""


class TimelineItemNotFound(ArtelError, kind=Kind.NOT_FOUND, code="timeline_item_not_found"):
    """The timeline of the session has no such item."""


class DiffNotFound(ArtelError, kind=Kind.NOT_FOUND, code="diff_not_found"):
    """The project has no such change, or its diff is not stored."""


class NotAnAnswer(ArtelError, kind=Kind.CONFLICT, code="not_an_answer"):
    """Only answers of agents take feedback."""


class SessionBusy(ArtelError, kind=Kind.TOO_MANY, code="session_busy"):
    """The session's message queue is full."""


class AgentQueueFull(ArtelError, kind=Kind.UNAVAILABLE, code="agent_queue_full"):
    """The agent's task queue is full."""


class BudgetExceeded(ArtelError, kind=Kind.CONFLICT, code="budget_exceeded"):
    """The maximum cost of a model call exceeds the remaining budget."""

    is_agents_fault = False

    def __init__(self, detail: str, *, budget_id: str = "") -> None:
        super().__init__(detail)
        self.budget_id = budget_id


class AccountBudgetExceeded(BudgetExceeded, code="account_budget_exceeded"):
    """The maximum cost of a model call exceeds what is left of the limit that an administrator set for the account."""


class AgentInError(ArtelError, kind=Kind.UNAVAILABLE, code="agent_in_error"):
    """The agent has failed several times in a row and takes no tasks for a while."""

    is_agents_fault = False


class TaskStopped(ArtelError, kind=Kind.UNAVAILABLE, code="task_stopped"):
    """A task was stopped while it waited or ran."""

    is_agents_fault = False


class AgentNotRegistered(ArtelError, kind=Kind.UNAVAILABLE, code="agent_not_registered"):
    """The agent is not registered on the bus."""

    is_agents_fault = False


class AgentUnavailable(ArtelError, kind=Kind.UNAVAILABLE, code="agent_unavailable"):
    """No node can do the task of an agent that runs on nodes."""

    is_agents_fault = False


class SpaceUnavailable(ArtelError, kind=Kind.UNAVAILABLE, code="space_unavailable"):
    """No process currently runs the project's worker space."""


class AgentFailed(ArtelError, kind=Kind.FAILED, code="agent_failed"):
    """The agent could not answer."""


class TurnTimedOut(ArtelError, kind=Kind.TIMED_OUT, code="timeout"):
    """The agent took too long."""


class TurnCancelledByUser(ArtelError, kind=Kind.CONFLICT, code="cancelled"):
    """The turn was cancelled before the answer was complete."""


class IdempotencyKeyReused(ArtelError, kind=Kind.INVALID, code="idempotency_key_reused"):
    """The idempotency key was used for another request."""


class StorageFull(ArtelError, kind=Kind.CONFLICT, code="storage_full"):
    """The user's storage quota is used up."""

    is_agents_fault = False


class AttachmentNotFound(ArtelError, kind=Kind.NOT_FOUND, code="attachment_not_found"):
    """The session has no such attachment, or it was sent already."""


class AttachmentInvalid(ArtelError, kind=Kind.INVALID, code="attachment_invalid"):
    """The file is empty, damaged, or neither a text nor a known kind of image."""


class AttachmentSent(ArtelError, kind=Kind.CONFLICT, code="attachment_sent"):
    """The attachment belongs to a message and can't be deleted alone."""


class ImagesNotSupported(ArtelError, kind=Kind.INVALID, code="images_not_supported"):
    """The model that would answer takes no images."""

    is_agents_fault = False


class TooManyUploads(ArtelError, kind=Kind.TOO_MANY, code="too_many_uploads"):
    """The user, or the process, has too many uploads in progress."""


class TooManyDownloads(ArtelError, kind=Kind.TOO_MANY, code="too_many_downloads"):
    """The user has too many downloads in progress."""


class LimitReached(ArtelError, kind=Kind.CONFLICT, code="limit_reached"):
    """The user has reached the server's limit for this kind of object."""


class OtherConnector(ArtelError, kind=Kind.CONFLICT, code="other_connector"):
    """Another connector serves the project, or has taken over."""


class TooManyConnectors(ArtelError, kind=Kind.TOO_MANY, code="too_many_connectors"):
    """The user has reached this process's limit of connectors."""


class TooManyStreams(ArtelError, kind=Kind.TOO_MANY, code="too_many_streams"):
    """The user has reached this process's limit of event streams."""


class SearchTooLong(ArtelError, kind=Kind.TIMED_OUT, code="search_timeout"):
    """A search over all messages exceeded its timeout."""


class ActivityTooLong(ArtelError, kind=Kind.TIMED_OUT, code="activity_timeout"):
    """The report of a project's activity exceeded its timeout."""


class UsageTooLong(ArtelError, kind=Kind.TIMED_OUT, code="usage_timeout"):
    """The report of all users' usage exceeded its timeout."""


class TooManySearches(ArtelError, kind=Kind.TOO_MANY, code="too_many_searches"):
    """The user's search queue is full."""


class WorkflowNotOver(ArtelError, kind=Kind.CONFLICT, code="workflow_not_over"):
    """A workflow that is running or completed can't be retried."""


class TurnNotOver(ArtelError, kind=Kind.CONFLICT, code="turn_not_over"):
    """A turn that is running or has no message of its own can't be retried."""


class TurnStarted(ArtelError, kind=Kind.CONFLICT, code="turn_started"):
    """Only a message that is still queued can be changed."""


class NotCutOff(ArtelError, kind=Kind.CONFLICT, code="not_cut_off"):
    """Only an answer that was cut off, and that nothing goes on from yet, can be continued."""


class PlanRejected(ArtelError, kind=Kind.CONFLICT, code="plan_rejected"):
    """The user rejected the plan."""


class RangeInvalid(ArtelError, kind=Kind.INVALID, code="range_invalid"):
    """A range of days is too long, or ends before it starts."""


class PlanNotPossible(ArtelError, kind=Kind.INVALID, code="plan_not_possible"):
    """A plan with the user's changes can't be run."""


class WorkflowNotFound(ArtelError, kind=Kind.NOT_FOUND, code="workflow_not_found"):
    """The user has no such workflow."""


class ApprovalNotFound(ArtelError, kind=Kind.NOT_FOUND, code="approval_not_found"):
    """The user has no such approval."""


class ApprovalDecided(ArtelError, kind=Kind.CONFLICT, code="approval_decided"):
    """The approval was already decided, or no run waits for it."""


class ToolFailed(ArtelError, kind=Kind.FAILED, code="tool_failed"):
    """A tool call that was approved late has failed."""


class ConnectorUnreachable(ArtelError, kind=Kind.UNAVAILABLE, code="connector_offline"):
    """The connector is offline or did not answer in time."""


class ConnectorNotOnline(ArtelError, kind=Kind.CONFLICT, code="connector_offline"):
    """No connector is online for the project; nothing was tried."""


class ConnectorTooOld(ArtelError, kind=Kind.CONFLICT, code="connector_too_old"):
    """The connector of the project does not know the method."""


class ConnectorDeclined(ArtelError, kind=Kind.CONFLICT, code="connector_declined"):
    """The connector refuses what the user wants, with its reason."""


class GrantNotFound(ArtelError, kind=Kind.NOT_FOUND, code="grant_not_found"):
    """The connector has no grant with this id."""


class NodeNotFound(ArtelError, kind=Kind.NOT_FOUND, code="node_not_found"):
    """No node has this name, or it was forgotten."""


class NodeUnreachable(ArtelError, kind=Kind.UNAVAILABLE, code="node_unreachable"):
    """The node does not listen on the bus of this server."""


class UndoRefused(ArtelError, kind=Kind.CONFLICT, code="undo_refused"):
    """The connector refused to undo changes and says why."""


class ProviderNotFound(ArtelError, kind=Kind.NOT_FOUND, code="provider_not_found"):
    """No provider of models has this id."""


class ProviderExists(ArtelError, kind=Kind.CONFLICT, code="provider_exists"):
    """A provider whose models have the same names is configured already."""


class ProviderInvalid(ArtelError, kind=Kind.INVALID, code="provider_invalid"):
    """A provider lacks its key or its address."""


class SettingFixed(ArtelError, kind=Kind.CONFLICT, code="setting_fixed"):
    """The environment sets this setting, so that it can't be changed here."""
