"""Delivers events and partial answers to the subscribers of sessions in this process.

The database is the source of truth; a hint only triggers a read. Each session is read once for all of its readers. A
reader whose queue is full is disconnected and resumes from its last event number.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from artel.contract.events import StoredEvent
from artel.db.tenant import Tenant
from artel.errors import ArtelError, Kind, ServerBusy, TooManyStreams
from artel.logs import get_logger

MAX_BEHIND = 1000  # items in the queue of one reader
PAGE = 500
POLL_AT_ONCE = 500
MAX_READERS = 20_000
MAX_READERS_PER_USER = 100
MAX_ENDED_TURNS = 16  # remembered per session, to drop snapshots that arrive after the end of their turn
TURN_ENDS = frozenset({"turn_completed", "turn_failed", "turn_cancelled"})

log = get_logger(__name__)

ReadEvents = Callable[[Tenant, str, int, int], Awaitable[Sequence[StoredEvent]]]
# Returns the number of the newest event of each session.
Newest = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a partial answer; `n` counts the pieces of the message."""

    message_id: str
    task_id: str | None
    n: int
    text: str
    turn_id: str | None = None  # None: the same as `task_id`

    @property
    def owner_turn_id(self) -> str | None:
        return self.turn_id or self.task_id


@dataclass(frozen=True, slots=True)
class Snapshot(Delta):
    """The whole partial answer up to piece `n`; it replaces the reader's copy."""


Item = StoredEvent | Delta


@dataclass(frozen=True, slots=True)
class Draft:
    """The current text of an answer that this process is writing."""

    user_id: int
    session_id: str
    turn_id: str
    text: str


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """Identifies an answer that is being written; `turn_id` defaults to `task_id`."""

    tenant: Tenant
    session_id: str
    message_id: str
    task_id: str | None
    turn_id: str | None = None
    is_task: bool = False  # the result of one task of a plan, not the answer to the user


@dataclass(slots=True)
class _PartialAnswer:
    """An answer that is being written, with its pieces so far."""

    key: AnswerKey
    is_remote: bool  # written by another process
    started_at: float = field(default_factory=time.monotonic)
    shared_at: float = 0.0
    saved: int = 0  # number of the last stored piece
    n: int = 0
    pieces: list[str] = field(default_factory=list)

    @property
    def owner_turn_id(self) -> str | None:
        return self.key.turn_id or self.key.task_id

    def snapshot(self) -> Snapshot:
        self.pieces = ["".join(self.pieces)]
        return Snapshot(self.key.message_id, self.key.task_id, self.n, self.pieces[0], self.key.turn_id)


class StreamsEnd(Exception):
    """The server stops; readers must reconnect."""


class ReaderTooSlow(Exception):
    """The reader's queue is full."""


class StreamReader:
    """One subscriber of a session, with a bounded queue."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._awake = asyncio.Event()
        self._too_slow = False
        self._end: Exception | None = None

    def end(self, reason: Exception) -> None:
        """Raise `reason` in the reader once its queue is empty."""
        self._end = reason
        self._awake.set()

    def offer(self, item: Item) -> None:
        """Queue an item; if the queue is full, drop everything and mark the reader as too slow."""
        if len(self._items) >= MAX_BEHIND:
            self._too_slow = True
            self._items.clear()
        if not self._too_slow:
            self._items.append(item)
        self._awake.set()

    async def next(self, seconds: float) -> Item | None:
        """Return the next item, or None after `seconds` without one."""
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
    """Readers and partial answers of one session."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.readers: set[StreamReader] = set()
        self.position: int | None = None
        self.answers: dict[str, _PartialAnswer] = {}
        self.ended: deque[str] = deque(maxlen=MAX_ENDED_TURNS)
        self.has_unread = False
        self.read_task: asyncio.Task[None] | None = None

    def send(self, item: Item) -> None:
        for reader in self.readers:
            reader.offer(item)

    def send_event(self, event: StoredEvent) -> None:
        """Send an event to the readers; the end of a turn also drops its partial answers."""
        self.send(event)
        if event.type in TURN_ENDS and event.turn_id is not None:
            self.ended.append(event.turn_id)
            self.answers = {
                key: answer for key, answer in self.answers.items() if answer.owner_turn_id != event.turn_id
            }

    def remove(self, reader: StreamReader) -> None:
        """Remove a reader; with the last one, drop partial answers of other processes, whose end would be missed."""
        self.readers.discard(reader)
        if not self.readers:
            self.answers = {key: answer for key, answer in self.answers.items() if not answer.is_remote}


