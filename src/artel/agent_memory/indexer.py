"""Makes the index follow the rows: at once where somebody waits, else in the background, giving way to turns."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from artel.agent_memory import index_queue
from artel.agent_memory.index_queue import Chore, Waiting
from artel.db.engine import Database
from artel.errors import ArtelError
from artel.logs import get_logger
from artel.vector_index.embedder import Embedder
from artel.vector_index.minilm import EmbeddingsUnavailable
from artel.vector_index.store import MemoryStore, MemoryUnavailable, Point, Vector

BATCH = 64
EMBEDDED_CHARACTERS = 8_000  # providers refuse what is too long; the words of the rest are found all the same
LOOK_SECONDS = 30.0  # for what others have left, and for wake-ups that were missed
SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # while the index is down
GIVE_WAY_SECONDS = 2.0
GLANCE_SECONDS = 0.02

log = get_logger(__name__)


@dataclass
class IndexState:
    """How the index did lately."""

    ok: bool = True
    detail: str | None = None
    waiting: int = 0  # at least so many memories, when the background last looked

    def failed(self, detail: str) -> None:
        """Note that it can't be used."""
        self.ok, self.detail = False, detail

    def worked(self) -> None:
        """Note that it can be used."""
        self.ok, self.detail = True, None


class Indexer:
    """One per process."""

    def __init__(self, database: Database, store: MemoryStore, embedder: Embedder) -> None:
        self._database, self._store, self._embedder = database, store, embedder
        self.state = IndexState()
        self._prepared = False
        self._preparing, self._doing_chores = asyncio.Lock(), asyncio.Lock()
        self._in_hand: set[str] = set()  # memories that somebody waits for; the background leaves them alone
        self._woken = asyncio.Event()
        self._batch = BATCH
        self._after = ""  # where the background goes on when a memory can't be embedded

    def wake(self) -> None:
        """Say that there is something to do."""
        self._woken.set()

    def take_in_hand(self, memory_id: str) -> None:
        """Keep the background from a memory that is about to be added."""
        self._in_hand.add(memory_id)

    def let_go(self, memory_id: str) -> None:
        """Leave the memory to the background, if it isn't in the index yet."""
        self._in_hand.discard(memory_id)

    async def run(self, busy: Callable[[], bool]) -> None:
        """Do what there is to do, again and again, until cancelled."""
        pause = SHORTEST_PAUSE
        while True:
            self._woken.clear()
            try:
                more = await self.step(busy)
            except Exception as failure:
                detail = failure.detail if isinstance(failure, ArtelError) else "The server's log says why."
                if self.state.ok:
                    log.warning("memory_not_indexed", reason=detail, exc_info=not isinstance(failure, ArtelError))
                self.state.failed(detail)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            pause = SHORTEST_PAUSE
            if not more:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._woken.wait()

    async def step(self, busy: Callable[[], bool] = lambda: False) -> bool:
        """Do a piece of the work; say whether there may be more."""
        if await self.carry_out_chores():
            return True
        if self._store.needs_rebuild:
            await self.prepare()
        limit = self._batch + len(self._in_hand)
        found = await self._database.read(index_queue.waiting, self._after, limit)
        rows = [row for row in found if row.id not in self._in_hand][: self._batch]
        self.state.waiting = len(rows)
        if not rows:
            return await self._look_again()
        await _give_way(busy)
        try:
            await self.index(rows)
        except EmbeddingsUnavailable:
            # One text may be to blame: find it by halves, and go on behind it.
            if self._batch == 1:
                self._after = rows[0].id
            self._batch = max(self._batch // 2, 1)
            raise
        self._batch = min(self._batch * 2, BATCH)
        return True

    async def prepare(self) -> None:
        """Open the index; if it was made anew, let every memory be indexed again."""
        async with self._preparing:
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
        """Let every memory be indexed again, a few thousand in one transaction."""
        last: str | None = ""
        while last is not None:
            last = await self._database.run(index_queue.reset_some, last)

    async def carry_out_chores(self) -> int:
        """Do in the index what follows from changes of the rows; return how many chores there were."""
        done = 0
        async with self._doing_chores:
            while chore := await self._database.read(index_queue.next_chore):
                await self.prepare()
                await self._carry_out(chore)
                await self._database.run(index_queue.finish_chore, chore)
                self.state.worked()
                done += 1
        if done:
            self.wake()
        return done

    async def index(self, rows: Sequence[Waiting]) -> int:
        """Put memories into the index; return how many of them are in it for good."""
        await self.prepare()
        vectors: dict[str, Vector] = {}
        if self._embedder.dimensions:
            embedded = await self._embedder.embed([row.content[:EMBEDDED_CHARACTERS] for row in rows])
            vectors = {row.id: vector for row, vector in zip(rows, embedded, strict=True)}
        ticket = await self._database.run(index_queue.take_ticket, [row.id for row in rows])
        await self._store.upsert(
            [
                Point(
                    row.id,
                    ticket.collections[row.id],
                    row.content,
                    vectors.get(row.id),
                    row.type,
                    row.success,
                    row.created_at,
                )
                for row in rows
                if row.id in ticket.collections
            ]
        )
        marked = await self._database.run(index_queue.return_ticket, ticket)
        self.state.worked()
        if marked < len(rows):  # some were cleared, renamed or deleted meanwhile, and may have left something to do
            self.wake()
        return marked

    async def _carry_out(self, chore: Chore) -> None:
        if chore.kind == "rename" and chore.new_name is not None:
            await self._store.rename(chore.collection, chore.new_name)
        elif chore.kind == "clear" or chore.owned:  # the name of a deleted agent may have a new owner
            await self._store.clear(chore.collection)
        else:
            await self._store.drop(chore.collection)

    async def _look_again(self) -> bool:
        """Nothing waits any more: go back to what was skipped, and see whether an index that failed is back."""
        skipped, self._after = self._after, ""
        if skipped and await self._database.read(index_queue.count_waiting) > 0:
            raise EmbeddingsUnavailable(self.state.detail or "Some memories can't be embedded.")
        if not self.state.ok:
            if not await self._store.healthy():
                raise MemoryUnavailable(self.state.detail or "The memory index can't be used.", retry_after=5)
            self.state.worked()
        return False


async def _give_way(busy: Callable[[], bool]) -> None:
    """Wait while turns are running, but not for ever."""
    with suppress(TimeoutError):
        async with asyncio.timeout(GIVE_WAY_SECONDS):
            while busy():  # noqa: ASYNC110 - nobody tells us when the last turn ends
                await asyncio.sleep(GLANCE_SECONDS)
