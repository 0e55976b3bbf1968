"""`artel chat MESSAGE`: one message and its answer."""

import sys
from typing import TYPE_CHECKING

import typer

from artel.cli.chat_screen import ChatScreen
from artel.cli.chat_turn import run_turn, turn_as_json
from artel.cli.exit_codes import ExitCode
from artel.cli.status_line import StatusLine
from artel.cli.typed_lines import can_ask
from artel.cli.visible_text import json_text

if TYPE_CHECKING:
    from artel.client.conversation import Conversation


def ask(conversation: "Conversation", content: str, agent: str | None, *, as_json: bool) -> ExitCode:
    """Send a message, print the answer, and return the exit code."""
    screen = ChatScreen(
        conversation,
        StatusLine(),
        direct=agent is not None,
        live=sys.stdout.isatty(),
        silent=as_json,
        asks=can_ask() and not as_json,
    )
    turn, interrupted = run_turn(conversation, screen, content, agent)
    if as_json:
        typer.echo(json_text(turn_as_json(conversation, turn)))
    if interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.OK if turn.succeeded else ExitCode.FAILED
