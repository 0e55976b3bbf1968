"""The output of `artel connect`: a line per call, and in a terminal a status line and questions."""

import asyncio
import os
import shutil
import sys
from collections import deque
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

import typer

from artel.cli.output import announcement, one_line, visible
from artel.cli.questions import diff_lines, discard_typed, parse_answer
from artel.client.diff_text import cut_diff
from artel.connector.decisions import MODE_WORDS, UserAnswer
from artel.connector.screen import Report, Screen, TakeAnswer
from artel.text import shorten

if TYPE_CHECKING:
    from artel.connector.decisions import OpenQuestion
    from artel.connector.service import ConnectOptions
    from artel.contract.connector import Mode

CLEAR = "\r\x1b[K"
SHOWN_CHARACTERS = 20_000  # of a diff; the page shows more
NARROWEST = 30  # columns; in narrower terminals the status line may not be removed completely
_PAST = {"read": "read", "list": "listed", "stat": "looked at", "search": "searched"}
_PAST |= {"write": "wrote", "edit": "edited", "delete": "deleted", "run": "ran", "undo": "undid", "redo": "redid"}
_PAST |= {"settings": "changed the mode to", "revoke": "revoked"}
_VERBS = {"settings": "change the mode to"}
_DONE = {"write": "written", "run": "run", "delete": "deleted", "undo": "undone", "redo": "redone", "change": "changed"}


def screen_for(options: "ConnectOptions") -> Screen:
    """Return a terminal screen if the user is at a terminal, else a plain one."""
    folder = f"{options.folder.resolve().name}, project {options.project_id}"
    is_terminal = sys.stdout.isatty() and sys.stdin.isatty()
    return (TerminalScreen if is_terminal else PlainScreen)(folder, options.mode)


class PlainScreen:
    """Plain lines, for a file or another program."""

    can_ask = False

    def __init__(self, folder: str, mode: "Mode") -> None:
        self._folder = folder
        self._mode: Mode = mode

    @property
    def _about(self) -> str:
        return f"{self._folder}: {MODE_WORDS[self._mode]}"

    def change_mode(self, mode: "Mode") -> None:
        self._mode = mode
        self._print(self._about)

    def begin(self, take: TakeAnswer) -> None:  # noqa: ARG002 - there is no input
        self._print(self._about)

    def say(self, sentence: str) -> None:
        self._print(sentence)

    def show(self, report: Report) -> None:
        """Print a call, except one that waits for an answer: `ask` prints it."""
        agent, name = report.agent or "an agent", report.name
        if report.outcome == "unchanged":
            self._print(f"{agent} did not change {name}: it already has this content")
        elif report.is_ok:
            self._print(f"{agent} {_PAST.get(report.method, report.method)} {name}".strip())
        elif report.outcome != "asks":
            call = f"{_VERBS.get(report.method, report.method)} {name}".strip()
            self._print(f"{agent} may not {call} ({report.outcome}): {report.error}", "yellow")

    def ask(self, question: "OpenQuestion") -> None:
        agent = question.proposal.agent or "an agent"
        self._print(f"{agent} wants to {_wanted(question)}: answer in the browser or in `artel chat`")

    def settle(self, question: "OpenQuestion") -> None:
        """Do nothing: a printed line stays."""

    def end(self) -> None:
        """Do nothing: there is no status line."""

    def _print(self, text: str, _style: str = "") -> None:
        with suppress(OSError):  # go on when standard output is closed
            typer.echo(f"{_clock()} {visible(text, keep='')}")


