"""Errors that end a connector, and refusals of calls."""

from typing import Any

from artel.contract.connector import Code
from artel.errors import ArtelError, Kind


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
