"""Search, forks and deletion of sessions, and feedback on their answers."""

from artel.auth.principal import Principal
from artel.contract.chat import ChatMessage, Found, NewFeedback
from artel.contract.http import Page, PageRequest, Session
from artel.db.engine import SEARCHERS
from artel.errors import SearchTooLong, TooManySearches
from artel.ids import uuid7
from artel.per_user_locks import PerUserLock
from artel.sessions.deletion import delete_session
from artel.sessions.search import search
from artel.spaces.services import SpaceServices
from artel.turns import fork
from artel.turns.feedback import rate_answer

MAX_SEARCHES = 4  # per user, running and queued


class SessionService:
    """Searches, forks and deletes sessions, and stores feedback."""

    def __init__(self, services: SpaceServices, search_seconds: float) -> None:
        self._services = services
        self._database = services.database
        self._search_seconds = search_seconds
        self._searches = PerUserLock(SEARCHERS)

    async def search(self, user: Principal, text: str, session_id: str | None, paging: PageRequest) -> Page[Found]:
        """Return a page of the user's sessions and messages that contain the text, or of one session's messages."""
        if self._searches.count(user.user_id) >= MAX_SEARCHES:
            raise TooManySearches(
                f"You already have {MAX_SEARCHES} searches running. Try again in a moment.", retry_after=5
            )
        seconds = self._search_seconds
        try:
            async with self._searches.lock(user.user_id):
                wanted = text, session_id, paging
                return await self._database.read_within(seconds, search, user, *wanted)
        except TimeoutError:
            raise SearchTooLong(
                f"The search timed out after {seconds:g} seconds, because you have very many messages. "
                "Delete old sessions, or ask the operator to raise search_seconds."
            ) from None

    async def fork(self, user: Principal, session_id: str, message_id: str) -> Session:
        """Create a session with copies of the messages up to a given one."""
        ids = [uuid7() for _ in range(fork.MAX_FORKED)]
        size = await self._database.read(fork.size_of_fork, user, session_id, message_id)
        async with self._services.storage.reserved(user, size):
            return await self._database.of(user).run(fork.fork_session, session_id, message_id, uuid7(), ids)

    async def rate(self, user: Principal, session_id: str, message_id: str, new: NewFeedback) -> ChatMessage:
        """Store the user's feedback on an answer, also in the memory of the agents that answered."""
        async with self._services.storage.reserved(user, len(new.comment.encode())):
            return await self._database.of(user).run(rate_answer, session_id, message_id, new)

    async def delete(self, user: Principal, session_id: str) -> None:
        """Delete a session and its messages."""
        await self._database.of(user).run(delete_session, session_id)
        self._services.storage.forget(user.user_id)  # measured again, because forks may share its files