class TerminalScreen(PlainScreen):
    """A terminal whose last line shows the mode, or the oldest open question."""

    can_ask = True

    def __init__(self, folder: str, mode: "Mode") -> None:
        from rich.console import Console  # slow to import, and only needed in a terminal

        super().__init__(folder, mode)
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._questions: deque[OpenQuestion] = deque()
        self._take: TakeAnswer = lambda *_: False

    def begin(self, take: TakeAnswer) -> None:
        """Start to read input, and draw the status line."""
        self._take = take
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._typed)
        self._draw()

    def ask(self, question: "OpenQuestion") -> None:
        """Queue a question; it is shown when the earlier ones are answered."""
        if self._mode == "browser":
            super().ask(question)
            return
        self._questions.append(question)
        if len(self._questions) == 1:
            self._show_question()

    def settle(self, question: "OpenQuestion") -> None:
        """Remove a question that needs no answer any more."""
        if question not in self._questions:
            return
        is_shown = question is self._questions[0]
        self._questions.remove(question)
        if is_shown:
            self._print(f"No longer needed: {_wanted(question)}")
            self._show_question()

    def end(self) -> None:
        """Remove the status line, so that an error starts on its own line."""
        self._write(CLEAR)

    def _typed(self) -> None:
        """Handle typed lines as answers to the first question."""
        data = os.read(sys.stdin.fileno(), 4096)
        if not data:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._print("Input closed: questions can no longer be answered here.")
        for line in data.decode(errors="replace").splitlines():
            if self._questions:
                self._answer(self._questions[0], line.strip())
        self._draw()

    def _answer(self, question: "OpenQuestion", line: str) -> None:
        can_grant = question.proposal.offer is not None
        answer = parse_answer(line, can_grant=can_grant)
        if answer is None:
            self._print(f"Please answer {'y, s, a or n' if can_grant else 'y or n'} (n REASON says why).")
            return
        self._questions.popleft()
        if not self._take(question.ask_id, UserAnswer(*answer)):
            self._print("That was answered elsewhere, or has expired.")
        elif not answer.approved:
            why = f" ({answer.feedback})" if answer.feedback else ""
            self._print(f"You refused: {_wanted(question)}{why}. Nothing was {_DONE[question.proposal.subject.kind]}.")
        self._show_question()

    def _show_question(self) -> None:
        if self._questions:
            discard_typed()
            question, proposal = self._questions[0], self._questions[0].proposal
            self._put(f"{_clock()} {one_line(proposal.agent) or 'An agent'} wants to {_wanted(question)}:", "bold")
            shown = "The command" if proposal.subject.kind == "run" else "The diff"
            diff = cut_diff(proposal.shown, SHOWN_CHARACTERS)
            hidden = announcement("The name", proposal.subject.name), announcement(shown, diff.text)
            for sentence in (visible(proposal.warning), visible(proposal.notice), diff.notice, *hidden):
                if sentence:
                    self._put(sentence, "bold yellow")
            for line, style in diff_lines(diff.text):
                self._put(line, style, wrap=False)
            if not _fits(whole := _prompt(question)):
                self._put(whole, "")
        self._draw()

    def _print(self, text: str, style: str = "") -> None:
        self._put(f"{_clock()} {visible(text, keep='')}", style)
        self._draw()

    def _put(self, line: str, style: str, *, wrap: bool = True) -> None:
        """Print a line over the status line, which must be drawn again."""
        from rich.text import Text

        self._write(CLEAR)
        with suppress(OSError):  # the terminal was closed: SIGHUP follows
            self._console.print(Text(line, style), soft_wrap=not wrap, width=_columns() if wrap else None)

    def _draw(self) -> None:
        """Draw the status line; it must fit on one line, because CLEAR removes only one."""
        if not self._questions:
            about = _cut(self._about, len("…  (Ctrl-C ends)"))
            self._write(f"{CLEAR}\x1b[2m… {about} (Ctrl-C ends)\x1b[0m")
        else:
            question = self._questions[0]
            letters = "y/s/a/n" if question.proposal.offer else "y/n"
            whole, short = _prompt(question), f"{_cut(_wanted(question), len(letters) + len('?  '))}? {letters} "
            self._write(CLEAR + (whole if _fits(whole) else short))

    def _write(self, text: str) -> None:
        with suppress(OSError):
            self._console.file.write(text)
            self._console.file.flush()


def _wanted(question: "OpenQuestion") -> str:
    subject = question.proposal.subject
    return f"{subject.kind} {visible(subject.name, keep='')}"


def _prompt(question: "OpenQuestion") -> str:
    offer = question.proposal.offer
    more = f" / s(ession) or a(lways): {visible(offer.text, keep='')}" if offer else ""
    return f"{_wanted(question)}? y(es, once){more} / n(o) "


def _columns() -> int:
    return max(NARROWEST, shutil.get_terminal_size().columns)


def _fits(line: str) -> bool:
    """Return whether a line and one character for the answer fit in the terminal."""
    return len(line) < _columns()


def _cut(text: str, reserved: int) -> str:
    """Return the text cut to one line that leaves room for `reserved` characters and an answer."""
    return shorten(visible(text, keep=""), _columns() - reserved - 1)


def _clock() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")
