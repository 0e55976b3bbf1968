"""Streamed JSON Lines responses, read from the database page by page."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fastapi.responses import StreamingResponse

from artel.agent_memory.repository import StoredMemory
from artel.contract.memory import Memory

MEDIA_TYPE = "application/x-ndjson"
DOCUMENTED: dict[int | str, dict[str, Any]] = {
    200: {"description": "One memory per line.", "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}
}


class JsonLines(StreamingResponse):
    """JSON Lines."""

    media_type = MEDIA_TYPE


async def memory_lines(read_after: Callable[[str], Awaitable[list[StoredMemory]]]) -> JsonLines:
    """Stream all memories, oldest first; reads the first page before responding, so that a 404 is still possible."""
    first = await read_after("")

    async def lines() -> AsyncIterator[str]:
        page = first
        while page:
            yield "".join(f"{memory_of(row).model_dump_json()}\n" for row in page)
            page = await read_after(page[-1].id)

    return JsonLines(lines())


def memory_of(row: StoredMemory) -> Memory:
    """Return a memory as the API shows it."""
    return Memory(
        id=row.id,
        content=row.content,
        type=row.type,
        success=row.success,
        task_id=row.task_id,
        metadata=row.metadata,
        created_at=row.created_at,
    )
