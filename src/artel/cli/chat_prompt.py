"""The interactive loop of `artel chat`: reads messages and slash commands, and runs them."""

import base64
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from artel.cli.chat_screen import ChatScreen, StatusLine, print_name
from artel.cli.chat_turn import follow_turn, run_turn, unknown_agent
from artel.cli.output import ago, error_text, is_smart_terminal, one_line, say, table, visible
from artel.cli.plan_screen import estimated, is_done, money, task_status, workflow_status
from artel.cli.questions import diff_lines
from artel.client.conversation import CHANGING_TOOLS, Conversation
from artel.client.turn import TurnView
from artel.errors import ArtelError, Kind

if TYPE_CHECKING:
    from artel.cli.connector_process import ChatFolder

HISTORY, MAX_HISTORY = 10, 100
MAX_SESSIONS = 20
MAX_CALLS = 100  # newest calls of the project, searched by /undo, /redo, /diff and /files
MAX_MESSAGES = 100  # newest messages of the session, searched by /cost and /copy
TITLE_CHARACTERS = 50
MAX_COPIED_BYTES = 70_000  # terminals accept about 100,000 characters of base64
UNDO_OUTCOMES = {
    "restored": "was put back",
    "removed": "was removed",
    "changed_since": "was not put back: it was changed since",
    "not_kept": "was not put back: its old content was not saved",
    "failed": "could not be put back",
}
REDO_OUTCOMES = {
    "restored": "has the agent's text again",
    "removed": "is deleted again",
    "changed_since": "was not changed again: it was changed since",
    "not_kept": "was not changed again: the agent's text was not saved",
    "failed": "could not be changed again",
}
ORCHESTRATOR = "orchestrator"
HELP = """\
Talk
  @agent text     talk to an agent, which stays chosen; @orchestrator, or @ alone, goes back to the orchestrator
  //text          send a message that starts with a slash
  /retry          send the last message again
  /continue       go on with the last answer, which was cut off
  /cancel         cancel the running turn of this session
  /plan           show the status of the last plan
  /copy           copy the last answer to the clipboard
  /good [TEXT]    rate the last answer as good, /bad [TEXT] as bad; the agents that wrote it remember it
Sessions
  /sessions       list the sessions of this project
  /resume N       continue session N of the list
  /new            start a new session
  /rename TITLE   rename this session
  /history [N]    show the last N messages (default: 10)
  /export FILE    write this session to a new file: Markdown, or JSON if its name ends with .json
Files
  /attach FILE    attach a text or an image to your next message; /detach removes what is attached
  /files          list the files changed in this session
  /diff           show the changes of the last turn
  /undo           undo the changes of the last turn
  /redo           redo what was undone last
Agents
  /agents         list the agents of this project
  /model [[AGENT] MODEL]  show the models of the agents, or set one
  /cost           show tokens and cost of the last turn and the session
Keys
  Alt+Enter, or \\ and Enter: new line; Tab: complete; Ctrl-G: open your editor; Up and Down: earlier messages
  Ctrl-C: cancel the answer, clear the draft, or leave; Ctrl-D or /quit: leave
To a plan answer y to run it, i to add an instruction for all tasks, c to change it, n to reject it.
To a write answer y to allow it once, s for this session, a always, n to refuse it; n REASON says why."""


class WrongCommand(ArtelError, kind=Kind.INVALID, code="wrong_command"):
    """A chat command that can't be run as typed."""


