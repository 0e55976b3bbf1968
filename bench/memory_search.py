"""`python -m bench.memory_search`: speed of searching and filling the embedded vector index.

Words of texts follow Zipf's law, as in a natural language. The stored vectors are random: embedding 100,000 texts would
take half an hour and not change the result. The queries are embedded by the model.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from artel.ids import uuid7
from artel.vector_index.artel_embed import FOLDER
from artel.vector_index.edge import EdgeStore
from artel.vector_index.embedder import artel_embedder
from artel.vector_index.search import search_memory
from artel.vector_index.store import Filter, Point, collection_name

SIZES = (1_000, 10_000, 100_000)
COLLECTIONS = 100
WORDS_PER_MEMORY, WORDS_PER_QUERY = 60, 9
SEARCHES = 400
BATCH = 256
START = datetime(2026, 1, 1, tzinfo=UTC)


class Corpus:
    """Memories and queries, the same in every run."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(7)
        pieces = json.loads((FOLDER / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
        words = (piece.removeprefix("▁") for piece, _ in pieces if piece.startswith("▁"))
        self._words = [word for word in words if word.isascii() and word.isalpha() and len(word) > 2]
        shares = 1 / np.arange(1, len(self._words) + 1)
        self._shares = shares / shares.sum()

    def texts(self, count: int, words: int) -> list[str]:
        """Return `count` texts with `words` words each."""
        drawn = self._random.choice(len(self._words), (count, words), p=self._shares)
        return [" ".join(self._words[word] for word in text) for text in drawn]

    def points(self, start: int, count: int) -> list[Point]:
        """Return memories, distributed over the collections."""
        vectors = self._random.standard_normal((count, 384), dtype=np.float32)
        return [
            Point(
                uuid7(), collection(start + n), text, vectors[n], "task" if n % 2 else "chat", n % 3 > 0,
                START + timedelta(seconds=start + n),
            )
            for n, text in enumerate(self.texts(count, WORDS_PER_MEMORY))
        ]  # fmt: skip


def collection(number: int) -> str:
    """Return the name of one of the collections."""
    return collection_name(number % COLLECTIONS, 1, "agent")


def resident_megabytes() -> float:
    """Return the resident memory of this process."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) / 1024


async def timed(search: Callable[[int], Awaitable[Any]]) -> dict[str, float]:
    """Run searches one at a time; return P50, P95, maximum and CPU time in milliseconds."""
    durations, cpu = [], time.process_time()
    for number in range(SEARCHES):
        started = time.perf_counter()
        await search(number)
        durations.append((time.perf_counter() - started) * 1000)
    cpu = (time.process_time() - cpu) * 1000 / SEARCHES
    p95 = statistics.quantiles(durations, n=20)[-1]
    return {"p50": statistics.median(durations), "p95": p95, "max": max(durations), "cpu": cpu}


async def longest_gap(work: Awaitable[Any]) -> tuple[float, float]:
    """Return the duration of the work in seconds, and the longest time it blocked the event loop in milliseconds."""
    task = asyncio.ensure_future(work)
    started = last = time.perf_counter()
    worst = 0.0
    while not task.done():
        await asyncio.wait([task], timeout=0.001)
        now = time.perf_counter()
        worst, last = max(worst, now - last), now
    await task
    return time.perf_counter() - started, worst * 1000


async def fill(store: EdgeStore, corpus: Corpus, size: int) -> dict[str, float]:
    """Store `size` memories; return the rate and the longest block of the event loop."""
    seconds = worst = 0.0
    for start in range(0, size, BATCH):
        points = corpus.points(start, min(BATCH, size - start))
        elapsed, gap = await longest_gap(store.upsert(points))
        seconds, worst = seconds + elapsed, max(worst, gap)
    return {"per_second": size / seconds, "gap": worst}


async def keep_storing(store: EdgeStore, points: list[Point]) -> None:
    """Store the same memories in a loop, as fast as possible."""
    while True:
        await store.upsert(points)


async def measure(size: int, folder: Path) -> dict[str, Any]:
    """Fill an index and measure all kinds of search."""
    corpus, embedder = Corpus(), artel_embedder()
    store = EdgeStore(folder, model="bench", dimensions=384)
    await store.healthy()
    before = resident_megabytes()
    result: dict[str, Any] = {"size": size, "ingest": await fill(store, corpus, size)}
    result["rss"] = resident_megabytes() - before
    queries = corpus.texts(SEARCHES * 4, WORDS_PER_QUERY)
    random = np.random.default_rng(8).standard_normal((SEARCHES, 384), dtype=np.float32)
    narrow = Filter(type="task", success=True, since=START, until=START + timedelta(seconds=size // 2))

    result["words"] = await timed(lambda n: store.search(collection(n), queries[n], None, 5))
    result["hybrid"] = await timed(lambda n: store.search(collection(n), queries[n], random[n], 5))
    result["filtered"] = await timed(lambda n: store.search(collection(n), queries[n], random[n], 5, narrow))
    await embedder.embed(["load the model"])
    unused_queries = iter(queries[SEARCHES:])
    result["embedded"] = await timed(lambda n: search_memory(store, embedder, collection(n), next(unused_queries), 5))

    storing = asyncio.ensure_future(keep_storing(store, corpus.points(0, BATCH)))
    result["while_storing"] = await timed(lambda n: store.search(collection(n), queries[n], random[n], 5))
    storing.cancel()
    started = time.perf_counter()
    await store.close()
    result["close"] = time.perf_counter() - started
    started = time.perf_counter()
    again = EdgeStore(folder, model="bench", dimensions=384)
    assert await again.healthy()
    result["open"] = time.perf_counter() - started
    await again.close()
    await embedder.close()
    return result


def line(what: str, measured: str, note: str = "") -> None:
    """Print one figure."""
    print(f"  {what:44} {measured:>24}   {note}")


def show(result: dict[str, Any]) -> None:
    """Print the figures for one index size."""
    print(f"{result['size']:,} memories in {COLLECTIONS} collections (P50 / P95 / max)")
    rows = {
        "hybrid": ("search, given vector", "target P95 < 5 ms"),
        "filtered": ("search, with four filters", ""),
        "words": ("search, keywords only", ""),
        "embedded": ("search, with embedding", "target P95 < 50 ms"),
        "while_storing": ("search during writes", ""),
    }
    for key, (what, note) in rows.items():
        found = " / ".join(f"{result[key][figure]:.2f}" for figure in ("p50", "p95", "max"))
        line(what, f"{found} ms", f"{result[key]['cpu']:.1f} ms CPU   {note}")
    line(
        "stored per second", f"{result['ingest']['per_second']:,.0f}", f"longest pause {result['ingest']['gap']:.0f} ms"
    )
    line("memory used by the index", f"{result['rss']:.0f} MB")
    line("open / close", f"{result['open']:.2f} / {result['close']:.2f} s")


def main() -> None:
    """Measure each size in a separate process, so that the memory figures are independent."""
    if len(sys.argv) == 2:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(asyncio.run(measure(int(sys.argv[1]), Path(folder) / "memory"))))
        return
    for size in SIZES:
        command = [sys.executable, "-m", "bench.memory_search", str(size)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        show(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()
