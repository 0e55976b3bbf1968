"""Whether what a call changed has been undone since: the last undo or redo of the file counts."""

from collections.abc import Sequence

from artel.paths.errors import PathError
from artel.paths.policy import split_path
from artel.turns.tool_calls import UNDO, ToolCallRow

_SWAPPED = ("restored", "removed")


def is_undone(call: ToolCallRow, swaps: Sequence[ToolCallRow]) -> bool:
    """Return whether a change is undone now; `swaps` are undo and redo calls, newest first."""
    last = next((swap for swap in swaps if _concerns(swap, call)), None)
    return last is not None and last.tool == UNDO


def _concerns(swap: ToolCallRow, call: ToolCallRow) -> bool:
    """Return whether an undo or redo has replaced what a call wrote."""
    if swap.created_at is None or call.created_at is None or swap.created_at <= call.created_at:
        return False
    path, files = plain_path(call.arguments.get("path")), swap.arguments.get("files")
    if isinstance(files, list) and files:
        # Undos of older versions name only the turn that they are for.
        swapped = [file for file in files if file.get("outcome") in _SWAPPED and plain_path(file.get("path")) == path]
        return any(file.get("turn_id", swap.turn_id) == call.turn_id for file in swapped)
    is_for_path = swap.arguments.get("path") is None or plain_path(swap.arguments["path"]) == path
    return swap.status == "done" and swap.turn_id == call.turn_id and is_for_path


def plain_path(path: object) -> str:
    """Return a path as the connector names it: without dots and doubled slashes."""
    try:
        return "/".join(split_path(str(path)))
    except PathError:
        return str(path)
