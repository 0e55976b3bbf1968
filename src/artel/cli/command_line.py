"""What all commands share: groups, options, exit codes, and the API client and project that the options choose."""

from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from artel.errors import Kind

if TYPE_CHECKING:
    from artel.client.api_client import ApiClient

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Server = Annotated[
    str | None,
    typer.Option("--server", help="The server's URL. Default: ARTEL_SERVER, the last login, or this machine."),
]
Project = Annotated[
    str | None,
    typer.Option("--project", "-p", help="The project's number or name. Default: your default or only project."),
]
OnlyProject = Annotated[str | None, typer.Option("--project", "-p", help="Only this project: its number or name.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
NoFolder = Annotated[bool, typer.Option("--no-folder", help="Do not connect a folder.")]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Let agents read but not change files.")]


class ExitCode(IntEnum):
    """All exit codes; the numbers are stable, for scripts."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    CONFLICT = 5
    UNAVAILABLE = 6
    INTERRUPTED = 130


OF_KIND = {
    Kind.INVALID: ExitCode.USAGE,
    Kind.UNAUTHENTICATED: ExitCode.NOT_ALLOWED,
    Kind.FORBIDDEN: ExitCode.NOT_ALLOWED,
    Kind.NOT_FOUND: ExitCode.NOT_FOUND,
    Kind.CONFLICT: ExitCode.CONFLICT,
    Kind.TOO_LARGE: ExitCode.USAGE,
    Kind.MISDIRECTED: ExitCode.NOT_ALLOWED,
    Kind.TOO_LONG: ExitCode.USAGE,
    Kind.TOO_MANY: ExitCode.UNAVAILABLE,
    Kind.UNAVAILABLE: ExitCode.UNAVAILABLE,
    Kind.FAILED: ExitCode.FAILED,
    Kind.TIMED_OUT: ExitCode.FAILED,
}


class QuickGroup(TyperGroup):
    """Shows `--help` without importing pydantic, which takes as long as everything else.

    Typer converts every option without a value with pydantic, so the help option gets a default value.
    """

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option


def command_group(text: str) -> typer.Typer:
    return typer.Typer(help=text, no_args_is_help=True, cls=QuickGroup)


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
