"""`artel` with the kill points of a node; see `mortal_server.py` for how they are armed."""

import os
from pathlib import Path

from artel import kill_points
from artel.cli import main as command_line
from tests.faults.mortal_server import Mortality


def main() -> None:
    """Run the command line with kill points."""
    record = os.environ.get("MORTAL_RECORD")
    kill_points.reached = Mortality(Path(os.environ["MORTAL_FILE"]), Path(record) if record else None).passed
    command_line.main()
