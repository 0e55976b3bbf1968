"""One question on the command line, and its answer."""

import json
import re
import sys
from typing import TYPE_CHECKING

import typer

from artel.cli.chat_screen import ChatScreen
from artel.cli.chat_turn import described, run_turn
from artel.cli.exit_codes import ExitCode
from artel.cli.status_line import StatusLine
from artel.cli.typed_lines import can_ask

if TYPE_CHECKING:
    from artel.client.conversation import Conversation

# What JSON may hold as it is, but a terminal should not get.
_UNSAFE = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def ask(conversation: "Conversation", content: str, agent: str | None, *, as_json: bool) -> ExitCode:
    """Say something, print the answer, and say how the command ends."""
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
        text = json.dumps(described(conversation, turn), ensure_ascii=False, indent=2)
        typer.echo(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))
    if interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.OK if turn.succeeded else ExitCode.FAILED
