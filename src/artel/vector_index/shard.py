"""The folder of the embedded index: its lock, its format, and what happens when it can't be read."""

import fcntl
import json
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

from artel.logs import get_logger
from artel.vector_index.gate import COLLECTION, CREATED_AT, DENSE, REGISTERED, SPARSE, SUCCESS, TYPE
from artel.vector_index.store import MemoryUnavailable

if TYPE_CHECKING:
    from qdrant_edge import EdgeConfig, EdgeShard, IntegerIndexParams, KeywordIndexParams

VERSION = 1
SEARCH_THREADS = 2  # by default a shard takes eight
NEVER_KB = 1_000_000_000
DEAD_SHARE = 0.5
# No memory, no permission, too many open files, no space, locked: none of them means that the shard is broken.
PASSING = ("os error 12)", "os error 13)", "os error 24)", "os error 28)", "WouldBlock")

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Format:
    """What the index was made for; another one makes it useless."""

    version: int
    model: str
    dimensions: int
    needs_rebuild: bool


class ShardFolder:
    """The folder that holds one shard, for one process at a time."""

    def __init__(self, folder: Path, model: str, dimensions: int) -> None:
        self._folder = folder
        self._shard = folder / "shard"
        self._wanted = Format(VERSION, model, dimensions, needs_rebuild=True)
        self._lock: IO[str] | None = None
        self.needs_rebuild = False

    def open(self) -> "EdgeShard":
        """Lock the folder and return its shard, a new one if there is none that can be used."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = self._lock or _locked(self._folder / "lock")
        found = self._format()
        if found and replace(found, needs_rebuild=True) == self._wanted and (shard := self._load()):
            self.needs_rebuild = found.needs_rebuild
            return shard
        return self._create()

    def rebuilt(self) -> None:
        """Remember that every memory is in the shard again."""
        self._write(replace(self._wanted, needs_rebuild=False))
        self.needs_rebuild = False

    def close(self) -> None:
        """Let another process have the folder."""
        if self._lock:
            self._lock.close()
            self._lock = None

    def _load(self) -> "EdgeShard | None":
        from qdrant_edge import EdgeShard

        if not self._shard.exists():
            return None
        try:
            shard = EdgeShard.load(str(self._shard))
            # Only here is nobody searching: it blocks the whole process (1.8 s for 100,000 points of which half are
            # dead). It answers at once unless DEAD_SHARE is reached.
            if shard.optimize():
                log.info("memory_index_compacted")
            _make_indexes(shard)
        except BaseException as failure:  # a panic of the engine is no Exception
            if any(passing in str(failure) for passing in PASSING):
                raise
            self._set_aside(failure)
            return None
        return shard

    def _create(self) -> "EdgeShard":
        from qdrant_edge import EdgeShard

        (self._folder / "format.json").unlink(missing_ok=True)
        shutil.rmtree(self._shard, ignore_errors=True)
        self._shard.mkdir(mode=0o700)
        shard = EdgeShard.create(str(self._shard), _config(self._wanted.dimensions))
        _make_indexes(shard)
        self._write(self._wanted)
        self.needs_rebuild = True
        return shard

    def _set_aside(self, failure: BaseException) -> None:
        """Keep the broken shard for whoever wants to look at it, but only the last one."""
        for older in self._folder.glob("broken-*"):
            shutil.rmtree(older, ignore_errors=True)
        aside = self._folder / f"broken-{datetime.now(UTC):%Y%m%dT%H%M%S}"
        self._shard.rename(aside)
        log.error("memory_index_broken", moved_to=str(aside), error=str(failure))

    def _format(self) -> Format | None:
        with suppress(OSError, ValueError, TypeError):
            return Format(**json.loads((self._folder / "format.json").read_text(encoding="utf-8")))
        return None

    def _write(self, found: Format) -> None:
        path = self._folder / "format.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(found)), encoding="utf-8")
        fresh.replace(path)


def _locked(path: Path) -> IO[str]:
    file = path.open("a", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise MemoryUnavailable(f"Another process uses the memory index in {path.parent}.", retry_after=5) from None
    return file


def _config(dimensions: int) -> "EdgeConfig":
    import qdrant_edge as edge

    return edge.EdgeConfig(
        vectors={DENSE: edge.EdgeVectorParams(size=dimensions, distance=edge.Distance.Cosine)} if dimensions else None,
        sparse_vectors={SPARSE: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
        # No graph is ever built: within one collection the plain scan takes 0.3 ms for 1,000 memories and 10 ms for
        # 100,000, while building the graph of 100,000 blocks the whole process for more than a minute.
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=NEVER_KB, deleted_threshold=DEAD_SHARE),
        max_search_threads=SEARCH_THREADS,
    )


def _make_indexes(shard: "EdgeShard") -> None:
    import qdrant_edge as edge

    wanted: dict[str, KeywordIndexParams | IntegerIndexParams] = {
        COLLECTION: edge.KeywordIndexParams(is_tenant=True),
        REGISTERED: edge.KeywordIndexParams(),
        TYPE: edge.KeywordIndexParams(),
        SUCCESS: edge.IntegerIndexParams(lookup=True, range=False),
        CREATED_AT: edge.IntegerIndexParams(lookup=False, range=True),
    }
    there = shard.info().payload_schema
    for field, schema in wanted.items():
        if field not in there:
            shard.update(edge.UpdateOperation.create_field_index(field, schema))
