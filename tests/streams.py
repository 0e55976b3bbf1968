"""Readers of server-sent events."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

TERMINAL = frozenset({"turn_completed", "turn_failed", "turn_cancelled"})


PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class Event:
    """A received event; events without a number are not stored."""

    number: int | None
    type: str
    data: dict[str, Any]


class Stream:
    """An open event stream."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()

    def __iter__(self) -> Iterator[Event]:
        fields: dict[str, str] = {}
        deadline = time.monotonic() + PATIENCE_SECONDS
        for line in self._lines:  # there is one every 15 seconds at least
            assert time.monotonic() < deadline, f"nothing of what was waited for came in {PATIENCE_SECONDS} seconds"
            if line:
                name, _, value = line.partition(":")
                fields[name] = value.removeprefix(" ")
            else:
                if "event" in fields:
                    number = int(fields["id"]) if "id" in fields else None
                    yield Event(number, fields["event"], json.loads(fields["data"]))
                fields = {}

    def take(self, count: int) -> list[Event]:
        """Return the next events."""
        events = iter(self)
        return [next(events) for _ in range(count)]

    def until(self, *types: str) -> list[Event]:
        """Return the events up to the first of one of these types."""
        events: list[Event] = []
        for event in self:
            events.append(event)
            if event.type in types:
                return events
        raise AssertionError(f"the stream ended before {types}: {[event.type for event in events]}")

    def first_line(self) -> str:
        """Return the next raw line."""
        return next(self._lines)


@contextmanager
def stream(
    http: httpx.Client, method: str, url: str, headers: Mapping[str, str] | None = None, **request: Any
) -> Iterator[Stream]:
    """Open the event stream of a request."""
    with http.stream(method, url, headers=headers, **request) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].partition(";")[0] == "text/event-stream"
        yield Stream(response)


def stored(events: list[Event]) -> list[Event]:
    """Return the stored events."""
    return [event for event in events if event.number is not None]
