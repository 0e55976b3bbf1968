"""How long a call may take, counted from its receipt."""

import time

from artel.connector.errors import TooLate

LONGEST_SECONDS = 900.0


class Deadline:
    """A moment after which nobody waits for the answer."""

    def __init__(self, seconds: float) -> None:
        self._moment = time.monotonic() + min(seconds, LONGEST_SECONDS)

    @property
    def left(self) -> float:
        """The seconds that are left, never less than none."""
        return max(0.0, self._moment - time.monotonic())

    def require(self) -> None:
        """Raise if the time is over."""
        if not self.left:
            raise TooLate
