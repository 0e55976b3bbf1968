"""What `artel connect` shows: what agents do, line by line; in a terminal also the mode, always, and questions."""

import asyncio
import os
import shutil
import sys
import termios
from collections import deque
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

import typer

from artel.cli.visible_text import announcement, one_line, visible
from artel.connector.decisions import MODE_WORDS
from artel.connector.questions import Answer
from artel.connector.screen import Report, Screen, TakeAnswer

if TYPE_CHECKING:
    from rich.console import Console

    from artel.connector.questions import Question
    from artel.connector.service import ConnectOptions

CLEAR = "\r\x1b[K"
NARROWEST = 30  # columns; in a terminal that is narrower the last line may stay where it was
_PAST = {"read": "read", "list": "listed", "stat": "looked at", "search": "searched", "write": "wrote"} | {
    "edit": "edited",
    "delete": "deleted",
    "run": "ran",
    "undo": "took back",
}
_DONE = {"write": "written", "run": "run", "delete": "deleted", "undo": "undone"}
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def screen_for(options: "ConnectOptions") -> Screen:
    """Return a screen that fits where the output goes."""
    about = f"{options.folder.resolve().name}, project {options.project_id}: {MODE_WORDS[options.mode]}"
    if sys.stdout.isatty() and sys.stdin.isatty():
        return TerminalScreen(about, asks=options.mode != "browser")
    return PlainScreen(about)


class PlainScreen:
    """Lines, for a file or another program."""

    def __init__(self, about: str) -> None:
        self._about = about

    def begin(self, take: TakeAnswer) -> None:  # noqa: ARG002 - nobody can answer here
        """Say what is served, and how."""
        self._print(self._about)

    def say(self, sentence: str) -> None:
        """Print a sentence."""
        self._print(sentence)

    def show(self, report: Report) -> None:
        """Print a call, unless it is asked about: the question says so."""
        if report.outcome != "asks":
            self._print(_line(report))

    def ask(self, question: "Question") -> None:
        """Print that something waits for an answer elsewhere."""
        self._print(
            f"{question.agent or 'an agent'} wants to {_wanted(question)}: answer in the browser or in `artel chat`"
        )

    def settle(self, question: "Question") -> None:
        """Nothing is shown that would have to go."""

    def end(self) -> None:
        """Nothing is left on the last line."""

    def _print(self, text: str) -> None:
        with suppress(OSError):  # that nobody reads it is no reason to stop
            typer.echo(f"{_clock()} {visible(text, keep='')}")


