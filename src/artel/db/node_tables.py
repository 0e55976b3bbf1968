"""The tables of nodes: which there are, and the commands that hosts have sent them."""

from sqlalchemy import JSON, Column, Float, ForeignKey, Index, Integer, String, Table, UniqueConstraint

from artel.db.columns import Moment, of_project, partial_index
from artel.db.tables import metadata

# Nodes: agents as processes of their own, one row per name. `epoch` is a fencing token: it grows with each instance of
# the name, so that what an older one says is refused. A row therefore outlives its node: it is hidden when the node was
# not heard of for a while or deregistered, and deleted when no message of it can be left.
nodes = Table(
    "nodes",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("uid", String(100), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("node_type", String(63), nullable=False),
    Column("protocol", String(10), nullable=False),
    Column("passport", JSON, nullable=False),  # without its status
    Column("status", JSON, nullable=False),  # of the last heartbeat
    Column("registered_at", Moment, nullable=False),
    Column("heartbeat_at", Moment, nullable=False),
    Column("deregistered_at", Moment),
    Column("chosen_at", Moment),  # for its last task
)

# Commands to nodes: the outbox of the hosts. The host publishes a command again with the same id until it is answered,
# and the next host does so after a crash. `problem` is what the monitor found: stuck or lost.
node_commands = Table(
    "node_commands",
    metadata,
    Column("id", String(100), primary_key=True),
    *of_project(),
    Column("turn_id", String(36), ForeignKey("turns.id", ondelete="CASCADE"), nullable=False),
    Column("task_id", String(128), nullable=False),
    Column("step", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("node_name", String(255), nullable=False),
    Column("node_uid", String(100), nullable=False),
    Column("node_epoch", Integer, nullable=False),
    Column("status", String(10), nullable=False),
    Column("problem", String(10)),
    Column("command", JSON, nullable=False),
    Column("answer", JSON(none_as_null=True)),
    Column("progress_at", Moment),
    Column("phase", String(40)),
    Column("elapsed", Float),  # seconds, as the node said last
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    UniqueConstraint("user_id", "task_id", "step", "attempt"),
    Index(None, "turn_id"),
    Index(None, "updated_at"),
    partial_index("ix_node_commands_open", "node_name", where="status IN ('sending', 'sent')"),
)
