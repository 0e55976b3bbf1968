"""From the options of a command to a client for the right server."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artel.client.api_client import ApiClient


def connect(server: str | None) -> "ApiClient":
    """Return a client for the chosen server, logged in."""
    # Imported here: an HTTP client takes a tenth of a second to import, and `artel --help` must not.
    from artel.client.api_client import ApiClient
    from artel.client.credentials import Credentials

    credentials = Credentials.load()
    url = credentials.server(server)
    return ApiClient(url, credentials.token(url))


def project_number(client: "ApiClient", asked: str | None) -> int:
    """Return the number of the project asked for by name or number, else of the default or the only one."""
    from artel.client.conversation import NoSuchProject, find_project_id

    number = find_project_id(client, asked)
    if number is None:
        raise NoSuchProject("You have no project yet. Make one: artel projects create NAME")
    return number
