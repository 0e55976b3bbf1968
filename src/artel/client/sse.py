"""Parser of server-sent events."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """An event; only stored events have a number."""

    type: str
    data: dict[str, Any]
    number: int | None = None


def read_events(pieces: Iterable[bytes]) -> Iterator[ServerEvent]:
    """Yield the events of a byte stream; drop comments, invalid events, and an incomplete event at its end."""
    fields: dict[bytes, bytes] = {}
    for line in _lines(pieces):
        if line:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            fields[name] = fields[name] + b"\n" + value if name == b"data" and name in fields else value
            continue
        try:
            number = int(fields[b"id"]) if b"id" in fields else None
            event = ServerEvent(fields[b"event"].decode(), json.loads(fields[b"data"]), number)
        except (KeyError, ValueError):
            event = None
        fields = {}
        if event is not None and isinstance(event.data, dict):
            yield event


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest: list[bytes] = []  # pieces of an incomplete line, joined once: quadratic time otherwise
    for piece in pieces:
        *whole, last = piece.split(b"\n")
        for line in whole:
            yield b"".join([*rest, line]).removesuffix(b"\r")
            rest = []
        rest.append(last)
