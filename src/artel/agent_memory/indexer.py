"""Keeps the vector index in sync with the rows, at once for new memories and otherwise in the background."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from artel.agent_memory import index_queue
from artel.agent_memory.repository import UnindexedMemory
from artel.db.engine import Database
from artel.errors import ArtelError
from artel.logs import get_logger
from artel.poller import yield_to_turns
from artel.retry import Backoff
from artel.vector_index.embedder import Embedder
from artel.vector_index.store import (
    EmbeddingsUnavailable,
    MemoryStore,
    MemoryUnavailable,
    Point,
    Vector,
    collection_owner,
)

BATCH = 64
EMBEDDED_CHARACTERS = 8_000  # providers refuse longer texts; the rest is still found by words
POLL_SECONDS = 30.0  # finds work of other processes and missed wake-ups
BACKOFF = Backoff(0.5, 30.0)  # while the index is down
BUSY_POLL_SECONDS = 0.02
REST = 4  # times as long as a batch took there is none while turns run: a fifth of a core at most
QUIET_POLLS = 5  # without a turn, before a few memories are indexed: those of the next turns are embedded with them

# Takes the ids of the user, the project and the agent; and the vectors by memory, with the time of its content.
AgentKey = tuple[int, int, int]
Indexed = Callable[[AgentKey, Mapping[str, tuple[datetime, Vector]]], None]

log = get_logger(__name__)


@dataclass
class IndexState:
    """The latest state of the index."""

    ok: bool = True
    detail: str | None = None
    waiting: int = 0  # memories to index at the last poll, up to the batch size

    def failed(self, detail: str) -> None:
        """Record a failure of the index."""
        self.ok, self.detail = False, detail

    def worked(self) -> None:
        """Record that the index works."""
        self.ok, self.detail = True, None


class Indexer:
    """Indexes memories and runs chores; one per process."""

    def __init__(
        self, database: Database, store: MemoryStore, embedder: Embedder, indexed: Indexed = lambda *_: None
    ) -> None:
        """`indexed` is called with the vectors of memories that were added to the index."""
        self._database, self._store, self._embedder, self._indexed = database, store, embedder, indexed
        self.state = IndexState()
        self._prepared = False
        self._prepare_lock, self._chore_lock = asyncio.Lock(), asyncio.Lock()
        self.reserved: set[str] = set()  # memories that their caller indexes, so the background skips them
        self._woken = asyncio.Event()
        self._batch = BATCH
        self._rest_until = 0.0  # until then nothing is indexed in the background while turns run
        self._after = ""  # the background continues after this id when a memory can't be embedded

    def wake(self) -> None:
        """Wake up the background task because there is work."""
        self._woken.set()

    async def run(self, busy: Callable[[], bool]) -> None:
        """Process pending work until cancelled, with backoff while the index is down."""
        failures = 0
        while True:
            self._woken.clear()
            try:
                more = await self.step(busy)
            except Exception as failure:
                detail = failure.detail if isinstance(failure, ArtelError) else "The server's log says why."
                if self.state.ok:
                    log.warning("memory_not_indexed", reason=detail, exc_info=not isinstance(failure, ArtelError))
                self.state.failed(detail)
                await asyncio.sleep(BACKOFF.seconds(failures))
                failures += 1
                continue
            failures = 0
            if not more:
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._woken.wait()

    async def step(self, busy: Callable[[], bool] | None = None) -> bool:
        """Run the chores or index one batch; return whether there may be more work."""
        if await self.run_chores():
            return True
        if self._store.needs_rebuild:
            await self.prepare()
        rows = await self._find()
        if not rows:
            return await self._finish_pass()
        if busy is not None:
            is_full = len(rows) == self._batch
            rest_seconds = self._rest_until - time.monotonic()
            await yield_to_turns(busy, 1 if is_full else QUIET_POLLS, BUSY_POLL_SECONDS, rest_seconds)
            rows = rows if is_full else await self._find()
            if not rows:
                return True
        started = time.monotonic()
        try:
            await self.index(rows)
        except EmbeddingsUnavailable:
            # One text may cause the failure: find it by halving the batch, then skip it.
            if self._batch == 1:
                self._after = rows[0].id
            self._batch = max(self._batch // 2, 1)
            raise
        self._batch = min(self._batch * 2, BATCH)
        ended = time.monotonic()
        self._rest_until = ended + REST * (ended - started)
        return True

    async def _find(self) -> list[UnindexedMemory]:
        """Return the next batch of memories to index."""
        limit = self._batch + len(self.reserved)
        found = await self._database.read(index_queue.waiting, self._after, limit)
        rows = [row for row in found if row.id not in self.reserved][: self._batch]
        self.state.waiting = len(rows)
        return rows

    async def prepare(self) -> None:
        """Open the index; if it was created new, queue every memory for indexing."""
        async with self._prepare_lock:
            if not self._prepared and not await self._store.healthy():
                raise MemoryUnavailable("The memory index can't be used. The server's log says why.", retry_after=5)
            self._prepared = True
            if not self._store.needs_rebuild:
                return
            log.info("memory_index_is_rebuilt")
            await self.reset()
            await self._store.rebuilt()
            self.wake()

    async def reset(self) -> None:
        """Mark every memory as not indexed, a few thousand per transaction."""
        last: str | None = ""
        while last is not None:
            last = await self._database.run(index_queue.reset_some, last)

    async def run_chores(self) -> int:
        """Run all pending chores; return their number."""
        done = 0
        async with self._chore_lock:
            while chore := await self._database.read(index_queue.next_chore):
                await self.prepare()
                if chore.kind == "rename" and chore.new_name is not None:
                    await self._store.rename(chore.collection, chore.new_name)
                elif chore.kind == "forget" and chore.new_name is not None:
                    await self._store.delete(chore.collection, [chore.new_name])
                elif chore.kind == "clear" or chore.owned:  # a new agent may have the name of a deleted one
                    await self._store.clear(chore.collection)
                else:
                    await self._store.drop(chore.collection)
                await self._database.run(index_queue.finish_chore, chore)
                self.state.worked()
                done += 1
        if done:
            self.wake()
        return done

    async def index(self, rows: Sequence[UnindexedMemory]) -> int:
        """Add memories to the index; return how many of them were marked as indexed."""
        await self.prepare()
        vectors: Sequence[Vector | None] = [None] * len(rows)
        if self._embedder.dimensions:
            vectors = await self._embedder.embed([row.content[:EMBEDDED_CHARACTERS] for row in rows])
        ticket = await self._database.run(index_queue.take_ticket, [row.id for row in rows])
        names = ticket.collections
        points = [
            Point(row.id, names[row.id], row.content, vector, row.type, row.success, row.created_at)
            for row, vector in zip(rows, vectors, strict=True)
            if row.id in names
        ]
        await self._store.upsert(points)
        read = {row.id: row.stored_at for row in rows}
        marked = await self._database.run(index_queue.return_ticket, ticket, read)
        self._announce(ticket, rows, vectors)
        self.state.worked()
        if marked < len(rows):  # some were cleared, renamed or deleted meanwhile, so there may be chores
            self.wake()
        return marked

    def _announce(self, ticket: index_queue.Ticket, rows: Sequence[UnindexedMemory], vectors: Sequence[Any]) -> None:
        """Pass the new vectors on, by agent."""
        by_agent: defaultdict[AgentKey, dict[str, tuple[datetime, Vector]]] = defaultdict(dict)
        for row, vector in zip(rows, vectors, strict=True):
            owner = collection_owner(ticket.collections.get(row.id, ""))
            if owner is not None and vector is not None:
                user_id, project_id, _ = owner
                by_agent[user_id, project_id, ticket.agents[row.id]][row.id] = row.stored_at, vector
        for agent, of_agent in by_agent.items():
            self._indexed(agent, of_agent)

    async def _finish_pass(self) -> bool:
        """Start again at the first memory; raise if some were skipped or the index is still down, else return False."""
        skipped, self._after = self._after, ""
        if skipped and await self._database.read(index_queue.count_waiting) > 0:
            raise EmbeddingsUnavailable(self.state.detail or "Some memories can't be embedded.")
        if not self.state.ok:
            if not await self._store.healthy():
                raise MemoryUnavailable(self.state.detail or "The memory index can't be used.", retry_after=5)
            self.state.worked()
        return False
