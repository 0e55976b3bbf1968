"""Identifiers that sort by creation time."""

import os
import time
import uuid


def uuid7() -> str:
    """Return a version 7 UUID (RFC 9562): 48 bits of milliseconds, 12 bits of their fraction, then 62 random bits."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = (nanoseconds << 12) // 1_000_000
    random = int.from_bytes(os.urandom(8)) >> 2
    return str(uuid.UUID(int=(milliseconds << 80) | (0x7 << 76) | (fraction << 64) | (0x2 << 62) | random))
