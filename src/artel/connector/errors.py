"""Why a connector can't begin, or ends; and why a call is refused."""

from typing import Any

from artel.contract.connector import Code
from artel.errors import ArtelError, Kind


class CallRefused(Exception):
    """A call that is not carried out; the words and the code go back to whoever called, with what else there is."""

    def __init__(self, code: Code, message: str, **more: Any) -> None:
        super().__init__(message)
        self.code: Code = code
        self.message = message
        self.more = more


class TooLate(CallRefused):
    """The call's time was over before it was carried out: nothing was changed."""

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
    """The server does not want the connector, and would not if it came again."""

    kind = Kind.FORBIDDEN
    code = "connector_refused"


class NothingKept(ArtelError):
    """There is nothing to undo."""

    kind = Kind.NOT_FOUND
    code = "nothing_to_undo"


class NoSuchGrant(ArtelError):
    """No grant has this number."""

    kind = Kind.NOT_FOUND
    code = "grant_not_found"
