"""Downloads: files that are streamed, and a limit of those that are sent from memory."""

from collections.abc import AsyncIterator
from typing import Any

from fastapi import Depends
from starlette.responses import StreamingResponse

from artel.api.dependencies import CurrentUser, Services
from artel.errors import TooManyDownloads

MAX_WAITING_DOWNLOADS = 32  # of a user, including those in progress


async def _hold_slot(user: CurrentUser, services: Services) -> AsyncIterator[None]:
    """Wait for one of the user's slots, and hold it until the response is sent."""
    if services.downloads.users[user.user_id] >= MAX_WAITING_DOWNLOADS:
        raise TooManyDownloads(
            f"You are downloading {MAX_WAITING_DOWNLOADS} files. Try again when some are finished.", retry_after=5
        )
    await services.downloads.acquire(user.user_id)
    try:
        yield
    finally:
        services.downloads.release(user.user_id)


# The scope of the request ends after the response.
WithDownloadSlot = Depends(_hold_slot, scope="request")


class Download(StreamingResponse):
    """Sends a file piece by piece."""

    def __init__(self, name: str, media_type: str, content: AsyncIterator[bytes]) -> None:
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        super().__init__(content, media_type=media_type, headers=headers)


def downloaded(**schemas: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of a response that is a Markdown or a JSON file."""
    media_types = {"markdown": "text/markdown", "json": "application/json"}
    content = {media_types[name]: {"schema": schema} for name, schema in schemas.items()}
    return {200: {"content": content, "description": "The file."}}