class ChatPrompt:
    """An interactive conversation in a terminal. The method `do_x` is the command `/x`, with the rest of its line."""

    def __init__(
        self, conversation: Conversation, agent: str | None, history_file: Path, folder: "ChatFolder | None"
    ) -> None:
        self._conversation = conversation
        self._folder = folder
        self._agent = agent
        self._listed: list[str] = []  # the sessions as the user has seen them, for /resume N
        self._attached: dict[str, str] = {}  # names of files for the next message, by their ids
        self._status = StatusLine()
        self._is_smart = is_smart_terminal()
        self._commands: dict[str, Callable[[str], None]] = {
            name.removeprefix("do_"): getattr(self, name) for name in dir(self) if name.startswith("do_")
        }
        self._read: Callable[[str], str] = input
        if self._is_smart:
            from artel.cli.chat_input import ChatInput  # slow to import

            path = folder.path if folder else Path.cwd()
            self._read = ChatInput(history_file, conversation, [*self._commands, "quit"], path).ask

    def run(self) -> None:
        """Read and run input until the user leaves."""
        project = self._conversation.api.call("GET", f"/my/projects/{self._conversation.project_id}")
        say(f"Project {project['name']}. /help lists the commands, Ctrl-D leaves.")
        if not self._conversation.is_new:
            self.do_history("")
        while True:
            try:
                if self._folder is not None and (message := self._folder.message()):
                    self._print(message)
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
            say(f"There is no /{name}. /help lists the commands; //{name} sends it as a message.")
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
        run_turn(self._conversation, screen, text, agent, list(self._attached))
        self._attached = {}  # kept if the message was refused

    def _print(self, text: str, style: str = "") -> None:
        """Print a text, in a smart terminal with rich; styled lines are not wrapped there."""
        if not self._is_smart:
            say(text)
            return
        from artel.cli.markdown_screen import print_text  # rich is slow to import

        print_text(text, style, wrap=not style)

    def do_help(self, _: str) -> None:
        say(HELP)

    def do_agents(self, _: str) -> None:
        table(self._conversation.agents(), ("name", "role", "model"), False, "This project has no agents.")

    def do_cancel(self, _: str) -> None:
        say("Cancelled." if self._conversation.cancel_last() else "Nothing is running.")

    def do_retry(self, _: str) -> None:
        messages = self._conversation.messages(MAX_MESSAGES)
        turn_id = next((message["turn_id"] for message in reversed(messages) if message["turn_id"]), None)
        if turn_id is None:
            raise WrongCommand("No messages yet.")
        is_direct = self._conversation.turn(turn_id)["mode"] == "direct"
        screen = ChatScreen(self._conversation, self._status, direct=is_direct, in_chat=True)
        follow_turn(self._conversation.send_again(turn_id), TurnView(), screen)

    def do_continue(self, _: str) -> None:
        answer = self._last_answer()
        if answer["status"] != "cut_off":
            raise WrongCommand("The last answer was not cut off. /retry sends the last message again.")
        screen = ChatScreen(self._conversation, self._status, direct=True, in_chat=True)
        follow_turn(self._conversation.go_on(answer["turn_id"]), TurnView(), screen)

    def do_plan(self, _: str) -> None:
        query = {"session_id": self._conversation.session_id, "limit": 1}
        workflow = next(iter(self._conversation.api.call("GET", "/my/workflows", params=query)["items"]), None)
        if workflow is None or not workflow["tasks"]:
            self._print("This session has no plan.")
            return
        tasks = workflow["tasks"]
        status, title = workflow_status(workflow), "The plan is"
        if len(tasks) == 1:
            title += " answered" if status == "completed" else f" {status}"
        else:
            title += f" {status}: {sum(map(is_done, tasks))} of {len(tasks)} tasks done"
        lines = [f"{title}, {money(workflow['cost'])} spent; estimated: {estimated(workflow)}"]
        for task in tasks:
            error = f" ({task['error']})" if task["error"] else ""
            status = one_line(f"{task_status(task)}, {task['agent']}: {task['description']}{error}")
            lines.append(f"  {one_line(task['id'])}  {status}")
        self._print("\n".join(lines))

    def do_copy(self, _: str) -> None:
        """Send the last answer to the terminal's clipboard (OSC 52).

        Hidden characters are escaped, so that text pasted into a shell is what the user read.
        """
        if not self._is_smart:
            raise WrongCommand("Not copied: this terminal does not support it.")
        text = visible(self._last_answer()["content"])
        data = text.encode()
        if len(data) > MAX_COPIED_BYTES:
            raise WrongCommand(f"Not copied: the answer has more than {MAX_COPIED_BYTES:,} bytes.")
        sys.stdout.write(f"\x1b]52;c;{base64.b64encode(data).decode()}\x07")
        sys.stdout.flush()
        size = f"{len(text):,} characters"
        say(f"Sent the last answer ({size}) to the clipboard (OSC 52). Not every terminal allows this.")

    def do_good(self, comment: str) -> None:
        self._rate("good", comment)

    def do_bad(self, comment: str) -> None:
        self._rate("bad", comment)

    def _rate(self, rating: str, comment: str) -> None:
        answer = self._last_answer()
        self._conversation.rate(str(answer["id"]), rating, comment)
        whose = f" of {one_line(answer['agent'])}" if answer["agent"] else ""
        say(f"Rated the last answer{whose} as {rating}.")

    def _last_answer(self) -> dict[str, Any]:
        answers = [item for item in self._conversation.messages(MAX_MESSAGES) if item["role"] == "assistant"]
        if not answers:
            raise WrongCommand("No answer yet.")
        return answers[-1]

    # Sessions

    def do_sessions(self, _: str) -> None:
        sessions = self._conversation.sessions(MAX_SESSIONS)
        self._listed = [str(session["session_id"]) for session in sessions]
        rows = [
            {
                "": "*" if session["session_id"] == self._conversation.session_id else "",
                "no": number,
                "used": ago(session["updated_at"]),
                "title": one_line(session["title"], TITLE_CHARACTERS),
            }
            for number, session in enumerate(sessions, 1)
        ]
        table(rows, ("", "no", "used", "title"), False, "This project has no sessions.")

    def do_resume(self, text: str) -> None:
        if not text:
            self.do_sessions("")
            say("To continue one: /resume N")
            return
        if text.isdecimal():
            if not self._listed:
                self._listed = [str(session["session_id"]) for session in self._conversation.sessions(MAX_SESSIONS)]
            if not 1 <= int(text) <= len(self._listed):
                raise WrongCommand(f"There is no session {text}. /sessions lists them.")
            text = self._listed[int(text) - 1]
        self._leave_session()
        self._conversation = self._conversation.resume(text)
        say(f"Session: {self._conversation.session['title']}")
        self.do_history("")

    def do_new(self, _: str) -> None:
        self._leave_session()
        self._conversation = self._conversation.new_session()
        say("Started a new session.")

    def _leave_session(self) -> None:
        """Delete the files for the next message: they belong to the session."""
        if self._attached:
            self.do_detach("")

    def do_rename(self, title: str) -> None:
        if not title:
            raise WrongCommand("Missing title: /rename TITLE")
        say(f"Renamed the session to {one_line(self._conversation.rename(title))}.")

    def do_export(self, name: str) -> None:
        if not name:
            raise WrongCommand("Missing file: /export FILE, such as /export notes.md")
        path = Path(name).expanduser()
        wanted = "json" if path.suffix.lower() == ".json" else "markdown"
        try:
            with path.open("xb") as file:  # never over another file
                try:
                    for piece in self._conversation.export(wanted):
                        file.write(piece)
                except BaseException:
                    path.unlink(missing_ok=True)
                    raise
        except FileExistsError:
            raise WrongCommand(f"{name} exists. Choose another name.") from None
        except OSError as failure:
            raise WrongCommand(f"Can't write {name}: {failure.strerror or failure}.") from None
        say(f"Wrote this session to {visible(str(path), keep='')}.")

    def do_history(self, count: str) -> None:
        messages = self._conversation.messages(min(int(count), MAX_HISTORY) if count.isdecimal() else HISTORY)
        if not messages:
            say("No messages yet.")
        for message in messages:
            who = {"user": "you", "system": "artel"}.get(message["role"]) or message["agent"] or ORCHESTRATOR
            content = message["content"]
            if files := [one_line(file["name"]) for file in message.get("attachments", ())]:
                content += f"\n[attached: {', '.join(files)}]"
            if not self._is_smart:
                say(f"{who}: {content}")
                continue
            print_name(who, is_smart=True)
            if message["role"] == "assistant":
                from artel.cli.markdown_screen import console, print_markdown  # rich is slow to import

                print_markdown(console(), content)
            else:
                self._print(content)
            typer.echo("")

    # Files

    def do_attach(self, name: str) -> None:
        """Upload a file for the next message; without a name list those that are uploaded."""
        if not name:
            names = ", ".join(one_line(each) for each in self._attached.values())
            say(f"Attached to the next message: {names}." if names else "Missing file: /attach FILE")
            return
        folder = self._folder.path if self._folder else Path.cwd()
        found = self._conversation.attach(folder / Path(name.strip("\"'")).expanduser())
        self._attached[str(found["id"])] = str(found["name"])
        size = (
            f"{found['lines']:,} lines" if found["kind"] == "text" else f"{found['width']} by {found['height']} pixels"
        )
        say(f"Attached {one_line(found['name'])} ({size}) to your next message.")

    def do_detach(self, _: str) -> None:
        """Delete the files that were uploaded for the next message."""
        for attachment_id in list(self._attached):
            self._conversation.detach(attachment_id)
            del self._attached[attachment_id]
        say("The next message has no attachments.")

    def do_files(self, _: str) -> None:
        changes = self._conversation.changes(MAX_CALLS)
        undone = _undone_turns(changes)
        files: dict[str, str] = {}  # with their last change, newest first
        for call in changes:
            if call["tool"] in CHANGING_TOOLS:
                was_undone = " (put back)" if call["turn_id"] in undone else ""
                files.setdefault(str(call["arguments"].get("path", "")), f"{_change(call)}{was_undone}")
        say("\n".join(files.values()) or "No file was changed in this session.")

    def do_diff(self, _: str) -> None:
        calls = [call for call in self._conversation.changes(MAX_CALLS) if call["tool"] in CHANGING_TOOLS]
        if not calls:
            self._print("No file was changed in this session.")
        for call in reversed([call for call in calls if call["turn_id"] == calls[0]["turn_id"]]):
            self._print(_change(call), "bold")
            if call["approval_id"] is not None:  # a call that needed no approval has no stored diff
                diff = self._conversation.approval(call["approval_id"])["details"].get("diff")
                for line, style in diff_lines(str(diff or "")):
                    self._print(line, style)

    def do_undo(self, _: str) -> None:
        """Undo the newest turn that changed files and is not undone."""
        changes = self._conversation.changes(MAX_CALLS)
        undone = _undone_turns(changes)
        for call in changes:
            if call["tool"] in CHANGING_TOOLS and call["turn_id"] not in undone:
                self._swap("undo", call["turn_id"], UNDO_OUTCOMES)
                return
        raise WrongCommand("This session has no changes to undo.")

    def do_redo(self, _: str) -> None:
        """Redo the changes of the turn that was undone last."""
        changes = self._conversation.changes(MAX_CALLS)
        undone = _undone_turns(changes)
        for call in changes:
            if call["tool"] == "undo" and call["turn_id"] in undone:
                self._swap("redo", call["turn_id"], REDO_OUTCOMES)
                return
        raise WrongCommand("Nothing was undone in this session that could be redone.")

    def _swap(self, what: str, turn_id: str, words: dict[str, str]) -> None:
        """Undo or redo the changes of a turn, and print what became of each file."""
        path, body = f"/my/projects/{self._conversation.project_id}/{what}", {"turn_id": turn_id}
        files = self._conversation.api.call("POST", path, json=body)["files"]
        say("\n".join(f"{visible(file['path'], keep='')} {words[file['outcome']]}." for file in files))

    # Agents

    def do_model(self, text: str) -> None:
        """Print the models of all agents, or set one: `MODEL` for the chosen agent, or `AGENT MODEL`."""
        agents = self._conversation.agents()
        if not text:
            width = max((len(agent["name"]) for agent in agents), default=0)
            say("\n".join(f"{agent['name']:{width}}  {one_line(agent['model'])}" for agent in agents))
            return
        first, _, rest = text.partition(" ")
        name, model = (first, rest.strip()) if rest.strip() else (self._agent, text)
        if name is None:
            raise WrongCommand("Missing agent: use /model AGENT MODEL, or choose an agent first (@coder).")
        found = next((agent for agent in agents if name in (agent["name"], agent["name"].removeprefix("agent_"))), None)
        if found is None:
            raise WrongCommand(f"This project has no agent called {name}. /agents lists them.")
        path = f"/my/projects/{self._conversation.project_id}/agents/{found['id']}"
        self._conversation.api.call("PATCH", path, json={"model": model})
        say(f"{found['name']} now uses {one_line(model)}.")

    def do_cost(self, _: str) -> None:
        messages = self._conversation.messages(MAX_MESSAGES)
        turn_ids = list(dict.fromkeys(message["turn_id"] for message in messages if message["turn_id"]))
        usages = [self._conversation.turn(turn_id)["usage"] or {} for turn_id in turn_ids]
        if not usages:
            say("No messages yet.")
            return
        title = "This session" if len(messages) < MAX_MESSAGES else f"The last {len(turn_ids)} turns"
        say(f"Last turn     {_used(usages[-1:])}\n{title:13} {_used(usages)}")


def _undone_turns(changes: list[dict[str, Any]]) -> set[str]:
    """Return the turns whose last undo was not redone; `changes` are newest first."""
    last: dict[str, str] = {}
    for call in changes:
        if call["tool"] in ("undo", "redo"):
            last.setdefault(call["turn_id"], call["tool"])
    return {turn_id for turn_id, tool in last.items() if tool == "undo"}


def _change(call: dict[str, Any]) -> str:
    verb = {"tool_write_file": "wrote", "tool_edit_file": "edited"}.get(call["tool"], "deleted")
    path = visible(str(call["arguments"].get("path", "")), keep="")
    return f"{call['agent']} {verb} {path}, {ago(call['created_at'])}"


def _used(usages: list[dict[str, Any]]) -> str:
    read, written = (sum(usage.get(name) or 0 for usage in usages) for name in ("input_tokens", "output_tokens"))
    prices = [usage.get("cost_usd", 0.0) for usage in usages]
    price = "price unknown" if None in prices else money(sum(prices))
    return f"{price}, {read:,} tokens in, {written:,} out"
