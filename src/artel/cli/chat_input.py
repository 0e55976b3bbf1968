"""The line editor of `artel chat`; prompt_toolkit takes 0.2 s to import, so import this only for a terminal."""

import json
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.shortcuts import CompleteStyle

from artel.cli.output import visible
from artel.client.credentials import append_private, write_private
from artel.connector.state_folder import StateFolder
from artel.errors import ArtelError

if TYPE_CHECKING:
    from artel.client.conversation import Conversation

MAX_ENTRIES = 1_000
MAX_ENTRY_CHARACTERS = 20_000
MAX_FILE_BYTES = 5_000_000
MAX_CANDIDATES = 200
MAX_FOLDER_ENTRIES, MAX_FILE_NAMES = 2_000, 100


class ChatInput:
    """Reads messages. A pasted text is one draft; Alt+Enter, or a backslash and Enter, starts a new line."""

    def __init__(self, history_file: Path, conversation: "Conversation", commands: Iterable[str], folder: Path) -> None:
        self._session: PromptSession[str] = PromptSession(
            history=BoundedHistory(history_file),
            multiline=True,
            key_bindings=_bindings(),
            completer=_ChatCompleter(conversation, commands, folder),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            prompt_continuation="  ",
            tempfile_suffix=".md",
        )

    def ask(self, prompt: str) -> str:
        """Return the next message; raise EOFError or KeyboardInterrupt when the user leaves."""
        return self._session.prompt(FormattedText([("bold ansicyan", prompt)]))


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    def insert_line_break(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("c-c")
    def clear_or_leave(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.text = ""
        else:
            event.app.exit(exception=KeyboardInterrupt)

    @bindings.add("c-g")
    def open_editor(event: KeyPressEvent) -> None:
        event.current_buffer.open_in_editor()

    return bindings


class BoundedHistory(History):
    """The history of typed messages, in a file with mode 0600: one JSON string per line, newest last."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries, newest first; none if the file can't be read."""
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, self._path.stat().st_size - MAX_FILE_BYTES))
                lines = file.read(MAX_FILE_BYTES).decode(errors="replace").split("\n")
            entries = [_entry(line) for line in lines if line][-MAX_ENTRIES:]
            if len(lines) > 2 * MAX_ENTRIES:
                write_private(self._path, "".join(f"{json.dumps(entry)}\n" for entry in entries))
        except OSError:
            return []
        return reversed(entries)

    def store_string(self, string: str) -> None:
        """Append an entry; ignore write errors, so that the chat still works."""
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            self._path.chmod(0o600)  # also if it is older
            append_private(self._path, f"{json.dumps(string[:MAX_ENTRY_CHARACTERS])}\n")


def _entry(line: str) -> str:
    """Return an entry; old files have plain lines instead of JSON."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    return entry if isinstance(entry, str) else line


class _ChatCompleter(Completer):
    """Completes agents after @, commands after /, and else files of the connected or the current folder."""

    def __init__(self, conversation: "Conversation", commands: Iterable[str], folder: Path) -> None:
        self._conversation = conversation
        self._commands = sorted(commands)
        self._agents: list[str] = []  # fetched for the first completion
        ours = conversation.api.server, conversation.project_id
        connected = (state for state in StateFolder.all() if (state.server, state.project_id) == ours)
        self._root = next((state.workspace for state in connected if state.holder() is not None), folder)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        before = document.text_before_cursor
        word = before[max(before.rfind(space) for space in " \n\t") + 1 :]
        if before.startswith("/") and word == before:
            candidates = [f"/{name} " for name in self._commands if name.startswith(word[1:])]
        elif word.startswith("@"):
            if not self._agents:
                with suppress(ArtelError):  # completion must not interrupt typing with an error
                    names = [str(agent["name"]) for agent in self._conversation.agents()]
                    self._agents = sorted([name.removeprefix("agent_") for name in names] + ["orchestrator"])
            candidates = [f"@{name} " for name in self._agents if name.startswith(word[1:])]
        else:
            candidates = self._paths(word)
        for candidate in candidates[:MAX_CANDIDATES]:
            yield Completion(candidate, start_position=-len(word))

    def _paths(self, word: str) -> list[str]:
        """Return the paths that start with a word, without hidden and ignored files; folders end with a slash."""
        from artel.connector.rules import GitIgnore  # not needed before the first Tab
        from artel.paths.beneath import Beneath

        *folders, prefix = word.split("/")
        if any(name in ("", ".", "..") or name.startswith(".") for name in folders) or prefix.startswith("."):
            return []
        folder = self._root.joinpath(*folders)
        try:
            if not folder.resolve().is_relative_to(self._root.resolve()):
                return []
            with Beneath(self._root) as files:
                ignored = GitIgnore(files)
                names = []
                for entry in islice(folder.iterdir(), MAX_FOLDER_ENTRIES):
                    is_folder = entry.is_dir()
                    matches = entry.name.startswith(prefix) and not entry.name.startswith(".")
                    if matches and not ignored.hides((*folders, entry.name), is_folder=is_folder):
                        names.append("/".join((*folders, entry.name)) + ("/" if is_folder else ""))
        except (OSError, ValueError):
            return []
        return sorted(name for name in names if visible(name, keep="") == name and " " not in name)[:MAX_FILE_NAMES]
