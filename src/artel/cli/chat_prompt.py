"""The chat in a terminal: asks for the next line, and does what it says."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from artel.cli.chat_screen import ChatScreen
from artel.cli.chat_turn import run_turn, unknown_agent
from artel.cli.line_history import LineHistory
from artel.cli.output import table
from artel.cli.status_line import StatusLine
from artel.cli.typed_lines import can_ask
from artel.cli.visible_text import visible
from artel.errors import ArtelError

if TYPE_CHECKING:
    from artel.client.conversation import Conversation

HISTORY, MAX_HISTORY = 10, 100
ORCHESTRATOR = "orchestrator"
HELP = """\
@agent text   talk to an agent; it stays chosen. @orchestrator, or @ alone, goes back to all of them
/agents       the agents of this project
/sessions     the sessions of this project that were used last
/new          begin another session
/history [N]  the last N messages (10)
/cancel       cancel what this session is still working on
/quit         leave, as Ctrl-D does
//text        a message that begins with a slash
A plan is carried out when you say y; i tells every task something, c changes it, n refuses it, and why.
Ctrl-C while an answer is written cancels it."""


class ChatPrompt:
    """A conversation in a terminal."""

    def __init__(self, conversation: "Conversation", agent: str | None, history_file: Path) -> None:
        self._conversation = conversation
        self._agent = agent
        self._lines = LineHistory(history_file)
        self._status = StatusLine()
        self._commands: dict[str, Callable[[str], None]] = {
            "help": lambda _: _say(HELP),
            "agents": lambda _: self._show_agents(),
            "sessions": lambda _: self._show_sessions(),
            "new": lambda _: self._begin_another(),
            "history": self._show_history,
            "cancel": lambda _: self._cancel(),
        }

    def run(self) -> None:
        """Talk until the user leaves."""
        _say(f"Project {self._conversation.project_name()}. /help lists the commands, Ctrl-D leaves.")
        if not self._conversation.is_new:
            self._show_history("")
        with self._lines:
            while (line := self._ask()) is not None:
                try:
                    self._do(line.strip())
                except ArtelError as error:
                    again = f" Try again in {error.retry_after} s." if error.retry_after else ""
                    typer.echo(visible(f"artel: {error.detail}{again}"), err=True)
                except KeyboardInterrupt:
                    typer.echo("", err=True)

    def _ask(self) -> str | None:
        """Answer the next line, or None when the user leaves."""
        try:
            line = input(f"{visible(self._agent, keep='')}> " if self._agent else "> ")
        except (EOFError, KeyboardInterrupt):
            sys.stdout.write("\n")
            return None
        return None if line.strip() in ("/quit", "/exit") else line

    def _do(self, line: str) -> None:
        if line.startswith("/") and not line.startswith("//"):
            name, _, rest = line[1:].partition(" ")
            if name not in self._commands:
                _say(f"There is no /{name}. /help lists the commands; //{name} sends it as a message.")
                return
            self._commands[name](rest.strip())
        elif line.startswith("@"):
            name, _, text = line[1:].partition(" ")
            self._talk_to(None if name in ("", ORCHESTRATOR) else name, text.strip())
        elif line:
            self._say_to(self._agent, line.removeprefix("/") if line.startswith("//") else line)

    def _talk_to(self, agent: str | None, text: str) -> None:
        if text:
            self._say_to(agent, text)
        elif agent is not None and not self._is_known(agent):
            raise unknown_agent(self._conversation, agent)
        self._agent = agent

    def _say_to(self, agent: str | None, text: str) -> None:
        screen = ChatScreen(
            self._conversation,
            self._status,
            direct=agent is not None,
            live=sys.stdout.isatty(),
            named=True,
            asks=can_ask(),
        )
        run_turn(self._conversation, screen, text, agent)

    def _is_known(self, name: str) -> bool:
        return any(name in (a["name"], a["name"].removeprefix("agent_"), str(a["id"])) for a in self._agents())

    def _agents(self) -> list[dict[str, Any]]:
        return self._conversation.agents()

    def _show_agents(self) -> None:
        rows = [{key: agent[key] for key in ("name", "role", "model")} for agent in self._agents()]
        table(rows, ("name", "role", "model"), False, "This project has no agents.")

    def _show_sessions(self) -> None:
        rows = [
            {
                "": "*" if session["session_id"] == self._conversation.session_id else "",
                "session_id": session["session_id"],
                "title": session["title"],
                "updated_at": session["updated_at"],
            }
            for session in self._conversation.sessions(HISTORY)
        ]
        table(rows, ("", "session_id", "title", "updated_at"), False, "This project has no sessions.")
        _say("To go on with one: artel chat --session ID")

    def _begin_another(self) -> None:
        self._conversation = self._conversation.another()
        _say("A new session.")

    def _show_history(self, count: str) -> None:
        messages = self._conversation.messages(min(int(count), MAX_HISTORY) if count.isdecimal() else HISTORY)
        for message in messages:
            who = {"user": "you", "system": "artel"}.get(message["role"]) or message["agent"] or ORCHESTRATOR
            _say(f"{who}: {message['content']}")
        if not messages:
            _say("Nothing was said yet.")

    def _cancel(self) -> None:
        _say("Cancelled." if self._conversation.cancel_last() else "Nothing is being worked on.")


def _say(text: str) -> None:
    typer.echo(visible(text))