class TerminalScreen:
    """A terminal: the last line says what mode it is, or asks the question that was asked first."""

    def __init__(self, about: str, *, asks: bool) -> None:
        self._about = about
        self._asks = asks
        self._console = _console()
        self._questions: deque[Question] = deque()
        self._take: TakeAnswer = lambda *_: False

    def begin(self, take: TakeAnswer) -> None:
        """Listen to what is typed."""
        self._take = take
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._typed)
        self._draw()

    def say(self, sentence: str) -> None:
        """Show a sentence."""
        self._print(sentence)

    def show(self, report: Report) -> None:
        """Show a call, unless it is asked about: the question says so."""
        if report.outcome != "asks":
            self._print(_line(report), "" if report.is_ok else "yellow")

    def ask(self, question: "Question") -> None:
        """Show a question once those before it are answered."""
        if not self._asks:
            self._print(
                f"{question.agent or 'an agent'} wants to {_wanted(question)}: answer in the browser or in `artel chat`"
            )
            return
        self._questions.append(question)
        if len(self._questions) == 1:
            self._show_question()

    def settle(self, question: "Question") -> None:
        """Take a question away that needs no answer any more."""
        if question not in self._questions:
            return
        is_shown = question is self._questions[0]
        self._questions.remove(question)
        if is_shown:
            self._print(f"No longer needed: {_wanted(question)}")
            self._show_question()

    def end(self) -> None:
        """Take the last line away, so that an error has a line of its own."""
        self._write(CLEAR)

    def _typed(self) -> None:
        """Take what was typed; the terminal gives it line by line."""
        data = os.read(sys.stdin.fileno(), 4096)
        if not data:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._print("Nobody answers here any more.")
        for line in data.decode(errors="replace").splitlines():
            if self._questions:
                self._answer(self._questions[0], line.strip())
        self._draw()

    def _answer(self, question: "Question", line: str) -> None:
        letter, _, rest = line.partition(" ")
        match letter.lower(), rest.strip():
            case (("n" | "no"), reason):
                self._give(question, Answer(approved=False, feedback=reason))
            case (("y" | "yes"), ""):
                self._give(question, Answer(approved=True))
            case (("s" | "session"), "") if question.offer is not None:
                self._give(question, Answer(approved=True, holds="session"))
            case (("a" | "always"), "") if question.offer is not None:
                self._give(question, Answer(approved=True, holds="always"))
            case _:
                letters = "y, s, a or n" if question.offer is not None else "y or n"
                self._print(f"Please answer {letters} (n REASON says why).")

    def _give(self, question: "Question", answer: Answer) -> None:
        self._questions.popleft()
        if not self._take(question.ask_id, answer):
            self._print("That was answered elsewhere, or is too old.")
        elif not answer.approved:
            why = f" ({answer.feedback})" if answer.feedback else ""
            done = _DONE[question.subject.kind]
            self._print(f"You refused: {_wanted(question)}{why}. Nothing was {done}.")
        self._show_question()

    def _show_question(self) -> None:
        if self._questions:
            termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before is no answer to this
            question = self._questions[0]
            self._put(f"{_clock()} {one_line(question.agent) or 'An agent'} wants to {_wanted(question)}:", "bold")
            for sentence in (visible(question.warning), visible(question.notice), *_announcements(question)):
                if sentence:
                    self._put(sentence, "bold yellow")
            for line in visible(question.diff).removesuffix("\n").split("\n"):
                self._put(line, _COLOURS.get(line[:1], ""), wrap=False)
            if not _fits(whole := _prompt(question)):
                self._put(whole, "")
        self._draw()

    def _print(self, text: str, style: str = "") -> None:
        self._put(f"{_clock()} {visible(text, keep='')}", style)
        self._draw()

    def _put(self, line: str, style: str, *, wrap: bool = True) -> None:
        """Write a line where the last one was, which has to be drawn again; it breaks between words."""
        from rich.text import Text

        self._write(CLEAR)
        with suppress(OSError):  # the terminal is gone, and a signal comes
            self._console.print(Text(line, style), soft_wrap=not wrap, width=_columns() if wrap else None)

    def _draw(self) -> None:
        """Write the last line anew: one line, since only one can be taken away again."""
        if not self._questions:
            about = _cut(self._about, len("…  (Ctrl-C ends)"))
            self._write(f"{CLEAR}\x1b[2m… {about} (Ctrl-C ends)\x1b[0m")
        else:
            question = self._questions[0]
            letters = "y/s/a/n" if question.offer else "y/n"
            whole, short = _prompt(question), f"{_cut(_wanted(question), len(letters) + len('?  '))}? {letters} "
            self._write(CLEAR + (whole if _fits(whole) else short))

    def _write(self, text: str) -> None:
        with suppress(OSError):
            self._console.file.write(text)
            self._console.file.flush()


def _console() -> "Console":
    from rich.console import Console  # here, because nobody needs it without a terminal

    return Console(highlight=False, markup=False, emoji=False)


def _line(report: Report) -> str:
    who, name = report.agent or "an agent", report.name
    what = f"{report.method} {name}".strip()
    if report.outcome == "unchanged":
        return f"{who} did not change {name}: it already says this"
    if report.is_ok:
        return f"{who} {_PAST.get(report.method, report.method)} {name}".strip()
    return f"{who} may not {what} ({report.outcome}): {report.error}"


def _announcements(question: "Question") -> list[str]:
    """Return the sentences about what can't be seen in a question, for above it."""
    shown = "The command" if question.subject.kind == "run" else "The diff"
    return [announcement("The name", question.subject.name), announcement(shown, question.diff)]


def _wanted(question: "Question") -> str:
    return f"{question.subject.kind} {visible(question.subject.name, keep='')}"


def _prompt(question: "Question") -> str:
    more = f" / s(ession) or a(lways): {visible(question.offer.text, keep='')}" if question.offer else ""
    return f"{_wanted(question)}? y(es, once){more} / n(o) "


def _columns() -> int:
    return max(NARROWEST, shutil.get_terminal_size().columns)


def _fits(line: str) -> bool:
    """Return whether a line and one more character, the answer, fit in the terminal."""
    return len(line) < _columns()


def _cut(text: str, beside: int) -> str:
    """Return a text in one line that leaves room for so many characters beside it, and for an answer."""
    line, most = visible(text, keep=""), _columns() - beside - 1
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _clock() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")
