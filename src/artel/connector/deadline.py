"""The deadline of a call, counted from its receipt."""

import time

from artel.connector.errors import TooLate

MAX_SECONDS = 900.0


class Deadline:
    """The time after which the caller no longer waits for the answer."""

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + min(seconds, MAX_SECONDS)

    @property
    def left(self) -> float:
        """The remaining seconds, at least 0."""
        return max(0.0, self._ends_at - time.monotonic())

    def require(self) -> None:
        """Raise TooLate if the deadline has passed."""
        if not self.left:
            raise TooLate
