"""`artel undo`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artel.cli.output import AsJson, ago, short_id, show, table
from artel.cli.visible_text import visible

if TYPE_CHECKING:
    from artel.connector.state_folder import StateFolder
    from artel.connector.undo import Undone
    from artel.connector.undo_store import Change

FolderOption = Annotated[
    Path | None, typer.Option("--folder", help="The connected folder, or a folder in it. Default: the current one.")
]


def undo(
    what: Annotated[
        str | None, typer.Argument(metavar="[TURN|FILE]", help="The turn or the file. Default: the newest turn.")
    ] = None,
    folder: FolderOption = None,
    again: Annotated[bool, typer.Option("--again", help="Redo what was undone.")] = False,
    list_changes: Annotated[bool, typer.Option("--list", help="Only list what can be undone.")] = False,
    as_json: AsJson = False,
) -> None:
    """Undo file changes of agents, except in files that were changed since; --again redoes them."""
    from artel.connector.errors import NothingToUndo

    directory = folder or Path.cwd()
    found = [(state, change) for state in _states(directory) for change in _changes(state)]
    if list_changes:
        _list([change for _, change in found], as_json)
        return
    turn, path = _target(what, [change for _, change in found], directory, [state for state, _ in found])
    matching = [pair for pair in found if turn in (None, pair[1].turn) and path in (None, pair[1].path)]
    chosen = [(state, change) for state, change in matching if change.is_undone == again]
    if not chosen and matching and what and not again:
        raise NothingToUndo("It is already undone. To redo it, add --again.")
    if not chosen:
        target = f" for {what}" if what else ""
        raise NothingToUndo(f"There is nothing to {'redo' if again else 'undo'}{target}. See: artel undo --list")
    state = max(chosen, key=lambda pair: pair[1].at)[0]
    undone = _undone(state, turn, path, again=again)
    _show_outcome(undone, as_json)
    if not all(file.outcome in ("restored", "removed") for file in undone):
        raise typer.Exit(1)


def _states(directory: Path) -> "list[StateFolder]":
    from artel.connector.errors import NothingToUndo
    from artel.connector.state_folder import StateFolder

    states = StateFolder.serving(directory)
    if not states:
        raise NothingToUndo(f"{directory} is not in a connected folder. Choose one: --folder DIR")
    return states


def _changes(state: "StateFolder") -> "list[Change]":
    from artel.connector.undo_store import UndoStore

    with state.change_lock():
        return UndoStore(state.path / "undo").changes()


def _undone(state: "StateFolder", turn: str | None, path: str | None, *, again: bool) -> "list[Undone]":
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


def _target(
    what: str | None, changes: "list[Change]", directory: Path, states: "list[StateFolder]"
) -> tuple[str | None, str | None]:
    """Return the turn or the path in the workspace that the argument names."""
    if what is None:
        return None, None
    turns = {change.turn for change in changes if what in (change.turn, short_id(change.turn))}
    if len(turns) == 1:
        return turns.pop(), None
    target = Path(os.path.normpath(directory.resolve() / what))
    for state in states:
        if target.is_relative_to(state.workspace):
            return None, target.relative_to(state.workspace).as_posix()
    return None, what


def _list(changes: "list[Change]", as_json: bool) -> None:
    from datetime import UTC, datetime

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


def _show_outcome(undone: "list[Undone]", as_json: bool) -> None:
    rows = [{"path": file.path, "turn": file.turn, "outcome": file.outcome, "error": file.error} for file in undone]
    show({"files": rows}, as_json, "\n".join(f"{visible(file.text, keep='')}." for file in undone))
