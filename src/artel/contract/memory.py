"""Request and response bodies for the memory of agents."""

import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, JsonValue

from artel.contract.http import RequestBody, ResponseBody, bounded_json, unset, whole

MAX_METADATA_CHARACTERS = 16_384
MAX_METADATA_DEPTH = 5
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def _timestamp(value: Any) -> datetime:
    if not isinstance(value, str) or not _TIMESTAMP.fullmatch(value.upper()):
        raise ValueError("must be a date and time with time zone, such as 2026-03-01T12:00:00Z")
    return datetime.fromisoformat(value.upper())


MemoryType = Annotated[
    str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,39}$", description="Type of the memory.", examples=["note"])
]
Content = Annotated[str, Field(min_length=1, max_length=100_000, pattern=r"^[^\x00]*$")]
TaskId = Annotated[
    str,
    Field(pattern=r"^[0-9A-Za-z_.:-]{1,64}$", description="Task that the memory comes from, if any."),
]
Metadata = Annotated[
    dict[str, JsonValue],
    bounded_json(MAX_METADATA_CHARACTERS, MAX_METADATA_DEPTH),
    Field(description="Additional data: a JSON object of at most 16,384 characters."),
]
Timestamp = Annotated[datetime, BeforeValidator(_timestamp), Field(examples=["2026-03-01T12:00:00Z"])]


class AddMemory(RequestBody):
    """A new memory of an agent."""

    content: Content = Field(examples=["The customer wants invoices as PDF."])
    type: MemoryType = "note"
    success: bool = Field(default=True, description="Whether the remembered work succeeded.")
    task_id: TaskId = Field(default_factory=unset)
    metadata: Metadata = Field(default_factory=dict, examples=[{}])


class MemoryChanges(RequestBody):
    """Changes of a memory; omitted fields do not change."""

    content: Content = Field(default_factory=unset, examples=["The customer wants invoices as PDF and on paper."])
    pinned: bool = Field(default_factory=unset, description="Whether every search considers it.", examples=[True])


class SearchMemory(RequestBody):
    """A memory search; omitted filters match everything. Both dates are inclusive."""

    query: Content = Field(examples=["In which format are bills sent?"])
    top_k: Annotated[int, Field(ge=1, le=100, description="Maximum number of results."), BeforeValidator(whole)] = 5
    type: MemoryType = Field(default_factory=unset)
    success: bool = Field(default_factory=unset)
    since: Timestamp = Field(default_factory=unset)
    until: Timestamp = Field(default_factory=unset)


class Memory(ResponseBody):
    """A memory of an agent."""

    id: str = Field(examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"])
    content: str
    type: str = Field(examples=["note"])
    success: bool
    task_id: str | None
    metadata: dict[str, JsonValue]
    pinned: bool = Field(description="Whether it is listed first, and every search considers it.")
    created_at: datetime
    edited_at: datetime | None = Field(description="When its content was last changed by its user.")


class FoundMemory(Memory):
    """A memory with its search score."""

    score: float = Field(description="From 0 to 1; comparable only within one response.", examples=[0.87])


class KnownMemory(FoundMemory):
    """A search result with its agent."""

    agent_id: int = Field(examples=[2])
    agent: str = Field(examples=["agent_coder"])


class KnownMemories(ResponseBody):
    """Results of a search over all agents of a project, best first."""

    items: list[KnownMemory]


class FoundMemories(ResponseBody):
    """Search results, best first."""

    items: list[FoundMemory]


class MemoryStats(ResponseBody):
    """Statistics of an agent's memory."""

    collection: str = Field(examples=["user1_project1_agent_coder_context"])
    count: int = Field(examples=[3])
    succeeded: int = Field(examples=[2])
    failed: int = Field(examples=[1])
    waiting: int = Field(description="Stored but not yet indexed.", examples=[0])
    by_type: dict[str, int] = Field(
        description="Number of memories per type; only the most frequent types.", examples=[{"note": 3}]
    )
    oldest: datetime | None
    newest: datetime | None
    index_ok: bool
    embeddings: str = Field(
        description="Embedding model; `none` if memories are found by words only.",
        examples=["artel-embed-1"],
    )


class MemoryArchive(ResponseBody):
    """Archived memory of a deleted agent."""

    id: str = Field(examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"])
    agent_id: int = Field(examples=[2])
    agent: str = Field(examples=["agent_coder"])
    memories: int = Field(description="Number of memories.", examples=[3])
    created_at: datetime
