"""`artel` that calls a node lost after some seconds without heartbeats, instead of thirty."""

from artel.cli import main as command_line
from artel.registry import monitor

OFFLINE_SECONDS = 8.0  # of nodes that send a heartbeat every second


def main() -> None:
    """Run the command line."""
    monitor.OFFLINE_SECONDS = OFFLINE_SECONDS  # type: ignore[attr-defined]
    command_line.main()
