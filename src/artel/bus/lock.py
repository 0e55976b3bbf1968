"""What the locks of all buses share."""

from abc import ABC, abstractmethod

from artel.bus.bus import Lock, LockCallback, LockState
from artel.logs import get_logger

log = get_logger(__name__)


class BusLock(Lock, ABC):
    """A lock with its state; the callback is called when it changes."""

    def __init__(self, name: str, on_change: LockCallback | None) -> None:
        self.name = name
        self._on_change = on_change
        self._state = LockState.RELEASED

    @property
    def is_held(self) -> bool:
        return self._state is LockState.HELD

    async def is_confirmed(self) -> bool:
        return self.is_held

    @abstractmethod
    async def acquire(self) -> None:
        """Hold the name; raise NameTaken or BusUnavailable."""

    def _change(self, state: LockState) -> None:
        """Note a new state and call back."""
        if state is self._state:
            return
        self._state = state
        if self._on_change:
            try:
                self._on_change(state)
            except Exception:
                log.exception("lock_callback_failed", lock=self.name, state=state.value)
