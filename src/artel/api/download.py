"""Files that a browser saves: streamed, so that they need little memory."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

SEND_SECONDS = 30.0  # a slower client is disconnected


class Download(StreamingResponse):
    """Sends a file piece by piece."""

    def __init__(self, name: str, media_type: str, content: AsyncIterator[bytes]) -> None:
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        super().__init__(content, media_type=media_type, headers=headers)

    async def stream_response(self, send: Send) -> None:
        """Send the file; end the connection if the client does not read."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(SEND_SECONDS):
                await send(message)

        await super().stream_response(send_in_time)


def downloaded(*media_types: str) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of a response that is a file."""
    schema = {"schema": {"type": "string"}}
    return {200: {"content": dict.fromkeys(media_types, schema), "description": "The file."}}
