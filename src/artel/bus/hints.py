"""Hints inside one process: who wants them, and the few that wait to be told."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context

from artel.bus.bus import Hint, HintCallback
from artel.logs import get_logger

MAX_PENDING = 10_000

log = get_logger(__name__)


class PendingHints:
    """Hints that wait: the same one only once, and never too many."""

    def __init__(self) -> None:
        self._hints: dict[Hint, None] = {}
        self._dropped = 0

    def add(self, hint: Hint) -> bool:
        """Keep a hint, and say whether it is the first that waits; drop it when too many do."""
        if len(self._hints) >= MAX_PENDING:
            self._dropped += 1
            return False
        self._hints[hint] = None
        return len(self._hints) == 1

    def take(self) -> list[Hint]:
        """Return all that wait, in order, and begin anew."""
        if self._dropped:
            log.warning("hints_dropped", count=self._dropped, problem="too many at once")
        hints, self._hints, self._dropped = list(self._hints), {}, 0
        return hints


class HintBoard:
    """Calls back for hints: soon, in order, and never from within whoever sent them."""

    def __init__(self) -> None:
        self._callbacks: dict[object, HintCallback] = {}
        self._pending = PendingHints()
        self._context = copy_context()

    def on_hint(self, callback: HintCallback) -> Callable[[], None]:
        """Add a callback, and return how to remove it."""
        entry = object()
        self._callbacks[entry] = callback

        def remove() -> None:
            self._callbacks.pop(entry, None)

        return remove

    def show(self, hint: Hint) -> None:
        """Tell every callback, in the next round of the event loop."""
        if self._callbacks and self._pending.add(hint):
            asyncio.get_running_loop().call_soon(self._tell, context=self._context)

    def clear(self) -> None:
        """Forget every callback and every hint."""
        self._callbacks.clear()
        self._pending.take()

    def _tell(self) -> None:
        for hint in self._pending.take():
            for callback in list(self._callbacks.values()):
                try:
                    callback(hint)
                except Exception:
                    log.exception("hint_callback_failed", kind=hint.kind)
