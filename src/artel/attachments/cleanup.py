"""Deletes attached files that nobody sent, of all users."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, delete, select

from artel.db.attachment_tables import attachment_contents, attachments

KEEP_HOURS = 24.0
MAX_DELETED = 100  # by one transaction


def delete_old_unsent(connection: Connection) -> int:
    """Delete files that were uploaded a day ago and not sent since, the oldest first; return how many."""
    before = datetime.now(UTC) - timedelta(hours=KEEP_HOURS)
    unsent = attachments.c.message_id.is_(None), attachments.c.created_at < before
    oldest = select(attachments.c.id).where(*unsent).order_by(attachments.c.created_at).limit(MAX_DELETED)
    # The condition again, because one may have been sent since it was selected.
    deleted = delete(attachments).where(attachments.c.id.in_(oldest), *unsent).returning(attachments.c.content_id)
    ids = [row.content_id for row in connection.execute(deleted)]
    if ids:  # nothing else refers to the content: only files of messages are copied by forks
        connection.execute(delete(attachment_contents).where(attachment_contents.c.id.in_(ids)))
    return len(ids)
