"""All tools that agents may have."""

from collections.abc import Collection
from typing import Any

from artel.brain.brain import ToolSchema
from artel.tools.family import SpawnAgent
from artel.tools.files import READ_TOOLS, WRITE_TOOLS
from artel.tools.policy import Level
from artel.tools.recall import MemoryRead, MemoryWrite, ProjectMemoryRead
from artel.tools.task_files import TASK_FILE_TOOLS

_SAFE: tuple[Any, ...] = (MemoryRead, ProjectMemoryRead, MemoryWrite, *TASK_FILE_TOOLS, SpawnAgent)
TOOLS: tuple[tuple[ToolSchema, Level], ...] = (
    *((tool.schema, Level.SAFE) for tool in _SAFE),
    *((tool.schema, tool.level) for tool in (*READ_TOOLS, *WRITE_TOOLS)),
)
SCHEMAS = {schema.name: schema for schema, _ in TOOLS}


def schemas_of(names: Collection[str]) -> tuple[ToolSchema, ...]:
    """Return the schemas of the tools with these names."""
    return tuple(schema for name, schema in SCHEMAS.items() if name in names)
