"""Server-sent events: a response that runs until the stream ends, the client disconnects, or a time limit."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any

from fastapi import Depends, Header, Query
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from artel.contract.events import StoredEvent
from artel.errors import ArtelError
from artel.events.hub import Item, ReaderTooSlow, Snapshot, StreamsEnd
from artel.logs import get_logger

HEARTBEAT_SECONDS = 15.0
MAX_STREAM_SECONDS = 3600.0  # then the client must reconnect, with a valid token
RETRY = b"retry: 1000\n\n"
HEARTBEAT = b": still here\n\n"
MAX_DIGITS = 9

STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}

log = get_logger(__name__)


class EventStream(Response):
    """Streams items; sends a heartbeat for None."""

    media_type = "text/event-stream"

    def __init__(self, items: AsyncIterator[Item | None], session_id: str | None = None) -> None:
        super().__init__(headers={"x-accel-buffering": "no", "connection": "keep-alive"})
        del self.headers["content-length"]
        self._items = items
        self._session_id = session_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send items until the stream, the connection or the login ends."""

        async def wait_for_login_end() -> None:
            log.info("stream_ended", reason=await scope["state"]["login_ended"]())

        async def wait_for_disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        tasks = [asyncio.create_task(each) for each in (self._write(send), wait_for_disconnect(), wait_for_login_end())]
        try:
            await asyncio.wait(tasks, timeout=MAX_STREAM_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(1):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, send: Send) -> None:
        async def write(data: bytes) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": True})

        try:
            await write(RETRY)
            async for item in self._items:
                await write(HEARTBEAT if item is None else self._frame(item))
        except StreamsEnd:
            log.info("stream_ended", reason="the server stops")
        except ReaderTooSlow:
            log.info("reader_cut_off", reason="its queue was full")
        except ArtelError as failure:  # the session or project was deleted
            log.info("stream_ended", reason=failure.detail)
        finally:
            aclose = getattr(self._items, "aclose", None)
            if aclose is not None:
                await aclose()

    def _frame(self, item: Item) -> bytes:
        if isinstance(item, StoredEvent):
            return item.frame
        name = "message_snapshot" if isinstance(item, Snapshot) else "message_delta"
        ids = {"session_id": self._session_id, "turn_id": item.owner_turn_id, "message_id": item.message_id}
        data = json.dumps({**ids, "task_id": item.task_id, "n": item.n, "text": item.text}, ensure_ascii=False)
        return f"event: {name}\ndata: {data}\n\n".encode()


async def _after(
    after: Annotated[
        int | None, Query(ge=0, le=2**31 - 1, description="Start after this event number; 0 is the beginning.")
    ] = None,
    last_event_id: Annotated[
        str | None, Header(description="The same as `after`; EventSource clients send it when they reconnect.")
    ] = None,
) -> int | None:
    """Return the event number after which a stream starts, or None; an invalid `last_event_id` is ignored."""
    text = last_event_id or ""
    if after is None and text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS:
        return int(text)
    return after


After = Annotated[int | None, Depends(_after)]
