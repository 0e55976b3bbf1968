"""The API client and the project that the options of a command choose."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artel.client.api_client import ApiClient


def connect(server: str | None) -> "ApiClient":
    """Return an API client for the chosen server, with the token of its login."""
    # Imported here because httpx takes 0.1 s to import, which `artel --help` should not need.
    from artel.client.api_client import ApiClient
    from artel.client.credentials import Credentials

    credentials = Credentials.load()
    url = credentials.server(server)
    return ApiClient(url, credentials.token(url))


def project_number(client: "ApiClient", project: str | None) -> int:
    """Return the number of a project by its name or number; without one, of the default or only project."""
    from artel.client.conversation import NoSuchProject, find_project_id

    number = find_project_id(client, project)
    if number is None:
        raise NoSuchProject("You have no project yet. Create one: artel projects create NAME")
    return number
