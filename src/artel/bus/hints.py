"""Hints inside one process: callbacks, and a bounded queue of pending hints."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context

from artel.bus.bus import Hint, HintCallback
from artel.logs import get_logger

MAX_PENDING = 10_000

log = get_logger(__name__)


class PendingHints:
    """A bounded queue of hints without duplicates."""

    def __init__(self) -> None:
        self._hints: dict[Hint, None] = {}
        self._dropped = 0

    def add(self, hint: Hint) -> bool:
        """Add a hint, or drop it if the queue is full; return whether it is the only one pending."""
        if len(self._hints) >= MAX_PENDING:
            self._dropped += 1
            return False
        self._hints[hint] = None
        return len(self._hints) == 1

    def take(self) -> list[Hint]:
        """Return all pending hints in order and empty the queue."""
        if self._dropped:
            log.warning("hints_dropped", count=self._dropped, problem="too many at once")
        hints, self._hints, self._dropped = list(self._hints), {}, 0
        return hints


class HintDispatcher:
    """Calls back for hints, in order, from the event loop and never from within the sender's call."""

    def __init__(self) -> None:
        self._callbacks: dict[object, HintCallback] = {}
        self._pending = PendingHints()
        self._context = copy_context()

    def on_hint(self, callback: HintCallback) -> Callable[[], None]:
        """Add a callback; return a function that removes it."""
        entry = object()
        self._callbacks[entry] = callback

        def remove() -> None:
            self._callbacks.pop(entry, None)

        return remove

    def dispatch(self, hint: Hint) -> None:
        """Call every callback in the next iteration of the event loop."""
        if self._callbacks and self._pending.add(hint):
            asyncio.get_running_loop().call_soon(self._call_back, context=self._context)

    def clear(self) -> None:
        """Remove every callback and every pending hint."""
        self._callbacks.clear()
        self._pending.take()

    def _call_back(self) -> None:
        for hint in self._pending.take():
            for callback in list(self._callbacks.values()):
                try:
                    callback(hint)
                except Exception:
                    log.exception("hint_callback_failed", kind=hint.kind)
