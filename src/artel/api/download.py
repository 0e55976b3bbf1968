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


def downloaded(**schemas: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of a response that is a Markdown or a JSON file."""
    media_types = {"markdown": "text/markdown", "json": "application/json"}
    content = {media_types[name]: {"schema": schema} for name, schema in schemas.items()}
    return {200: {"content": content, "description": "The file."}}
