"""Transactions on attached files: upload, download, deletion."""

from sqlalchemy import Connection

from artel.attachments.file_types import FileType
from artel.attachments.repository import AttachmentContentRepository, AttachmentRepository, StoredAttachment
from artel.auth.principal import Principal
from artel.db.tx import Tx
from artel.errors import LimitReached
from artel.sessions.repository import SessionRepository

MAX_UNSENT = 50  # of a user, in all sessions


def find_session(connection: Connection, principal: Principal, session_id: str) -> None:
    """Raise SessionNotFound unless the user has this session."""
    SessionRepository(connection, principal).get(session_id)


def add_attachment(
    tx: Tx, session_id: str, attachment_id: str, name: str, content: bytes, found: FileType
) -> StoredAttachment:
    """Store a file for a message of the session that is not sent yet."""
    project_id = SessionRepository(tx).get(session_id).project_id
    files = AttachmentRepository(tx)
    files.lock_owner()
    if files.count_unsent() >= MAX_UNSENT:
        raise LimitReached(
            f"You have {MAX_UNSENT} attachments that were not sent. Send or delete some; they are deleted after a day."
        )
    AttachmentContentRepository(tx).add(attachment_id, project_id, content)
    return files.add(attachment_id, project_id, session_id, name, len(content), found)


def read_attachment(
    connection: Connection, principal: Principal, session_id: str, attachment_id: str
) -> tuple[StoredAttachment, bytes]:
    """Return a file of the session and its content, or raise AttachmentNotFound."""
    found, content_id = AttachmentRepository(connection, principal).get(session_id, attachment_id)
    return found, AttachmentContentRepository(connection, principal).get(content_id)


def delete_unsent(tx: Tx, session_id: str, attachment_id: str) -> int:
    """Delete a file that was not sent and return its size."""
    files = AttachmentRepository(tx)
    _, content_id = files.get(session_id, attachment_id)
    size = files.remove_unsent(session_id, attachment_id)
    AttachmentContentRepository(tx).remove_unused([content_id])
    return size


def read_contents(
    connection: Connection, principal: Principal, session_id: str, texts: list[str], images: list[str], most: int
) -> dict[str, bytes]:
    """Return the content of files of a session, by id: of texts only the first `most` bytes."""
    ids = AttachmentRepository(connection, principal).content_ids(session_id, [*texts, *images])
    contents = AttachmentContentRepository(connection, principal)
    found = contents.beginnings([ids[each] for each in texts if each in ids], most)
    found |= contents.beginnings([ids[each] for each in images if each in ids])
    return {each: found[content_id] for each, content_id in ids.items() if content_id in found}
