"""The tables. Each table of user data has user_id, and composite foreign keys tie it to the parent's user_id."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.schema import SchemaItem

from artel.db.columns import Id, Moment, of_project, of_session, partial_index, project_foreign_key

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _table(name: str, *items: SchemaItem, sqlite_autoincrement: bool = False) -> Table:
    return Table(name, metadata, *items, sqlite_autoincrement=sqlite_autoincrement)


# A deleted account stays as a row without data, so that its tokens and external subject stay refused and its id is
# never reused.
users = _table(
    "users",
    Column("id", Id, primary_key=True),
    Column("email", String(254)),
    Column("password_hash", String(200)),
    Column("issuer", String(500)),
    Column("subject", String(500)),
    Column("is_admin", Boolean, nullable=False, default=False),
    Column("tokens_since", Moment),  # tokens issued earlier are refused
    # Limits set by an administrator: NULL is the server's default, -1 is no limit.
    Column("monthly_micros", BigInteger),
    Column("storage_bytes", BigInteger),
    Column("created_at", Moment, nullable=False),
    Column("deleted_at", Moment),
    UniqueConstraint("issuer", "subject"),
    partial_index("uq_users_local_email", "email", where="issuer IS NULL AND deleted_at IS NULL", unique=True),
    sqlite_autoincrement=True,
)

# One row. The user who sets first_user_id, which happens once, is the administrator. Servers whose schema is at least
# compatible_since can work with this database; migrations that contract the schema raise it.
installation = _table(
    "installation",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("first_user_id", Id, ForeignKey("users.id")),
    Column("compatible_since", String(32), nullable=False),
    # Separates installations that share a Redis, since their users and projects have the same ids.
    Column("key", String(36), nullable=False),
    Column("settings_version", Integer, nullable=False, server_default="0"),  # raised with each change of server_tables
)

login_attempts = _table(
    "login_attempts",
    Column("key", String(64), primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("retry_at", Moment, nullable=False),
    Column("forget_at", Moment, nullable=False),
    Index(None, "forget_at"),
)

# Logins of users. Tokens and cookies contain the id and are refused when the login is revoked or deleted.
logins = _table(
    "logins",
    Column("id", String(36), primary_key=True),
    Column("user_id", Id, ForeignKey("users.id"), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("label", String(200), nullable=False),
    Column("network", String(64), nullable=False),  # hashed
    Column("created_at", Moment, nullable=False),
    Column("last_used_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("revoked_at", Moment),
    Column("parent_id", String(36)),  # the login that created it, whose row may be deleted
    Index(None, "user_id", "last_used_at"),
)

# One-time codes that sign a browser in.
login_codes = _table(
    "login_codes",
    Column("code_hash", String(64), primary_key=True),
    Column("user_id", Id, ForeignKey("users.id"), nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("login_expires_at", Moment, nullable=False),
    Column("login_id", String(36)),  # the login that created it
    Index(None, "expires_at"),
)

# What administrators, the operator and users did with the server. Entries have no foreign keys: they outlive what they
# report.
audit_log = _table(
    "audit_log",
    Column("id", Id, primary_key=True),
    Column("at", Moment, nullable=False),
    Column("is_routine", Boolean, nullable=False),  # caused by any user, so bounded apart from the others
    Column("actor_id", Id),
    Column("actor", String(20), nullable=False),  # user, operator, server or unknown
    Column("action", String(40), nullable=False),
    Column("target", String(255), nullable=False),
    Column("target_user_id", Id),
    Column("detail", String(500), nullable=False),
    Index(None, "is_routine", "id"),
    Index(None, "action", "id"),
    sqlite_autoincrement=True,
)

projects = _table(
    "projects",
    Column("id", Id, primary_key=True),
    Column("user_id", Id, ForeignKey("users.id"), nullable=False),
    Column("name", String(200), nullable=False),
    Column("settings", JSON, nullable=False),
    Column("is_default", Boolean, nullable=False, default=False),
    Column("last_event", Integer, nullable=False, server_default="0"),  # of the project's event stream
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    UniqueConstraint("user_id", "id"),
    partial_index("uq_projects_default", "user_id", where="is_default", unique=True),
    sqlite_autoincrement=True,
)

# The row without a parent is the project's orchestrator, `root`; it is never listed.
agents = _table(
    "agents",
    Column("id", Id, primary_key=True),
    *of_project(),
    Column("parent_agent_id", Id, ForeignKey("agents.id", ondelete="CASCADE")),
    Column("name", String(63), nullable=False),
    Column("role", String(64), nullable=False),
    Column("model", String(200), nullable=False),
    Column("temperature", Float, nullable=False),
    Column("max_tokens", Integer, nullable=False),
    Column("system_prompt", Text, nullable=False),
    Column("tools", JSON, nullable=False),
    Column("concurrency_limit", Integer, nullable=False),
    Column("capabilities", JSON, nullable=False),
    Column("memory", Boolean, nullable=False),
    Column("runtime", String(10), nullable=False),
    Column("loop", JSON(none_as_null=True)),  # NULL: the defaults
    Column("fallback", JSON(none_as_null=True)),  # NULL: the server's fallback model
    Column("memory_version", BigInteger, nullable=False, server_default="0"),  # every change of its memories raises it
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    UniqueConstraint("project_id", "name"),
    Index(None, "parent_agent_id"),
    Index("uq_agents_user_id_project_id_id", "user_id", "project_id", "id", unique=True),
    sqlite_autoincrement=True,
)

# A conversation. `last_event` is the number of its newest event. Every transaction that writes to the session
# increments it first, and the lock on this row serializes these transactions.
sessions = _table(
    "sessions",
    Column("id", String(36), primary_key=True),
    *of_project(),
    Column("title", String(200), nullable=False),
    # user: given by the user. words: the beginning of the first message, until a model has made one. auto: by a model.
    Column("title_source", String(10), nullable=False, server_default="auto"),
    Column("pinned", Boolean, nullable=False, server_default=false()),
    Column("archived", Boolean, nullable=False, server_default=false()),
    Column("recipient_id", Id),  # the agent that the last message was sent to; NULL: the orchestrator
    Column("plan_mode", String(10), nullable=False, server_default="auto"),  # auto, ask or never
    Column("failed", Boolean, nullable=False, server_default=false()),  # whether the turn that ended last has failed
    Column("cost_micros", BigInteger, nullable=False, server_default="0"),
    Column("price_unknown", Boolean, nullable=False, server_default=false()),  # some calls had no known price
    Column("last_event", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    UniqueConstraint("user_id", "project_id", "id"),
    Index(None, "user_id", "archived", "updated_at"),
)

# A literal text: only a query that says the same uses the index.
_NOT_SEARCHABLE = "NOT searchable"

# `number` is the number of the message's event: the order of time within the session. `turn_number` is the number of
# its turn: ordered by turn_number and number, questions and answers are in the order of the conversation.
messages = _table(
    "messages",
    Column("id", String(36), primary_key=True),
    *of_session(),
    Column("number", Integer, nullable=False),
    Column("turn_number", Integer, nullable=False, server_default="0"),
    Column("turn_id", String(36)),
    Column("role", String(10), nullable=False),
    Column("content", Text, nullable=False),
    Column("agent_id", Id),
    Column("agent", String(63)),
    Column("status", String(10), nullable=False),
    Column("error_code", String(64)),  # why the answer is missing or incomplete
    Column("retry_of", String(36)),  # the turn that this one retries
    Column("continues", String(36)),  # the cut-off message that this one goes on from
    Column("tokens", Integer, nullable=False),
    Column("feedback", JSON(none_as_null=True)),  # of the user on an answer
    Column("attachments", JSON(none_as_null=True)),  # what the list shows of the attached files
    Column("searchable", Boolean, nullable=False, server_default=false()),  # whether it is in message_search
    Column("created_at", Moment, nullable=False),
    UniqueConstraint("user_id", "project_id", "session_id", "number"),
    Index(None, "session_id", "turn_number", "number"),
    partial_index("ix_messages_not_searchable", "user_id", "id", where=_NOT_SEARCHABLE),
)
IS_NOT_SEARCHABLE = text(_NOT_SEARCHABLE)

# `number` is the number of the event that accepted the turn: the order in which the turns of a session run.
turns = _table(
    "turns",
    Column("id", String(36), primary_key=True),
    *of_session(),
    Column("number", Integer, nullable=False),
    Column("mode", String(12), nullable=False),
    Column("agent_id", Id),
    Column("status", String(10), nullable=False),
    Column("idempotency_key", String(200)),
    Column("request_hash", String(64), nullable=False),
    Column("error_code", String(64)),
    Column("error", Text),
    Column("usage", JSON(none_as_null=True)),
    Column("context", JSON(none_as_null=True)),  # memories in the prompt
    Column("parked", JSON(none_as_null=True)),  # saved state of a run that waits for a person
    Column("retry_of", String(36)),  # the turn that this one retries
    Column("continues", String(36)),  # the cut-off message that this one goes on from; it has no message of its own
    Column("created_at", Moment, nullable=False),
    Column("started_at", Moment),
    Column("finished_at", Moment),
    UniqueConstraint("user_id", "project_id", "session_id", "number"),
    UniqueConstraint("session_id", "idempotency_key"),
    Index(None, "user_id", "project_id", "agent_id", "finished_at"),
    partial_index("ix_turns_unfinished", "project_id", "session_id", "number", where="finished_at IS NULL"),
)

# Drafts of answers: stored while they are streamed and removed at the end of the turn.
drafts = _table(
    "drafts",
    Column("turn_id", String(36), primary_key=True),
    *of_session(),
    Column("content", Text, nullable=False),
    Index(None, "session_id"),
)

# Events of a session, numbered from 1 without gaps, stored in the same transaction as the change.
events = _table(
    "events",
    *of_session(primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("turn_id", String(36)),
    Column("type", String(40), nullable=False),
    Column("data", JSON, nullable=False),
    Column("created_at", Moment, nullable=False),
)


# Events of a project across sessions, numbered from 1 like a session's events.
project_events = _table(
    "project_events",
    *of_project(primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("type", String(40), nullable=False),
    Column("data", JSON, nullable=False),
    Column("created_at", Moment, nullable=False),
)

# Processes that run worker spaces; each renews its lease by the database's clock. Embedded servers have none.
hosts = _table(
    "hosts",
    Column("id", String(36), primary_key=True),
    Column("expires_at", Moment, nullable=False),
)

# Which host runs the worker space of a project. A takeover increments the epoch, a fencing token: writes of the host
# before are refused from then on. `config_version` increases with every change of an agent, so that hosts reload it.
spaces = _table(
    "spaces",
    Column("project_id", Id, primary_key=True, autoincrement=False),
    Column("user_id", Id, nullable=False),
    Column("owner", String(36)),
    Column("epoch", Integer, nullable=False),
    Column("config_version", Integer, nullable=False),
    project_foreign_key(),
    Index(None, "owner"),
)

# Remote calls to the process that runs a worker space; the reply is written into the same row.
space_calls = _table(
    "space_calls",
    Column("id", String(36), primary_key=True),
    *of_project(),
    Column("operation", String(40), nullable=False),
    Column("agent_id", Id),
    Column("answer", JSON(none_as_null=True)),
    Column("expires_at", Moment, nullable=False),
    Index(None, "user_id", "project_id"),
)

# Which connector serves the files of a project: the process with its connection renews the row.
connectors = _table(
    "connectors",
    Column("project_id", Id, primary_key=True, autoincrement=False),
    Column("user_id", Id, nullable=False),
    Column("connector_id", String(64), nullable=False),
    Column("line_id", String(36), nullable=False),  # new for each connection
    Column("process_id", String(36), nullable=False),
    Column("workspace_name", String(200), nullable=False),
    Column("read_only", Boolean, nullable=False),
    Column("mode", String(12), nullable=False),
    Column("commands", JSON, nullable=False),
    Column("features", JSON, nullable=False),
    Column("machine", String(200)),
    Column("since", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    project_foreign_key(),
)

# Remote calls to a connector that is connected to another process; the reply is written into the same row.
relay_calls = _table(
    "relay_calls",
    Column("id", String(36), primary_key=True),
    *of_project(),
    Column("process_id", String(36), nullable=False),
    Column("method", String(40), nullable=False),
    Column("params", JSON, nullable=False),
    Column("answer", JSON(none_as_null=True)),
    Column("expires_at", Moment, nullable=False),
    Index(None, "process_id"),
)

# Calls that changed a file of the user. A literal text: only a query that says the same uses the index.
_FILE_CHANGES = "status = 'done' AND tool IN ('tool_write_file', 'tool_edit_file', 'tool_delete_file')"

# Audit log of all tool calls, including refused ones. Contents are stored as hash and size.
tool_calls = _table(
    "tool_calls",
    Column("id", String(36), primary_key=True),
    *of_project(),
    Column("session_id", String(36)),
    Column("turn_id", String(36)),
    Column("workflow_id", String(36)),  # of a task of a plan
    Column("task_id", String(64)),
    Column("agent_id", Id),
    Column("agent", String(63), nullable=False),
    Column("tool", String(100), nullable=False),
    Column("arguments", JSON, nullable=False),
    Column("level", String(12), nullable=False),
    Column("status", String(10), nullable=False),
    Column("error", Text),
    Column("connector_id", String(64)),
    Column("approval_id", String(36)),
    # Of changes of files, if the connector tells them: number of lines, and why nobody was asked.
    Column("added", Integer),
    Column("removed", Integer),
    Column("holds", String(10)),
    Column("grant", Text),
    Column("created_at", Moment, nullable=False),
    Column("finished_at", Moment),
    Index(None, "user_id", "project_id", "created_at"),
    Index(None, "session_id", "created_at"),
    partial_index("ix_tool_calls_changes", "session_id", where=_FILE_CHANGES),
)
IS_FILE_CHANGE = text(_FILE_CHANGES)

# Approvals: questions to the user, each bound to the exact arguments of one call in one turn.
approvals = _table(
    "approvals",
    Column("id", String(36), primary_key=True),
    *of_session(),
    Column("turn_id", String(36), nullable=False),
    Column("agent_id", Id),
    Column("kind", String(10), nullable=False),
    Column("tool", String(100), nullable=False),
    Column("arguments", JSON, nullable=False),
    Column("arguments_hash", String(64), nullable=False),
    Column("details", JSON, nullable=False),
    Column("risk", String(10), nullable=False),
    Column("seconds", Integer, nullable=False),
    Column("status", String(10), nullable=False),
    Column("holds", String(10)),
    Column("feedback", Text),
    Column("created_at", Moment, nullable=False),
    Column("warned_at", Moment),
    Column("expires_at", Moment, nullable=False),
    Column("decided_at", Moment),
    Column("used_at", Moment),
    Index(None, "user_id", "created_at"),
    Index(None, "turn_id"),
    Index(None, "session_id"),
    partial_index("ix_approvals_pending", "expires_at", where="status = 'pending'"),
)

# Requests to the orchestrator with plan, budget and result. Money is in millionths of a dollar.
workflows = _table(
    "workflows",
    Column("id", String(36), primary_key=True),
    *of_session(),
    Column("turn_id", String(36), nullable=False),  # the latest one: a retry is a turn of its own
    Column("status", String(20), nullable=False),
    Column("request", Text, nullable=False),
    Column("instruction", Text, nullable=False),  # the user's instruction for every task
    Column("plan_id", String(36)),  # new for each version of the plan
    Column("planned_by", String(10)),  # model, cache, fallback, user, only_agent or one_agent
    Column("estimate", JSON(none_as_null=True)),
    Column("limit_micros", BigInteger),  # the approved budget; None before the approval
    Column("approved_at", Moment),  # None: no approval was needed
    Column("spent_micros", BigInteger, nullable=False),
    Column("price_unknown", Boolean, nullable=False),  # some models without a known price were used
    Column("answer", Text),
    Column("error_code", String(64)),
    Column("error", Text),
    Column("created_at", Moment, nullable=False),
    Column("started_at", Moment),
    Column("finished_at", Moment),
    Index(None, "user_id", "created_at"),
    Index(None, "turn_id"),
    Index(None, "session_id"),
    partial_index("ix_workflows_unfinished", "project_id", where="finished_at IS NULL"),
)

# The tasks of a workflow; `id` is the task id in the plan.
tasks = _table(
    "tasks",
    Column("workflow_id", String(36), ForeignKey("workflows.id", ondelete="CASCADE"), primary_key=True),
    Column("id", String(64), primary_key=True),
    *of_project(),
    Column("number", Integer, nullable=False),
    Column("agent_id", Id),
    Column("agent", String(63), nullable=False),
    Column("description", Text, nullable=False),
    Column("depends_on", JSON, nullable=False),
    Column("status", String(10), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("estimate", JSON(none_as_null=True)),
    Column("usage", JSON(none_as_null=True)),
    Column("cost_micros", BigInteger),  # None while nothing was spent, or if the price is unknown
    Column("result", Text),
    Column("error_code", String(64)),
    Column("error", Text),
    Column("parked", JSON(none_as_null=True)),  # saved state of a run that waits for a person
    Column("started_at", Moment),
    Column("finished_at", Moment),
    Column("seconds", Float),  # working time of the agent, without waiting for a person
    Index(None, "user_id", "project_id", "agent_id", "finished_at"),
)

# Plan cache: earlier plans for the same request and agents, without their results.
plan_cache = _table(
    "plan_cache",
    Column("project_id", Id, primary_key=True, autoincrement=False),
    Column("key", String(64), primary_key=True),
    Column("user_id", Id, nullable=False),
    Column("plan", JSON, nullable=False),
    Column("created_at", Moment, nullable=False),
    project_foreign_key(),
)

# Budgets: of a plan (`scope` is its workflow), or of a project in a month (`scope` is 2026-11).
budgets = _table(
    "budgets",
    Column("id", String(36), primary_key=True),
    *of_project(),
    Column("kind", String(10), nullable=False),
    Column("scope", String(36), nullable=False),
    Column("limit_micros", BigInteger, nullable=False),
    Column("spent_micros", BigInteger, nullable=False),
    Column("reserved_micros", BigInteger, nullable=False),
    Column("created_at", Moment, nullable=False),
    UniqueConstraint("project_id", "kind", "scope"),
)

# Reservations: the maximum cost of a running model call. One that is left when its turn is over belongs to a crashed
# call and counts as spent.
reservations = _table(
    "reservations",
    Column("id", String(36), primary_key=True),
    Column("budget_id", String(36), ForeignKey("budgets.id", ondelete="CASCADE"), primary_key=True),
    *of_project(),
    Column("turn_id", String(36), nullable=False),
    Column("micros", BigInteger, nullable=False),
    Column("user_month", String(7)),  # if it also counts against the user's monthly limit
    Column("created_at", Moment, nullable=False),
    Index(None, "turn_id"),
)

# Usage of models: one row per agent and model of a finished turn. It outlives sessions and agents, so it stores the
# name of the agent.
usage = _table(
    "usage",
    Column("id", String(36), primary_key=True),
    *of_project(),
    Column("session_id", String(36), nullable=False),
    Column("turn_id", String(36), nullable=False),
    Column("agent_id", Id),  # None: the orchestrator
    Column("agent", String(63), nullable=False),
    Column("model", String(200), nullable=False),
    Column("day", String(10), nullable=False),
    Column("calls", Integer, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost_micros", BigInteger),  # None if the price is unknown
    Index(None, "user_id", "day"),
    Index(None, "user_id", "project_id"),
)

# Monthly spending, over all projects, of users with a limit; it outlives the projects.
user_budgets = _table(
    "user_budgets",
    Column("user_id", Id, ForeignKey("users.id"), primary_key=True),
    Column("scope", String(7), primary_key=True),
    Column("spent_micros", BigInteger, nullable=False),
)

alerts = _table(
    "alerts",
    Column("id", String(36), primary_key=True),
    *of_project(),
    Column("kind", String(40), nullable=False),
    Column("subject", String(100), nullable=False),
    Column("severity", String(10), nullable=False),
    Column("message", Text, nullable=False),
    Column("raised_at", Moment, nullable=False),
    Column("resolved_at", Moment),
    Index(None, "user_id", "project_id", "raised_at"),
    partial_index("uq_alerts_open", "project_id", "kind", "subject", where="resolved_at IS NULL", unique=True),
)

# Archives: memories of deleted agents.
memory_archives = _table(
    "memory_archives",
    Column("id", String(36), primary_key=True),
    *of_project(),
    Column("agent_id", Id, nullable=False),
    Column("agent", String(63), nullable=False),
    Column("memories", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
    Index(None, "user_id", "project_id"),
)

_OF_AGENT = "user_id", "project_id", "agent_id", "id"

# Memories: the source from which the vector index is rebuilt. A row belongs to an agent or to an archive.
memories = _table(
    "memories",
    Column("id", String(36), primary_key=True),
    *of_project(),
    Column("agent_id", Id),
    Column("archive_id", String(36), ForeignKey("memory_archives.id", ondelete="CASCADE")),
    Column("type", String(40), nullable=False),
    Column("content", Text, nullable=False),
    Column("success", Boolean, nullable=False),
    Column("task_id", String(64)),
    Column("metadata", JSON, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("edited_at", Moment),  # when its user changed its content
    Column("pinned_at", Moment),  # None: it is not pinned
    Column("indexed_at", Moment),
    ForeignKeyConstraint(
        ["user_id", "project_id", "agent_id"],
        ["agents.user_id", "agents.project_id", "agents.id"],
        ondelete="CASCADE",
    ),
    Index(None, *_OF_AGENT),
    Index(None, "archive_id"),
    partial_index("ix_memories_not_indexed", "id", where="indexed_at IS NULL AND archive_id IS NULL"),
    # With all columns of the index above, because SQLite would prefer that one to a shorter index.
    partial_index("ix_memories_of_agent_not_indexed", *_OF_AGENT, where="indexed_at IS NULL"),
    partial_index("ix_memories_of_agent_pinned", *_OF_AGENT, where="pinned_at IS NOT NULL"),
)

# Pending work on the vector index besides adding memories: collections to clear, drop or rename. It belongs to no
# project, because a deleted project leaves work behind.
index_chores = _table(
    "index_chores",
    Column("id", Id, primary_key=True),
    Column("kind", String(10), nullable=False),
    Column("collection", String(200), nullable=False),
    Column("new_name", String(200)),
    Column("created_at", Moment, nullable=False),
    sqlite_autoincrement=True,
)
