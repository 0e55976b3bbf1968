"""The schemas of all tools."""

from collections.abc import Collection
from typing import Any

from artel.brain.brain import ToolSchema
from artel.tools.family import SpawnAgent
from artel.tools.files import READ_TOOLS, WRITE_TOOLS
from artel.tools.recall import MemoryRead, MemoryWrite, ProjectMemoryRead
from artel.tools.task_files import GetWorkspaceInfo, ListFiles, ReadFile, WriteFile

_TOOLS: tuple[Any, ...] = (
    *READ_TOOLS,
    *WRITE_TOOLS,
    MemoryRead,
    ProjectMemoryRead,
    MemoryWrite,
    WriteFile,
    ReadFile,
    ListFiles,
    GetWorkspaceInfo,
    SpawnAgent,
)
SCHEMAS: dict[str, ToolSchema] = {tool.schema.name: tool.schema for tool in _TOOLS}


def schemas_of(names: Collection[str]) -> tuple[ToolSchema, ...]:
    """Return the schemas of the tools with these names."""
    return tuple(schema for name, schema in SCHEMAS.items() if name in names)
