"""Identifiers that sort by creation time."""

import hashlib
import os
import time
import uuid
from datetime import UTC, datetime

MINUTE_DIGITS = 8  # the first digits of an id count units of 65.536 seconds


def uuid7() -> str:
    """Return a version 7 UUID (RFC 9562): 48 bits of milliseconds, 12 bits of their fraction, then 62 random bits."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = (nanoseconds << 12) // 1_000_000
    random = int.from_bytes(os.urandom(8)) >> 2
    return str(uuid.UUID(int=(milliseconds << 80) | (0x7 << 76) | (fraction << 64) | (0x2 << 62) | random))


def id_of(*parts: object) -> str:
    """Return the id that belongs to these values, always the same: a version 8 UUID from their hash."""
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).digest()
    return str(uuid.UUID(int=(int.from_bytes(digest[:16]) & ~(0xF << 76) & ~(0x3 << 62)) | (0x8 << 76) | (0x2 << 62)))


def first_id_since(moment: datetime) -> str:
    """Return what ids of `uuid7` from this moment on compare greater with, as text."""
    milliseconds = f"{int(moment.timestamp() * 1000):012x}"
    return f"{milliseconds[:8]}-{milliseconds[8:]}"


def time_of_digits(digits: str) -> datetime:
    """Return the first moment of the ids that begin with these digits, MINUTE_DIGITS of them."""
    return datetime.fromtimestamp((int(digits, 16) << 16) / 1000, UTC)
