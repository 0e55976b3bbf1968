"""Uploads of files that users attach to messages."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from artel.attachments import transactions
from artel.attachments.cleanup import MAX_DELETED, delete_old_unsent
from artel.attachments.file_types import file_type
from artel.attachments.repository import StoredAttachment
from artel.auth.principal import Principal
from artel.db.engine import Database
from artel.errors import TooManyUploads
from artel.ids import uuid7
from artel.poller import Poller
from artel.task_workspaces.storage_quota import StorageQuota

MAX_UPLOADS_OF_USER = 4
MAX_UPLOAD_BYTES = 160 * 1024 * 1024  # in memory, of all users
CLEAN_UP_SECONDS = 3_600.0


class Upload:
    """The part of a file that has arrived."""

    def __init__(self, user_id: int) -> None:
        self.user_id = user_id
        self.size = 0
        self.can_be_dropped = True
        self._content: bytearray | None = bytearray()  # None: dropped, or complete

    def add(self, chunk: bytes) -> None:
        """Store a chunk; raise TooManyUploads if the upload was dropped."""
        if self._content is None:
            raise _too_many()
        self._content += chunk
        self.size += len(chunk)

    def drop(self) -> None:
        """Free the memory."""
        self.size, self._content, self.can_be_dropped = 0, None, False

    def complete(self) -> bytes:
        """Return the content once, and no longer drop it; raise TooManyUploads if it was dropped before.

        The caller holds the content now, so its size still counts.
        """
        if self._content is None:
            raise _too_many()
        content = bytes(self._content)
        self._content, self.can_be_dropped = None, False
        return content


class Uploads:
    """Uploads in progress, limited by number for each user and by memory for all users.

    If the memory is used up, the user who holds most of it loses an upload: nobody keeps the others from theirs.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._uploads: list[Upload] = []

    @contextmanager
    def begun(self, user_id: int) -> Iterator[Upload]:
        """Register an upload for the block; raise TooManyUploads if the user has too many."""
        if sum(upload.user_id == user_id for upload in self._uploads) >= MAX_UPLOADS_OF_USER:
            raise _too_many()
        upload = Upload(user_id)
        self._uploads.append(upload)
        try:
            yield upload
        finally:
            self._uploads.remove(upload)

    def add(self, upload: Upload, chunk: bytes) -> None:
        """Store a chunk; raise TooManyUploads if the upload was dropped."""
        upload.add(chunk)
        while sum(each.size for each in self._uploads) > self._max_bytes:
            used: Counter[int] = Counter()
            for each in self._uploads:
                used[each.user_id] += each.size
            droppable = (each for each in self._uploads if each.can_be_dropped)  # at least the one that has grown
            max(droppable, key=lambda each: (used[each.user_id], each.size)).drop()


def _too_many() -> TooManyUploads:
    return TooManyUploads("Too many files are being uploaded. Try again in a moment.", retry_after=2)


class AttachmentService:
    """Stores and deletes files before they are sent with a message."""

    def __init__(self, database: Database, storage: StorageQuota) -> None:
        self._database = database
        self._storage = storage
        self._uploads = Uploads(MAX_UPLOAD_BYTES)
        self.cleaning = Poller("attachments", self.clean_up, CLEAN_UP_SECONDS, "attachments_not_cleaned_up")

    async def upload(
        self, user: Principal, session_id: str, name: str, chunks: AsyncIterator[bytes]
    ) -> StoredAttachment:
        """Store a file for a message that is not sent yet. The middleware limits how much is read."""
        with self._uploads.begun(user.user_id) as upload:
            await self._database.read(transactions.find_session, user, session_id)
            async for chunk in chunks:
                self._uploads.add(upload, chunk)
            content = upload.complete()
            found = await asyncio.to_thread(file_type, name, content)
            async with self._storage.reserved(user, len(content)):
                return await self._database.of(user).run(
                    transactions.add_attachment, session_id, uuid7(), name, content, found
                )

    async def delete(self, user: Principal, session_id: str, attachment_id: str) -> None:
        """Delete a file that was not sent."""
        size = await self._database.of(user).run(transactions.delete_unsent, session_id, attachment_id)
        self._storage.give_back(user, size)

    async def clean_up(self) -> None:
        """Delete the files of all users that were not sent within a day."""
        while await self._database.run(delete_old_unsent) == MAX_DELETED:
            pass
