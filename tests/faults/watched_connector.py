"""`artel connect` with an audit hook that records opens in the workspace outside of `artel.paths`."""

import os
import sys
from pathlib import Path
from typing import Any

from artel.cli import main as command_line

WATCHED = frozenset(
    {"open", "os.listdir", "os.scandir", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink"}
    | {"os.truncate", "os.chmod"}
)


def main() -> None:
    """Run the command line with the audit hook."""
    workspace, record = os.environ["WATCHED_FOLDER"], Path(os.environ["WATCH_RECORD"])
    sink = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    seen_ours = False

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen_ours
        if event not in WATCHED or not isinstance(arguments[0], str | bytes):
            return
        name = os.fsdecode(arguments[0])
        if name.startswith("/") and not name.startswith(workspace):
            return  # somewhere else; a relative name can only be meant beneath an open folder
        if _from_paths():
            if not seen_ours:
                seen_ours = True
                os.write(sink, b"seen\n")
        else:
            os.write(sink, f"{event} {name}\n".encode())

    sys.addaudithook(watch)
    command_line.main()


def _from_paths() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        if "/artel/paths/" in frame.f_code.co_filename:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
