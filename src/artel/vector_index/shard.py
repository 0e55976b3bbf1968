"""The folder of the embedded index: its lock, its format, and recovery of a broken shard."""

from __future__ import annotations

import fcntl
import json
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

from artel.logs import get_logger
from artel.vector_index.collection_scope import COLLECTION, CREATED_AT, DENSE, REGISTERED, SPARSE, SUCCESS, TYPE
from artel.vector_index.late_module import LateModule
from artel.vector_index.store import MemoryUnavailable

if TYPE_CHECKING:
    import qdrant_edge as edge
else:
    edge = LateModule("qdrant_edge")

VERSION = 1
SEARCH_THREADS = 2  # the default is eight
NEVER_KB = 1_000_000_000
DEAD_SHARE = 0.5  # of deleted points, from which a segment is compacted
# Out of memory, no permission, too many open files, no space, locked: temporary, the shard is not broken.
TEMPORARY_ERRORS = ("os error 12)", "os error 13)", "os error 24)", "os error 28)", "WouldBlock")

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Format:
    """The format of the index; an index of another format is recreated."""

    version: int
    model: str
    dimensions: int
    needs_rebuild: bool


class ShardFolder:
    """The folder that holds one shard, for one process at a time."""

    def __init__(self, folder: Path, model: str, dimensions: int) -> None:
        self._folder = folder
        self._shard = folder / "shard"
        self._expected = Format(VERSION, model, dimensions, needs_rebuild=True)
        self._lock: IO[str] | None = None
        self.needs_rebuild = False

    def open(self) -> edge.EdgeShard:
        """Lock the folder and return its shard, a new one if none can be used."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._lock is None:
            file = (self._folder / "lock").open("a", encoding="utf-8")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                problem = f"Another process uses the memory index in {self._folder}."
                raise MemoryUnavailable(problem, retry_after=5) from None
            self._lock = file
        found: Format | None = None
        with suppress(OSError, ValueError, TypeError):
            found = Format(**json.loads((self._folder / "format.json").read_text(encoding="utf-8")))
        if found and replace(found, needs_rebuild=True) == self._expected and (shard := self._load()):
            self.needs_rebuild = found.needs_rebuild
            return shard
        (self._folder / "format.json").unlink(missing_ok=True)
        shutil.rmtree(self._shard, ignore_errors=True)
        self._shard.mkdir(mode=0o700)
        shard = edge.EdgeShard.create(str(self._shard), _config(self._expected.dimensions))
        _make_indexes(shard)
        self._write(self._expected)
        self.needs_rebuild = True
        return shard

    def rebuilt(self) -> None:
        """Record that every memory has been indexed again."""
        self._write(replace(self._expected, needs_rebuild=False))
        self.needs_rebuild = False

    def close(self) -> None:
        """Release the lock on the folder."""
        if self._lock:
            self._lock.close()
            self._lock = None

    def _load(self) -> edge.EdgeShard | None:
        """Return the existing shard; if it is broken, move it away for inspection and return None."""
        if not self._shard.exists():
            return None
        try:
            shard = edge.EdgeShard.load(str(self._shard))
            # Compact only here, where no search runs: it blocks the whole process (1.8 s for 100,000 points of which
            # half are deleted). It returns at once unless DEAD_SHARE is reached.
            if shard.optimize():
                log.info("memory_index_compacted")
            _make_indexes(shard)
        except BaseException as failure:  # a panic of the engine is not an Exception
            problem = str(failure)
            if any(error in problem for error in TEMPORARY_ERRORS):
                raise
        else:
            return shard
        for older in self._folder.glob("broken-*"):  # only the latest one is kept
            shutil.rmtree(older, ignore_errors=True)
        aside = self._folder / f"broken-{datetime.now(UTC):%Y%m%dT%H%M%S}"
        self._shard.rename(aside)
        log.error("memory_index_broken", moved_to=str(aside), error=problem)
        return None

    def _write(self, format_: Format) -> None:
        path = self._folder / "format.json"
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(format_)), encoding="utf-8")
        temporary.replace(path)


def _config(dimensions: int) -> edge.EdgeConfig:
    return edge.EdgeConfig(
        vectors={DENSE: edge.EdgeVectorParams(size=dimensions, distance=edge.Distance.Cosine)} if dimensions else None,
        sparse_vectors={SPARSE: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
        # No HNSW graph is ever built: within one collection a full scan takes 0.3 ms for 1,000 memories and 10 ms for
        # 100,000, while building the graph of 100,000 blocks the whole process for more than a minute.
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=NEVER_KB, deleted_threshold=DEAD_SHARE),
        max_search_threads=SEARCH_THREADS,
    )


def _make_indexes(shard: edge.EdgeShard) -> None:
    wanted: dict[str, edge.KeywordIndexParams | edge.IntegerIndexParams] = {
        COLLECTION: edge.KeywordIndexParams(is_tenant=True),
        REGISTERED: edge.KeywordIndexParams(),
        TYPE: edge.KeywordIndexParams(),
        SUCCESS: edge.IntegerIndexParams(lookup=True, range=False),
        CREATED_AT: edge.IntegerIndexParams(lookup=False, range=True),
    }
    existing = shard.info().payload_schema
    for field, schema in wanted.items():
        if field not in existing:
            shard.update(edge.UpdateOperation.create_field_index(field, schema))