class Readers:
    """Counts the readers of all hubs in this process, in total and per user."""

    def __init__(self, max_per_user: int = MAX_READERS_PER_USER) -> None:
        self._max_per_user = max_per_user
        self._of_user: Counter[int] = Counter()
        self._all = 0

    def refuse_if_full(self, tenant: Tenant) -> None:
        """Raise TooManyStreams or ServerBusy if the limit per user or per process is reached."""
        if self._of_user[tenant.user_id] >= self._max_per_user:
            raise TooManyStreams(
                f"You already follow {self._max_per_user} event streams. Close one, then try again.",
                retry_after=5,
            )
        if self._all >= MAX_READERS:
            raise ServerBusy("Too many event streams are open. Try again in a moment.", retry_after=5)

    @contextmanager
    def count(self, tenant: Tenant) -> Iterator[None]:
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
    """Event streams of this process, keyed by session (or project)."""

    def __init__(self, read: ReadEvents, readers: Readers | None = None) -> None:
        self._read = read
        self._feeds: dict[str, _Feed] = {}
        self.readers = readers or Readers()

    @contextmanager
    def listen(self, tenant: Tenant, session_id: str) -> Iterator[StreamReader]:
        """Subscribe to a session; snapshots of its partial answers come first."""
        with self.readers.count(tenant):
            feed = self._feeds.setdefault(session_id, _Feed(tenant))
            if feed.tenant.user_id != tenant.user_id:
                raise PermissionError("only the owner may subscribe to a session")
            reader = StreamReader()
            for answer in feed.answers.values():
                reader.offer(answer.snapshot())
            feed.readers.add(reader)
            try:
                yield reader
            finally:
                feed.remove(reader)
                self._remove_if_idle(session_id)

    async def follow(self, tenant: Tenant, session_id: str, after: int, seconds: float) -> AsyncIterator[Item | None]:
        """Yield every event after a number, then new items; yield None after `seconds` without one."""
        with self.listen(tenant, session_id) as reader:  # subscribe before reading, so that no event is missed
            last = after
            completed: set[str] = set()
            while page := await self._read(tenant, session_id, last, PAGE):
                for event in page:
                    yield event
                    if event.type == "message_completed":
                        completed.add(event.data["message_id"])
                last = page[-1].number
            self._start_at(session_id, last)
            while True:
                item = await reader.next(seconds)
                if isinstance(item, StoredEvent):
                    if item.number <= last:
                        continue
                    last = item.number
                elif item is not None and item.message_id in completed:
                    continue  # completed before the reader had caught up
                yield item

    def notify(self, session_id: str) -> None:
        """Read the new events of a session and send them to its readers."""
        feed = self._feeds.get(session_id)
        if feed is None or not feed.readers or feed.position is None:
            return
        feed.has_unread = True
        if feed.read_task is None:
            feed.read_task = asyncio.get_running_loop().create_task(self._catch_up(session_id, feed))

    def notify_all_of(self, tenant: Tenant) -> None:
        """Read all sessions of a user again, because some of them may have been deleted."""
        for session_id in [key for key, feed in self._feeds.items() if feed.tenant.user_id == tenant.user_id]:
            self.notify(session_id)

    def write(self, key: AnswerKey, text: str) -> None:
        """Append a piece to a partial answer."""
        feed, answer = self._answer(key)
        answer.n += 1
        answer.pieces.append(text)
        if feed.readers:
            feed.send(Delta(key.message_id, key.task_id, answer.n, text, key.turn_id))

    def restart(self, key: AnswerKey) -> None:
        """Discard the text of a partial answer and start again."""
        feed, answer = self._answer(key)
        answer.n += 1
        answer.pieces = []
        feed.send(answer.snapshot())

    def replace(self, tenant: Tenant, session_id: str, snapshot: Snapshot) -> None:
        """Replace the local copy of a partial answer with a snapshot from another process."""
        feed = self._feeds.get(session_id)
        if feed is None or not feed.readers or snapshot.owner_turn_id in feed.ended:
            return  # without readers its end would be missed; after the end of its turn it is stale
        if feed.tenant.user_id != tenant.user_id:
            log.warning("snapshot_of_another_user", session_id=session_id)
            return
        key = AnswerKey(tenant, session_id, snapshot.message_id, snapshot.task_id, snapshot.turn_id)
        feed, answer = self._answer(key, is_remote=True)
        if snapshot.n != answer.n:
            answer.n, answer.pieces = snapshot.n, [snapshot.text]
            feed.send(snapshot)

    def snapshot_to_share(self, key: AnswerKey, seconds: float) -> Snapshot | None:
        """Return a snapshot of a partial answer for other processes, unless the last one is younger than `seconds`."""
        _, answer = self._answer(key)
        if time.monotonic() - answer.shared_at <= seconds:
            return None
        answer.shared_at = time.monotonic()
        return answer.snapshot()

    def partial_answer(self, session_id: str, turn_id: str) -> str:
        """Return the text of a turn's partial answer, as far as this process has it."""
        feed = self._feeds.get(session_id)
        for answer in list(feed.answers.values()) if feed else ():
            if not answer.key.is_task and answer.owner_turn_id == turn_id:
                return answer.snapshot().text
        return ""

    def is_saved(self, session_id: str, message_id: str) -> bool:
        """Return whether `take_drafts` has returned a part of this answer."""
        feed = self._feeds.get(session_id)
        answer = feed.answers.get(message_id) if feed else None
        return answer is not None and answer.saved > 0

    def take_drafts(self, seconds: float) -> list[Draft]:
        """Return local answers that are older than `seconds` and have grown since the last call."""
        before, drafts = time.monotonic() - seconds, []
        for session_id, feed in self._feeds.items():
            for answer in feed.answers.values():
                if answer.key.is_task or answer.is_remote or answer.started_at > before or answer.saved == answer.n:
                    continue
                if (turn_id := answer.owner_turn_id) is not None and (text := answer.snapshot().text):
                    answer.saved = answer.n
                    drafts.append(Draft(feed.tenant.user_id, session_id, turn_id, text))
        return drafts

    def end(self, session_id: str, message_id: str) -> None:
        """Drop a partial answer, because the complete one is in the database."""
        if feed := self._feeds.get(session_id):
            feed.answers.pop(message_id, None)
            self._remove_if_idle(session_id)

    async def poll(self, newest: Newest) -> None:
        """Read the sessions that have new events: hints may be lost, and without a bus other processes send none."""
        followed = [session_id for session_id, feed in self._feeds.items() if feed.readers]
        for start in range(0, len(followed), POLL_AT_ONCE):
            batch = followed[start : start + POLL_AT_ONCE]
            last = await newest(batch)
            for session_id in batch:
                feed = self._feeds.get(session_id)
                if session_id not in last:
                    self.notify(session_id)  # deleted: reading it raises NOT_FOUND, which ends its readers
                elif feed is not None and feed.position is not None and feed.position < last[session_id]:
                    self.notify(session_id)

    def end_readers(self) -> None:
        """End all streams with StreamsEnd."""
        for feed in self._feeds.values():
            for reader in feed.readers:
                reader.end(StreamsEnd())

    async def close(self) -> None:
        tasks = [feed.read_task for feed in self._feeds.values() if feed.read_task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _answer(self, key: AnswerKey, *, is_remote: bool = False) -> tuple[_Feed, _PartialAnswer]:
        feed = self._feeds.get(key.session_id)
        if feed is None:
            feed = self._feeds[key.session_id] = _Feed(key.tenant)
        answer = feed.answers.get(key.message_id)
        if answer is None:
            answer = feed.answers[key.message_id] = _PartialAnswer(key, is_remote)
        return feed, answer

    def _start_at(self, session_id: str, last: int) -> None:
        """Set the position from which the feed reads on; move it back for a reader that is further behind."""
        feed = self._feeds[session_id]
        if feed.position is None or last < feed.position:
            feed.position = last
            self.notify(session_id)  # events may have been written since

    async def _catch_up(self, session_id: str, feed: _Feed) -> None:
        try:
            while feed.has_unread and feed.readers and feed.position is not None:
                feed.has_unread = False
                while page := await self._read(feed.tenant, session_id, feed.position, PAGE):
                    for event in page:
                        feed.send_event(event)
                    feed.position = page[-1].number
        except ArtelError as failure:
            if failure.kind is Kind.NOT_FOUND:  # the session was deleted
                for reader in feed.readers:
                    reader.end(failure)
            else:
                log.warning("events_not_read", reason=failure.detail)  # the next hint retries
        finally:
            feed.read_task = None

    def _remove_if_idle(self, session_id: str) -> None:
        feed = self._feeds[session_id]
        if not feed.readers and not feed.answers:
            del self._feeds[session_id]
