"""Carries events and half-written answers to the readers of sessions in this process.

The database is the truth: a hint only says that there is something to read. Each session is read once for all of its
readers, however many there are. A reader that does not keep up is cut off, and resumes from the last number it has.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from artel.contract.events import StoredEvent
from artel.db.tenant import Tenant
from artel.errors import ArtelError, Kind, ServerBusy, TooManyStreams
from artel.logs import get_logger

MAX_BEHIND = 1000  # items that a reader may not have taken yet
PAGE = 500
MAX_READERS = 20_000
MAX_READERS_PER_USER = 100
KEPT_ENDED = 16  # turns whose end was told; what is heard of them afterwards came late
TURN_ENDS = frozenset({"turn_completed", "turn_failed", "turn_cancelled"})

log = get_logger(__name__)

ReadEvents = Callable[[Tenant, str, int, int], Awaitable[list[StoredEvent]]]


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer that is being written; `n` counts the pieces of that message."""

    message_id: str
    task_id: str | None
    n: int
    text: str
    turn_id: str | None = None  # whose it is, if that is not the task's own name

    @property
    def whose(self) -> str | None:
        """The turn that it belongs to."""
        return self.turn_id or self.task_id


@dataclass(frozen=True, slots=True)
class Snapshot(Delta):
    """All of an answer up to piece `n`: it replaces what the reader has."""


Item = StoredEvent | Delta


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer that this process writes, as far as it is written."""

    user_id: int
    session_id: str
    turn_id: str
    text: str


class _Answer:
    """An answer that is being written: its pieces so far."""

    def __init__(
        self, message_id: str, task_id: str | None, turn_id: str | None, *, elsewhere: bool, is_task: bool
    ) -> None:
        self.message_id = message_id
        self.task_id = task_id
        self.turn_id = turn_id
        self.elsewhere = elsewhere  # another process writes it
        self.is_task = is_task  # it is the result of one task of several, not the answer to the user
        self.began = time.monotonic()
        self.saved = 0  # the piece up to which it is stored
        self.n = 0
        self.pieces: list[str] = []

    def snapshot(self) -> Snapshot:
        self.pieces = ["".join(self.pieces)]
        return Snapshot(self.message_id, self.task_id, self.n, self.pieces[0], self.turn_id)


class StreamsEnd(Exception):
    """The server stops: readers go, and come back to the next one."""


class ReaderTooSlow(Exception):
    """The reader has not taken what there was for too long."""


class Reader:
    """One listener of a session."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._awake = asyncio.Event()
        self._too_slow = False
        self._end: Exception | None = None

    def end(self, reason: Exception) -> None:
        """Let the reader go, once it has what there is."""
        self._end = reason
        self._awake.set()

    def offer(self, item: Item) -> None:
        """Give an item to the reader; what a reader that is too slow is given is dropped."""
        if len(self._items) >= MAX_BEHIND:
            self._too_slow = True
            self._items.clear()
        if not self._too_slow:
            self._items.append(item)
        self._awake.set()

    async def next(self, seconds: float) -> Item | None:
        """Return the next item, or None after that many seconds without one."""
        try:
            async with asyncio.timeout(seconds):
                while not self._items and not self._too_slow and not self._end:
                    self._awake.clear()
                    await self._awake.wait()
        except TimeoutError:
            return None
        if self._too_slow:
            raise ReaderTooSlow
        if self._end and not self._items:
            raise self._end
        return self._items.popleft()


