"""Server-sent events: a response that runs until the stream ends, the client disconnects, or a time limit."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any

from fastapi import Header, Query
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from artel.contract.events import StoredEvent
from artel.errors import ArtelError
from artel.events.hub import Delta, Item, ReaderTooSlow, Snapshot, StreamsEnd
from artel.logs import get_logger

HEARTBEAT_SECONDS = 15.0
SEND_SECONDS = 30.0  # send timeout: a slower client is disconnected
MAX_STREAM_SECONDS = 3600.0  # then the client must reconnect, with a valid token
RETRY = b"retry: 1000\n\n"
HEARTBEAT = b": still here\n\n"
MAX_DIGITS = 9

After = Annotated[
    int | None, Query(ge=0, le=2**31 - 1, description="Start after this event number; 0 is the beginning.")
]
LastEventId = Annotated[
    str | None, Header(description="The same as `after`; EventSource clients send it when they reconnect.")
]
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
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        writing = asyncio.ensure_future(self._write(send))
        leaving = asyncio.ensure_future(_disconnected(receive))
        ending = asyncio.ensure_future(_wait_for_login_end(scope["state"]["login_ended"]))
        try:
            await asyncio.wait(
                {writing, leaving, ending}, timeout=MAX_STREAM_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for task in (writing, leaving, ending):
                task.cancel()
            await asyncio.gather(writing, leaving, ending, return_exceptions=True)
        await _end(send)

    async def _write(self, send: Send) -> None:
        try:
            await _send(send, RETRY)
            async for item in self._items:
                await _send(send, HEARTBEAT if item is None else frame(item, self._session_id))
        except StreamsEnd:
            log.info("stream_ended", reason="the server stops")
        except ReaderTooSlow:
            log.info("reader_cut_off", reason="its queue was full")
        except TimeoutError:
            log.info("reader_cut_off", reason="the send timeout expired")
        except ArtelError as failure:  # the session or project was deleted
            log.info("stream_ended", reason=failure.detail)
        finally:
            aclose = getattr(self._items, "aclose", None)
            if aclose is not None:
                await aclose()


def event_number(after: int | None, last_event_id: str | None, newest: int) -> int:
    """Return the event number after which a stream starts; an invalid `last_event_id` is ignored."""
    if after is not None:
        return after
    if last_event_id and last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) <= MAX_DIGITS:
        return int(last_event_id)
    return newest


def frame(item: Item, session_id: str | None) -> bytes:
    """Return an item as a server-sent event."""
    if isinstance(item, StoredEvent):
        return item.frame
    return _delta(item, session_id)


def _delta(item: Delta, session_id: str | None) -> bytes:
    name = "message_snapshot" if isinstance(item, Snapshot) else "message_delta"
    data = {
        "session_id": session_id,
        "turn_id": item.owner_turn_id,
        "message_id": item.message_id,
        "task_id": item.task_id,
        "n": item.n,
        "text": item.text,
    }
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


async def _send(send: Send, data: bytes) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await send({"type": "http.response.body", "body": data, "more_body": True})


async def _end(send: Send) -> None:
    try:
        async with asyncio.timeout(1):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    except (TimeoutError, OSError):
        return


async def _wait_for_login_end(login_ended: Callable[[], Awaitable[str]]) -> None:
    log.info("stream_ended", reason=await login_ended())


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
