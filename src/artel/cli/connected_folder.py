"""The commands about folders on this machine: `artel connect`, `artel undo` and `artel grants …`."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from artel.cli.command_line import AsJson, Project, ReadOnly, Server, command_group, project_number
from artel.cli.command_line import connect as api_client
from artel.cli.output import ago, short_id, show, table, visible

if TYPE_CHECKING:
    from artel.connector.grants import Grant, Grants
    from artel.connector.service import ConnectOptions
    from artel.connector.state_folder import StateFolder
    from artel.connector.undo import UndoResult
    from artel.connector.undo_store import Change
    from artel.contract.connector import Mode

grants = command_group("Permissions that you gave agents for good, in connected folders.")
Ask = Literal["terminal", "browser", "both"]  # where the user approves writes


def connect(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that agents may work in.")],
    project: Project = None,
    server: Server = None,
    read_only: ReadOnly = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Replace the connector that serves the project now.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Allow plain writes; still ask before deletes and other risky calls.")
    ] = False,
    ask: Annotated[Ask | None, typer.Option("--ask", help="Where to ask before a write.  [default: both]")] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(
            "--run", metavar="NAME='COMMAND'", help="A command that agents may run, exactly as given; repeat for more."
        ),
    ] = None,
    no_remote_settings: Annotated[
        bool, typer.Option("--no-remote-settings", help="Let the page only make it stricter: never change it back.")
    ] = False,
) -> None:
    """Let the agents of a project work on a folder of this machine, until Ctrl-C. The files stay here."""
    mode = _mode(read_only, yes, ask)
    if not folder.is_dir():
        raise typer.BadParameter(f"{folder} is not a folder")
    options = _options(folder, project, server, run or [], mode, take_over=take_over, is_fixed=no_remote_settings)
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
        return ask or "both"
    if ask == "terminal":
        raise typer.BadParameter("there is no terminal to ask in. Use --ask browser, --read-only or --yes.")
    if ask != "browser":
        typer.echo("No terminal to ask in: approve writes in the browser or in `artel chat`.", err=True)
    return "browser"


def _options(
    folder: Path,
    project: str | None,
    server: str | None,
    run: list[str],
    mode: "Mode",
    *,
    take_over: bool,
    is_fixed: bool,
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
    user_id = fetch_user_id(url, token)
    project_id = int(project) if project is not None and project.isdecimal() else None
    if user_id is None or project_id is None:
        with api_client(server) as client:
            project_id = project_number(client, project)
            user_id = user_id or int(client.call("GET", "/auth/me")["user_id"])
    return ConnectOptions(
        server=url,
        token=lambda: Credentials.load().token(url),  # read again: the user may log in while it runs
        user_id=user_id,
        project_id=project_id,
        folder=folder,
        mode=mode,
        commands=commands,
        take_over=take_over,
        is_fixed=is_fixed,
    )


# Undo


def undo(
    what: Annotated[
        str | None, typer.Argument(metavar="[TURN|FILE]", help="The turn or the file. Default: the newest turn.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="The connected folder, or a folder in it. Default: the current one.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Redo what was undone.")] = False,
    list_changes: Annotated[bool, typer.Option("--list", help="Only list what can be undone.")] = False,
    as_json: AsJson = False,
) -> None:
    """Undo file changes of agents, except in files that were changed since; --again redoes them."""
    from artel.connector.errors import NothingToUndo

    directory = folder or Path.cwd()
    found = _find_changes(directory)
    if list_changes:
        _list([change for _, change in found], as_json)
        return
    turn, path = (None, None) if what is None else _target(what, directory, found)
    matching = [pair for pair in found if turn in (None, pair[1].turn) and path in (None, pair[1].path)]
    chosen = [(state, change) for state, change in matching if change.is_undone == again]
    if not chosen and matching and what and not again:
        raise NothingToUndo("It is already undone. To redo it, add --again.")
    if not chosen:
        target = f" for {what}" if what else ""
        raise NothingToUndo(f"There is nothing to {'redo' if again else 'undo'}{target}. See: artel undo --list")
    state = max(chosen, key=lambda pair: pair[1].at)[0]
    undone = _undone(state, turn, path, again=again)
    rows = [{"path": file.path, "turn": file.turn, "outcome": file.outcome, "error": file.error} for file in undone]
    show({"files": rows}, as_json, "\n".join(f"{visible(file.text, keep='')}." for file in undone))
    if not all(file.outcome in ("restored", "removed") for file in undone):
        raise typer.Exit(1)


def _find_changes(directory: Path) -> "list[tuple[StateFolder, Change]]":
    """Return what can be undone or redone in a connected folder, for each of its connectors."""
    from artel.connector.errors import NothingToUndo
    from artel.connector.state_folder import StateFolder
    from artel.connector.undo_store import UndoStore

    found: list[tuple[StateFolder, Change]] = []
    states = StateFolder.serving(directory)
    if not states:
        raise NothingToUndo(f"{directory} is not in a connected folder. Choose one: --folder DIR")
    for state in states:
        with state.change_lock():
            found += [(state, change) for change in UndoStore(state.path / "undo").changes()]
    return found


def _undone(state: "StateFolder", turn: str | None, path: str | None, *, again: bool) -> "list[UndoResult]":
    from artel.connector.errors import FolderUnsuitable
    from artel.connector.undo import Undo
    from artel.connector.undo_store import UndoStore
    from artel.paths.beneath import Beneath

    try:
        files = Beneath(state.workspace)
    except OSError as error:
        raise FolderUnsuitable(f"{state.workspace} can't be opened: {error.strerror}") from None
    with files, state.change_lock():
        undo = Undo(files, UndoStore(state.path / "undo"))
        return undo.redo(turn, path) if again else undo.undo(turn, path, again=False)


def _target(what: str, directory: Path, found: "list[tuple[StateFolder, Change]]") -> tuple[str | None, str | None]:
    """Return the turn or the path in the workspace that the argument names."""
    turns = {change.turn for _, change in found if what in (change.turn, short_id(change.turn))}
    if len(turns) == 1:
        return turns.pop(), None
    target = Path(os.path.normpath(directory.resolve() / what))
    for state, _ in found:
        if target.is_relative_to(state.workspace):
            return None, target.relative_to(state.workspace).as_posix()
    return None, what


def _list(changes: "list[Change]", as_json: bool) -> None:
    moments = [datetime.fromtimestamp(change.at, UTC) for change in changes]
    rows: list[dict[str, Any]] = [
        {
            "turn": change.turn if as_json else short_id(change.turn),
            "file": change.path,
            "at": at.isoformat(timespec="seconds") if as_json else ago(at),
            "undone": change.is_undone,
        }
        for change, at in zip(changes, moments, strict=True)
    ]
    table(rows, ("turn", "file", "at", "undone"), as_json, "There is nothing to undo.")


# Grants


@grants.command("list")
def list_grants(as_json: AsJson = False) -> None:
    """List the grants."""
    rows = [
        {"number": number, "allows": grant.text, "folder": str(state.workspace), "project": state.project_id}
        for number, (state, _, grant) in enumerate(_all(), 1)
    ]
    table(rows, ("number", "allows", "folder", "project"), as_json, "No grants.")


@grants.command("revoke")
def revoke_grant(
    number: Annotated[int, typer.Argument(help="The number in `artel grants list`.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Revoke a grant.

    A connector that is running stops allowing it at once.
    """
    from artel.connector.errors import NoSuchGrant

    found = _all()
    if not 1 <= number <= len(found):
        raise NoSuchGrant(f"There is no grant {number}. List them: artel grants list")
    _, grants, grant = found[number - 1]
    grants.revoke(grant)
    show({"revoked": grant.text}, as_json, f"No longer allowed: {grant.text}")


def _all() -> "list[tuple[StateFolder, Grants, Grant]]":
    from artel.connector.grants import Grants
    from artel.connector.state_folder import StateFolder

    stores = [(state, Grants(state.path / "grants.json")) for state in StateFolder.all()]
    return [(state, grants, grant) for state, grants in stores for grant in grants.lasting()]