class _Feed:
    """The readers of one session, and the answers that are being written in it."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.readers: set[Reader] = set()
        self.position: int | None = None
        self.answers: dict[str, _Answer] = {}
        self.ended: deque[str] = deque(maxlen=KEPT_ENDED)
        self.news = False
        self.reading: asyncio.Task[None] | None = None

    def tell(self, item: Item) -> None:
        for reader in self.readers:
            reader.offer(item)

    def tell_event(self, event: StoredEvent) -> None:
        """Tell an event; with the end of a turn, what was being written in it is over, whoever wrote it."""
        self.tell(event)
        if event.type in TURN_ENDS and event.turn_id is not None:
            self.ended.append(event.turn_id)
            self.answers = {
                key: one for key, one in self.answers.items() if (one.turn_id or one.task_id) != event.turn_id
            }

    def left(self, reader: Reader) -> None:
        """Let a reader go; with the last one, nobody hears any more what other processes write."""
        self.readers.discard(reader)
        if not self.readers:
            self.answers = {key: one for key, one in self.answers.items() if not one.elsewhere}


class Readers:
    """How many readers there are in this process, of all hubs, and of each user."""

    def __init__(self, max_per_user: int = MAX_READERS_PER_USER) -> None:
        self._max_per_user = max_per_user
        self._of_user: Counter[int] = Counter()
        self._all = 0

    def refuse_if_full(self, tenant: Tenant) -> None:
        """Raise if as many readers listen as this process can serve, to this user or at all."""
        if self._of_user[tenant.user_id] >= self._max_per_user:
            raise TooManyStreams(
                f"You follow {self._max_per_user} streams of events here. Close one of them, then try again.",
                retry_after=5,
            )
        if self._all >= MAX_READERS:
            raise ServerBusy("Too many readers follow events here. Try again in a moment.", retry_after=5)

    @contextmanager
    def count(self, tenant: Tenant) -> Iterator[None]:
        """Count a reader while it listens."""
        self.refuse_if_full(tenant)
        self._of_user[tenant.user_id] += 1
        self._all += 1
        try:
            yield
        finally:
            self._all -= 1
            self._of_user[tenant.user_id] -= 1
            if not self._of_user[tenant.user_id]:
                del self._of_user[tenant.user_id]


class EventHub:
    """All feeds of this process."""

    def __init__(self, read: ReadEvents, readers: Readers | None = None) -> None:
        self._read = read
        self._feeds: dict[str, _Feed] = {}
        self._readers = readers or Readers()

    @property
    def sessions(self) -> list[str]:
        """The sessions that somebody listens to."""
        return [session_id for session_id, feed in self._feeds.items() if feed.readers]

    def refuse_if_full(self, tenant: Tenant) -> None:
        """Raise if as many readers listen as this process can serve, to this user or at all."""
        self._readers.refuse_if_full(tenant)

    @contextmanager
    def listen(self, tenant: Tenant, session_id: str) -> Iterator[Reader]:
        """Listen to a session; answers that are being written come first, as snapshots."""
        with self._readers.count(tenant):
            feed = self._feeds.setdefault(session_id, _Feed(tenant))
            if feed.tenant.user_id != tenant.user_id:
                raise PermissionError("a session is listened to by its owner only")
            reader = Reader()
            for answer in feed.answers.values():
                reader.offer(answer.snapshot())
            feed.readers.add(reader)
            try:
                yield reader
            finally:
                feed.left(reader)
                self._forget_if_idle(session_id)

    async def follow(self, tenant: Tenant, session_id: str, after: int, seconds: float) -> AsyncIterator[Item | None]:
        """Return every event after a number, then what comes; None when nothing has come for that many seconds."""
        with self.listen(tenant, session_id) as reader:  # first listen, then read what was, then drop doubles
            last = after
            whole: set[str] = set()
            while page := await self._read(tenant, session_id, last, PAGE):
                for event in page:
                    yield event
                    whole.update(_completed(event))
                last = page[-1].number
            self._begin_at(session_id, last)
            while True:
                item = await reader.next(seconds)
                if isinstance(item, StoredEvent):
                    if item.number <= last:
                        continue
                    last = item.number
                elif item is not None and item.message_id in whole:
                    continue  # it was finished before the reader had caught up
                yield item

    def notify(self, session_id: str) -> None:
        """Say that a session has new events."""
        feed = self._feeds.get(session_id)
        if feed is None or not feed.readers or feed.position is None:
            return
        feed.news = True
        if feed.reading is None:
            feed.reading = asyncio.get_running_loop().create_task(self._catch_up(session_id, feed))

    def notify_all_of(self, tenant: Tenant) -> None:
        """Say that something of a user was deleted, whatever hung on it."""
        for session_id in [key for key, feed in self._feeds.items() if feed.tenant.user_id == tenant.user_id]:
            self.notify(session_id)

    def write(
        self,
        tenant: Tenant,
        session_id: str,
        message_id: str,
        task_id: str | None,
        text: str,
        turn_id: str | None = None,
        *,
        is_task: bool = False,
    ) -> None:
        """Add a piece to an answer that is being written; `turn_id` is whose it is, if that is not the task's name.

        `is_task` says that it is the result of one task of several, not the answer to the user.
        """
        feed, answer = self._answer(tenant, session_id, message_id, task_id, turn_id, is_task=is_task)
        answer.n += 1
        answer.pieces.append(text)
        if feed.readers:
            feed.tell(Delta(message_id, task_id, answer.n, text, answer.turn_id))

    def restart(
        self,
        tenant: Tenant,
        session_id: str,
        message_id: str,
        task_id: str | None,
        turn_id: str | None = None,
        *,
        is_task: bool = False,
    ) -> None:
        """Begin an answer again from nothing."""
        feed, answer = self._answer(tenant, session_id, message_id, task_id, turn_id, is_task=is_task)
        answer.n += 1
        answer.pieces = []
        feed.tell(answer.snapshot())

    def replace(self, tenant: Tenant, session_id: str, snapshot: Snapshot) -> None:
        """Take over what another process has of an answer that is being written there; after a pause it begins anew."""
        if not self.is_listened_to(session_id) or snapshot.whose in self._feeds[session_id].ended:
            return  # nobody would hear of its end, or it came late
        if self._feeds[session_id].tenant.user_id != tenant.user_id:
            log.warning("snapshot_of_another_user", session_id=session_id)
            return
        place = session_id, snapshot.message_id, snapshot.task_id, snapshot.turn_id
        feed, answer = self._answer(tenant, *place, elsewhere=True)
        if snapshot.n != answer.n:
            answer.n, answer.pieces = snapshot.n, [snapshot.text]
            feed.tell(snapshot)

    def written(self, session_id: str, message_id: str) -> Snapshot | None:
        """Return an answer as far as it is written."""
        feed = self._feeds.get(session_id)
        answer = feed.answers.get(message_id) if feed else None
        return answer.snapshot() if answer else None

    def written_of(self, session_id: str, turn_id: str) -> str:
        """Return the answer to a turn as far as it is written and known here."""
        feed = self._feeds.get(session_id)
        for answer in list(feed.answers.values()) if feed else ():
            if not answer.is_task and (answer.turn_id or answer.task_id) == turn_id:
                return answer.snapshot().text
        return ""

    def is_saved(self, session_id: str, message_id: str) -> bool:
        """Return whether a part of an answer was taken to be stored."""
        feed = self._feeds.get(session_id)
        answer = feed.answers.get(message_id) if feed else None
        return answer is not None and answer.saved > 0

    def take_drafts(self, seconds: float) -> list[Draft]:
        """Return the answers that this process has been writing for some seconds, if they grew since the last time."""
        before, drafts = time.monotonic() - seconds, []
        for session_id, feed in self._feeds.items():
            for answer in feed.answers.values():
                turn_id = answer.turn_id or answer.task_id
                if answer.is_task or answer.elsewhere or answer.began > before or answer.saved == answer.n:
                    continue
                if turn_id is not None and (text := answer.snapshot().text):
                    answer.saved = answer.n
                    drafts.append(Draft(feed.tenant.user_id, session_id, turn_id, text))
        return drafts

    def is_listened_to(self, session_id: str) -> bool:
        """Return whether anybody listens to the session."""
        feed = self._feeds.get(session_id)
        return feed is not None and bool(feed.readers)

    def end(self, session_id: str, message_id: str) -> None:
        """Forget an answer: it is whole, and in the database."""
        if feed := self._feeds.get(session_id):
            feed.answers.pop(message_id, None)
            self._forget_if_idle(session_id)

    def notify_if_behind(self, session_id: str, last: int) -> None:
        """Say which is the newest event of a session: it is read if it has not been."""
        feed = self._feeds.get(session_id)
        if feed is not None and feed.position is not None and feed.position < last:
            self.notify(session_id)

    def end_readers(self) -> None:
        """Let every reader go."""
        for feed in self._feeds.values():
            for reader in feed.readers:
                reader.end(StreamsEnd())

    async def close(self) -> None:
        """End what is being read."""
        tasks = [feed.reading for feed in self._feeds.values() if feed.reading]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _answer(
        self,
        tenant: Tenant,
        session_id: str,
        message_id: str,
        task_id: str | None,
        turn_id: str | None,
        *,
        elsewhere: bool = False,
        is_task: bool = False,
    ) -> tuple[_Feed, _Answer]:
        feed = self._feeds.get(session_id)
        if feed is None:
            feed = self._feeds[session_id] = _Feed(tenant)
        answer = feed.answers.get(message_id)
        if answer is None:
            answer = _Answer(message_id, task_id, turn_id, elsewhere=elsewhere, is_task=is_task)
            feed.answers[message_id] = answer
        return feed, answer

    def _begin_at(self, session_id: str, last: int) -> None:
        """The first reader that has caught up says from where the feed reads on; others may be further behind."""
        feed = self._feeds[session_id]
        if feed.position is None or last < feed.position:
            feed.position = last
            self.notify(session_id)  # something may have been written since

    async def _catch_up(self, session_id: str, feed: _Feed) -> None:
        try:
            while feed.news and feed.readers and feed.position is not None:
                feed.news = False
                while page := await self._read(feed.tenant, session_id, feed.position, PAGE):
                    for event in page:
                        feed.tell_event(event)
                    feed.position = page[-1].number
        except ArtelError as failure:
            if failure.kind is Kind.NOT_FOUND:  # it was deleted
                for reader in feed.readers:
                    reader.end(failure)
            else:
                log.warning("events_not_read", reason=failure.detail)  # the next hint makes it read again
        finally:
            feed.reading = None

    def _forget_if_idle(self, session_id: str) -> None:
        feed = self._feeds[session_id]
        if not feed.readers and not feed.answers:
            del self._feeds[session_id]


def _completed(event: StoredEvent) -> tuple[str, ...]:
    return (event.data["message_id"],) if event.type == "message_completed" else ()
