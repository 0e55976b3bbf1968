"""The table of what tool calls changed and returned: apart from the audit log, which outlives the session."""

from sqlalchemy import JSON, Column, Index, String, Table, Text

from artel.db.columns import of_session
from artel.db.tables import metadata

tool_call_contents = Table(
    "tool_call_contents",
    metadata,
    Column("call_id", String(36), primary_key=True),
    *of_session(),
    Column("diff", Text),
    Column("result", JSON(none_as_null=True)),  # what is shown of it
    Index(None, "session_id"),
)
