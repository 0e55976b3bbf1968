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
    """Where the user is asked before a write."""

    TERMINAL = "terminal"
    BROWSER = "browser"
    BOTH = "both"


def connect(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that agents may work in.")],
    project: Project = None,
    server: Server = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Let agents read, and change nothing.")] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Replace another connector that serves the project.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Let plain writes through; deletes and the like are still asked for.")
    ] = False,
    ask: Annotated[Ask | None, typer.Option("--ask", help="Where to ask before a write.  [default: both]")] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(
            "--run", metavar="NAME='COMMAND'", help="A command that agents may run as it is; may be repeated."
        ),
    ] = None,
) -> None:
    """Let the agents of a project work on a folder of this machine, until Ctrl-C. The files stay here."""
    mode = _mode(read_only, yes, ask)
    if not folder.is_dir():
        raise typer.BadParameter(f"{folder} is no folder")
    order = _order(folder, project, server, run or [], mode, take_over=take_over)
    # Imported here: it takes a while, and `artel --help` must not.
    import asyncio

    from artel.cli.connect_screen import screen_for
    from artel.connector.service import serve

    asyncio.run(serve(order, screen_for(order)))


def _mode(read_only: bool, yes: bool, ask: Ask | None) -> "Mode":
    if read_only + yes + (ask is not None) > 1:
        raise typer.BadParameter("say one of --read-only, --yes and --ask")
    if read_only:
        return "read-only"
    if yes:
        return "yes"
    if sys.stdin.isatty():
        return ask.value if ask else "both"
    if ask is Ask.TERMINAL:
        raise typer.BadParameter("no terminal to ask in. Use --ask browser, --read-only or --yes.")
    if ask is not Ask.BROWSER:
        typer.echo("No terminal to ask in: writes are asked for in the browser, and in `artel chat`.", err=True)
    return "browser"


def _order(
    folder: Path, project: str | None, server: str | None, run: list[str], mode: "Mode", *, take_over: bool
) -> "ConnectOptions":
    """Find out who asks, and for which project."""
    from artel.client.credentials import Credentials
    from artel.client.quick_question import quick_user_id
    from artel.connector.commands import NamedCommand
    from artel.connector.service import ConnectOptions

    commands = tuple(NamedCommand.parse(text) for text in run)
    credentials = Credentials.load()
    url = credentials.server(server)
    token = credentials.token(url)
    project_id = int(project) if project is not None and project.isdecimal() else _project_id(project, server)
    return ConnectOptions(
        server=url,
        token=lambda: Credentials.load().token(url),  # the user may log in again meanwhile
        user_id=quick_user_id(url, token) or _user_id(server),
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
