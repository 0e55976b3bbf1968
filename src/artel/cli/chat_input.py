"""The line editor of `artel chat`.

prompt_toolkit takes 0.2 s to import, so import this module only for a chat in a terminal.
"""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.shortcuts import CompleteStyle

from artel.client.credentials import write_private

MAX_ENTRIES = 1_000
MAX_ENTRY_CHARACTERS = 20_000
MAX_FILE_BYTES = 5_000_000
MAX_CANDIDATES = 200

Candidates = Callable[[str], Iterable[str]]


class ChatInput:
    """Reads messages. A pasted text is one draft; Alt+Enter, or a backslash and Enter, starts a new line."""

    def __init__(self, history_file: Path, candidates: Candidates) -> None:
        self._session: PromptSession[str] = PromptSession(
            history=BoundedHistory(history_file),
            multiline=True,
            key_bindings=_bindings(),
            completer=_WordCompleter(candidates),
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
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.fchmod(descriptor, 0o600)
                os.write(descriptor, f"{json.dumps(string[:MAX_ENTRY_CHARACTERS])}\n".encode())
            finally:
                os.close(descriptor)
        except OSError:
            return


def _entry(line: str) -> str:
    """Return an entry; old files have plain lines instead of JSON."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    return entry if isinstance(entry, str) else line


class _WordCompleter(Completer):
    """Completes the word before the cursor."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        """Yield the completions of the word before the cursor."""
        before = document.text_before_cursor
        word = before[max(before.rfind(space) for space in " \n\t") + 1 :]
        for number, candidate in enumerate(self._candidates(before)):
            if number >= MAX_CANDIDATES:
                return
            yield Completion(candidate, start_position=-len(word))
