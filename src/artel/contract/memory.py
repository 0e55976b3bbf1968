"""What the HTTP API takes and answers about the memory of agents."""

import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from artel.contract.http import Answer, Request, json_characters

MAX_METADATA_CHARACTERS = 16_384
MAX_METADATA_DEPTH = 5
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def _left_out() -> Any:
    """Stand in for a field that a request does not mention."""
    return None


def _bounded(metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if json_characters(metadata, MAX_METADATA_DEPTH) > MAX_METADATA_CHARACTERS:
        raise ValueError(f"must not be longer than {MAX_METADATA_CHARACTERS} characters")
    return metadata


def _moment(value: Any) -> datetime:
    if not isinstance(value, str) or not _MOMENT.fullmatch(value.upper()):
        raise ValueError("must be a date and time with its zone, such as 2026-03-01T12:00:00Z")
    return datetime.fromisoformat(value.upper())


def _whole(value: Any) -> Any:
    """Take 3.0 for 3, as JSON Schema does; anything else stays for the type to judge."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


MemoryType = Annotated[
    str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,39}$", description="What sort of memory it is.", examples=["note"])
]
Content = Annotated[str, Field(min_length=1, max_length=100_000, pattern=r"^[^\x00]*$")]
TaskId = Annotated[
    str,
    Field(pattern=r"^[0-9A-Za-z_.:-]{1,64}$", description="The task that the memory comes from, if there is one."),
]
Metadata = Annotated[
    dict[str, JsonValue],
    AfterValidator(_bounded),
    Field(description="Whatever else is to be kept, as one JSON object of at most 16,384 characters."),
]
Moment = Annotated[datetime, BeforeValidator(_moment), Field(examples=["2026-03-01T12:00:00Z"])]


class AddMemory(Request):
    """Something that an agent is to remember."""

    content: Content = Field(examples=["The customer wants invoices as PDF."])
    type: MemoryType = "note"
    success: bool = Field(default=True, description="Whether what is remembered went well.")
    task_id: TaskId = Field(default_factory=_left_out)
    metadata: Metadata = Field(default_factory=dict, examples=[{}])


class SearchMemory(Request):
    """What to search for; what is left out does not narrow the search. Both dates are inclusive."""

    query: Content = Field(examples=["In which format are bills sent?"])
    top_k: Annotated[int, Field(ge=1, le=100, description="At most so many."), BeforeValidator(_whole)] = 5
    type: MemoryType = Field(default_factory=_left_out)
    success: bool = Field(default_factory=_left_out)
    since: Moment = Field(default_factory=_left_out)
    until: Moment = Field(default_factory=_left_out)


class Memory(Answer):
    """Something that an agent remembers."""

    id: str = Field(examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"])
    content: str
    type: str = Field(examples=["note"])
    success: bool
    task_id: str | None
    metadata: dict[str, JsonValue]
    created_at: datetime


class FoundMemory(Memory):
    """A memory that was searched for."""

    score: float = Field(description="From 0 to 1; compares only within one answer.", examples=[0.87])


class KnownMemory(FoundMemory):
    """A memory of one of the agents of a project."""

    agent_id: int = Field(examples=[2])
    agent: str = Field(examples=["agent_coder"])


class KnownMemories(Answer):
    """What a search of the project's knowledge base found, best first."""

    items: list[KnownMemory]


class FoundMemories(Answer):
    """What a search found, best first."""

    items: list[FoundMemory]


class MemoryStats(Answer):
    """What an agent's memory amounts to."""

    collection: str = Field(examples=["user1_project1_agent_coder_context"])
    count: int = Field(examples=[3])
    succeeded: int = Field(examples=[2])
    failed: int = Field(examples=[1])
    waiting: int = Field(description="Stored, but not yet in the index.", examples=[0])
    by_type: dict[str, int] = Field(description="Of very many types the most frequent.", examples=[{"note": 3}])
    oldest: datetime | None
    newest: datetime | None
    index_ok: bool
    embeddings: str = Field(
        description="The model by which memories are found by meaning; `none` if only by words.",
        examples=["all-MiniLM-L6-v2"],
    )


class MemoryArchive(Answer):
    """What an agent remembered that was deleted since."""

    id: str = Field(examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"])
    agent_id: int = Field(examples=[2])
    agent: str = Field(examples=["agent_coder"])
    memories: int = Field(description="How many.", examples=[3])
    created_at: datetime
