"""Errors that end a connector, refusals of calls, and the deadline after which a call is refused."""

import time
from typing import Any

from artel.contract.connector import Code
from artel.errors import ArtelError, Kind

MAX_SECONDS = 900.0  # of a call


class CallRefused(Exception):
    """A call is not carried out; the caller gets the code, the message and the fields in `more`."""

    def __init__(self, code: Code, message: str, **more: Any) -> None:
        super().__init__(message)
        self.code: Code = code
        self.message = message
        self.more = more


class Disconnected(Exception):
    """The user has disconnected the folder on the page: the connector ends."""


class TooLate(CallRefused):
    """The deadline passed before the call was carried out: nothing was changed."""

    def __init__(self) -> None:
        super().__init__("too_late", "There was not enough time. Nothing was changed.")


class Deadline:
    """The time after which the caller no longer waits for the answer, counted from the receipt of the call."""

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + min(seconds, MAX_SECONDS)

    @property
    def left(self) -> float:
        """The remaining seconds, at least 0."""
        return max(0.0, self._ends_at - time.monotonic())

    def require(self) -> None:
        if not self.left:
            raise TooLate


class FolderUnsuitable(ArtelError, kind=Kind.INVALID, code="folder_unsuitable"):
    """The folder can't be a workspace."""


class AlreadyConnected(ArtelError, kind=Kind.CONFLICT, code="already_connected"):
    """Another process on this machine serves the folder for the project."""


class ConnectorRefused(ArtelError, kind=Kind.FORBIDDEN, code="connector_refused"):
    """The server refused the connector, and a retry would not help."""


class NothingToUndo(ArtelError, kind=Kind.NOT_FOUND, code="nothing_to_undo"):
    """No change can be undone or redone."""


class NoSuchGrant(ArtelError, kind=Kind.NOT_FOUND, code="grant_not_found"):
    """No grant has this number."""
