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
        """Raise TooLate if the deadline has passed."""
        if not self.left:
            raise TooLate


class FolderUnsuitable(ArtelError):
    """The folder can't be a workspace."""

    kind = Kind.INVALID
    code = "folder_unsuitable"


class AlreadyConnected(ArtelError):
    """Another process on this machine serves the folder for the project."""

    kind = Kind.CONFLICT
    code = "already_connected"


class OtherConnector(ArtelError):
    """Another connector serves the project, or has taken over from this one."""

    kind = Kind.CONFLICT
    code = "other_connector"


class ConnectorRefused(ArtelError):
    """The server refused the connector, and a retry would not help."""

    kind = Kind.FORBIDDEN
    code = "connector_refused"


class NothingToUndo(ArtelError):
    """There is nothing to undo."""

    kind = Kind.NOT_FOUND
    code = "nothing_to_undo"


class NoSuchGrant(ArtelError):
    """No grant has this number."""

    kind = Kind.NOT_FOUND
    code = "grant_not_found"
