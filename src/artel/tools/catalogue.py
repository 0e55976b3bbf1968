"""All tools that agents may have."""

from collections.abc import Collection
from typing import Any

from artel.brain.brain import ToolSchema
from artel.contract.approvals import ToolShown
from artel.contract.http import Page, PageRequest
from artel.contract.project_settings import PolicySettings
from artel.tools.family import SpawnAgent
from artel.tools.files import READ_TOOLS, WRITE_TOOLS, DeleteFile
from artel.tools.policy import Level, Policy
from artel.tools.recall import MemoryRead, MemoryWrite, ProjectMemoryRead
from artel.tools.task_files import TASK_FILE_TOOLS
from artel.tools.web import WebFetch, WebSearch

_SAFE: tuple[Any, ...] = (MemoryRead, ProjectMemoryRead, MemoryWrite, *TASK_FILE_TOOLS, SpawnAgent, WebSearch, WebFetch)
TOOLS: tuple[tuple[ToolSchema, Level], ...] = (
    *((tool.schema, Level.SAFE) for tool in _SAFE),
    *((tool.schema, tool.level) for tool in (*READ_TOOLS, *WRITE_TOOLS)),
)
SCHEMAS = {schema.name: schema for schema, _ in TOOLS}


def schemas_of(names: Collection[str]) -> tuple[ToolSchema, ...]:
    """Return the schemas of the tools with these names."""
    return tuple(schema for name, schema in SCHEMAS.items() if name in names)


def shown_tools(settings: PolicySettings, paging: PageRequest) -> Page[ToolShown]:
    """Return a page of the tools, with the rules for them in a project's settings."""
    policy = Policy(settings)
    items = [
        ToolShown(
            name=schema.name,
            level=level,
            description=schema.description,
            enabled=policy.enabled(schema.name),
            problem=policy.settings.problem,
            requires_approval=policy.requires_approval(schema.name, level) or schema.name == DeleteFile.name,
            parameters=dict(schema.parameters),
        )
        for schema, level in paging.cut(TOOLS)
    ]
    return paging.page(items, len(TOOLS))
