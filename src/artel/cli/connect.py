"""`artel connect`."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from artel.cli.connection import connect as connected_client
from artel.cli.connection import project_number
from artel.cli.output import Project, Server

if TYPE_CHECKING:
    from artel.connector.decisions import Mode
    from artel.connector.service import ConnectOptions


class Ask(StrEnum):
    """Where the user approves writes."""

    TERMINAL = "terminal"
    BROWSER = "browser"
    BOTH = "both"


def connect(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that agents may work in.")],
    project: Project = None,
    server: Server = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Let agents read but not change files.")] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Replace the connector that serves the project now.")
    ] = False,
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Allow plain writes; still ask before deletes and other risky calls."),
    ] = False,
    ask: Annotated[Ask | None, typer.Option("--ask", help="Where to ask before a write.  [default: both]")] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(
            "--run", metavar="NAME='COMMAND'", help="A command that agents may run, exactly as given; repeat for more."
        ),
    ] = None,
) -> None:
    """Let the agents of a project work on a folder of this machine, until Ctrl-C. The files stay here."""
    mode = _mode(read_only, yes, ask)
    if not folder.is_dir():
        raise typer.BadParameter(f"{folder} is not a folder")
    options = _options(folder, project, server, run or [], mode, take_over=take_over)
    # Imported here because they are slow to import, which `artel --help` should not need.
    import asyncio

    from artel.cli.connect_screen import screen_for
    from artel.connector.service import serve

    asyncio.run(serve(options, screen_for(options)))


def _mode(read_only: bool, yes: bool, ask: Ask | None) -> "Mode":
    if read_only + yes + (ask is not None) > 1:
        raise typer.BadParameter("use only one of --read-only, --yes and --ask")
    if read_only:
        return "read-only"
    if yes:
        return "yes"
    if sys.stdin.isatty():
        return ask.value if ask else "both"
    if ask is Ask.TERMINAL:
        raise typer.BadParameter("there is no terminal to ask in. Use --ask browser, --read-only or --yes.")
    if ask is not Ask.BROWSER:
        typer.echo("No terminal to ask in: approve writes in the browser or in `artel chat`.", err=True)
    return "browser"


def _options(
    folder: Path, project: str | None, server: str | None, run: list[str], mode: "Mode", *, take_over: bool
) -> "ConnectOptions":
    """Return the options of the connector: server, user, project, folder and mode."""
    from artel.client.credentials import Credentials
    from artel.client.user_id import fetch_user_id
    from artel.connector.commands import NamedCommand
    from artel.connector.service import ConnectOptions

    commands = tuple(NamedCommand.parse(text) for text in run)
    credentials = Credentials.load()
    url = credentials.server(server)
    token = credentials.token(url)
    project_id = int(project) if project is not None and project.isdecimal() else _project_id(project, server)
    return ConnectOptions(
        server=url,
        token=lambda: Credentials.load().token(url),  # read again: the user may log in while it runs
        user_id=fetch_user_id(url, token) or _user_id(server),
        project_id=project_id,
        folder=folder,
        mode=mode,
        commands=commands,
        take_over=take_over,
    )


def _project_id(project: str | None, server: str | None) -> int:
    with connected_client(server) as client:
        return project_number(client, project)


def _user_id(server: str | None) -> int:
    with connected_client(server) as client:
        return int(client.call("GET", "/auth/me")["user_id"])
