"""Search over a user's sessions and messages: which contain a text, without regard to case.

What is read is bounded. A search finds the newest MAX_FOUND messages, in an index; a text that is too short for the
index is looked for in the newest SCANNED messages, and titles are looked at of the newest TITLES sessions.
"""

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection

from artel.auth.principal import Principal
from artel.contract.chat import Found
from artel.contract.http import Page, PageRequest
from artel.sessions.grams import contains, folded, used_grams
from artel.sessions.message_index import MessageIndexRepository
from artel.sessions.message_repository import MessageKey, MessageRepository
from artel.sessions.repository import SessionRepository

MAX_FOUND = 1_000
SCANNED = 5_000
TITLES = 10_000
SHORT_SESSION = 2_000  # messages of a session, which are read instead of the index
READ_AT_ONCE = 200  # messages: they may be long
EXCERPT_CHARACTERS = 200


def search(
    connection: Connection, principal: Principal, text: str, session_id: str | None, paging: PageRequest
) -> Page[Found]:
    """Return a page of the user's sessions and messages that contain the text, sessions first; or of one session."""
    sessions = SessionRepository(connection, principal)
    if session_id is not None:
        sessions.get(session_id)
    wanted = folded(text)
    titled = [] if session_id else [key for key in sessions.newest_titles(TITLES) if contains(key.title, wanted)]
    found = _messages_with(connection, principal, text, session_id)
    page = paging.cut(titled)
    items = [
        Found(
            kind="session",
            session_id=each.id,
            project_id=each.project_id,
            message_id=None,
            role=None,
            title=each.title,
            text=each.title,
            timestamp=each.updated_at,
        )
        for each in page
    ]
    rest = PageRequest(paging.limit - len(page), max(0, paging.offset - len(titled)))
    items += _shown(connection, principal, rest.cut(found), wanted)
    return paging.page(items, len(titled) + len(found))


def _messages_with(connection: Connection, principal: Principal, text: str, session_id: str | None) -> list[MessageKey]:
    """Return the messages that contain the text, newest first."""
    found: dict[str, MessageKey] = {}
    for source in _sources(connection, principal, text, session_id):
        found |= _found_in(source, MessageRepository(connection, principal), folded(text), session_id)
    return _newest_first(found.values())[:MAX_FOUND]


def _found_in(
    source: Iterable[list[str]], messages: MessageRepository, wanted: str, session_id: str | None
) -> dict[str, MessageKey]:
    """Return the first MAX_FOUND messages of a source of candidates that contain the text, and those read with them."""
    found: dict[str, MessageKey] = {}
    for ids in source:
        for start in range(0, len(ids), READ_AT_ONCE):
            read = messages.contents(ids[start : start + READ_AT_ONCE], session_id)
            found |= {key.id: key for key, content in read if contains(content, wanted)}
            if len(found) >= MAX_FOUND:
                return found
    return found


def _sources(
    connection: Connection, principal: Principal, text: str, session_id: str | None
) -> Iterator[Iterable[list[str]]]:
    """Yield where messages may contain the text: ids, about newest first. What waits for the index may be old."""
    messages, index = MessageRepository(connection, principal), MessageIndexRepository(connection, principal)
    has_grams = bool(used_grams(text))
    if session_id is not None:
        newest = messages.newest_ids(session_id, SCANNED)
        if len(newest) <= SHORT_SESSION or not has_grams:
            yield [newest]
            return
    yield [messages.not_searchable(SCANNED)]
    yield index.candidates(text) if has_grams else [index.newest(SCANNED)]


def _newest_first(keys: Iterable[MessageKey]) -> list[MessageKey]:
    return sorted(keys, key=lambda key: (key.created_at, key.id), reverse=True)


def _shown(connection: Connection, principal: Principal, keys: Sequence[MessageKey], wanted: str) -> list[Found]:
    """Return found messages with an excerpt each, in the same order."""
    messages = {
        each.message.id: each for each in MessageRepository(connection, principal).found([key.id for key in keys])
    }
    titles = SessionRepository(connection, principal).titles({each.session_id for each in messages.values()})
    return [
        Found(
            kind="message",
            session_id=each.session_id,
            project_id=each.project_id,
            message_id=each.message.id,
            role=each.message.role,
            title=titles[each.session_id],
            text=_excerpt(each.message.content, wanted),
            timestamp=each.message.created_at,
        )
        for each in (messages[key.id] for key in keys)
    ]


def _excerpt(content: str, wanted: str) -> str:
    """Return the part of a message around a folded text."""
    position = max(0, folded(content).find(wanted))
    start = max(0, position - EXCERPT_CHARACTERS // 2)
    excerpt = content[start : start + EXCERPT_CHARACTERS + len(wanted)]
    return f"{'…' if start else ''}{excerpt}{'…' if start + len(excerpt) < len(content) else ''}"
