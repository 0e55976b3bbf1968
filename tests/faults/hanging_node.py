"""`artel` with tools of a package in the folder TOOLS, and without reports of progress while the file SILENT exists."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from artel.cli import main as command_line
from artel.contract.envelope import Envelope
from artel.nodes.progress import ProgressThread


def main() -> None:
    """Run the command line."""
    sys.path.append(os.environ["TOOLS"])
    silent, events = Path(os.environ["SILENT"]), ProgressThread._events

    def events_unless_silent(thread: ProgressThread) -> Iterator[Envelope]:
        return iter(()) if silent.exists() else events(thread)

    ProgressThread._events = events_unless_silent  # type: ignore[method-assign, assignment]
    command_line.main()
