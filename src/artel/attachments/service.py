"""Uploads of files that users attach to messages."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

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

# Each upload in progress holds up to 10 MB of memory.
MAX_UPLOADS = 16
MAX_UPLOADS_OF_USER = 4
CLEAN_UP_SECONDS = 3_600.0


class AttachmentService:
    """Stores and deletes files before they are sent with a message."""

    def __init__(self, database: Database, storage: StorageQuota) -> None:
        self._database = database
        self._storage = storage
        self._uploads: Counter[int] = Counter()  # in progress, by user
        self.cleaning = Poller("attachments", self.clean_up, CLEAN_UP_SECONDS, "attachments_not_cleaned_up")

    async def upload(
        self, user: Principal, session_id: str, name: str, chunks: AsyncIterator[bytes]
    ) -> StoredAttachment:
        """Store a file for a message that is not sent yet. The middleware limits how much is read."""
        if self._uploads[user.user_id] >= MAX_UPLOADS_OF_USER or self._uploads.total() >= MAX_UPLOADS:
            raise TooManyUploads("Too many files are being uploaded. Try again in a moment.", retry_after=2)
        self._uploads[user.user_id] += 1
        try:
            await self._database.read(transactions.find_session, user, session_id)
            content = b"".join([chunk async for chunk in chunks])
            found = await asyncio.to_thread(file_type, name, content)
            async with self._storage.reserved(user, len(content)):
                return await self._database.of(user).run(
                    transactions.add_attachment, session_id, uuid7(), name, content, found
                )
        finally:
            self._uploads[user.user_id] -= 1
            if not self._uploads[user.user_id]:
                del self._uploads[user.user_id]

    async def delete(self, user: Principal, session_id: str, attachment_id: str) -> None:
        """Delete a file that was not sent."""
        size = await self._database.of(user).run(transactions.delete_unsent, session_id, attachment_id)
        self._storage.give_back(user, size)

    async def clean_up(self) -> None:
        """Delete the files of all users that were not sent within a day."""
        while await self._database.run(delete_old_unsent) == MAX_DELETED:
            pass
