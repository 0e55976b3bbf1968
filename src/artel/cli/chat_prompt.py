"""The interactive loop of `artel chat`: reads messages and commands, and runs them."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from artel.cli import chat_commands
from artel.cli.chat_screen import ChatScreen, StatusLine, print_name
from artel.cli.chat_turn import follow_turn, run_turn, unknown_agent
from artel.cli.output import error_text, is_smart_terminal, say, table, visible
from artel.client.turn import Turn
from artel.errors import ArtelError

if TYPE_CHECKING:
    from artel.cli.connector_process import ChatFolder
    from artel.client.conversation import Conversation

HISTORY, MAX_HISTORY = 10, 100
ORCHESTRATOR = "orchestrator"
HELP = """\
Talk
  @agent text     talk to an agent, which stays chosen; @orchestrator, or @ alone, goes back to the orchestrator
  //text          send a message that starts with a slash
  /retry          send the last message again
  /cancel         cancel the running turn of this session
  /plan           show the status of the last plan
  /copy           copy the last answer to the clipboard
Sessions
  /sessions       list the sessions of this project
  /resume N       continue session N of the list
  /new            start a new session
  /rename TITLE   rename this session
  /history [N]    show the last N messages (default: 10)
Files
  /files          list the files changed in this session
  /diff           show the changes of the last turn
  /undo           undo the changes of the last turn
Agents
  /agents         list the agents of this project
  /model [[AGENT] MODEL]  show the models of the agents, or set one
  /cost           show tokens and cost of the last turn and the session
Keys
  Alt+Enter, or \\ and Enter: new line; Tab: complete; Ctrl-G: open your editor; Up and Down: earlier messages
  Ctrl-C: cancel the answer, clear the draft, or leave; Ctrl-D or /quit: leave
