"""Endpoints for files that users attach to messages."""

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response, status

from artel.api.dependencies import CurrentUser, Services, SessionId
from artel.api.download import WithDownloadSlot
from artel.api.problems import documented
from artel.attachments.transactions import read_attachment
from artel.contract.chat import Attachment

router = APIRouter(prefix="/my/chat/{session_id}/attachments", tags=["chat"], responses=documented(401, 404, 422, 503))

AttachmentId = Annotated[
    str, Path(max_length=64, pattern=r"^[0-9a-zA-Z-]+$", examples=["019a8f0e-5b1c-7c3e-9f60-0d8d3f6a1b2c"])
]
# Neither control characters nor separators of paths.
FileName = Annotated[
    str,
    Query(
        min_length=1,
        max_length=255,
        pattern=r"^[^\x00-\x1f\x7f-\x9f/\\]*[^\x00-\x1f\x7f-\x9f/\\\s][^\x00-\x1f\x7f-\x9f/\\]*$",
        description="Name of the file, without a folder.",
        examples=["notes.txt"],
    ),
]
_BODY = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}, "required": True}
_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}, "description": "The file's content."}
}
# A browser that opens the file as a page runs nothing of it.
_SANDBOX = "default-src 'none'; sandbox; frame-ancestors 'none'"


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    responses=documented(400, 408, 409, 413, 429),
    openapi_extra={"requestBody": _BODY},
)
async def upload_attachment(
    session_id: SessionId, name: FileName, request: Request, user: CurrentUser, services: Services
) -> Attachment:
    """Upload a file, as the body, for a message that is sent within a day: a text in UTF-8, or an image, up to 10 MB.

    The type is found in the content: PNG, JPEG, GIF, WebP, or else text.
    """
    return Attachment.of(await services.attachments.upload(user, session_id, name, request.stream()))


@router.get(
    "/{attachment_id}",
    response_class=Response,
    responses=_CONTENT | documented(429),
    dependencies=[WithDownloadSlot],
)
async def download_attachment(
    session_id: SessionId, attachment_id: AttachmentId, user: CurrentUser, services: Services
) -> Response:
    """Return the content of an attachment."""
    found, content = await services.database.read(read_attachment, user, session_id, attachment_id)
    shown = "inline" if found.kind == "image" else "attachment"
    headers = {
        "content-disposition": f"{shown}; filename*=UTF-8''{quote(found.name, safe='')}",
        "content-security-policy": _SANDBOX,
    }
    media_type = found.media_type if found.kind == "image" else f"{found.media_type}; charset=utf-8"
    return Response(content, headers=headers, media_type=media_type)


@router.delete("/{attachment_id}", status_code=status.HTTP_204_NO_CONTENT, responses=documented(409))
async def delete_attachment(
    session_id: SessionId, attachment_id: AttachmentId, user: CurrentUser, services: Services
) -> None:
    """Delete a file that was not sent yet."""
    await services.attachments.delete(user, session_id, attachment_id)
