"""Garbage collection and the allocator of a server: with the defaults, full collections take a quarter of its time,
and memory that was used once is not returned."""

import ctypes
import gc
import sys

YOUNG_OBJECTS = 50_000
OLDER_ROUNDS = 20
OLDEST_ROUNDS = 50

LARGE_BLOCK_BYTES = 131_072
MAX_ARENAS = 2
# Of glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8


def return_freed_memory() -> None:
    """Let glibc return freed memory to the system; call it before the first thread starts.

    By default glibc raises its threshold for blocks of their own when the first large block is freed: what a password
    hash takes (19 MB) then stays in the heap of each thread that has computed one.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):  # not in musl
            libc.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
            libc.mallopt(M_TRIM_THRESHOLD, LARGE_BLOCK_BYTES)
            libc.mallopt(M_ARENA_MAX, MAX_ARENAS)


def freeze_startup_objects() -> None:
    """Exclude all current objects from collection and collect less often."""
    if gc.isenabled():
        gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, OLDER_ROUNDS, OLDEST_ROUNDS)
    gc.enable()