To a plan answer y to run it, i to add an instruction for all tasks, c to change it, n to reject it.
To a write answer y to allow it once, s for this session, a always, n to refuse it; n REASON says why."""


class ChatPrompt:
    """An interactive conversation in a terminal."""

    def __init__(
        self, conversation: "Conversation", agent: str | None, history_file: Path, folder: "ChatFolder | None"
    ) -> None:
        self._conversation = conversation
        self._folder = folder
        self._agent = agent
        self._status = StatusLine()
        self._is_smart = is_smart_terminal()
        self._commands: dict[str, Callable[[str], None]] = {
            "help": lambda _: _say(HELP),
            "agents": lambda _: table(
                self._conversation.agents(), ("name", "role", "model"), False, "This project has no agents."
            ),
            "sessions": lambda _: chat_commands.show_sessions(self._conversation),
            "resume": self._resume,
            "new": self._new_session,
            "history": self._show_history,
            "cancel": lambda _: _say("Cancelled." if self._conversation.cancel_last() else "Nothing is running."),
            "retry": self._retry,
            "undo": lambda _: _say(chat_commands.undo_last(self._conversation)),
            "diff": self._show_changes,
            "files": lambda _: _say(chat_commands.changed_files(self._conversation)),
            "plan": lambda _: _say(chat_commands.last_plan(self._conversation), is_smart=self._is_smart),
            "rename": lambda text: _say(chat_commands.rename(self._conversation, text)),
            "copy": self._copy,
            "cost": lambda _: _say(chat_commands.cost(self._conversation)),
            "model": lambda text: _say(chat_commands.change_model(self._conversation, self._agent, text)),
        }
        self._read: Callable[[str], str] = input
        if self._is_smart:
            from artel.cli.chat_input import ChatInput  # slow to import

            path = folder.path if folder else Path.cwd()
            self._read = ChatInput(history_file, conversation, [*self._commands, "quit"], path).ask

    def run(self) -> None:
        """Read and run input until the user leaves."""
        _say(f"Project {self._conversation.project_name()}. /help lists the commands, Ctrl-D leaves.")
        if not self._conversation.is_new:
            self._show_history("")
        while True:
            try:
                if self._folder is not None and (message := self._folder.message()):
                    _say(message, is_smart=self._is_smart)
                line = self._read(f"{visible(self._agent, keep='')}> " if self._agent else "> ").strip()
            except (EOFError, KeyboardInterrupt):
                sys.stdout.write("\n")
                return
            if line in ("/quit", "/exit"):
                return
            try:
                self._do(line)
            except ArtelError as error:
                say(f"artel: {error_text(error)}", err=True)
            except KeyboardInterrupt:
                typer.echo("", err=True)

    def _do(self, line: str) -> None:
        name = line[1:].split(maxsplit=1)[0] if line[1:2].strip() else ""
        rest = line[1 + len(name) :].strip()
        is_command = line.startswith("/") and not line.startswith("//")
        if is_command and name in self._commands:
            self._commands[name](rest)
        elif is_command and "/" not in name and "\n" not in line:
            _say(f"There is no /{name}. /help lists the commands; //{name} sends it as a message.")
        elif line.startswith("@"):
            agent = None if name in ("", ORCHESTRATOR) else name
            if rest:
                self._send_to(agent, rest)
            elif agent is not None:
                names = ((found["name"], str(found["id"])) for found in self._conversation.agents())
                if not any(agent in (name, name.removeprefix("agent_"), number) for name, number in names):
                    raise unknown_agent(self._conversation, agent)
            self._agent = agent
        elif line:
            self._send_to(self._agent, line.removeprefix("/") if line.startswith("//") else line)

    def _send_to(self, agent: str | None, text: str) -> None:
        screen = ChatScreen(self._conversation, self._status, direct=agent is not None, in_chat=True)
        run_turn(self._conversation, screen, text, agent)

    def _retry(self, _: str) -> None:
        turn_id = chat_commands.last_turn(self._conversation)
        is_direct = self._conversation.turn(turn_id)["mode"] == "direct"
        screen = ChatScreen(self._conversation, self._status, direct=is_direct, in_chat=True)
        follow_turn(self._conversation.send_again(turn_id), Turn(), screen)

    def _new_session(self, _: str) -> None:
        self._conversation = self._conversation.new_session()
        _say("Started a new session.")

    def _resume(self, text: str) -> None:
        if not text:
            chat_commands.show_sessions(self._conversation)
            _say("To continue one: /resume N")
            return
        self._conversation = self._conversation.resume(chat_commands.find_session_id(self._conversation, text))
        _say(f"Session: {self._conversation.session['title']}")
        self._show_history("")

    def _copy(self, _: str) -> None:
        if not self._is_smart:
            raise chat_commands.WrongCommand("Not copied: this terminal does not support it.")
        _say(chat_commands.copy_last(self._conversation, sys.stdout))

    def _show_changes(self, _: str) -> None:
        for line, style in chat_commands.last_changes(self._conversation):
            _say(line, style, is_smart=self._is_smart)

    def _show_history(self, count: str) -> None:
        messages = self._conversation.messages(min(int(count), MAX_HISTORY) if count.isdecimal() else HISTORY)
        if not messages:
            _say("No messages yet.")
        for message in messages:
            who = {"user": "you", "system": "artel"}.get(message["role"]) or message["agent"] or ORCHESTRATOR
            if not self._is_smart:
                _say(f"{who}: {message['content']}")
                continue
            print_name(who, is_smart=True)
            if message["role"] == "assistant":
                from artel.cli.markdown_screen import console, print_markdown  # rich is slow to import

                print_markdown(console(), message["content"])
            else:
                _say(message["content"], is_smart=True)
            typer.echo("")


def _say(text: str, style: str = "", *, is_smart: bool = False) -> None:
    if not is_smart:
        say(text)
        return
    from artel.cli.markdown_screen import print_text  # rich is slow to import

    print_text(text, style, wrap=not style)
