"""Rows of attached files and of their content."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import JsonValue
from sqlalchemy import ColumnElement, Row, func

from artel.attachments.file_types import FileType
from artel.db.attachment_tables import attachment_contents, attachments
from artel.db.tenant import TenantRepository
from artel.errors import AttachmentNotFound, AttachmentSent

_SHOWN = ("id", "name", "media_type", "size", "kind", "lines", "width", "height")


@dataclass(frozen=True, slots=True)
class StoredAttachment:
    """An attached file without its content, as its message stores it too."""

    id: str
    name: str
    media_type: str
    size: int
    kind: Literal["text", "image"]
    lines: int | None = None
    width: int | None = None
    height: int | None = None

    @classmethod
    def load(cls, document: Mapping[str, Any]) -> "StoredAttachment":
        """Return the file that a message stores; fields of newer servers are ignored."""
        return cls(**{name: document[name] for name in _SHOWN if name in document})

    def dump(self) -> dict[str, JsonValue]:
        """Return the document that a message stores."""
        return {name: getattr(self, name) for name in _SHOWN}


def load_attachments(documents: "Sequence[Mapping[str, Any]] | None") -> tuple[StoredAttachment, ...]:
    """Return the files that a message stores; most have none."""
    return tuple(map(StoredAttachment.load, documents)) if documents else ()


class AttachmentRepository(TenantRepository):
    """Attached files of one user's sessions, without their content."""

    table = attachments

    def add(
        self, attachment_id: str, project_id: int, session_id: str, name: str, size: int, found: FileType
    ) -> StoredAttachment:
        """Add a file that is not sent yet; its content has the same id."""
        values = {"id": attachment_id, "name": name, "size": size, "kind": found.kind, "media_type": found.media_type}
        values |= {"lines": found.lines, "width": found.width, "height": found.height}
        ids = {"project_id": project_id, "session_id": session_id, "content_id": attachment_id}
        [row] = self._insert([values | ids | {"created_at": datetime.now(UTC)}])
        return _attachment(row)

    def count_unsent(self) -> int:
        """Return the number of files that the user has uploaded and not sent."""
        return self._count(attachments.c.message_id.is_(None))

    def get(self, session_id: str, attachment_id: str) -> tuple[StoredAttachment, str]:
        """Return a file of a session and the id of its content, or raise AttachmentNotFound."""
        row = self._find_one(*_of(session_id, attachment_id))
        if row is None:
            raise AttachmentNotFound("Attachment not found")
        return _attachment(row), str(row.content_id)

    def claim(self, session_id: str, ids: Sequence[str], message_id: str) -> list[StoredAttachment]:
        """Assign unsent files of a session to a message and return them in this order; raise if one is missing."""
        chosen = attachments.c.session_id == session_id, attachments.c.id.in_(ids)
        self._change({"message_id": message_id}, *chosen, attachments.c.message_id.is_(None))
        found = {row.id: _attachment(row) for row in self._find(*chosen, attachments.c.message_id == message_id)}
        for missing in (attachment_id for attachment_id in ids if attachment_id not in found):
            raise AttachmentNotFound(
                f"This session has no unsent attachment {missing}: it was sent, deleted, or not sent for a day. "
                "Upload the file again."
            )
        return [found[attachment_id] for attachment_id in ids]

    def remove_unsent(self, session_id: str, attachment_id: str) -> int:
        """Remove a file that was not sent and return its size; raise AttachmentSent or AttachmentNotFound."""
        found, _ = self.get(session_id, attachment_id)
        if not self._remove(*_of(session_id, attachment_id), attachments.c.message_id.is_(None)):
            raise AttachmentSent("The file was sent with a message and stays with it. Delete the session instead.")
        return found.size

    def copy(self, source_id: str, project_id: int, session_id: str, copies: Mapping[str, tuple[str, str]]) -> None:
        """Copy files of a session to another one; `copies` has the id and the message of the copy, by id.

        The copies share the content.
        """
        found = self._find(attachments.c.session_id == source_id, attachments.c.id.in_(list(copies)))
        now = datetime.now(UTC)
        self._add(
            [
                {name: getattr(row, name) for name in (*_SHOWN, "content_id")}
                | {"id": copies[row.id][0], "message_id": copies[row.id][1], "created_at": now}
                | {"project_id": project_id, "session_id": session_id}
                for row in found
            ]
        )

    def content_ids(self, session_id: str, ids: Iterable[str] | None = None) -> dict[str, str]:
        """Return the content ids of a session's files, or of some of them, by the file's id."""
        some: list[ColumnElement[bool]] = [] if ids is None else [attachments.c.id.in_(list(ids))]
        columns = attachments.c.id, attachments.c.content_id
        rows = self._find(attachments.c.session_id == session_id, *some, columns=columns)
        return {row.id: row.content_id for row in rows}

    def used(self, content_ids: Iterable[str]) -> set[str]:
        """Return those contents that a file refers to."""
        refers = attachments.c.content_id.in_(list(content_ids))
        return {row.content_id for row in self._find(refers, columns=[attachments.c.content_id])}


class AttachmentContentRepository(TenantRepository):
    """Content of one user's attached files."""

    table = attachment_contents

    def add(self, content_id: str, project_id: int, content: bytes) -> None:
        """Add the content of a file."""
        self._add([{"id": content_id, "project_id": project_id, "size": len(content), "content": content}])

    def get(self, content_id: str) -> bytes:
        """Return the content of a file or raise AttachmentNotFound."""
        found = self.beginnings([content_id])
        if content_id not in found:
            raise AttachmentNotFound("Attachment not found")
        return found[content_id]

    def beginnings(self, ids: Iterable[str], most: int | None = None) -> dict[str, bytes]:
        """Return contents by id, each whole or only its first `most` bytes."""
        content = attachment_contents.c.content
        read: ColumnElement[Any] = content if most is None else func.substr(content, 1, most)
        chosen = attachment_contents.c.id.in_(list(ids))
        rows = self._find(chosen, columns=[attachment_contents.c.id, read])
        return {content_id: bytes(beginning) for content_id, beginning in map(tuple, rows)}

    def stored_bytes(self) -> int:
        """Return the size of all content of the user in bytes."""
        total = self._select(func.coalesce(func.sum(attachment_contents.c.size), 0))
        return int(self.connection.execute(total).scalar_one())

    def share(self, ids: Iterable[str]) -> int:
        """Lock contents against deletion until the commit; return how many there are."""
        chosen = self._select(attachment_contents.c.id).where(attachment_contents.c.id.in_(list(ids)))
        return len(self.connection.execute(chosen.with_for_update(read=True, key_share=True)).all())

    def remove_unused(self, ids: Iterable[str]) -> None:
        """Remove those contents that no file refers to any more."""
        ids = list(ids)
        if not ids:
            return
        # Locked first, so that a fork that is copying one is waited for, and then seen.
        chosen = attachment_contents.c.id.in_(ids)
        self.connection.execute(self._select(attachment_contents.c.id).where(chosen).with_for_update()).all()
        unused = set(ids) - AttachmentRepository(self.connection, self.tenant).used(ids)
        self._remove(attachment_contents.c.id.in_(list(unused)))


def _of(session_id: str, attachment_id: str) -> tuple[ColumnElement[bool], ...]:
    return attachments.c.session_id == session_id, attachments.c.id == attachment_id


def _attachment(row: Row[Any]) -> StoredAttachment:
    return StoredAttachment(**{name: getattr(row, name) for name in _SHOWN})
